/* SPDX-License-Identifier: ISC */
#include "server/session_keys.h"

#include "core/json.h"
#include "core/lock.h"
#include "core/mem.h"
#include "server/server_coordinator.h"

/* ---- revoked keys ---- */

/* One round over all I/O threads. The last thread reports and frees it. */
struct recheck {
	struct server *server;
	uint64_t made;
	_Atomic unsigned left; /* I/O threads that have yet to recheck their sessions */
	struct mutex lock;     /* cut */
	json_t *cut;           /* {name of the key: number of sessions cut} */
};

/* Runs on the I/O thread that finished last. keys.lock keeps the agent alive meanwhile. The report
 * is repeated in each later session, because nothing else would cause another one. The coordinator
 * counts it once. */
static void report_cut_sessions(struct recheck *r)
{
	struct server *s = r->server;
	struct message_keys_checked checked = { .made = (int64_t)r->made, .cut = r->cut };

	rwlock_read(&s->keys.lock);
	if (!s->coordinator && s->agent && !atomic_load(&s->stopping))
		agent_tell_lasting(s->agent, "keys",
		    message_encode(MESSAGE_keys_checked, &checked));
	rwlock_unlock(&s->keys.lock);
	if (s->coordinator)
		s->cfg.coordinator->keys_checked(s->coordinator, &checked);
	json_decref(r->cut);
	mutex_destroy(&r->lock);
	free(r);
}

static void count_session(json_t *by_name, const char *name)
{
	json_object_set_new(by_name, name, json_integer(json_int(by_name, name, 0) + 1));
}

/* Also cut sessions that have been admitted and have not sent their first record yet. */
static void recheck_io_thread(void *ctx)
{
	struct recheck *r = ctx;
	struct io_thread *l = r->server->io_thread;
	struct server_session *p, *next;

	while (!pthread_equal(l->thread, pthread_self()))
		l++;
	for (p = l->sessions; p; p = next) {
		next = p->next;
		if (p->who.role == ROLE_NONE ||
		    session_admit_knows_key(r->server, p->who.key, p->who.role, &p->who.expires))
			continue;
		log_warn(l->server->cfg.log, "the key of %s is revoked: closing its session",
		    p->who.name);
		mutex_lock(&r->lock);
		count_session(r->cut, p->who.name);
		mutex_unlock(&r->lock);
		session_close(p);
	}
	if (atomic_fetch_sub(&r->left, 1) == 1)
		report_cut_sessions(r);
}

void session_keys_recheck(struct server *s, uint64_t made)
{
	struct recheck *r = mem_alloc(sizeof *r);

	r->server = s;
	r->made = made;
	r->left = s->nio_threads;
	r->cut = json_object();
	mutex_init(&r->lock, LOCK_RECHECK);
	for (unsigned i = 0; i < s->nio_threads; i++)
		loop_post(s->io_thread[i].loop, recheck_io_thread, r);
}

/* ---- keys of a view ---- */

void session_keys_take(struct server *s, const struct view_key *keys, size_t n, uint64_t made)
{
	struct keyring *ring, *old;
	struct err e;

	/* Most views do not change the keys. The agent's thread alone writes keys.made here, so it
	 * may read it without keys.lock. */
	if (made == s->keys.made)
		return;
	ring = keyring_new();
	for (size_t i = 0; i < n; i++) {
		const struct view_key *k = &keys[i];
		struct keyring_entry entry = { .expires = k->expires };

		snprintf(entry.name, sizeof entry.name, "%s", k->name);
		if (!role_parse(k->role, &entry.role) || !key_from_text(k->key, entry.pk) ||
		    keyring_add(ring, &entry, &e))
			log_warn(s->cfg.log, "invalid key in the view");
	}
	rwlock_write(&s->keys.lock);
	old = s->keys.ring;
	s->keys.ring = ring;
	s->keys.made = made;
	atomic_store(&s->keys.known, true);
	rwlock_unlock(&s->keys.lock);
	keyring_free(old);
	session_keys_recheck(s, made);
}

void session_keys_take_message(struct server *s, const struct message_keys *m)
{
	struct view_key *keys;
	uint64_t n;
	struct err e;

	if (view_decode_keys(m->keys, &keys, &n, &e)) {
		log_warn(s->cfg.log, "invalid keys from the coordinator: %s", e.msg);
		return;
	}
	session_keys_take(s, keys, n, (uint64_t)m->keys_made);
	free(keys);
}

/* ---- expired keys ---- */

void session_keys_expire(struct io_thread *l)
{
	int64_t now = clock_wall() / NSEC_PER_SEC;
	struct server_session *p, *next;

	for (p = l->sessions; p; p = next) {
		next = p->next;
		if (!p->who.expires || now < p->who.expires)
			continue;
		/* The key may have got a later date since. */
		if (session_admit_knows_key(l->server, p->who.key, p->who.role, &p->who.expires))
			continue;
		log_warn(l->server->cfg.log, "the key of %s has expired: closing its session",
		    p->who.name);
		session_close(p);
	}
}

/* ---- the census ---- */

/* One count over all I/O threads. It lies on the stack of the thread that waits. */
struct census {
	struct mutex lock; /* all of this */
	pthread_cond_t done;
	struct server *server;
	unsigned left;
	json_t *sessions;
};

/* Runs once on each I/O thread. The signal is given with the lock held, because the struct ends
 * when the waiting thread has it. */
static void count_io_thread_sessions(void *ctx)
{
	struct census *c = ctx;
	struct io_thread *l = c->server->io_thread;

	while (!pthread_equal(l->thread, pthread_self()))
		l++;
	mutex_lock(&c->lock);
	for (const struct server_session *p = l->sessions; p; p = p->next)
		if (conn_is_live(p->conn) && p->state != SESSION_CLOSING)
			count_session(c->sessions, p->who.name);
	if (--c->left == 0)
		pthread_cond_signal(&c->done);
	mutex_unlock(&c->lock);
}

json_t *session_keys_census(struct server *s)
{
	struct census c = { .server = s, .left = s->nio_threads, .sessions = json_object() };

	/* The server is still starting: there are no sessions, and nobody would do the posted
	 * work. */
	if (!atomic_load(&s->io_threads_run))
		return c.sessions;
	mutex_init(&c.lock, LOCK_CENSUS);
	pthread_cond_init(&c.done, NULL);
	for (unsigned i = 0; i < s->nio_threads; i++)
		loop_post(s->io_thread[i].loop, count_io_thread_sessions, &c);
	mutex_lock(&c.lock);
	while (c.left)
		mutex_wait(&c.done, &c.lock);
	mutex_unlock(&c.lock);
	pthread_cond_destroy(&c.done);
	mutex_destroy(&c.lock);
	return c.sessions;
}
