#include "coord/coord_state.h"

#include "base/clock.h"
#include "base/json.h"

/* All lines from workers to servers, tried on request: the view carries the trial's number, each
 * worker does it beside its work and tells with a heartbeat what it has found. */

/* Who asks within this time gets the trial that is under way. */
#define YOUNG (3 * NSEC_PER_SEC)
/* Lines tried at once, and by one worker. */
#define LINES_MAX 4096u
#define EACH_MAX 64u

/* How many servers each worker tries, beginning with one of its own. */
static unsigned each(const struct coord *c)
{
	unsigned n = c->nworkers ? LINES_MAX / c->nworkers : 0;

	n = n < EACH_MAX ? n : EACH_MAX;
	return n ? n : 1;
}

int64_t coord_probe(struct coord *c, int64_t now)
{
	if (c->probe && now - c->probed_at < YOUNG)
		return c->probe;
	/* Greater than those of a coordinator that was here before. */
	c->probe = now / NSEC_PER_MSEC > c->probe ? now / NSEC_PER_MSEC : c->probe + 1;
	c->probed_at = now;
	coord_changed(c);
	return c->probe;
}

void probe_view(const struct coord *c, json_t *view)
{
	if (!c->probe)
		return;
	json_object_set_new(view, "probe", json_integer(c->probe));
	json_object_set_new(view, "probe_servers", json_integer(each(c)));
}

void probe_heard(struct member_worker *w, json_t *stats)
{
	json_t *found = json_object_get(stats, "probe");

	if (!found)
		return;
	/* More than was asked for is not kept. */
	if (json_array_size(json_object_get(found, "servers")) <= EACH_MAX) {
		json_decref(w->probe);
		w->probe = json_incref(found);
	}
	json_object_del(stats, "probe");
}

json_t *coord_probes(const struct coord *c, int64_t now)
{
	json_t *o = json_event("probe"), *list = json_array();

	json_object_set_new(o, "number", json_integer(c->probe));
	json_object_set_new(o, "age_seconds", c->probe ? json_of_num((double)(now - c->probed_at) / (double)NSEC_PER_SEC) : json_null());
	for (unsigned i = 0; c->probe && i < c->nworkers; i++) {
		const struct member_worker *w = &c->worker[i];
		bool done = json_int(w->probe, "number", 0) == c->probe;

		if ((w->state != WORKER_ACTIVE && w->state != WORKER_JOINING) || w->lost_at)
			continue;
		json_array_append_new(list, json_pack("{s:o, s:b, s:O}", "id", json_sprintf("worker-%u", i), "done", done, "servers",
		    done ? json_object_get(w->probe, "servers") : json_null()));
	}
	json_object_set_new(o, "workers", list);
	return o;
}
