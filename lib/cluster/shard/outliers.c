/* SPDX-License-Identifier: ISC */
#include "shard/outliers.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "math/order.h"

/* Steps that are collected at a time. Partitions are at most one step apart, so no more are
 * open. */
#define OPEN 4u

/* A slot's gradient in one step, summed over partitions. */
struct figures {
	bool in;
	double norm2, dot;
};

/* A step that is being collected. */
struct open_step {
	uint64_t end; /* the step, plus 1; 0: none */
	uint64_t elements;
	double sum2;
	struct figures *of; /* by slot; w->nslots of them */
};

/* Steps in a row that were outliers, and the sum of their figures. */
struct streak {
	unsigned steps;
	double sum;
};

/* The outlier record of a slot. */
struct history {
	struct streak too_long, against;
	uint64_t step, incarnation;
};

struct outliers {
	pthread_mutex_t lock;
	size_t nslots;
	struct open_step open[OPEN];
	struct history *history; /* by slot */
	uint64_t elements;       /* elements of the last step that was judged */
};

struct outliers *outliers_new(void)
{
	struct outliers *w = mem_alloc(sizeof *w);

	pthread_mutex_init(&w->lock, NULL);
	return w;
}

void outliers_free(struct outliers *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < OPEN; i++)
		free(w->open[i].of);
	free(w->history);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Makes room for n slots. */
static void grow_slots(struct outliers *w, size_t n)
{
	if (n <= w->nslots)
		return;
	for (size_t i = 0; i < OPEN; i++) {
		w->open[i].of = mem_regrow(w->open[i].of, n, sizeof *w->open[i].of);
		memset(w->open[i].of + w->nslots, 0, (n - w->nslots) * sizeof *w->open[i].of);
	}
	w->history = mem_regrow(w->history, n, sizeof *w->history);
	memset(w->history + w->nslots, 0, (n - w->nslots) * sizeof *w->history);
	w->nslots = n;
}

/* ---- judging ---- */

static void count_streak(struct streak *k, bool again, double figure)
{
	*k = again ? (struct streak){ k->steps + 1, k->sum + figure } : (struct streak){ 0, 0 };
}

static void judge_slot(struct outliers *w, const struct open_step *o, size_t slot, double middle)
{
	const struct figures *f = &o->of[slot];
	struct history *h = &w->history[slot];
	double norm = sqrt(f->norm2), sum = sqrt(o->sum2), times = middle > 0 ? norm / middle : 1;
	double cosine = norm > 0 && sum > 0 ? f->dot / (norm * sum) : 0;

	count_streak(&h->too_long, times > OUTLIERS_LONG, times);
	count_streak(&h->against, cosine < -OUTLIERS_AGAINST, cosine);
	h->step = o->end - 1;
}

/* Judges all slots of a step. The lock is held. */
static void judge_step(struct outliers *w, struct open_step *o)
{
	double norm[ORDER_MAX], middle;
	size_t n = 0;

	for (size_t i = 0; i < w->nslots && n < ORDER_MAX; i++)
		if (o->of[i].in)
			norm[n++] = sqrt(o->of[i].norm2);
	middle = n >= OUTLIERS_WORKERS_MIN ? order_middle(n, norm) : 0;
	for (size_t i = 0; n >= OUTLIERS_WORKERS_MIN && i < w->nslots; i++)
		if (o->of[i].in)
			judge_slot(w, o, i, middle);
	w->elements = o->elements;
	o->end = 0;
}

void outliers_judge(struct outliers *w, uint64_t closed)
{
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct open_step *first = NULL;

		for (size_t i = 0; i < OPEN; i++)
			if (w->open[i].end && w->open[i].end <= closed &&
			    (!first || w->open[i].end < first->end))
				first = &w->open[i];
		if (!first)
			break;
		judge_step(w, first);
	}
	pthread_mutex_unlock(&w->lock);
}

void outliers_note(struct outliers *w, const struct watched *x)
{
	struct open_step *o = &w->open[x->step % OPEN];

	pthread_mutex_lock(&w->lock);
	grow_slots(w, (size_t)x->slot[x->n - 1] + 1);
	if (o->end != x->step + 1) {
		o->end = x->step + 1;
		o->elements = 0;
		o->sum2 = 0;
		memset(o->of, 0, w->nslots * sizeof *o->of);
	}
	o->elements += x->elements;
	o->sum2 += x->sum2;
	for (uint32_t i = 0; i < x->n; i++) {
		struct figures *f = &o->of[x->slot[i]];

		f->in = true;
		f->norm2 += x->norm2[i];
		f->dot += x->dot[i];
	}
	pthread_mutex_unlock(&w->lock);
}

void outliers_begin_slot(struct outliers *w, uint32_t slot, uint64_t incarnation)
{
	pthread_mutex_lock(&w->lock);
	grow_slots(w, (size_t)slot + 1);
	w->history[slot] = (struct history){ .incarnation = incarnation };
	pthread_mutex_unlock(&w->lock);
}

uint64_t outliers_suspects(struct outliers *w,
    void (*fn)(void *ctx, const struct outliers_suspect *s), void *ctx)
{
	uint64_t elements;

	pthread_mutex_lock(&w->lock);
	for (uint32_t i = 0; i < w->nslots; i++) {
		const struct history *h = &w->history[i];
		bool against = h->too_long.steps < OUTLIERS_LONG_STEPS;
		const struct streak *k = against ? &h->against : &h->too_long;

		if (k->steps >= (against ? OUTLIERS_AGAINST_STEPS : OUTLIERS_LONG_STEPS))
			fn(ctx,
			    &(struct outliers_suspect){ i, h->incarnation, against, h->step,
			        k->steps, k->sum / k->steps });
	}
	elements = w->elements;
	pthread_mutex_unlock(&w->lock);
	return elements;
}
