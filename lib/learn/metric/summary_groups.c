/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/rng.h"

/* Memory is bounded. Up to EXAMPLES_MAX examples are kept, of all groups or of a random share of
 * them with all their examples. A group belongs to the share 2^-thinned when this many bits of a
 * hash of its number are 0. When there is no room any more, the share is halved, and the examples
 * of the other groups are dropped. Whether a group belongs to a share depends on its number alone,
 * so that summaries can be merged. The standard error of a mean over the groups is their standard
 * deviation over the root of their number. A group that alone has more than GROUP_MAX of the
 * examples when there is no room any more would cost the others theirs: it is left out, and its
 * number is kept instead. Not defined with a score that is not finite. */

#define EXAMPLES_MAX ((size_t)1 << 20)
#define GROUP_MAX    (EXAMPLES_MAX / 4)
/* The number of groups that may be left out; each has had more than GROUP_MAX examples. */
#define LEFT_OUT_MAX 1024u

struct grouped {
	uint64_t group;
	struct ranked x;
};

struct groups {
	struct grouped *item;
	size_t n, cap;
	unsigned thinned;
	bool odd_score;
	uint64_t left_out[LEFT_OUT_MAX];
	size_t nleft_out;
};

static bool is_in_share(uint64_t group, unsigned thinned)
{
	return thinned == 0 || (thinned < 64 && rng_mix(group) >> (64 - thinned) == 0);
}

/* Keeps the groups of the share 2^-thinned. */
static void thin_groups(struct groups *g, unsigned thinned)
{
	size_t n = 0;

	if (thinned <= g->thinned)
		return;
	g->thinned = thinned;
	for (size_t i = 0; i < g->n; i++)
		if (is_in_share(g->item[i].group, thinned))
			g->item[n++] = g->item[i];
	g->n = n;
}

/* By group, then the highest score first; examples of equal score in an order that is the same
 * however summaries were merged, so that sums are. */
static int compare_examples(const void *a, const void *b)
{
	const struct grouped *p = a, *q = b;

	if (p->group != q->group)
		return p->group < q->group ? -1 : 1;
	if (p->x.score < q->x.score || p->x.score > q->x.score)
		return p->x.score > q->x.score ? -1 : 1;
	if (p->x.y < q->x.y || p->x.y > q->x.y)
		return p->x.y < q->x.y ? -1 : 1;
	return (p->x.weight > q->x.weight) - (p->x.weight < q->x.weight);
}

static bool is_left_out(const struct groups *g, uint64_t group)
{
	for (size_t i = 0; i < g->nleft_out; i++)
		if (g->left_out[i] == group)
			return true;
	return false;
}

/* Notes that the group is left out. False: there are too many of these. The caller drops its
 * examples. */
static bool leave_out(struct groups *g, uint64_t group)
{
	if (is_left_out(g, group))
		return true;
	if (g->nleft_out == LEFT_OUT_MAX)
		return false;
	g->left_out[g->nleft_out++] = group;
	return true;
}

static void drop_left_out(struct groups *g)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		if (!is_left_out(g, g->item[i].group))
			g->item[n++] = g->item[i];
	g->n = n;
}

/* Leaves the groups out that have more than GROUP_MAX examples. */
static void leave_out_large(struct groups *g)
{
	qsort(g->item, g->n, sizeof *g->item, compare_examples);
	for (size_t i = 0, end; i < g->n; i = end) {
		for (end = i; end < g->n && g->item[end].group == g->item[i].group; end++)
			;
		if (end - i > GROUP_MAX)
			leave_out(g, g->item[i].group);
	}
	drop_left_out(g);
}

static enum err_code reserve_group_room(struct groups *g, struct err *e)
{
	size_t cap = g->cap ? 2 * g->cap : 1024;
	struct grouped *item;

	if (g->n < g->cap)
		return ERR_OK;
	if (g->cap == EXAMPLES_MAX) {
		leave_out_large(g);
		while (g->n > EXAMPLES_MAX / 4 * 3)
			thin_groups(g, g->thinned + 1);
		return ERR_OK;
	}
	item = mem_try_array(cap, sizeof *item);
	if (!item)
		return err_set(e, ERR_NOMEM, "no memory for the groups of the evaluation");
	if (g->n)
		memcpy(item, g->item, g->n * sizeof *item);
	free(g->item);
	g->item = item;
	g->cap = cap;
	return ERR_OK;
}

