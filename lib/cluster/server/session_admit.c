/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "server/server_state.h"
#include "state/state_store.h"

/* Admission: which clients may have a session. The server's side of the handshake. */

/* Looks the key up and copies role, name and date of expiry to the session. ERR_NOTREADY before the
 * first ring has arrived; ERR_AUTH for an unknown or expired key. Takes keys.lock for reading. */
static enum err_code find_client_key(struct server *s, const uint8_t key[32],
    struct server_session *p, struct err *e)
{
	const struct keyring_entry *entry;
	enum err_code rc = ERR_OK;

	rwlock_read(&s->keys.lock);
	entry = keyring_find(s->keys.ring, key, clock_wall() / NSEC_PER_SEC);
	if (entry) {
		p->who.role = entry->role;
		p->who.expires = entry->expires;
		snprintf(p->who.name, sizeof p->who.name, "%s", entry->name);
	} else if (!atomic_load(&s->keys.known)) {
		rc = err_set(e, ERR_NOTREADY, "the coordinator has not sent the keys yet");
	} else {
		rc = err_set(e, ERR_AUTH, "a key that is not in authorized_keys");
	}
	rwlock_unlock(&s->keys.lock);
	return rc;
}

bool session_admit_knows_key(struct server *s, const uint8_t key[KEY_BYTES], enum role role,
    int64_t *expires)
{
	const struct keyring_entry *entry;
	bool known;

	rwlock_read(&s->keys.lock);
	entry = keyring_find(s->keys.ring, key, clock_wall() / NSEC_PER_SEC);
	known = entry && entry->role == role;
	if (known && expires)
		*expires = entry->expires;
	rwlock_unlock(&s->keys.lock);
	return known;
}

/* Does mem_limit leave room for one more session, beside the booked partitions and the other
 * sessions? */
static bool has_session_memory(struct server *s)
{
	struct shard *sh = atomic_load(&s->shard);
	uint64_t limit = atomic_load(&s->limits.mem_limit);

	return !limit || !sh ||
	    shard_booked(sh) +
	        ((uint64_t)atomic_load(&s->count.sessions) + 1) * server_session_memory(s) <=
	    limit;
}

/* May another coordinator have taken over? After this one stood still its ticker may not have noticed
 * yet that its time has passed. */
static bool is_past_its_time(const struct server *s)
{
	return atomic_load(&s->aside) ||
	    (s->state_store && !s->cfg.role &&
	        clock_now() > atomic_load(&s->state_store->owned_until));
}

enum err_code session_admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e)
{
	struct server_session *p = ctx;
	struct server *s = p->io_thread->server;
	enum err_code rc = find_client_key(s, key, p, e);

	if (rc)
		return rc;
	if (is_past_its_time(s))
		return err_set(e, ERR_NOTREADY,
		    "this coordinator cannot reach its state, and another one may have taken over");
	memcpy(p->who.key, key, sizeof p->who.key);
	key_to_text(key, p->who.keytext);
	p->who.incarnation = info->incarnation;
	p->who.rank = info->rank;
	p->control.self.incarnation = info->incarnation;
	p->control.self.name = p->who.name;
	p->control.self.key = p->who.keytext;
	p->control.self.kind = p->who.role == ROLE_ADMIN ? COORD_ADMIN : COORD_NOBODY;
	if (p->who.rank != RANK_NONE && p->who.role == ROLE_WORKER) {
		struct shard *sh = atomic_load(&s->shard);

		/* Before its first view a server cannot tell which incarnations are fenced. */
		if (!sh || !atomic_load(&s->epochs.members_known))
			return err_set(e, ERR_NOTREADY,
			    "the coordinator has not sent the workers yet");
		if (!shard_incarnation_holds(sh, p->who.rank, p->who.incarnation))
			return err_set(e, ERR_FENCED, "%s is not the holder of rank %u",
			    p->who.name, p->who.rank);
		if (!shard_key_holds(sh, p->who.rank, key))
			return err_set(e, ERR_FORBIDDEN,
			    "rank %u belongs to another key than that of %s", p->who.rank,
			    p->who.name);
	}
	if (!has_session_memory(s))
		return err_because(e, ERR_LIMIT, CAUSE_MEM_LIMIT,
		    "mem_limit leaves no memory for another session");
	reply->incarnation = s->incarnation;
	reply->epoch = atomic_load(&s->epochs.installed);
	reply->generation = atomic_load(&s->epochs.generation);
	reply->max_record = RECORD_MAX;
	reply->lifetime_seconds = SESSION_LIFETIME / NSEC_PER_SEC;
	reply->credit = SESSION_CREDIT;
	/* With a mem_limit, memory is shared only if the limit reckons with it. */
	reply->shares = atomic_load(&s->limits.shares) || !atomic_load(&s->limits.mem_limit);
	return ERR_OK;
}

void session_live(void *ctx, const struct hs_server_info *unused)
{
	struct server_session *p = ctx;

	(void)unused;
	/* The descriptor gives access to all dense parameters of this server. A reader can fill the
	 * whole memory with pages, which mem_limit does not count. */
	if (record_role_may(REC_PULL, p->who.role) &&
	    !atomic_load(&p->io_thread->server->limits.mem_limit))
		conn_publish(p->conn, p->io_thread->server->published);
	/* mem_limit does not count the memory of workers that the server maps. */
	if (record_role_may(REC_PUSH, p->who.role) &&
	    !atomic_load(&p->io_thread->server->limits.mem_limit))
		conn_borrow(p->conn);
	p->io_thread->half_open--;
	atomic_fetch_sub(&p->io_thread->server->count.half_open, 1);
	atomic_fetch_add(&p->io_thread->server->count.sessions, 1);
	log_debug(p->io_thread->server->cfg.log, "%s (%s) connected", p->who.name,
	    role_name(p->who.role));
}
