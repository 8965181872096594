/* SPDX-License-Identifier: ISC */
#include "web/curve.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/json.h"
#include "core/mem.h"
#include "metric/metric.h"
#include "msg/cluster_status.h"

/* A line of metrics.jsonl is about 700 bytes. */
#define LINE_MAX_BYTES 8192

/* The first columns are members of a status of the same name; two of its evaluation follow. */
static const struct column {
	const char *name;
	size_t value; /* where struct cluster_progress has it */
} column[] = {
#define OF_STATUS(member) \
	{ \
#member, offsetof(struct cluster_progress, member) \
	}
	OF_STATUS(seconds),
	OF_STATUS(step),
	OF_STATUS(train_loss),
	OF_STATUS(examples_per_second),
	OF_STATUS(pushed_bytes),
	OF_STATUS(pulled_bytes),
	OF_STATUS(workers),
	OF_STATUS(eval_step),
#undef OF_STATUS
	{ "eval_loss", 0 },
	{ "eval_score", 0 },
};
#define COLUMNS    (sizeof column / sizeof *column)
#define EVAL_LOSS  (COLUMNS - 2)
#define EVAL_SCORE (COLUMNS - 1)

struct web_curve {
	double point[WEB_CURVE_POINTS][COLUMNS];
	size_t n;
	double gap;        /* minimum of seconds between two points */
	const char *score; /* NULL: none yet */
};

struct web_curve *web_curve_new(void)
{
	return mem_alloc(sizeof(struct web_curve));
}

void web_curve_free(struct web_curve *c)
{
	free(c);
}

static void drop_every_other_point(struct web_curve *c)
{
	size_t kept = 0;

	for (size_t i = 1; i < c->n; i += 2)
		memcpy(c->point[kept++], c->point[i], sizeof *c->point);
	c->n = kept;
	/* A little less than twice the average gap, so that a status each second is not rejected as too
	 * early. */
	c->gap = 1.9 * c->point[kept - 1][0] / WEB_CURVE_POINTS;
}

static double find_score(struct web_curve *c, const json_t *eval)
{
	for (int k = METRIC_loss + 1; !c->score && k < METRICS; k++)
		if (json_is_number(json_object_get(eval, metric_name[k])))
			c->score = metric_name[k];
	return c->score ? json_num(eval, c->score, (double)NAN) : (double)NAN;
}

void web_curve_add(struct web_curve *c, const json_t *status)
{
	struct cluster_progress s;
	double *p;

	/* Before a run begins and after it has ended, its time does not advance. */
	if (cluster_progress_decode(status, &s, NULL) || !(s.seconds > 0) ||
	    (c->n && s.seconds < c->point[c->n - 1][0] + c->gap) ||
	    (c->n && s.seconds <= c->point[c->n - 1][0]))
		return;
	if (c->n == WEB_CURVE_POINTS)
		drop_every_other_point(c);
	p = c->point[c->n++];
	for (size_t i = 0; i < EVAL_LOSS; i++)
		memcpy(&p[i], (const char *)&s + column[i].value, sizeof p[i]);
	p[EVAL_LOSS] = json_num(s.eval, metric_name[METRIC_loss], (double)NAN);
	p[EVAL_SCORE] = find_score(c, s.eval);
}

/* Adds the first complete line in n bytes of text. cut: the text begins within a line, which is
 * skipped. */
static void add_first_line(struct web_curve *c, char *text, size_t n, bool cut)
{
	char *at = text, *end = cut ? memchr(text, '\n', n) : NULL;
	json_t *status;

	if (cut && !end)
		return;
	at = cut ? end + 1 : text;
	end = memchr(at, '\n', n - (size_t)(at - text));
	if (!end)
		return;
	status = json_parse(at, (size_t)(end - at), LINE_MAX_BYTES, NULL);
	if (json_is_object(status))
		web_curve_add(c, status);
	json_decref(status);
}

void web_curve_read(struct web_curve *c, int fd)
{
	char *text = mem_alloc(LINE_MAX_BYTES);
	off_t step, at = 0;
	struct stat st;
	ssize_t n;

	/* Leave half of the points for the rest of the run. No line is shorter than 200 bytes. */
	step = fstat(fd, &st) ? 0 : st.st_size / (WEB_CURVE_POINTS / 2) + 200;
	for (; step && at < st.st_size; at += step) {
		n = pread(fd, text, LINE_MAX_BYTES, at);
		if (n > 0)
			add_first_line(c, text, (size_t)n, at > 0);
	}
	free(text);
}

json_t *web_curve_json(const struct web_curve *c)
{
	json_t *names = json_array(), *points = json_array();

	for (size_t i = 0; i < COLUMNS; i++)
		json_array_append_new(names, json_string(column[i].name));
	for (size_t i = 0; i < c->n; i++) {
		json_t *p = json_array();

		for (size_t k = 0; k < COLUMNS; k++)
			json_array_append_new(p, json_of_num(c->point[i][k]));
		json_array_append_new(points, p);
	}
	return json_pack("{s:s?, s:o, s:o}", "score", c->score, "columns", names, "points", points);
}
