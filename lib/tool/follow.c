/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "data/data_build.h"
#include "data/reader/data_head.h"
#include "data/source/data_uri.h"
#include "tool/score.h"

/* Predictions of a stream: all complete lines that have arrived form a batch, so that a single line
 * is answered at once and many lines are answered together. */

#define ROOM (1u << 20)

struct follow {
	struct scoring s;
	struct log *log;
	/* How lines are read: what the first ones have shown holds for all (data_head.h). */
	struct data_options options;
	bool decided;
	uint64_t lines; /* before `pending` */
	/* descriptors: examples come from `in`, predictions go to `out` */
	int in, out, cancel;
	int64_t fresh, pulled; /* dense tables: allowed age; time of the last read */
	char *pending;
	size_t n, room;
	bool ended;
};

/* Reads what input there is, at least something. ERR_STOPPED when interrupted. */
static enum err_code read_input(struct follow *f, struct err *e)
{
	struct pollfd p[2] = { { f->in, POLLIN, 0 }, { f->cancel, POLLIN, 0 } };
	ssize_t got;

	if (f->n == f->room) {
		if (f->room >= STREAM_LINE_MAX)
			return err_set(e, ERR_LIMIT,
			    "stdin:%llu: the line is longer than %zu bytes",
			    (unsigned long long)f->lines + 1, STREAM_LINE_MAX);
		f->room = f->room ? 2 * f->room : ROOM;
		f->pending = mem_regrow(f->pending, f->room, 1);
	}
	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[1].revents)
		return err_set(e, ERR_STOPPED, "interrupted");
	got = read(f->in, f->pending + f->n, f->room - f->n);
	if (got < 0 && errno != EINTR && errno != EAGAIN)
		return err_sys(e, ERR_IO, "cannot read stdin");
	f->ended = got == 0;
	f->n += got > 0 ? (size_t)got : 0;
	return ERR_OK;
}

/* Number of bytes up to the end of the last complete line. */
static size_t whole_lines(const struct follow *f)
{
	const char *nl = f->n ? memrchr(f->pending, '\n', f->n) : NULL;

	return f->ended ? f->n : nl ? (size_t)(nl - f->pending) + 1 : 0;
}

static bool is_blank_text(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && strchr(" \t\r\n", p[i]) && p[i])
		i++;
	return i == n;
}

/* Number of newlines in n bytes. */
static uint64_t count_lines(const char *p, size_t n)
{
	uint64_t lines = 0;

	for (const char *end = p + n, *nl; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1)
		lines++;
	return lines;
}

/* Reads the examples of n bytes of whole lines; *out becomes NULL when there is none. Errors as
 * data_load. */
static enum err_code load_lines(struct follow *f, const char *p, size_t n,
    const struct data_want *want, struct dataset **out, struct err *e)
{
	struct data_build *build = data_build_new(want, f->s.job.train, NULL);
	struct stream *s;
	enum err_code rc = stream_memory(p, n, "stdin", &s, e);

	*out = NULL;
	if (!rc) {
		stream_number(s, f->lines);
		rc = data_build_read(build, s, &f->options, e);
	}
	stream_close(s);
	if (!rc && !f->decided && (build->d->rows || build->d->reading.heading)) {
		data_head_decide(&f->options, build->d, build->stream_heading);
		f->decided = true;
	}
	if (!rc && build->d->rows)
		rc = data_build_finish(build, out, e);
	data_build_free(build);
	return rc;
}

/* Scores n bytes of whole lines and prints their predictions. The age of the dense tables counts
 * from before the read began. May block on servers. */
static enum err_code answer_batch(struct follow *f, const char *p, size_t n, struct err *e)
{
	const struct data_want any = { .any = true,
		.unseen = f->s.job.unseen,
		.names = f->s.predictions.form != PREDICTION_PLAIN,
		.tables = job_want(&f->s.job.conf.job).tables };
	int64_t now = clock_now();
	bool constant = param_source_is_constant(f->s.params.source);
	bool stale = !f->pulled || (!constant && now - f->pulled >= f->fresh);
	struct dataset *d;
	enum err_code rc = load_lines(f, p, n, &any, &d, e);

	if (rc || !d)
		return rc;
	rc = evaluate_predict_now(&f->s.params, d, stale, score_print, &f->s, e);
	if (!rc && constant)
		rc = f->s.params.source->ops->attend(f->s.params.source, e);
	if (stale && !rc)
		f->pulled = now;
	dataset_free(d);
	data_unseen_log(f->s.job.unseen, "the data", f->log);
	return rc;
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
			rc = answer_lines(f, f->pending, n, e);
			memmove(f->pending, f->pending + n, f->n - n);
			f->n -= n;
		}
	}
	return rc;
}

enum err_code tool_follow(const struct tool_model *m, const char *format, enum prediction_form form,
    int64_t fresh, int out, struct err *e)
{
	struct follow f = { .in = STDIN_FILENO,
		.log = m->log,
		.cancel = interrupt_fd(m->interrupt),
		.fresh = fresh };
	char *path = format ? mem_printf("-?format=%s", format) : mem_strdup("-"), *file = NULL;
	enum err_code rc = data_uri_parse(path, &file, &f.options, e);

	if (!rc)
		rc = score_open(m, false, false, out, &f.s, e);
	f.s.predictions.form = form;
	if (!rc && dataset_words(f.s.job.train))
		rc = err_set(e, ERR_UNSUPPORTED,
		    "--follow cannot be used with word2vec, which predicts nothing");
	if (!rc)
		rc = follow_stdin(&f, e);
	if (!rc)
		rc = param_source_finish(m->source, e);
	if (!rc)
		rc = score_end(&f.s, e);
	score_close(&f.s);
	data_uri_release(&f.options);
	free(f.pending);
	free(file);
	free(path);
	return rc;
}