static bool is_kept(const struct groups *g, uint64_t group)
{
	return is_in_share(group, g->thinned) && !is_left_out(g, group);
}

static enum err_code add_example(struct groups *g, const struct grouped *x, struct err *e)
{
	enum err_code rc;

	if (!is_kept(g, x->group))
		return ERR_OK;
	rc = reserve_group_room(g, e);
	/* Making room may have removed the group. */
	if (!rc && is_kept(g, x->group))
		g->item[g->n++] = *x;
	return rc;
}

static enum err_code add_groups(void *summary, const struct metric_batch *x, struct err *e)
{
	struct groups *g = summary;
	enum err_code rc = ERR_OK;

	for (size_t r = 0; !rc && x->batch->group && r < x->batch->rows; r++) {
		bool real = x->of.task == MODEL_REAL;
		const struct grouped one = { x->batch->group[r],
			{ x->scores[real ? metric_place(x, r) : (r + 1) * x->of.outputs - 1],
			    real ? x->batch->y[metric_place(x, r)]
			         : (float)(metric_true_class(x, r) == 1),
			    batch_weight(x->batch, r) } };

		g->odd_score |= !isfinite(one.x.score);
		if (!g->odd_score && one.group && one.x.weight > 0)
			rc = add_example(g, &one, e);
	}
	return rc;
}

static enum err_code merge_groups(void *summary, const void *other, struct err *e)
{
	struct groups *g = summary;
	const struct groups *o = other;
	enum err_code rc = ERR_OK;

	g->odd_score |= o->odd_score;
	thin_groups(g, o->thinned);
	/* Without room for its number, a group is represented by the examples that came here
	 * alone. */
	for (size_t i = 0; i < o->nleft_out; i++)
		leave_out(g, o->left_out[i]);
	drop_left_out(g);
	for (size_t i = 0; !rc && i < o->n; i++)
		rc = add_example(g, &o->item[i], e);
	return rc;
}

static void release_groups(void *summary)
{
	free(((struct groups *)summary)->item);
}

bool summary_groups_mean(void *summary,
    bool (*figure)(const struct ranked *x, size_t n, size_t k, double *value, double *weight),
    size_t k, double *out)
{
	struct groups *g = summary;
	struct ranked *x;
	double sum = 0, weights = 0;

	if (g->odd_score || !g->n)
		return false;
	/* A second metric of this summary finds the examples sorted. */
	qsort(g->item, g->n, sizeof *g->item, compare_examples);
	x = mem_array(g->n, sizeof *x);
	for (size_t i = 0, end; i < g->n; i = end) {
		double value = 0, weight = 1;

		for (end = i; end < g->n && g->item[end].group == g->item[i].group; end++)
			x[end - i] = g->item[end].x;
		if (figure(x, end - i, k, &value, &weight)) {
			sum += value * weight;
			weights += weight;
		}
	}
	free(x);
	*out = weights > 0 ? sum / weights : 0;
	return weights > 0;
}

size_t summary_groups_ties(const struct ranked *x, size_t n, size_t at)
{
	size_t ties = 1;

	while (at + ties < n && x[at + ties].score == x[at].score)
		ties++;
	return ties;
}

double summary_groups_hits(const struct ranked *x, size_t n, size_t k, size_t *relevant)
{
	double hits = 0;

	*relevant = 0;
	for (size_t at = 0, ties; at < n; at += ties) {
		size_t hit = 0, room = at < k ? k - at : 0;

		ties = summary_groups_ties(x, n, at);
		for (size_t i = 0; i < ties; i++)
			hit += x[at + i].y > 0.5f;
		*relevant += hit;
		hits += (double)hit * (double)(room < ties ? room : ties) / (double)ties;
	}
	return hits;
}

static void remark_on_groups(const void *summary, struct buf *out)
{
	const struct groups *g = summary;

	if (g->nleft_out)
		buf_printf(out,
		    "%zu group%s with more than %zu examples %s left out of the metrics of groups",
		    g->nleft_out, NUM_S(g->nleft_out), GROUP_MAX, g->nleft_out == 1 ? "is" : "are");
}

const struct metric_summary_ops summary_groups = { sizeof(struct groups), add_groups, merge_groups,
	release_groups, remark_on_groups };
