#include "server/lane_keys.h"

#include "base/json.h"
#include "base/mem.h"

/* ---- revoked ------------------------------------------------------------------------ */

struct recheck {
	struct server *server;
	uint64_t made;
	_Atomic unsigned left;          /* lanes that have yet to look */
	pthread_mutex_t lock;           /* cut */
	json_t *cut;                    /* how many, by name */
};

static void tell(struct recheck *r)
{
	struct server *s = r->server;
	json_t *msg = json_pack("{s:s, s:I, s:O}", "op", "keys", "made", (json_int_t)r->made, "cut", r->cut);

	pthread_rwlock_rdlock(&s->keys_lock);
	if (!s->host && s->agent && !atomic_load(&s->stopping))
		agent_tell(s->agent, msg);
	pthread_rwlock_unlock(&s->keys_lock);
	if (s->host)
		host_keys_checked(s->host, msg);
	json_decref(msg);
	json_decref(r->cut);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static void count(json_t *by_name, const char *name)
{
	json_object_set_new(by_name, name, json_integer(json_int(by_name, name, 0) + 1));
}

/* One that has been admitted and has not yet sent its first record has no less to lose. */
static void recheck(void *ctx)
{
	struct recheck *r = ctx;
	struct lane *l = r->server->lane;
	struct peer *p, *next;

	while (!pthread_equal(l->thread, pthread_self()))
		l++;
	for (p = l->peers; p; p = next) {
		next = p->next;
		if (p->role == ROLE_NONE || server_knows(r->server, p->key, p->role, &p->expires))
			continue;
		log_warn(l->server->cfg.log, "the key of %s is revoked: its session is cut", p->name);
		pthread_mutex_lock(&r->lock);
		count(r->cut, p->name);
		pthread_mutex_unlock(&r->lock);
		peer_close(p);
	}
	if (atomic_fetch_sub(&r->left, 1) == 1)
		tell(r);
}

void lanes_recheck(struct server *s, uint64_t made)
{
	struct recheck *r = mem_alloc(sizeof *r);

	r->server = s;
	r->made = made;
	r->left = s->nlanes;
	r->cut = json_object();
	pthread_mutex_init(&r->lock, NULL);
	for (unsigned i = 0; i < s->nlanes; i++)
		loop_post(s->lane[i].loop, recheck, r);
}

/* ---- from a view -------------------------------------------------------------------- */

void store_take_keys(struct server *s, const json_t *view)
{
	const json_t *keys = json_object_get(view, "keys"), *k;
	uint64_t made = (uint64_t)json_int(view, "keys_made", 0);
	struct keyring *ring, *old;
	struct err e;
	size_t i;

	/* Most views tell of something else. */
	if (made == s->keys_made)
		return;
	ring = keyring_new();
	json_array_foreach(keys, i, k) {
		struct keyring_entry entry = { .expires = json_int(k, "expires", 0) };

		snprintf(entry.name, sizeof entry.name, "%s", json_str(k, "name", ""));
		if (!role_parse(json_str(k, "role", ""), &entry.role) || !key_from_text(json_str(k, "key", ""), entry.pk) ||
		    keyring_add(ring, &entry, &e))
			log_warn(s->cfg.log, "a key in the view is not understood");
	}
	pthread_rwlock_wrlock(&s->keys_lock);
	old = s->ring;
	s->ring = ring;
	s->keys_made = made;
	atomic_store(&s->keys_known, true);
	pthread_rwlock_unlock(&s->keys_lock);
	keyring_free(old);
	lanes_recheck(s, made);
}

/* ---- expired ------------------------------------------------------------------------ */

void lane_expire(struct lane *l)
{
	int64_t now = clock_wall() / NSEC_PER_SEC;
	struct peer *p, *next;

	for (p = l->peers; p; p = next) {
		next = p->next;
		if (!p->expires || now < p->expires)
			continue;
		/* It may have been given a later date since. */
		if (server_knows(l->server, p->key, p->role, &p->expires))
			continue;
		log_warn(l->server->cfg.log, "the key of %s has expired: its session is cut", p->name);
		peer_close(p);
	}
}

/* ---- counted ------------------------------------------------------------------------ */

struct census {
	pthread_mutex_t lock;           /* all of this */
	pthread_cond_t done;
	struct server *server;
	unsigned left;
	json_t *sessions;
};

static void take_census(void *ctx)
{
	struct census *c = ctx;
	struct lane *l = c->server->lane;

	while (!pthread_equal(l->thread, pthread_self()))
		l++;
	pthread_mutex_lock(&c->lock);
	for (const struct peer *p = l->peers; p; p = p->next)
		if (conn_is_live(p->conn) && !p->doomed)
			count(c->sessions, p->name);
	if (--c->left == 0)
		pthread_cond_signal(&c->done);
	pthread_mutex_unlock(&c->lock);
}

json_t *lanes_census(struct server *s)
{
	struct census c = { .server = s, .left = s->nlanes, .sessions = json_object() };

	/* While it starts: nobody has a session. */
	if (!atomic_load(&s->lanes_run))
		return c.sessions;
	pthread_mutex_init(&c.lock, NULL);
	pthread_cond_init(&c.done, NULL);
	for (unsigned i = 0; i < s->nlanes; i++)
		loop_post(s->lane[i].loop, take_census, &c);
	pthread_mutex_lock(&c.lock);
	while (c.left)
		pthread_cond_wait(&c.done, &c.lock);
	pthread_mutex_unlock(&c.lock);
	pthread_cond_destroy(&c.done);
	pthread_mutex_destroy(&c.lock);
	return c.sessions;
}
