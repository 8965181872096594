/* SPDX-License-Identifier: ISC */
#include <inttypes.h>
#include <string.h>

#include "core/clock.h"
#include "core/helper.h"
#include "core/mem.h"
#include "data/source/data_log_state.h"
#include "format/log_record.h"
#include "format/uri.h"

/* A topic of Kafka, which a ps-ctl process reads for us (format/log_record.h): this program does not contain
 * librdkafka. Places are offsets.
 *
 * The process is started again when it ends by a signal; it then reads on where the last event ended. */

/* Bytes that are read from the process at once. */
#define CHUNK ((size_t)256 << 10)
/* Bytes of events that are asked for when a batch needs more than the window has. */
#define NEEDED_BYTES ((int64_t)256 << 10)

/* The events that the process may still send, and their bytes, which its last event may exceed. */
struct credit {
	int64_t events, bytes;
};

struct reader {
	uint32_t serial; /* of the last seek; records of earlier ones are dropped */
	struct credit outstanding;
};

struct own {
	struct helper *helper;
	struct buf in; /* what the process has written, from the middle of a record on */
	struct reader *reader;
	uint32_t serial;
	char *path;
};

static bool is_topic(const char *file, const struct data_options *o)
{
	(void)o;
	return uri_is_topic(file);
}

/* ---- the process ---- */

static enum err_code start_topic_process(struct own *own, struct err *e)
{
	static const char *const args[] = { "topic", "read", "-", NULL };

	buf_clear(&own->in);
	return helper_start_talk(args, own->path, &own->helper, e);
}

/* A process that has ended is noticed by its output. */
static void write_command(struct own *own, const char *text)
{
	struct err ignored;

	if (own->helper)
		helper_write(own->helper, text, &ignored);
}

/* The room that is left for events of a partition. */
static struct credit measure_room(const struct data_log *l, size_t partition)
{
	const struct log_partition *p = &l->partition[partition];
	int64_t ready = (int64_t)data_log_ready(l, partition), need = (int64_t)p->need;
	struct credit room = { (need > LOG_WINDOW ? need : LOG_WINDOW) - ready,
		(int64_t)data_log_window_bytes(l) - (int64_t)p->text.len };

	if (ready < need && room.bytes < NEEDED_BYTES)
		room.bytes = NEEDED_BYTES;
	return room;
}

static void begin_reading(struct data_log *l, size_t partition, int64_t place)
{
	struct own *own = l->own;
	struct reader *r = &own->reader[partition];
	char line[160];

	r->serial = ++own->serial;
	r->outstanding = measure_room(l, partition);
	snprintf(line, sizeof line, "seek %zu %" PRId64 " %" PRIu32 " %" PRId64 " %" PRId64 "\n",
	    partition, place, r->serial, r->outstanding.events, r->outstanding.bytes);
	write_command(own, line);
}

/* Lets the process send more, when half of the room is not asked for. */
static void renew_window(struct data_log *l, size_t partition, size_t n)
{
	struct own *own = l->own;
	struct reader *r = &own->reader[partition];
	struct credit room = measure_room(l, partition), more;
	char line[96];

	(void)n;
	if (r->outstanding.events > room.events / 2 && r->outstanding.bytes > room.bytes / 2)
		return;
	more.events = room.events > r->outstanding.events ? room.events - r->outstanding.events : 0;
	more.bytes = room.bytes > r->outstanding.bytes ? room.bytes - r->outstanding.bytes : 0;
	if (!more.events && !more.bytes)
		return;
	snprintf(line, sizeof line, "more %zu %" PRId64 " %" PRId64 "\n", partition, more.events,
	    more.bytes);
	r->outstanding.events += more.events;
	r->outstanding.bytes += more.bytes;
	write_command(own, line);
}

/* The process has ended. Goes on with another one, unless it says why. */
static enum err_code restart_process(struct data_log *l, struct err *e)
{
	struct own *own = l->own;
	bool killed = helper_was_killed(own->helper);
	enum err_code rc = helper_end(own->helper, e);

	own->helper = NULL;
	if (killed)
		rc = ERR_OK;
	else if (!rc)
		rc = err_set(e, ERR_IO, "ps-ctl has stopped reading %s", l->name);
	if (!rc)
		rc = start_topic_process(own, e);
	for (size_t i = 0; !rc && i < l->n; i++)
		if (l->partition[i].reading)
			begin_reading(l, i, l->partition[i].next);
	return rc;
}

/* ---- records ---- */

static void extend_topic(struct data_log *l, size_t n)
{
	struct own *own = l->own;
	size_t before = l->n;

	if (n <= before)
		return;
	data_log_set_partitions(l, n);
	own->reader = mem_regrow(own->reader, n, sizeof *own->reader);
	memset(own->reader + before, 0, (n - before) * sizeof *own->reader);
}

static enum err_code take_record(struct data_log *l, const struct log_record *r, const char *body,
    struct err *e)
{
	struct own *own = l->own;

