/* SPDX-License-Identifier: ISC */
#include "data/source/data_log.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "data/reader/data_bad_lines.h"
#include "data/data_build.h"
#include "data/reader/data_head.h"
#include "data/source/data_log_state.h"
#include "data/source/data_option.h"
#include "data/source/data_uri.h"

#define HEAD_EVENTS 1000u
/* A wait for the head asks at this interval whether it is interrupted. */
#define HEAD_LOOK_MS 200
/* How long to wait for the rest of the lines up to a heading, which another worker has read. */
#define HEADING_WAIT_MS 10000

static const struct log_ops *const kinds[] = {
#define LOG(name) &data_log_##name,
#include "data/source/data_log.def"
#undef LOG
};

static const struct log_ops *find_log_kind(const char *file, const struct data_options *o)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (kinds[i]->is(file, o))
			return kinds[i];
	return NULL;
}

bool data_log_is(const char *path)
{
	struct data_options o;
	char *file;
	bool is = data_uri_parse(path, &file, &o, NULL) == ERR_OK && find_log_kind(file, &o);

	data_uri_release(&o);
	free(file);
	return is;
}

enum err_code data_log_open(const char *path, const char *base_dir, struct data_log **out,
    struct err *e)
{
	struct data_log *l = mem_alloc(sizeof *l);
	char **names = NULL;
	size_t n = 0;
	enum err_code rc = data_uri_parse(path, &l->file, &l->options, e);

	*out = NULL;
	l->path = mem_strdup(path);
	if (!rc && !(l->ops = find_log_kind(l->file, &l->options)))
		rc = err_set(e, ERR_CONFIG, "%s is not a stream", path);
	if (!rc && l->options.text_weight && strcmp(l->options.text_weight, "tfidf") == 0)
		rc = err_set(e, ERR_CONFIG,
		    "%s: text_weight=tfidf needs to know in how many examples each word is, and a stream "
		    "does not end: remove it, or train on files first and give this job --init-from",
		    path);
	if (!rc && !strstr(l->file, "://")) {
		rc = data_uri_expand(l->file, base_dir, &names, &n, e);
		if (!rc && n != 1)
			rc = err_set(e, ERR_CONFIG, "%s: a stream must be one file, got %zu",
			    l->file, n);
		if (!rc) {
			free(l->file);
			l->file = mem_strdup(names[0]);
		}
		data_uri_free(names, n);
	}
	if (!rc) {
		l->name = mem_strdup(l->file);
		rc = l->ops->open(l, e);
	}
	if (rc) {
		data_log_close(l);
		return rc;
	}
	*out = l;
	return ERR_OK;
}

void data_log_close(struct data_log *l)
{
	if (!l)
		return;
	if (l->ops)
		l->ops->close(l);
	for (size_t i = 0; i < l->n; i++) {
		buf_release(&l->partition[i].text);
		free(l->partition[i].end);
		free(l->partition[i].place);
	}
	free(l->partition);
	data_uri_release(&l->options);
	free(l->path);
	free(l->file);
	free(l->name);
	free(l);
}

size_t data_log_partitions(const struct data_log *l)
{
	return l->n;
}

const char *data_log_name(const struct data_log *l)
{
	return l->name;
}

size_t data_log_head_events(const struct data_log *l)
{
	return l->options.head ? (size_t)l->options.head : HEAD_EVENTS;
}

/* ---- events ---- */

void data_log_set_partitions(struct data_log *l, size_t n)
{
	if (n <= l->n)
		return;
	l->partition = mem_regrow(l->partition, n, sizeof *l->partition);
	memset(l->partition + l->n, 0, (n - l->n) * sizeof *l->partition);
	l->n = n;
}

void data_log_add(struct data_log *l, size_t partition, const char *text, size_t len, int64_t place,
    int64_t next)
{
	struct log_partition *p = &l->partition[partition];
	uint8_t *at;
	size_t mark;

	p->per_event = p->per_event > 0 ? p->per_event * 0.99 + (double)(next - place) * 0.01
	                                : (double)(next - place);
	p->next = next;
	/* Each event may be the first line of a batch. */
	mark = stream_mark_length(text, len);
	text += mark;
	len -= mark;
	if (!len)
		return;
	if (p->n == p->room) {
		p->end = mem_grow(p->end, &p->room, p->n + 1, sizeof *p->end);
		p->place = mem_regrow(p->place, p->room, sizeof *p->place);
	}
	at = buf_reserve(&p->text, len + 1);
	memcpy(at, text, len);
	for (uint8_t *q = at; (q = memchr(q, '\n', len - (size_t)(q - at))); q++)
		*q = ' ';
	at[len] = '\n';
	buf_commit(&p->text, len + 1);
	p->end[p->n] = p->text.len;
	p->place[p->n++] = place;
}

