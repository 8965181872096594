/* SPDX-License-Identifier: ISC */
#include "cmd/stat/past.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/stat/plan.h"
#include "core/json.h"
#include "core/mem.h"
#include "rundir/rundir.h"

#define LINE_MAX_BYTES (1u << 20)

struct past {
	int fd;
	struct buf text; /* an incomplete line */
};

enum err_code past_open(const char *dir, struct past **out, struct err *e)
{
	char *path = rundir_path(dir, "metrics.jsonl");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum err_code rc = ERR_OK;

	if (fd < 0)
		rc = errno == ENOENT
		    ? err_set(e, ERR_NOTFOUND,
		          "there is no %s: it is written once per second from the start of the job",
		          path)
		    : err_sys(e, ERR_IO, "cannot read %s", path);
	else
		*out = mem_alloc(sizeof **out);
	if (!rc)
		(*out)->fd = fd;
	free(path);
	return rc;
}

void past_close(struct past *p)
{
	if (!p)
		return;
	close(p->fd);
	buf_release(&p->text);
	free(p);
}

/* Call row for each complete line. A line that is no JSON object is skipped. */
static size_t parse_metric_lines(struct past *p, void (*row)(void *ctx, const json_t *row),
    void *ctx)
{
	size_t at = 0, rows = 0;
	uint8_t *end;

	while ((end = memchr(p->text.data + at, '\n', p->text.len - at))) {
		size_t len = (size_t)(end - (p->text.data + at));
		json_t *o = json_parse((const char *)p->text.data + at, len, LINE_MAX_BYTES, NULL);

		if (json_is_object(o)) {
			row(ctx, o);
			rows++;
		}
		json_decref(o);
		at += len + 1;
	}
	buf_consume(&p->text, at);
	if (p->text.len > LINE_MAX_BYTES)
		buf_clear(&p->text);
	return rows;
}

size_t past_read_rows(struct past *p, void (*row)(void *ctx, const json_t *row), void *ctx)
{
	size_t rows = 0;

	for (;;) {
		ssize_t n = read(p->fd, buf_reserve(&p->text, 65536), 65536);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return rows;
		buf_commit(&p->text, (size_t)n);
		rows += parse_metric_lines(p, row, ctx);
	}
}

/* ---- series ---- */

void past_series_init(struct series *s, const char *name)
{
	const struct column *c = plan_column(&stat_view_cluster, name, strlen(name));
	size_t n = strlen(name);

	/* A row of metrics.jsonl lacks the phases that a share is computed from. */
	if (c && c->kind == COL_SHARE)
		c = NULL;
	*s = (struct series){ .name = mem_strdup(name), .last = (double)NAN };
	if (c)
		s->rate = c->kind == COL_RATE || c->kind == COL_BYTE_RATE;
	else
		s->rate = n > 2 && strcmp(name + n - 2, "/s") == 0;
	s->key = mem_strdup(c ? c->key : name);
	if (!c && s->rate)
		s->key[n - 2] = '\0';
}

void past_series_release(struct series *s)
{
	free(s->name);
	free(s->key);
	free(s->x);
	free(s->y);
	*s = (struct series){ 0 };
}

void past_series_put(struct series *s, double x, double y)
{
	if (s->n == s->cap) {
		s->x = mem_grow(s->x, &s->cap, s->n + 1, sizeof *s->x);
		s->y = mem_regrow(s->y, s->cap, sizeof *s->y);
	}
	s->x[s->n] = x;
	s->y[s->n++] = y;
}

void past_series_thin(struct series *s)
{
	size_t n = s->n / 2;

	for (size_t i = 0; i < n; i++) {
		s->x[i] = (s->x[2 * i] + s->x[2 * i + 1]) / 2;
		s->y[i] = (s->y[2 * i] + s->y[2 * i + 1]) / 2;
	}
	s->n = n;
}

/* The member of a row; "eval.loss" is the member loss of the object eval. */
static const json_t *get_member(const json_t *row, const char *key)
{
	const char *dot = strchr(key, '.');
	char first[64];

	if (!dot || (size_t)(dot - key) >= sizeof first)
		return json_object_get(row, key);
	snprintf(first, sizeof first, "%.*s", (int)(dot - key), key);
	return json_object_get(json_object_get(row, first), dot + 1);
}

void past_series_add(struct series *s, const char *across, const json_t *row)
{
	const json_t *j = get_member(row, s->key);
	double at = json_num(row, "seconds", 0), x = json_num(row, across, 0),
	       y = json_is_number(j) ? json_number_value(j) : NAN, v = y;

	s->known |= json_is_number(j) || json_is_null(j);
	if (s->rate) {
		v = at > s->last_at && y >= s->last ? (y - s->last) / (at - s->last_at) : NAN;
		s->last = y;
		s->last_at = at;
	}
	if (s->n && x < s->x[s->n - 1])
		past_series_put(s, x, NAN);
	past_series_put(s, x, v);
}