	if (r->kind == LOG_RECORD_PARTITIONS) {
		if (r->partition > LOG_PARTITIONS_MAX)
			return err_set(e, ERR_LIMIT, "%s has too many partitions", l->name);
		extend_topic(l, r->partition);
		return ERR_OK;
	}
	if (r->partition >= l->n)
		return err_set(e, ERR_PROTO,
		    "ps-ctl reports the unknown partition %" PRIu32 " of %s", r->partition,
		    l->name);
	if (!l->partition[r->partition].reading || r->serial != own->reader[r->partition].serial)
		return ERR_OK;
	switch (r->kind) {
	case LOG_RECORD_SEEK:
		l->partition[r->partition].next = r->place;
		break;
	case LOG_RECORD_END:
		l->partition[r->partition].log_end = r->place;
		break;
	case LOG_RECORD_EVENT:
		own->reader[r->partition].outstanding.events--;
		own->reader[r->partition].outstanding.bytes -= r->len;
		data_log_add(l, r->partition, body, r->len, r->place, r->next);
		/* A batch may need more than the window has. */
		if (own->reader[r->partition].outstanding.bytes <= 0)
			renew_window(l, r->partition, 0);
		break;
	default:
		data_log_add(l, r->partition, NULL, 0, r->place, r->next);
	}
	return ERR_OK;
}

/* Takes all whole records. */
static enum err_code take_records(struct data_log *l, struct err *e)
{
	struct own *own = l->own;
	enum err_code rc = ERR_OK;
	size_t at = 0;

	while (!rc && own->in.len - at >= LOG_RECORD_BYTES) {
		const uint8_t *p = own->in.data + at;
		struct log_record r;

		if (!log_record_get(p, &r))
			rc = err_set(e, ERR_PROTO, "ps-ctl sent an invalid record about %s",
			    l->name);
		else if (own->in.len - at - LOG_RECORD_BYTES < r.len)
			break;
		else
			rc = take_record(l, &r, (const char *)p + LOG_RECORD_BYTES, e);
		at += LOG_RECORD_BYTES + r.len;
	}
	if (!rc)
		buf_consume(&own->in, at);
	return rc;
}

static uint64_t count_waiting(const struct data_log *l)
{
	uint64_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += l->partition[i].n;
	return n;
}

static enum err_code fetch_topic(struct data_log *l, int timeout_ms, struct err *e)
{
	struct own *own = l->own;
	int64_t until = clock_now() + timeout_ms * NSEC_PER_MSEC;
	uint64_t before = count_waiting(l);
	enum err_code rc = ERR_OK;

	for (;;) {
		int64_t left = (until - clock_now()) / NSEC_PER_MSEC;
		size_t got = 0;

		if (!helper_wait(own->helper, left > 0 ? (int)left : 0)) {
			if (left <= 0)
				return ERR_OK;
			continue;
		}
		rc = helper_read(own->helper, buf_reserve(&own->in, CHUNK), CHUNK, &got, e);
		if (!rc && !got)
			rc = restart_process(l, e);
		buf_commit(&own->in, got);
		if (!rc)
			rc = take_records(l, e);
		if (rc || count_waiting(l) > before || left <= 0)
			return rc;
	}
}

/* ---- the interface ---- */

static enum err_code open_topic(struct data_log *l, struct err *e)
{
	struct uri_topic uri;
	struct own *own;
	enum err_code rc = uri_topic_parse(l->file, &uri, e);

	if (rc)
		return rc;
	free(l->name);
	l->name = mem_strdup(uri.topic);
	uri_topic_release(&uri);
	/* A message is an example, whatever the first one looks like. */
	l->options.decided.heading = DATA_HEADING_NONE;
	l->own = own = mem_alloc(sizeof *own);
	own->path = mem_strdup(l->path);
	rc = start_topic_process(own, e);
	/* Its first record tells the number of partitions. It waits for a broker that does not answer. */
	while (!rc && !l->n) {
		size_t got;

		rc = helper_read(own->helper, buf_reserve(&own->in, CHUNK), CHUNK, &got, e);
		if (!rc && !got) {
			rc = helper_end(own->helper, e);
			own->helper = NULL;
			return rc ? rc : err_set(e, ERR_IO, "ps-ctl cannot read %s", l->name);
		}
		buf_commit(&own->in, got);
		if (!rc)
			rc = take_records(l, e);
	}
	return rc;
}

static enum err_code seek_topic(struct data_log *l, size_t partition, int64_t place, struct err *e)
{
	(void)e;
	begin_reading(l, partition, place);
	return ERR_OK;
}

static void drop_topic(struct data_log *l, size_t partition)
{
	char line[64];

	snprintf(line, sizeof line, "drop %zu\n", partition);
	write_command(l->own, line);
}

static void commit_topic(struct data_log *l, size_t partition, int64_t place, int64_t oldest)
{
	char line[64];

	(void)oldest;
	snprintf(line, sizeof line, "commit %zu %" PRId64 "\n", partition, place);
	write_command(l->own, line);
}

static void close_topic(struct data_log *l)
{
	struct own *own = l->own;

	if (!own)
		return;
	if (own->helper)
		helper_end(own->helper, NULL);
	buf_release(&own->in);
	free(own->reader);
	free(own->path);
	free(own);
}

const struct log_ops data_log_kafka = {
	.numbered = true,
	.is = is_topic,
	.open = open_topic,
	.seek = seek_topic,
	.drop = drop_topic,
	.fetch = fetch_topic,
	.commit = commit_topic,
	.extend = extend_topic,
	.skipped = renew_window,
	.close = close_topic,
};