size_t data_log_window_bytes(const struct data_log *l)
{
	size_t each = LOG_WINDOWS_BYTES / (l->reading ? l->reading : 1);

	if (each > LOG_WINDOW_BYTES)
		return LOG_WINDOW_BYTES;
	return each > LOG_WINDOW_LEAST ? each : LOG_WINDOW_LEAST;
}

bool data_log_has_room(const struct data_log *l, size_t partition)
{
	const struct log_partition *p = &l->partition[partition];

	return p->n - p->first < p->need ||
	    (p->n - p->first < LOG_WINDOW && p->text.len < data_log_window_bytes(l));
}

/* Forgets the events that arrived. */
static void empty_partition(struct log_partition *p)
{
	buf_clear(&p->text);
	p->first = p->n = 0;
}

enum err_code data_log_seek(struct data_log *l, size_t partition, int64_t place, struct err *e)
{
	struct log_partition *p;

	if (partition >= l->n && (!l->ops->extend || partition >= LOG_PARTITIONS_MAX))
		return err_set(e, ERR_PROTO, "%s has no partition %zu", l->name, partition);
	if (partition >= l->n)
		l->ops->extend(l, partition + 1);
	p = &l->partition[partition];
	empty_partition(p);
	l->reading += !p->reading;
	p->reading = true;
	p->next = place;
	p->log_end = 0;
	return l->ops->seek(l, partition, place, e);
}

void data_log_drop(struct data_log *l, size_t partition)
{
	if (!l->partition[partition].reading)
		return;
	l->ops->drop(l, partition);
	l->partition[partition].reading = false;
	l->reading--;
	empty_partition(&l->partition[partition]);
}

enum err_code data_log_fetch(struct data_log *l, int timeout_ms, struct err *e)
{
	return l->ops->fetch(l, timeout_ms, e);
}

void data_log_need(struct data_log *l, size_t partition, size_t n)
{
	l->partition[partition].need = n;
	l->ops->skipped(l, partition, 0);
}

size_t data_log_ready(const struct data_log *l, size_t partition)
{
	return l->partition[partition].n - l->partition[partition].first;
}

int64_t data_log_place(const struct data_log *l, size_t partition)
{
	const struct log_partition *p = &l->partition[partition];

	return p->first < p->n ? p->place[p->first] : p->next;
}

int data_log_ended_holder(struct data_log *l)
{
	return l->ops->ended_holder ? l->ops->ended_holder(l) : 0;
}

bool data_log_is_numbered(const struct data_log *l)
{
	return l->ops->numbered;
}

int64_t data_log_arrived(const struct data_log *l, size_t partition)
{
	return l->partition[partition].next;
}

size_t data_log_ready_before(const struct data_log *l, size_t partition, int64_t place)
{
	const struct log_partition *p = &l->partition[partition];
	size_t low = p->first, high = p->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->place[middle] < place)
			low = middle + 1;
		else
			high = middle;
	}
	return low - p->first;
}

int64_t data_log_place_of(const struct data_log *l, size_t partition, size_t i)
{
	const struct log_partition *p = &l->partition[partition];

	assert(i < p->n - p->first);
	return p->place[p->first + i];
}

static size_t begin_of_event(const struct log_partition *p, size_t i)
{
	return i ? p->end[i - 1] : 0;
}

void data_log_skip(struct data_log *l, size_t partition, size_t n)
{
	struct log_partition *p = &l->partition[partition];

	p->first += n;
	if (p->first == p->n) {
		empty_partition(p);
	} else if (p->first > p->n / 2) {
		size_t gone = begin_of_event(p, p->first);

		buf_consume(&p->text, gone);
		p->n -= p->first;
		for (size_t i = 0; i < p->n; i++) {
			p->end[i] = p->end[p->first + i] - gone;
			p->place[i] = p->place[p->first + i];
		}
		p->first = 0;
	}
	l->ops->skipped(l, partition, n);
}

