/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "data/data_uri.h"
#include "tool/score.h"

/* Predictions of a stream: all complete lines that have arrived form a batch, so that a single line
 * is answered at once and many lines are answered together. */

#define ROOM (1u << 20)

struct follow {
	struct scoring s;
	struct data_options options;
	/* descriptors: examples come from `in`, predictions go to `out` */
	int in, out, cancel;
	int64_t fresh, pulled; /* dense tables: allowed age; time of the last pull */
	char *text;
	size_t n, room;
	uint64_t lines; /* lines before `text` */
	/* heading line of the first batch; put in front of every later batch */
	char *heading;
	bool ended;
};

/* Reads what input there is, at least something. ERR_STOPPED when interrupted. */
static enum err_code read_input(struct follow *f, struct err *e)
{
	struct pollfd p[2] = { { f->in, POLLIN, 0 }, { f->cancel, POLLIN, 0 } };
	ssize_t got;

	if (f->n == f->room) {
		if (f->room >= STREAM_LINE_MAX)
			return err_set(e, ERR_LIMIT, "stdin:%llu: a line of more than %zu bytes",
			    (unsigned long long)f->lines + 1, STREAM_LINE_MAX);
		f->room = f->room ? 2 * f->room : ROOM;
		f->text = mem_regrow(f->text, f->room, 1);
	}
	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[1].revents)
		return err_set(e, ERR_STOPPED, "interrupted");
	got = read(f->in, f->text + f->n, f->room - f->n);
	if (got < 0 && errno != EINTR && errno != EAGAIN)
		return err_sys(e, ERR_IO, "cannot read stdin");
	f->ended = got == 0;
	f->n += got > 0 ? (size_t)got : 0;
	return ERR_OK;
}

/* Number of bytes up to the end of the last complete line. */
static size_t whole_lines(const struct follow *f)
{
	const char *nl = f->n ? memrchr(f->text, '\n', f->n) : NULL;

	return f->ended ? f->n : nl ? (size_t)(nl - f->text) + 1 : 0;
}

static bool is_blank_text(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && strchr(" \t\r\n", p[i]) && p[i])
		i++;
	return i == n;
}

/* Keeps what the first batch has shown for all later lines: the format, and the heading or that
 * there is none. */
static void fix_format(struct follow *f, const struct dataset *d, const char *p, size_t n)
{
	const char *nl;

	if (f->pulled)
		return;
	for (const struct data_format *k = data_formats(); !f->options.format && k->name; k++)
		if (strcmp(k->title, d->format) == 0)
			f->options.format = mem_strdup(k->name);
	f->options.no_heading = !d->heading;
	nl = memchr(p, '\n', n);
	if (d->heading && nl)
		f->heading = mem_printf("%.*s", (int)(nl - p) + 1, p);
}

/* Parses n bytes of examples, with the heading in front. */
static enum err_code load_examples_text(struct follow *f, const char *p, size_t n,
    struct dataset **out, struct err *e)
{
	size_t before = f->heading ? strlen(f->heading) : 0;
	struct data_want any = { .any = true };
	char *text = before ? mem_alloc(before + n) : NULL;
	struct stream *s;
	enum err_code rc;

	if (text) {
		memcpy(text, f->heading, before);
		memcpy(text + before, p, n);
	}
	rc = stream_memory(text ? text : p, before + n, "stdin", &s, e);
	if (!rc) {
		stream_number(s, f->lines - (before > 0));
		rc = data_load_stream(s, &f->options, &any, f->s.job.train, out, e);
	}
	stream_close(s);
	free(text);
	return rc;
}

/* Scores n bytes of whole lines and prints their predictions. The age of the dense tables counts
 * from before the pull began. Blocks on the servers. */
static enum err_code answer_batch(struct follow *f, const char *p, size_t n, struct err *e)
{
	int64_t now = clock_now();
	bool stale = !f->pulled || now - f->pulled >= f->fresh;
	struct dataset *d = NULL;
	enum err_code rc = load_examples_text(f, p, n, &d, e);

	if (rc)
		return rc;
	fix_format(f, d, p, n);
	rc = evaluate_predict(&f->s.params, d, stale, score_print, &f->s, e);
	if (stale)
		f->pulled = now;
	dataset_free(d);
	return rc;
}

static uint64_t count_lines(const char *p, size_t n)
{
	uint64_t lines = 0;

	for (const char *end = p + n, *nl; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1)
		lines++;
	return lines;
}

/* Answers complete lines as one batch. If one of them is malformed, repeats line by line, so that
 * all lines before it are answered. */
static enum err_code answer_lines(struct follow *f, const char *p, size_t n, struct err *e)
{
	enum err_code rc = is_blank_text(p, n) ? ERR_OK : answer_batch(f, p, n, e);
	const char *end = p + n;

	if (rc != ERR_FORMAT || count_lines(p, n) < 2) {
		f->lines += count_lines(p, n);
		return rc;
	}
	for (rc = ERR_OK; !rc && p < end; p += n) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		n = nl ? (size_t)(nl - p) + 1 : (size_t)(end - p);
		rc = is_blank_text(p, n) ? ERR_OK : answer_batch(f, p, n, e);
		f->lines++;
	}
	return rc;
}

/* Answers whole lines as they come, and keeps a part of a line for the next read. Returns when
 * the input has ended, or with the first error. */
static enum err_code follow_stdin(struct follow *f, struct err *e)
{
	enum err_code rc = ERR_OK;

	while (!rc && !f->ended) {
		size_t n;

		rc = read_input(f, e);
		n = whole_lines(f);
		if (!rc && n) {
			rc = answer_lines(f, f->text, n, e);
			memmove(f->text, f->text + n, f->n - n);
			f->n -= n;
		}
	}
	return rc;
}

enum err_code tool_follow(struct tool *t, const char *format, int64_t fresh, int out, struct err *e)
{
	struct follow f = { .in = STDIN_FILENO,
		.cancel = interrupt_fd(t->interrupt),
		.fresh = fresh };
	char *path = format ? mem_printf("-?format=%s", format) : mem_strdup("-"), *file = NULL;
	enum err_code rc = data_uri_parse(path, &file, &f.options, e);

	if (!rc)
		rc = score_open(t, false, out, &f.s, e);
	if (!rc && f.s.job.train->words)
		rc = err_set(e, ERR_UNSUPPORTED, "--follow: there is nothing to predict of words");
	if (!rc)
		rc = follow_stdin(&f, e);
	score_close(&f.s);
	data_uri_release(&f.options);
	free(f.heading);
	free(f.text);
	free(file);
	free(path);
	return rc;
}
