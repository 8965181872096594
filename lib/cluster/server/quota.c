/* SPDX-License-Identifier: ISC */
#include "server/quota.h"

#include <stdlib.h>

#include "core/json.h"
#include "core/lock.h"
#include "core/mem.h"

static double cost_in_bytes(const struct record *r)
{
	return (double)r->len + SESSION_HEADER_BYTES;
}

/* A push of several records counts with its first record. */
static double cost_in_pushes(const struct record *r)
{
	return r->offset == 0;
}

/* The bucket of all workers without a rank. Each rank has the bucket of its number. */
#define GUESTS COORD_WORKERS_MAX

struct quotas {
	struct mutex lock; /* bucket; taken only where there is a quota */
	struct bucket {
		/* The tokens that are left; below 0 after a push larger than the bucket. */
		double bytes, pushes;
		int64_t at; /* when it was refilled last; 0: never, it counts as full */
	} bucket[GUESTS + 1];
};

void quota_init(struct server *s)
{
	s->limits.quotas = mem_alloc(sizeof *s->limits.quotas);
	mutex_init(&s->limits.quotas->lock, LOCK_QUOTA);
}

void quota_release(struct server *s)
{
	if (s->limits.quotas)
		mutex_destroy(&s->limits.quotas->lock);
	free(s->limits.quotas);
}

/* quotas.lock is held by the callers that use the bucket. */
static struct bucket *bucket_of_worker(struct server_session *p)
{
	return &p->io_thread->server->limits.quotas
	            ->bucket[p->who.rank < COORD_WORKERS_MAX ? p->who.rank : GUESTS];
}

/* Add what `seconds` bring, at most a second's worth. A bucket without a quota (rate 0) is empty,
 * not in debt. */
static void refill_bucket(double *left, double rate, double seconds)
{
	*left += rate * seconds;
	if (*left > rate || rate <= 0)
		*left = rate;
}

/* Ends the time for which the session's push was delayed, and adds it to the figures of its rank,
 * in ns. */
static void count_held_time(struct server_session *p, int64_t now)
{
	struct server *s = p->io_thread->server;

	if (p->data.delayed_since && p->who.rank < COORD_WORKERS_MAX)
		atomic_fetch_add(&s->count.quota_delay[p->who.rank],
		    (uint64_t)(now - p->data.delayed_since));
	p->data.delayed_since = 0;
}

/* Take the cost of r from the bucket if anything is left in it. A push larger than the bucket is
 * taken, too, and leaves the bucket in debt. */
static bool draw_from_bucket(struct bucket *b, double bytes, double pushes, const struct record *r,
    int64_t now)
{
	double seconds = b->at ? (double)(now - b->at) / NSEC_PER_SEC : 1;

	b->at = now;
	refill_bucket(&b->bytes, bytes, seconds);
	refill_bucket(&b->pushes, pushes, seconds);
	if ((bytes > 0 && b->bytes <= 0) || (pushes > 0 && b->pushes <= 0))
		return false;
	b->bytes -= cost_in_bytes(r);
	b->pushes -= cost_in_pushes(r);
	return true;
}

bool quota_admit(struct server_session *p, const struct record *r)
{
	struct server *s = p->io_thread->server;
	double bytes = (double)atomic_load_explicit(&s->limits.quota_bytes, memory_order_relaxed);
	double pushes = (double)atomic_load_explicit(&s->limits.quota_pushes, memory_order_relaxed);
	int64_t now;
	bool takes;

	if (p->who.role != ROLE_WORKER)
		return true;
	now = clock_now();
	mutex_lock(&s->limits.quotas->lock);
	takes = draw_from_bucket(bucket_of_worker(p), bytes, pushes, r, now);
	mutex_unlock(&s->limits.quotas->lock);
	count_held_time(p, now);
	if (!takes)
		p->data.delayed_since = now;
	return takes;
}

void quota_refund(struct server_session *p, const struct record *r)
{
	struct server *s = p->io_thread->server;
	struct quotas *q = s->limits.quotas;

	if (p->who.role != ROLE_WORKER ||
	    (!atomic_load_explicit(&s->limits.quota_bytes, memory_order_relaxed) &&
	        !atomic_load_explicit(&s->limits.quota_pushes, memory_order_relaxed)))
		return;
	mutex_lock(&q->lock);
	bucket_of_worker(p)->bytes += cost_in_bytes(r);
	bucket_of_worker(p)->pushes += cost_in_pushes(r);
	mutex_unlock(&q->lock);
}

void quota_tick(struct io_thread *l)
{
	struct server_session *p, *next;

	for (p = l->sessions; p; p = next) {
		next = p->next;
		if (p->data.delayed_since)
			session_retry(p);
	}
}

void quota_configure(struct server *s, const struct view_now *now)
{
	atomic_store(&s->limits.quota_bytes, now ? (uint64_t)now->quota_bytes : 0);
	atomic_store(&s->limits.quota_pushes, now ? (uint64_t)now->quota_pushes : 0);
}

void quota_stats(struct server *s, json_t *o)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < COORD_WORKERS_MAX; i++) {
		uint64_t ns = atomic_load_explicit(&s->count.quota_delay[i], memory_order_relaxed);

		if (ns)
			json_array_append_new(list,
			    json_pack("[i, f]", (int)i, (double)ns / NSEC_PER_SEC));
	}
	if (json_array_size(list))
		json_object_set(o, "quota_held", list);
	json_decref(list);
}