uint64_t data_log_lag(const struct data_log *l, size_t partition)
{
	const struct log_partition *p = &l->partition[partition];
	uint64_t ready = p->n - p->first;

	if (p->next < 0 || p->log_end <= p->next)
		return ready;
	return ready +
	    (uint64_t)((double)(p->log_end - p->next) / (p->per_event > 0 ? p->per_event : 1) +
	        0.5);
}

void data_log_commit(struct data_log *l, size_t partition, int64_t place, int64_t oldest)
{
	l->ops->commit(l, partition, place, oldest);
}

/* ---- examples ---- */

/* Parses lines. name: for messages. */
static enum err_code parse_event_lines(const struct data_log *l, const char *name,
    const uint8_t *text, size_t len, const struct data_want *want, const struct dataset *like,
    struct dataset **out, struct err *e)
{
	struct data_build *build = data_build_new(want, like, NULL);
	struct stream *s = NULL;
	/* group= of a stream names its consumers, and no column. */
	struct data_options o = l->options;
	enum err_code rc;

	*out = NULL;
	data_option_clear(&o, "group");
	build->by_lines = true;
	rc = stream_memory(text, len, name, &s, e);
	if (!rc)
		rc = data_build_read(build, s, &o, e);
	if (!rc && build->d->rows)
		rc = data_build_finish(build, out, e);
	stream_close(s);
	data_build_free(build);
	return rc;
}

/* Parses lines that begin at this place of a partition. */
static enum err_code parse_events(const struct data_log *l, size_t partition, int64_t place,
    const uint8_t *text, size_t len, const struct data_want *want, const struct dataset *like,
    struct dataset **out, struct err *e)
{
	char *name = mem_printf("%s[%zu]+%" PRId64, l->name, partition, place);
	enum err_code rc = parse_event_lines(l, name, text, len, want, like, out, e);

	free(name);
	return rc;
}

/* Copies to `good` all of n events that can be parsed by themselves, as far as the others may be
 * skipped. ERR_FORMAT: one may not, and e names it. */
static enum err_code filter_events(const struct data_log *l, size_t partition, size_t n,
    const struct data_want *want, const struct dataset *like, struct buf *good, struct err *e)
{
	const struct log_partition *p = &l->partition[partition];
	struct data_want strict = *want;
	char *name = mem_printf("%s[%zu]", l->name, partition);
	enum err_code rc = ERR_OK;

	strict.bad = NULL;
	for (size_t i = p->first; !rc && i < p->first + n; i++) {
		const uint8_t *text = p->text.data + begin_of_event(p, i);
		size_t len = p->end[i] - begin_of_event(p, i);
		struct dataset *one = NULL;

		rc = parse_events(l, partition, p->place[i], text, len, &strict, like, &one, e);
		dataset_free(one);
		if (!rc)
			buf_append(good, text, len);
		else if (rc == ERR_FORMAT)
			rc = data_bad_lines_skip_at(want->bad, name, (uint64_t)p->place[i], e);
	}
	free(name);
	return rc;
}

enum err_code data_log_load(struct data_log *l, size_t partition, size_t n,
    const struct data_want *want, const struct dataset *like, struct dataset **out, struct err *e)
{
	const struct log_partition *p = &l->partition[partition];
	size_t begin = begin_of_event(p, p->first), end = n ? p->end[p->first + n - 1] : begin;
	int64_t place = data_log_place(l, partition);
	struct data_want strict = *want;
	struct buf good = BUF_INIT;
	enum err_code rc;

	strict.bad = NULL;
	rc = parse_events(l, partition, place, p->text.data + begin, end - begin, &strict, like,
	    out, e);
	if (rc != ERR_FORMAT)
		return rc;
	/* One or more of them are bad: look at each. */
	rc = filter_events(l, partition, n, want, like, &good, e);
	if (!rc && good.len)
		rc = parse_events(l, partition, place, good.data, good.len, &strict, like, out, e);
	buf_release(&good);
	return rc;
}

static size_t count_ready(const struct data_log *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += data_log_ready(l, i);
	return n;
}

