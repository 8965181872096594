#include "server/adapt.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "conf/live.h"
#include "conf/rule.h"
#include "coord/tune.h"

/* Between two looks; after a change what was measured before it is no more. */
#define PERIOD NSEC_PER_SEC
/* Steps of each worker that a look goes by, or as many as there are after so long. */
#define STEPS 3.0
#define PATIENCE (20 * NSEC_PER_SEC)

struct adapt {
	struct tune tune;
	json_t *then;                   /* the workers' figures, by id; NULL: none yet */
	int64_t since, looked;
	int64_t settings;               /* number of those that held then */
	int64_t first_batch;
	unsigned refused;               /* of enum tune_key: the job cannot have it, as settings are now */
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

static void begin_look(struct adapt *a, const struct host *h, int64_t now)
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

static double grown(const json_t *now, const json_t *then, const char *key)
{
	return json_num(now, key, 0) - json_num(then, key, 0);
}

/* Seconds a step since then; false: it has not taken enough of them. */
static bool measure(const json_t *o, const json_t *then, double step_examples, double least, struct tune_worker *out)
{
	double steps = grown(o, then, "examples") / step_examples;

	if (!then || json_u64s(o, "pid", 0) != json_u64s(then, "pid", 0) || steps < least || steps <= 0)
		return false;
	out->alone = (grown(o, then, "data_seconds") + grown(o, then, "compute_seconds") + grown(o, then, "encode_seconds")) / steps;
	out->wire = (grown(o, then, "push_seconds") + grown(o, then, "pull_seconds")) / steps;
	out->wait = grown(o, then, "wait_seconds") / steps;
	return true;
}

/* All that are active, or 0 when one of them has not been measured. */
static unsigned measure_all(const struct adapt *a, const struct host *h, int64_t now, double step_examples,
    struct tune_worker **out)
{
	json_t *list = coord_workers(h->coord, now), *o;
	double least = now - a->since > PATIENCE ? 1e-9 : STEPS;
	unsigned n = 0;
	bool all = true;
	size_t i;

	*out = mem_array(json_array_size(list) + 1, sizeof **out);
	json_array_foreach(list, i, o) {
		/* A step waits for who is in quarantine, too. */
		if (strcmp(json_str(o, "state", ""), "active") != 0 && strcmp(json_str(o, "state", ""), "quarantined") != 0)
			continue;
		all = all && measure(o, json_object_get(a->then, json_str(o, "id", "")), step_examples, least, *out + n);
		n++;
	}
	json_decref(list);
	return all ? n : 0;
}

static void look(struct adapt *a, struct host *h, const struct conf *c, int64_t now,
    bool (*set)(struct host *h, const char *key, const char *value))
{
	struct tune_now is = { .bsp = c->sync.kind == SYNC_bsp, .ssp = c->sync.kind == SYNC_ssp,
		.backup = (unsigned)c->backup, .staleness = c->sync.staleness, .codec = c->codec, .batch = c->job.batch,
		.first_batch = a->first_batch };
	struct tune_advice advice;
	struct tune_worker *w;
	struct err e;
	unsigned n = measure_all(a, h, now, (double)conf_step_examples(c), &w);

	if (n && conf_adapts(c->adapt, &is.keys, &e) == ERR_OK) {
		is.keys &= ~a->refused;
		if (tune_look(&a->tune, &is, w, n, &advice)) {
			if (set(h, advice.set, advice.value))
				host_event(h, "adapt", "%s=%s: %s", advice.set, advice.value, advice.why);
			else
				a->refused |= advice.key;
		}
		begin_look(a, h, now);
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
	if (strcmp(json_str(coord_config_now(h->coord), "adapt", "none"), "none") == 0 || coord_phase(h->coord) != COORD_RUNNING ||
	    coord_is_setting(h->coord) || conf_from_json(coord_config_now(h->coord), &c, &e))
		return;
	if (!a->first_batch)
		a->first_batch = json_int(json_object_get(h->config, "job"), "batch", c.job.batch);
	/* Of what was measured under other settings, or with others there, nothing is known now. */
	if (!a->then || a->settings != coord_settings_made(h->coord))
		begin_look(a, h, now);
	else
		look(a, h, &c, now, set);
	conf_release(&c);
}
