/* SPDX-License-Identifier: ISC */
#include "coordinator/adapt.h"

#include <string.h>

#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "conf/tune.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"

/* How often the measurements are looked at. */
#define PERIOD NSEC_PER_SEC
/* A decision needs this many steps of each worker, or, after PATIENCE, as many as there are. */
#define STEPS    3.0
#define PATIENCE (20 * NSEC_PER_SEC)

struct adapt {
	struct tune tune;
	/* the workers' figures at the time `since`, by rank; NULL: none yet */
	struct coord_worker_times *then;
	unsigned nthen;
	int64_t since, looked;
	int64_t settings; /* number of the settings in force at that time */
	int64_t first_batch;
	/* bits of enum tune_key: changes that the job refused under the present settings */
	unsigned refused;
};

struct adapt *adapt_new(void)
{
	return mem_alloc(sizeof(struct adapt));
}

void adapt_free(struct adapt *a)
{
	if (!a)
		return;
	free(a->then);
	free(a);
}

/* The figures of all workers: a list to free(). */
static struct coord_worker_times *workers_times(const struct coordinator *coordinator, unsigned *n)
{
	struct coord_worker_times *list = NULL, w;

	for (*n = 0; coord_worker_times(coordinator->coord, *n, &w); ++*n) {
		list = mem_regrow(list, *n + 1, sizeof *list);
		list[*n] = w;
	}
	return list ? list : mem_alloc(sizeof *list);
}

static void begin_measuring(struct adapt *a, const struct coordinator *coordinator, int64_t now)
{
	free(a->then);
	a->then = workers_times(coordinator, &a->nthen);
	a->since = now;
	if (a->settings != coord_settings_made(coordinator->coord))
		a->refused = 0;
	a->settings = coord_settings_made(coordinator->coord);
}

/* Seconds a step since `then`; false when the worker has taken too few steps. */
static bool measure_worker(const struct coord_worker_times *now,
    const struct coord_worker_times *then, double step_examples, double least,
    struct tune_worker *out)
{
	double steps = (now->examples - then->examples) / step_examples;

	if (steps < least || steps <= 0)
		return false;
	out->alone = (now->alone - then->alone) / steps;
	out->wire = (now->wire - then->wire) / steps;
	out->wait = (now->wait - then->wait) / steps;
	return true;
}

/* Measure all active workers. Returns their number, or 0 when one could not be measured. */
static unsigned measure_all(const struct adapt *a, const struct coordinator *coordinator,
    int64_t now, double step_examples, struct tune_worker **out)
{
	unsigned nworkers, n = 0;
	struct coord_worker_times *list = workers_times(coordinator, &nworkers);
	double least = now - a->since > PATIENCE ? 1e-9 : STEPS;
	bool all = true;

	*out = mem_array(nworkers + 1, sizeof **out);
	for (unsigned i = 0; i < nworkers; i++) {
		if (!list[i].active)
			continue;
		all = all && i < a->nthen &&
		    measure_worker(&list[i], &a->then[i], step_examples, least, *out + n);
		n++;
	}
	free(list);
	return all ? n : 0;
}

/* The batch size that the job began with. */
static int64_t initial_batch(const struct coordinator *coordinator, int64_t present)
{
	int64_t batch = present;
	struct conf c;
	struct err e;

	if (conf_from_json(coordinator->config, &c, &e))
		return present;
	if (conf_trains(&c))
		batch = c.job.batch;
	conf_release(&c);
	return batch;
}

static void advise_settings(struct adapt *a, struct coordinator *coordinator, const struct conf *c,
    int64_t now, bool (*set)(struct coordinator *coordinator, const char *key, const char *value))
{
	struct tune_settings is = { .sync = c->sync,
		.backup = (unsigned)c->backup,
		.codec = c->codec,
		.batch = c->job.batch,
		.first_batch = a->first_batch };
	struct tune_advice advice;
	struct tune_worker *w;
	struct err e;
	unsigned n = measure_all(a, coordinator, now, (double)conf_step_examples(c), &w);

	if (n && conf_parse_adapt(c->adapt, &is.keys, &e) == ERR_OK) {
		is.keys &= ~a->refused;
		if (tune_advise(&a->tune, &is, w, n, &advice)) {
			if (set(coordinator, advice.set, advice.value))
				coordinator_event(coordinator, EVENT_adapt, "%s=%s: %s", advice.set,
				    advice.value, advice.why);
			else
				a->refused |= advice.key;
		}
		begin_measuring(a, coordinator, now);
	}
	free(w);
}

void adapt_tick(struct adapt *a, struct coordinator *coordinator, int64_t now,
    bool (*set)(struct coordinator *coordinator, const char *key, const char *value))
{
	struct conf c;
	struct err e;

	mutex_assert_held(&coordinator->lock);
	if (now - a->looked < PERIOD)
		return;
	a->looked = now;
	if (!conf_is_named(coord_present_conf(coordinator->coord)->adapt) ||
	    coord_phase(coordinator->coord) != PHASE_RUNNING ||
	    coord_is_deciding(coordinator->coord) ||
	    conf_from_json(coord_present_config(coordinator->coord), &c, &e))
		return;
	if (!a->first_batch)
		a->first_batch = initial_batch(coordinator, c.job.batch);
	/* Measurements under other settings say nothing about the present ones. */
	if (!a->then || a->settings != coord_settings_made(coordinator->coord))
		begin_measuring(a, coordinator, now);
	else
		advise_settings(a, coordinator, &c, now, set);
	conf_release(&c);
}
