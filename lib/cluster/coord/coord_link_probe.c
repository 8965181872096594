/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"
#include "core/json.h"

/* Measurements of all links from workers to servers, on request: the view carries the measurement's
 * number, each worker makes it beside its work and reports the results with a heartbeat. */

/* Requests within this time share one measurement. */
#define YOUNG (3 * NSEC_PER_SEC)
/* Bounds on the links measured in all, and by one worker. */
#define LINES_MAX 4096u
#define EACH_MAX  64u

/* How many servers each worker measures. Workers begin with different servers. */
static unsigned servers_per_worker(const struct coord *c)
{
	unsigned n = c->nworkers ? LINES_MAX / c->nworkers : 0;

	n = n < EACH_MAX ? n : EACH_MAX;
	return n ? n : 1;
}

int64_t coord_probe(struct coord *c, int64_t now)
{
	if (c->probe.number && now - c->probe.at < YOUNG)
		return c->probe.number;
	/* Numbers are derived from the clock, so that they exceed the numbers of
	 * an earlier coordinator. */
	c->probe.number = now / NSEC_PER_MSEC > c->probe.number ? now / NSEC_PER_MSEC
	                                                        : c->probe.number + 1;
	c->probe.at = now;
	coord_changed(c);
	return c->probe.number;
}

void coord_probe_to_view(const struct coord *c, json_t *view)
{
	if (!c->probe.number)
		return;
	json_object_set_new(view, "probe", json_integer(c->probe.number));
	json_object_set_new(view, "probe_servers", json_integer(servers_per_worker(c)));
}

void coord_probe_heard(struct coord_member_worker *w)
{
	struct heartbeat_probe found = { 0 };

	if (!w->figures.probe)
		return;
	heartbeat_probe_decode(w->figures.probe, &found);
	/* Ignore a list that is longer than any worker was asked for. */
	if (json_array_size(found.servers) <= EACH_MAX) {
		heartbeat_probe_release(&w->probe);
		w->probe = found;
	} else {
		heartbeat_probe_release(&found);
	}
	json_decref(w->figures.probe);
	w->figures.probe = NULL;
	json_object_del(w->stats, "probe");
}

json_t *coord_probes(const struct coord *c, int64_t now)
{
	json_t *o = json_event("probe"), *list = json_array();

	json_object_set_new(o, "number", json_integer(c->probe.number));
	json_object_set_new(o, "age_seconds",
	    c->probe.number ? json_of_num((double)(now - c->probe.at) / (double)NSEC_PER_SEC)
	                    : json_null());
	for (unsigned i = 0; c->probe.number && i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];
		bool done = w->probe.number == c->probe.number;

		if ((w->state != WORKER_ACTIVE && w->state != WORKER_JOINING) || w->lost_at)
			continue;
		json_array_append_new(list,
		    json_pack("{s:o, s:b, s:O}", "id", json_sprintf("worker-%u", i), "done", done,
		        "servers", done ? w->probe.servers : NULL));
	}
	json_object_set_new(o, "workers", list);
	return o;
}
