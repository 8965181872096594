#include "server/quota.h"

#include "base/json.h"

static double cost_bytes(const struct record *r)
{
	return (double)r->len + SESSION_HEADER_BYTES;
}

/* A push of several records is one. */
static double cost_pushes(const struct record *r)
{
	return r->offset == 0;
}

/* Of a bucket that is not in use nothing is owed when it comes to be. */
static void fill(struct quota *q, double rate, double seconds)
{
	q->left += rate * seconds;
	if (q->left > rate || rate <= 0)
		q->left = rate;
}

static void stop_waiting(struct peer *p, int64_t now)
{
	struct server *s = p->lane->server;

	if (p->held_since && p->slot < COORD_WORKERS_MAX)
		atomic_fetch_add(&s->held[p->slot], (uint64_t)(now - p->held_since));
	p->held_since = 0;
}

bool quota_takes(struct peer *p, const struct record *r)
{
	struct server *s = p->lane->server;
	double bytes = (double)atomic_load_explicit(&s->quota_bytes, memory_order_relaxed);
	double pushes = (double)atomic_load_explicit(&s->quota_pushes, memory_order_relaxed);
	double seconds;
	int64_t now;

	if (bytes <= 0 && pushes <= 0 && !p->held_since)
		return true;
	now = clock_now();
	/* At first it is full. */
	seconds = p->quota_at ? (double)(now - p->quota_at) / NSEC_PER_SEC : 1;
	p->quota_at = now;
	fill(&p->quota_bytes, bytes, seconds);
	fill(&p->quota_pushes, pushes, seconds);
	/* One that is larger than the bucket is taken when that is full, and owed for. */
	if ((bytes > 0 && p->quota_bytes.left <= 0) || (pushes > 0 && p->quota_pushes.left <= 0)) {
		if (p->held_since)
			stop_waiting(p, now);
		p->held_since = now;
		return false;
	}
	stop_waiting(p, now);
	p->quota_bytes.left -= cost_bytes(r);
	p->quota_pushes.left -= cost_pushes(r);
	return true;
}

void quota_returns(struct peer *p, const struct record *r)
{
	p->quota_bytes.left += cost_bytes(r);
	p->quota_pushes.left += cost_pushes(r);
}

void quota_tick(struct lane *l)
{
	struct peer *p, *next;

	for (p = l->peers; p; p = next) {
		next = p->next;
		if (p->held_since)
			peer_wake(p);
	}
}

void quota_know(struct server *s, const json_t *config)
{
	atomic_store(&s->quota_bytes, (uint64_t)json_int(config, "quota_bytes", 0));
	atomic_store(&s->quota_pushes, (uint64_t)json_int(config, "quota_pushes", 0));
}

void quota_stats(struct server *s, json_t *o)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < COORD_WORKERS_MAX; i++) {
		uint64_t ns = atomic_load_explicit(&s->held[i], memory_order_relaxed);

		if (ns)
			json_array_append_new(list, json_pack("[i, f]", (int)i, (double)ns / NSEC_PER_SEC));
	}
	if (json_array_size(list))
		json_object_set(o, "quota_held", list);
	json_decref(list);
}
