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
	json_t *then; /* the workers' figures at the time `since`, by id; NULL: none yet */
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
	json_decref(a->then);
	free(a);
}

static void begin_measuring(struct adapt *a, const struct host *h, int64_t now)
{
	json_t *list = coord_workers(h->coord, now), *o;
	size_t i;

	json_decref(a->then);
	a->then = json_object();
	json_array_foreach(list, i, o)
		json_object_set(a->then, json_str(o, "id", ""), o);
	json_decref(list);
	a->since = now;
	if (a->settings != coord_settings_made(h->coord))
		a->refused = 0;
	a->settings = coord_settings_made(h->coord);
}

static double growth_of(const json_t *now, const json_t *then, const char *key)
{
	return json_num(now, key, 0) - json_num(then, key, 0);
}

/* Seconds a step since `then`; false when the worker has taken too few steps. */
static bool measure_worker(const json_t *o, const json_t *then, double step_examples, double least,
    struct tune_worker *out)
{
	double steps = growth_of(o, then, "examples") / step_examples;

	if (!then || json_u64s(o, "pid", 0) != json_u64s(then, "pid", 0) || steps < least ||
	    steps <= 0)
		return false;
	out->alone = (growth_of(o, then, "data_seconds") + growth_of(o, then, "compute_seconds") +
	                 growth_of(o, then, "encode_seconds")) /
	    steps;
	out->wire = (growth_of(o, then, "push_seconds") + growth_of(o, then, "pull_seconds")) /
	    steps;
	out->wait = growth_of(o, then, "wait_seconds") / steps;
	return true;
}

/* Measure all active workers. Returns their number, or 0 when one could not be measured. */
static unsigned measure_all(const struct adapt *a, const struct host *h, int64_t now,
    double step_examples, struct tune_worker **out)
{
	json_t *list = coord_workers(h->coord, now), *o;
	double least = now - a->since > PATIENCE ? 1e-9 : STEPS;
	unsigned n = 0;
	bool all = true;
	size_t i;

	*out = mem_array(json_array_size(list) + 1, sizeof **out);
	json_array_foreach(list, i, o) {
		if (strcmp(json_str(o, "state", ""), "active") != 0)
			continue;
		all = all &&
		    measure_worker(o, json_object_get(a->then, json_str(o, "id", "")),
		        step_examples, least, *out + n);
		n++;
	}
	json_decref(list);
	return all ? n : 0;
}

static void advise_settings(struct adapt *a, struct host *h, const struct conf *c, int64_t now,
    bool (*set)(struct host *h, const char *key, const char *value))
{
	struct tune_settings is = { .sync = c->sync,
		.backup = (unsigned)c->backup,
		.codec = c->codec,
		.batch = c->job.batch,
		.first_batch = a->first_batch };
	struct tune_advice advice;
	struct tune_worker *w;
	struct err e;
	unsigned n = measure_all(a, h, now, (double)conf_step_examples(c), &w);

	if (n && conf_parse_adapt(c->adapt, &is.keys, &e) == ERR_OK) {
		is.keys &= ~a->refused;
		if (tune_advise(&a->tune, &is, w, n, &advice)) {
			if (set(h, advice.set, advice.value))
				host_event(h, "adapt", "%s=%s: %s", advice.set, advice.value,
				    advice.why);
			else
				a->refused |= advice.key;
		}
		begin_measuring(a, h, now);
	}
	free(w);
}

void adapt_tick(struct adapt *a, struct host *h, int64_t now,
    bool (*set)(struct host *h, const char *key, const char *value))
{
	struct conf c;
	struct err e;

	if (now - a->looked < PERIOD)
		return;
	a->looked = now;
	if (strcmp(json_str(coord_present_config(h->coord), "adapt", "none"), "none") == 0 ||
	    coord_phase(h->coord) != COORD_RUNNING || coord_is_deciding(h->coord) ||
	    conf_from_json(coord_present_config(h->coord), &c, &e))
		return;
	if (!a->first_batch)
		a->first_batch = json_int(json_object_get(h->config, "job"), "batch", c.job.batch);
	/* Measurements under other settings say nothing about the present ones. */
	if (!a->then || a->settings != coord_settings_made(h->coord))
		begin_measuring(a, h, now);
	else
		advise_settings(a, h, &c, now, set);
	conf_release(&c);
}
