/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

/* Memory is bounded: up to EXAMPLES_MAX examples are kept, of all groups or of a random share of them with
 * all their examples. A group belongs to the share 2^-thinned when so many bits of a hash of its number are
 * 0. When there is no room any more, the share is halved, and the examples of the other groups are dropped.
 * Whether a group belongs to a share depends on its number alone, so that summaries can be merged. The
 * standard error of a mean over the groups is their standard deviation over the root of their
 * number. Not defined with a score that is not finite. */

#define EXAMPLES_MAX ((size_t)1 << 20)

struct grouped {
	uint64_t group;
	struct ranked x;
};

struct groups {
	struct grouped *item;
	size_t n, cap;
	unsigned thinned;
	bool odd_score;
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

static enum err_code make_room(struct groups *g, struct err *e)
{
	size_t cap = g->cap ? 2 * g->cap : 1024;
	struct grouped *item;

	if (g->n < g->cap)
		return ERR_OK;
	if (g->cap == EXAMPLES_MAX) {
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

static enum err_code add_example(struct groups *g, const struct grouped *x, struct err *e)
{
	enum err_code rc;

	if (!is_in_share(x->group, g->thinned))
		return ERR_OK;
	rc = make_room(g, e);
	/* Making room may have thinned out the groups. */
	if (!rc && is_in_share(x->group, g->thinned))
		g->item[g->n++] = *x;
	return rc;
}

static enum err_code add_groups(void *summary, const struct metric_batch *x, struct err *e)
{
	struct groups *g = summary;
	enum err_code rc = ERR_OK;

	for (size_t r = 0; !rc && x->batch->group && r < x->batch->rows; r++) {
		const struct grouped one = { x->batch->group[r],
			{ x->scores[(r + 1) * x->of.outputs - 1],
			    x->of.task == MODEL_REAL ? x->batch->y[r]
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
	for (size_t i = 0; !rc && i < o->n; i++)
		rc = add_example(g, &o->item[i], e);
	return rc;
}

static void release_groups(void *summary)
{
	free(((struct groups *)summary)->item);
}

/* By group, then the highest score first; examples of equal score in an order that is the same however
 * summaries were merged, so that sums are. */
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

bool summary_groups_mean(void *summary,
    bool (*figure)(const struct ranked *x, size_t n, double *value, double *weight), double *out)
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
		if (figure(x, end - i, &value, &weight)) {
			sum += value * weight;
			weights += weight;
		}
	}
	free(x);
	*out = weights > 0 ? sum / weights : 0;
	return weights > 0;
}

size_t ranked_ties(const struct ranked *x, size_t n, size_t at)
{
	size_t ties = 1;

	while (at + ties < n && x[at + ties].score == x[at].score)
		ties++;
	return ties;
}

double ranked_hits(const struct ranked *x, size_t n, size_t *relevant)
{
	double hits = 0;

	*relevant = 0;
	for (size_t at = 0, ties; at < n; at += ties) {
		size_t hit = 0, room = at < RANKED_TOP ? RANKED_TOP - at : 0;

		ties = ranked_ties(x, n, at);
		for (size_t i = 0; i < ties; i++)
			hit += x[at + i].y > 0.5f;
		*relevant += hit;
		hits += (double)hit * (double)(room < ties ? room : ties) / (double)ties;
	}
	return hits;
}

const struct metric_summary_ops summary_groups = { sizeof(struct groups), add_groups, merge_groups,
	release_groups };
