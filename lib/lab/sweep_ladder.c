/* SPDX-License-Identifier: ISC */
#include "lab/sweep_ladder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"

#define ETA 3

/* ---- rungs ---- */

struct rule {
	int64_t min, max, eta;
};

/* Parses one "name=N" of n characters. */
static bool parse_rule_part(const char *part, size_t n, struct rule *r)
{
	struct {
		const char *name;
		int64_t *to, least;
	} const part_of[] = { { "min=", &r->min, 1 }, { "max=", &r->max, 1 },
		{ "eta=", &r->eta, 2 } };
	char *text = mem_printf("%.*s", (int)n, part);
	bool good = false;

	for (size_t i = 0; i < sizeof part_of / sizeof *part_of; i++)
		if (strncmp(text, part_of[i].name, 4) == 0)
			good = num_int(text + 4, part_of[i].least, (int64_t)1 << 40, part_of[i].to);
	free(text);
	return good;
}

static enum err_code parse_rule(const char *text, struct rule *r, struct err *e)
{
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, ",");

		if (!parse_rule_part(at, n, r))
			return err_set(e, ERR_USAGE,
			    "--asha %s: \"%.*s\" must be min=STEPS, max=STEPS or eta=N, with N of 2 or more",
			    text, (int)n, at);
		at += n + (at[n] == ',');
	}
	if (!r->min)
		return err_set(e, ERR_USAGE,
		    "--asha %s: min=STEPS, the steps of the first rung, is required", text);
	if (!r->max)
		return err_set(e, ERR_USAGE,
		    "--asha %s: max=STEPS is required, because the cluster file has no job.steps",
		    text);
	if (r->min >= r->max)
		return err_set(e, ERR_USAGE,
		    "--asha %s: the first rung, %lld steps, must be below the last one, %lld steps",
		    text, (long long)r->min, (long long)r->max);
	return ERR_OK;
}

/* The rungs have min * eta^k steps, as long as that is at most max. The last one has max instead: it is the
 * whole training. With max below min * eta there are min and max. */
static void make_rungs(struct sweep_ladder *l, const struct rule *r)
{
	int64_t steps = r->min;

	l->eta = r->eta;
	l->rungs = 0;
	for (;; steps *= r->eta) {
		l->steps = mem_regrow(l->steps, l->rungs + 2, sizeof *l->steps);
		l->steps[l->rungs++] = steps;
		if (steps > r->max / r->eta)
			break;
	}
	if (l->rungs == 1)
		l->rungs = 2;
	l->steps[l->rungs - 1] = r->max;
}

enum err_code sweep_ladder_init(struct sweep_ladder *l, const char *text, int64_t steps, size_t n,
    struct err *e)
{
	struct rule r = { .max = steps, .eta = ETA };
	enum err_code rc = text ? parse_rule(text, &r, e) : ERR_OK;

	*l = (struct sweep_ladder){ .eta = 1, .rungs = 1, .npoints = n };
	l->steps = mem_array(1, sizeof *l->steps);
	if (!rc && text)
		make_rungs(l, &r);
	l->point = mem_array(n + 1, sizeof *l->point);
	for (size_t i = 0; i < n; i++)
		l->point[i].score = mem_array(l->rungs, sizeof *l->point[i].score);
	return rc;
}

void sweep_ladder_release(struct sweep_ladder *l)
{
	for (size_t i = 0; l->point && i < l->npoints; i++)
		free(l->point[i].score);
	free(l->point);
	free(l->steps);
	*l = (struct sweep_ladder){ 0 };
}

/* ---- decisions ---- */

struct ranked {
	double score;
	size_t i;
};

/* For qsort(): the lower score first, of equal ones the first point. */
static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->score < y->score || y->score < x->score)
		return x->score < y->score ? -1 : 1;
	return (x->i > y->i) - (x->i < y->i);
}

/* Lists the points that have finished a rung, the best first. *n becomes their number. */
static struct ranked *rank_points(const struct sweep_ladder *l, size_t rung, size_t *n)
{
	struct ranked *list = mem_array(l->npoints + 1, sizeof *list);