/* Waits until this many events have arrived. */
static enum err_code await_events(struct data_log *l, size_t most, int timeout_ms,
    bool (*interrupted)(void *ctx), void *ctx, struct err *e)
{
	int64_t until = 0;
	enum err_code rc = ERR_OK;

	while (!rc && count_ready(l) < most) {
		if (interrupted && interrupted(ctx))
			return err_set(e, ERR_STOPPED, "interrupted");
		if (!until && count_ready(l))
			until = clock_now() + timeout_ms * NSEC_PER_MSEC;
		if (until && clock_now() >= until)
			break;
		rc = data_log_fetch(l, HEAD_LOOK_MS, e);
	}
	return rc;
}

/* Joins the first events of all partitions, `most` in all. */
static void join_events(const struct data_log *l, size_t most, struct buf *out)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct log_partition *p = &l->partition[i];
		size_t n = p->n < most ? p->n : most;

		if (n)
			buf_append(out, p->text.data, p->end[n - 1]);
		most -= n;
	}
}

/* Takes over what the head has decided, whose events are read. Only files have headings, so that
 * the lines of the text are the events of their only partition. */
static enum err_code keep_decision(struct data_log *l, const struct dataset *head,
    const struct buf *text, struct err *e)
{
	const struct log_partition *p = &l->partition[0];
	char *names = data_head_line((const char *)text->data, text->len, head->reading.heading);

	if (head->reading.heading && !names)
		return err_set(e, ERR_IO, "%s no longer has its heading, which is line %llu",
		    l->name, (unsigned long long)head->reading.heading);
	data_head_decide(&l->options, head, names);
	if (names)
		l->heading_end = head->reading.heading < p->n ? p->place[head->reading.heading]
		                                              : p->next;
	free(names);
	return ERR_OK;
}

static void drop_all_partitions(struct data_log *l)
{
	for (size_t i = 0; i < l->n; i++)
		data_log_drop(l, i);
}

/* Reads the first `most` events, waiting at most so long for more of them once there is one. The
 * caller drops the partitions. */
static enum err_code read_first_events(struct data_log *l, size_t most, int timeout_ms,
    bool (*interrupted)(void *ctx), void *ctx, struct buf *out, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < l->n; i++)
		rc = data_log_seek(l, i, DATA_LOG_OLDEST, e);
	for (size_t i = 0; !rc && i < l->n; i++)
		data_log_need(l, i, most);
	if (!rc)
		rc = await_events(l, most, timeout_ms, interrupted, ctx, e);
	if (!rc)
		join_events(l, most, out);
	return rc;
}

/* Parses the head. Its bad events, if any may be skipped, are counted when they are trained on. */
static enum err_code parse_head(const struct data_log *l, const struct buf *text,
    const struct data_want *want, struct dataset **out, struct err *e)
{
	struct data_want uncounted = *want;
	enum err_code rc;

	uncounted.bad = want->bad ? data_bad_lines_new(UINT64_MAX, NULL) : NULL;
	rc = parse_event_lines(l, l->name, text->data, text->len, &uncounted, NULL, out, e);
	data_bad_lines_free(uncounted.bad);
	return rc;
}

enum err_code data_log_head(struct data_log *l, const struct data_want *want, int timeout_ms,
    bool (*interrupted)(void *ctx), void *ctx, struct dataset **out, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc = read_first_events(l, data_log_head_events(l), timeout_ms, interrupted,
	    ctx, &text, e);

	*out = NULL;
	if (!rc)
		rc = parse_head(l, &text, want, out, e);
	if (!rc && !*out)
		rc = err_set(e, ERR_FORMAT, "%s: its first %zu events have no example", l->name,
		    data_log_head_events(l));
	if (!rc)
		rc = keep_decision(l, *out, &text, e);
	drop_all_partitions(l);
	buf_release(&text);
	return rc;
}

enum err_code data_log_know_head(struct data_log *l, const struct dataset *head,
    bool (*interrupted)(void *ctx), void *ctx, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc = ERR_OK;

	if (head->reading.heading)
		rc = read_first_events(l, head->reading.heading, HEADING_WAIT_MS, interrupted, ctx,
		    &text, e);
	if (!rc)
		rc = keep_decision(l, head, &text, e);
	drop_all_partitions(l);
	buf_release(&text);
	return rc;
}
