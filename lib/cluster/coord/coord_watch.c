/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"
#include "core/json.h"

/* Workers whose pushes servers refuse, and workers whose gradients are outliers. Servers report
 * them in their heartbeats; the coordinator decides, for all servers and from one step on. */

/* Least time between two events about one worker. */
#define REFUSED_PACE (10 * NSEC_PER_SEC)

/* ---- refused ---- */

static uint64_t sum_refused_pushes(const struct coord *c, unsigned slot)
{
	uint64_t sum = 0;
	const json_t *pair;
	size_t i;

	for (unsigned s = 0; s < c->nservers; s++)
		json_array_foreach(json_object_get(c->server[s].stats, "refused"), i, pair)
			if (json_integer_value(json_array_get(pair, 0)) == (json_int_t)slot)
				sum += (uint64_t)json_integer_value(json_array_get(pair, 1));
	return sum;
}

static void report_refused_pushes(struct coord *c, unsigned slot, int64_t now)
{
	struct coord_member_worker *w = &c->worker[slot];
	uint64_t all;

	/* Servers repeat their totals with every heartbeat: add them up only when an event may be
	 * told. */
	if (w->refused_at && now - w->refused_at < REFUSED_PACE)
		return;
	w->refused_at = now;
	all = sum_refused_pushes(c, slot);
	/* A server has gone, and its count with it. */
	if (all < w->refused)
		w->refused = all;
	if (all == w->refused)
		return;
	coord_event(c, "refused",
	    "%llu push%s of worker-%u (key %s) %s refused: values that are not finite or out of bounds, or no room",
	    (unsigned long long)(all - w->refused), all - w->refused == 1 ? "" : "es", slot,
	    w->key_name, all - w->refused == 1 ? "was" : "were");
	w->refused = all;
}

/* ---- outliers ---- */

static const json_t *find_suspicion(const struct coord *c, unsigned server, unsigned slot)
{
	const json_t *x;
	size_t i;

	json_array_foreach(json_object_get(c->server[server].stats, "suspects"), i, x)
		if (json_int(x, "slot", -1) == (int64_t)slot &&
		    json_u64s(x, "incarnation", 0) == c->worker[slot].incarnation)
			return x;
	return NULL;
}

/* The report against a worker, from the server with most parameters, if servers that hold at least
 * half of all parameters report it. A few parameters alone may mislead by chance. */
static const json_t *weigh_suspicions(const struct coord *c, unsigned slot)
{
	const json_t *best = NULL;
	int64_t all = 0, against = 0, most = -1;

	for (unsigned i = 0; i < c->nservers; i++) {
		int64_t elements = json_int(c->server[i].stats, "watched_elements", 0);
		const json_t *x = find_suspicion(c, i, slot);

		if (!c->server[i].live)
			continue;
		all += elements;
		against += x ? elements : 0;
		if (x && elements > most) {
			best = x;
			most = elements;
		}
	}
	return all && 2 * against >= all ? best : NULL;
}

bool coord_watch_is_quarantined(const struct coord_member_worker *w)
{
	return w->barred_until == UINT64_MAX;
}

/* Does quarantining one more worker leave a majority? Without one nobody can tell which are
 * right. */
static bool may_quarantine_one_more(const struct coord *c)
{
	unsigned active = 0, barred = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		active += c->worker[i].state == WORKER_ACTIVE;
		barred += c->worker[i].state == WORKER_ACTIVE &&
		    json_object_get(c->barred, c->worker[i].key);
	}
	return 2 * (barred + 1) < active;
}

static void quarantine_if_suspect(struct coord *c, unsigned slot, int64_t now)
{
	struct coord_member_worker *w = &c->worker[slot];
	const json_t *x = weigh_suspicions(c, slot);
	char because[160];

	if (!x || w->state != WORKER_ACTIVE || c->phase != COORD_RUNNING ||
	    json_object_get(c->barred, w->key) || !may_quarantine_one_more(c))
		return;
	if (json_flag(x, "against"))
		snprintf(because, sizeof because,
		    "its gradients pointed against those of all (cosine %.2g) in %lld steps running",
		    json_num(x, "figure", 0), (long long)json_int(x, "steps", 0));
	else
		snprintf(because, sizeof because,
		    "its gradients were %.3g times longer than the median in %lld steps running",
		    json_num(x, "figure", 0), (long long)json_int(x, "steps", 0));
	json_object_set_new(c->barred, w->key,
	    json_pack("{s:s, s:s}", "name", w->key_name, "because", because));
	/* Quarantine all workers that use this key. */
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_ACTIVE && strcmp(c->worker[i].key, w->key) == 0) {
			c->worker[i].barred_at = now;
			coord_change_request(c, CHANGE_BAR, i, WORKER_ACTIVE);
		}
	coord_progress(c, now);
}

