#include "coord/coord_state.h"

#include "base/clock.h"
#include "base/json.h"

/* Workers whose pushes the servers refuse, and those whose gradients are outliers: what the
 * servers see, they say in their heartbeats; what comes of it is decided here, for all of them
 * and from one step on. */

/* One event a worker in so long. */
#define REFUSED_PACE (10 * NSEC_PER_SEC)

/* ---- refused ------------------------------------------------------------------------ */

static uint64_t refused_of(const struct coord *c, unsigned slot)
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

static void tell_refused(struct coord *c, unsigned slot, int64_t now)
{
	struct member_worker *w = &c->worker[slot];
	uint64_t all;

	/* Servers tell of each that ever was with every heartbeat: looked at as seldom as told. */
	if (w->refused_at && now - w->refused_at < REFUSED_PACE)
		return;
	w->refused_at = now;
	all = refused_of(c, slot);
	/* A server has gone, with what it had counted. */
	if (all < w->refused)
		w->refused = all;
	if (all == w->refused)
		return;
	coord_event(c, "refused", "%llu push%s of worker-%u (key %s) refused: values that are not finite or out of bounds, or no room",
	    (unsigned long long)(all - w->refused), all - w->refused == 1 ? " was" : "es were", slot, w->key_name);
	w->refused = all;
}

/* ---- outliers ----------------------------------------------------------------------- */

static const json_t *suspicion(const struct coord *c, unsigned server, unsigned slot)
{
	const json_t *x;
	size_t i;

	json_array_foreach(json_object_get(c->server[server].stats, "suspects"), i, x)
		if (json_int(x, "slot", -1) == (int64_t)slot && json_u64s(x, "incarnation", 0) == c->worker[slot].incarnation)
			return x;
	return NULL;
}

/* What servers with at least half of the parameters say; of the one with most of them.  What
 * only a few numbers say may be chance. */
static const json_t *evidence(const struct coord *c, unsigned slot)
{
	const json_t *best = NULL;
	int64_t all = 0, against = 0, most = -1;

	for (unsigned i = 0; i < c->nservers; i++) {
		int64_t elements = json_int(c->server[i].stats, "watched_elements", 0);
		const json_t *x = suspicion(c, i, slot);

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

bool worker_barred(const struct member_worker *w)
{
	return w->barred_until == UINT64_MAX;
}

/* Most must be left, or it cannot be told who is right. */
static bool may_bar(const struct coord *c)
{
	unsigned active = 0, barred = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		active += c->worker[i].state == WORKER_ACTIVE;
		barred += c->worker[i].state == WORKER_ACTIVE && json_object_get(c->barred, c->worker[i].key);
	}
	return 2 * (barred + 1) < active;
}

static void suspect(struct coord *c, unsigned slot, int64_t now)
{
	struct member_worker *w = &c->worker[slot];
	const json_t *x = evidence(c, slot);
	char because[160];

	if (!x || w->state != WORKER_ACTIVE || c->phase != COORD_RUNNING || json_object_get(c->barred, w->key) || !may_bar(c))
		return;
	if (json_flag(x, "against"))
		snprintf(because, sizeof because, "its gradients pointed against those of all (cosine %.2g) in %lld steps running",
		    json_num(x, "figure", 0), (long long)json_int(x, "steps", 0));
	else
		snprintf(because, sizeof because, "its gradients were %.3g times longer than the median in %lld steps running",
		    json_num(x, "figure", 0), (long long)json_int(x, "steps", 0));
	json_object_set_new(c->barred, w->key, json_pack("{s:s, s:s}", "name", w->key_name, "because", because));
	/* All that have the key. */
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_ACTIVE && strcmp(c->worker[i].key, w->key) == 0) {
			c->worker[i].barred_at = now;
			change_queue(c, CHANGE_BAR, i, WORKER_ACTIVE);
		}
	coord_progress(c, now);
}

const char *barred_because(const struct coord *c, const struct member_worker *w)
{
	return json_str(json_object_get(c->barred, w->key), "because", "it was released");
}

void watch_decided(struct coord *c, const struct change *ch, uint64_t step)
{
	struct member_worker *w = &c->worker[ch->slot];

	if (ch->kind == CHANGE_BAR) {
		w->barred = step;
		w->barred_until = UINT64_MAX;
		coord_event(c, "quarantined", "worker-%u (key %s) quarantined from step %llu on: %s", ch->slot, w->key_name,
		    (unsigned long long)step, barred_because(c, w));
	} else {
		w->barred_until = step;
		coord_event(c, "released", "worker-%u (key %s) counts again from step %llu on", ch->slot, w->key_name,
		    (unsigned long long)step);
	}
}

void watch_joined(struct coord *c, unsigned slot, int64_t now)
{
	struct member_worker *w = &c->worker[slot];
	bool barred = json_object_get(c->barred, w->key) != NULL;

	w->quota_seconds = 0;
	w->barred = 0;
	w->barred_until = barred ? UINT64_MAX : 0;
	w->barred_at = now;
}

enum err_code coord_release_key(struct coord *c, const char *name, const char *key, int64_t now, struct err *e)
{
	if (!json_object_get(c->barred, key))
		return err_set(e, ERR_NOTFOUND, "%s is not in quarantine", name);
	json_object_del(c->barred, key);
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].incarnation && strcmp(c->worker[i].key, key) == 0 && c->worker[i].state == WORKER_ACTIVE &&
		    worker_barred(&c->worker[i]))
			change_queue(c, CHANGE_RELEASE, i, WORKER_ACTIVE);
	coord_changed(c);
	coord_progress(c, now);
	return ERR_OK;
}

const char *coord_key_barred(const struct coord *c, const char *key)
{
	return json_str(json_object_get(c->barred, key), "because", NULL);
}

/* ---- quotas ------------------------------------------------------------------------- */

/* Its pushes were held this long ago, at most, and no longer apart. */
#define HELD_LATELY NSEC_PER_SEC

bool worker_held(const struct member_worker *w, int64_t now)
{
	return w->quota_at && now - w->quota_at < HELD_LATELY;
}

/* Of the server that holds it most. */
static void tell_held(struct coord *c, unsigned slot, double seconds, int64_t now)
{
	struct member_worker *w = &c->worker[slot];

	if (seconds <= w->quota_seconds)
		return;
	if (!worker_held(w, now))
		w->quota_since = now;
	w->quota_at = now;
	w->quota_seconds = seconds;
}

/* ---- all --------------------------------------------------------------------------- */

void watch_beat(struct coord *c, const json_t *stats, int64_t now)
{
	const json_t *x;
	size_t i;

	json_array_foreach(json_object_get(stats, "refused"), i, x) {
		json_int_t slot = json_integer_value(json_array_get(x, 0));

		if (slot >= 0 && slot < (json_int_t)c->nworkers)
			tell_refused(c, (unsigned)slot, now);
	}
	json_array_foreach(json_object_get(stats, "quota_held"), i, x) {
		json_int_t slot = json_integer_value(json_array_get(x, 0));

		if (slot >= 0 && slot < (json_int_t)c->nworkers)
			tell_held(c, (unsigned)slot, json_number_value(json_array_get(x, 1)), now);
	}
	json_array_foreach(json_object_get(stats, "suspects"), i, x) {
		int64_t slot = json_int(x, "slot", -1);

		if (slot >= 0 && slot < (int64_t)c->nworkers)
			suspect(c, (unsigned)slot, now);
	}
}
