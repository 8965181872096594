#include "server/quota.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"

static double cost_bytes(const struct record *r)
{
	return (double)r->len + SESSION_HEADER_BYTES;
}

/* A push of several records is one. */
static double cost_pushes(const struct record *r)
{
	return r->offset == 0;
}

/* One of each slot, and behind them one for all workers without. */
#define GUESTS COORD_WORKERS_MAX

struct quotas {
	pthread_mutex_t lock;           /* bucket; taken only where there is a quota */
	struct bucket {
		double bytes, pushes;   /* that are left; may be below 0 */
		int64_t at;             /* when it was filled last; 0: never, and is full */
	} bucket[GUESTS + 1];
};

void quota_begin(struct server *s)
{
	s->quotas = mem_alloc(sizeof *s->quotas);
	pthread_mutex_init(&s->quotas->lock, NULL);
}

void quota_end(struct server *s)
{
	if (s->quotas)
		pthread_mutex_destroy(&s->quotas->lock);
	free(s->quotas);
}

static struct bucket *bucket_of(struct peer *p)
{
	return &p->lane->server->quotas->bucket[p->slot < COORD_WORKERS_MAX ? p->slot : GUESTS];
}

/* Of a bucket that is not in use nothing is owed when it comes to be. */
static void fill(double *left, double rate, double seconds)
{
	*left += rate * seconds;
	if (*left > rate || rate <= 0)
		*left = rate;
}

static void stop_waiting(struct peer *p, int64_t now)
{
	struct server *s = p->lane->server;

	if (p->held_since && p->slot < COORD_WORKERS_MAX)
		atomic_fetch_add(&s->held[p->slot], (uint64_t)(now - p->held_since));
	p->held_since = 0;
}

/* Is there some left of it?  What is larger than the bucket is taken when that is full, and owed
 * for. */
static bool draw(struct bucket *b, double bytes, double pushes, const struct record *r, int64_t now)
{
	double seconds = b->at ? (double)(now - b->at) / NSEC_PER_SEC : 1;

	b->at = now;
	fill(&b->bytes, bytes, seconds);
	fill(&b->pushes, pushes, seconds);
	if ((bytes > 0 && b->bytes <= 0) || (pushes > 0 && b->pushes <= 0))
		return false;
	b->bytes -= cost_bytes(r);
	b->pushes -= cost_pushes(r);
	return true;
}

bool quota_takes(struct peer *p, const struct record *r)
{
	struct server *s = p->lane->server;
	double bytes = (double)atomic_load_explicit(&s->quota_bytes, memory_order_relaxed);
	double pushes = (double)atomic_load_explicit(&s->quota_pushes, memory_order_relaxed);
	int64_t now;
	bool takes;

	if (p->role != ROLE_WORKER || (bytes <= 0 && pushes <= 0 && !p->held_since))
		return true;
	now = clock_now();
	pthread_mutex_lock(&s->quotas->lock);
	takes = draw(bucket_of(p), bytes, pushes, r, now);
	pthread_mutex_unlock(&s->quotas->lock);
	stop_waiting(p, now);
	if (!takes)
		p->held_since = now;
	return takes;
}

void quota_returns(struct peer *p, const struct record *r)
{
	struct server *s = p->lane->server;
	struct quotas *q = s->quotas;

	if (p->role != ROLE_WORKER || (!atomic_load_explicit(&s->quota_bytes, memory_order_relaxed) &&
	    !atomic_load_explicit(&s->quota_pushes, memory_order_relaxed)))
		return;
	pthread_mutex_lock(&q->lock);
	bucket_of(p)->bytes += cost_bytes(r);
	bucket_of(p)->pushes += cost_pushes(r);
	pthread_mutex_unlock(&q->lock);
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