const char *coord_watch_quarantine_reason(const struct coord *c,
    const struct coord_member_worker *w)
{
	return json_str(json_object_get(c->barred, w->key), "because", "it was released");
}

void coord_watch_decided(struct coord *c, const struct change *ch, uint64_t step)
{
	struct coord_member_worker *w = &c->worker[ch->slot];

	if (ch->kind == CHANGE_BAR) {
		w->barred = step;
		w->barred_until = UINT64_MAX;
		coord_event(c, "quarantined",
		    "worker-%u (key %s) quarantined from step %llu on: %s", ch->slot, w->key_name,
		    (unsigned long long)step, coord_watch_quarantine_reason(c, w));
	} else {
		w->barred_until = step;
		coord_event(c, "released", "worker-%u (key %s) counts again from step %llu on",
		    ch->slot, w->key_name, (unsigned long long)step);
	}
}

void coord_watch_joined(struct coord *c, unsigned slot, int64_t now)
{
	struct coord_member_worker *w = &c->worker[slot];
	bool barred = json_object_get(c->barred, w->key) != NULL;

	w->quota_seconds = 0;
	w->barred = 0;
	w->barred_until = barred ? UINT64_MAX : 0;
	w->barred_at = now;
}

enum err_code coord_release_key(struct coord *c, const char *name, const char *key, int64_t now,
    struct err *e)
{
	if (!json_object_get(c->barred, key))
		return err_set(e, ERR_NOTFOUND, "%s is not in quarantine", name);
	json_object_del(c->barred, key);
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].incarnation && strcmp(c->worker[i].key, key) == 0 &&
		    c->worker[i].state == WORKER_ACTIVE &&
		    coord_watch_is_quarantined(&c->worker[i]))
			coord_change_request(c, CHANGE_RELEASE, i, WORKER_ACTIVE);
	coord_changed(c);
	coord_progress(c, now);
	return ERR_OK;
}

const char *coord_key_barred(const struct coord *c, const char *key)
{
	return json_str(json_object_get(c->barred, key), "because", NULL);
}

/* ---- quotas ---- */

/* Delays at most this far apart count as one run of delays. */
#define HELD_LATELY NSEC_PER_SEC

bool coord_watch_is_delayed(const struct coord_member_worker *w, int64_t now)
{
	return w->quota_at && now - w->quota_at < HELD_LATELY;
}

/* Note a server's total of delays. Only the total of the server that delays most is kept. */
static void note_quota_hold(struct coord *c, unsigned slot, double seconds, int64_t now)
{
	struct coord_member_worker *w = &c->worker[slot];

	if (seconds <= w->quota_seconds)
		return;
	if (!coord_watch_is_delayed(w, now))
		w->quota_since = now;
	w->quota_at = now;
	w->quota_seconds = seconds;
}

/* ---- all ---- */

void coord_watch_heartbeat(struct coord *c, const json_t *stats, int64_t now)
{
	const json_t *x;
	size_t i;

	json_array_foreach(json_object_get(stats, "refused"), i, x) {
		json_int_t slot = json_integer_value(json_array_get(x, 0));

		if (slot >= 0 && slot < (json_int_t)c->nworkers)
			report_refused_pushes(c, (unsigned)slot, now);
	}
	json_array_foreach(json_object_get(stats, "quota_held"), i, x) {
		json_int_t slot = json_integer_value(json_array_get(x, 0));

		if (slot >= 0 && slot < (json_int_t)c->nworkers)
			note_quota_hold(c, (unsigned)slot, json_number_value(json_array_get(x, 1)),
			    now);
	}
	json_array_foreach(json_object_get(stats, "suspects"), i, x) {
		int64_t slot = json_int(x, "slot", -1);

		if (slot >= 0 && slot < (int64_t)c->nworkers)
			quarantine_if_suspect(c, (unsigned)slot, now);
	}
}