	*n = 0;
	for (size_t i = 0; i < l->npoints; i++)
		if (l->point[i].done > rung)
			list[(*n)++] = (struct ranked){ l->point[i].score[rung], i };
	qsort(list, *n, sizeof *list, compare_ranked);
	return list;
}

static bool may_go_on(const struct sweep_ladder *l, size_t rung, size_t i)
{
	const struct sweep_climber *p = &l->point[i];

	return p->done == rung + 1 && p->granted == rung + 1 && !p->ended &&
	    isfinite(p->score[rung]);
}

/* Finds the best point that is among the best 1/share of a rung and has not gone on from it. */
static bool find_promotable(const struct sweep_ladder *l, size_t rung, size_t share, size_t *i)
{
	size_t n;
	struct ranked *list = rank_points(l, rung, &n);
	bool found = false;

	for (size_t k = 0; !found && k < n / share; k++) {
		found = may_go_on(l, rung, list[k].i);
		*i = found ? list[k].i : *i;
	}
	free(list);
	return found;
}

/* Has a point finished all that it can train, with a score, and no other a higher rung? */
static bool has_winner(const struct sweep_ladder *l, size_t rung)
{
	for (size_t i = 0; i < l->npoints; i++) {
		const struct sweep_climber *p = &l->point[i];

		if (p->done == rung + 1 && isfinite(p->score[rung]) &&
		    (p->ended || p->done == l->rungs))
			return true;
	}
	return false;
}

/* Finds the best point of the highest rung from which one can go on, unless a point has won. */
static bool find_leader(const struct sweep_ladder *l, size_t *i)
{
	for (size_t rung = l->rungs; rung-- > 0;) {
		if (has_winner(l, rung))
			return false;
		if (find_promotable(l, rung, 1, i))
			return true;
	}
	return false;
}

/* Points that were interrupted come first, then promotions at the highest rung, then new points. */
static bool choose_next(const struct sweep_ladder *l, size_t *i)
{
	bool idle = true;

	for (size_t k = 0; k < l->npoints; k++) {
		const struct sweep_climber *p = &l->point[k];

		idle &= !p->running;
		if (p->done < p->granted && !p->running && !p->ended) {
			*i = k;
			return true;
		}
	}
	for (size_t rung = l->rungs - 1; rung-- > 0;)
		if (find_promotable(l, rung, (size_t)l->eta, i))
			return true;
	for (size_t k = 0; k < l->npoints; k++)
		if (l->point[k].granted == 0 && !l->point[k].ended) {
			*i = k;
			return true;
		}
	return idle && find_leader(l, i);
}

bool sweep_ladder_next(struct sweep_ladder *l, size_t *i)
{
	struct sweep_climber *p;

	if (!choose_next(l, i))
		return false;
	p = &l->point[*i];
	p->granted = p->done + 1;
	p->running = true;
	return true;
}

void sweep_ladder_ended(struct sweep_ladder *l, size_t i, double score, bool ended)
{
	struct sweep_climber *p = &l->point[i];

	p->score[p->done++] = isnan(score) ? INFINITY : score;
	p->granted = p->granted < p->done ? p->done : p->granted;
	p->running = false;
	p->ended |= ended;
}

void sweep_ladder_gave_up(struct sweep_ladder *l, size_t i)
{
	l->point[i].running = false;
}

void sweep_ladder_grant(struct sweep_ladder *l, size_t i)
{
	l->point[i].granted = l->point[i].done + 1;
}

struct sweep_rung sweep_ladder_rung(const struct sweep_ladder *l, size_t rung)
{
	struct sweep_rung r = { .best = INFINITY };

	for (size_t i = 0; i < l->npoints; i++) {
		const struct sweep_climber *p = &l->point[i];

		r.finished += p->done > rung;
		r.promoted += p->granted > rung + 1;
		r.failed += p->done > rung && isinf(p->score[rung]);
		if (p->done > rung)
			r.best = fmin(r.best, p->score[rung]);
	}
	return r;
}
