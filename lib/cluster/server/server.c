/* SPDX-License-Identifier: ISC */
#include <sodium.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/procstat.h"
#include "core/signals.h"
#include "msg/large_description.h"
#include "server/relayed_ranks.h"
#include "server/server_coordinator.h"
#include "server/server_role.h"
#include "socket/published.h"
#include "rundir/rundir.h"
#include "session/tracer.h"
#include "socket/listen_address.h"
#include "server/descriptor_limit.h"
#include "server/quota.h"
#include "server/session_keys.h"

#define THREADS_MAX 4u
/* How long a store waits in server_wait_for_room, and the pause between two attempts. */
#define STORE_WAITS (30 * NSEC_PER_SEC)
#define ROOM_PAUSE  (200 * NSEC_PER_MSEC)
/* How long a store or a relay waits for its first session, unless it was told, and the pause
 * between two attempts to resolve the coordinator's name. */
#define FIRST_WAIT (60 * NSEC_PER_SEC)
#define NAME_PAUSE (200 * NSEC_PER_MSEC)

/* One for each processor that this process may use. */
static unsigned default_threads(void)
{
	unsigned n = procstat_processors();

	return n > THREADS_MAX ? THREADS_MAX : n;
}

/* With "auto", payloads are in clear text on this host, and sealed beyond it. */
enum err_code server_choose_suites(struct server *s, const char *name, struct err *e)
{
	enum suite local, remote;
	enum err_code rc = suites_choose(name, &local, &remote, e);

	if (rc)
		return rc;
	atomic_store(&s->limits.local_suite, local);
	atomic_store(&s->limits.remote_suite, remote);
	return ERR_OK;
}

int64_t server_first_wait(const struct server *s)
{
	return s->cfg.first_wait ? s->cfg.first_wait : FIRST_WAIT;
}

enum err_code server_choose_address(const struct server *s, const struct choice *c,
    char out[static NET_TEXT], const char **why, struct err *e)
{
	const struct timespec pause = { 0, NAME_PAUSE };
	int64_t begin = clock_now(), wait = server_first_wait(s);
	bool said = false;
	enum err_code rc;

	while ((rc = listen_address_choose(c, out, why, e)) == ERR_UNREACH &&
	    e->cause == CAUSE_NAME && !signals_end_is_pending() && clock_now() - begin < wait) {
		if (!said)
			log_warn(s->cfg.log, "%s: trying again for up to %lld s", e->msg,
			    (long long)(wait / NSEC_PER_SEC));
		said = true;
		nanosleep(&pause, NULL);
	}
	if (!rc)
		*e = (struct err){ 0 };
	return rc;
}

/* Chooses the advertised address. */
static enum err_code choose_address(struct server *s, struct err *e)
{
	const struct choice choice = { .iface = s->cfg.iface ? s->cfg.iface
		    : s->cfg.conf                            ? "*"
		                                             : NULL,
		.towards = s->cfg.id->data };
	const char *want = s->cfg.advertise, *why = "";
	char host[NET_TEXT];
	enum err_code rc = ERR_OK;

	if (!want && listen_address_is_any(s->address) &&
	    !(rc = server_choose_address(s, &choice, host, &why, e)))
		listen_address_with_port(host, s->address, s->advertised);
	else
		listen_address_advertise(want, s->address, s->advertised);
	log_info(s->cfg.log, "data plane on %s (%s)%s%s%s%s%s", s->address, s->address_reason,
	    strcmp(s->address, s->advertised) ? ", advertised as " : "",
	    strcmp(s->address, s->advertised) ? s->advertised : "", *why ? " (" : "", why,
	    *why ? ")" : "");
	return rc;
}

enum err_code server_join(struct server *s, struct agent_config *cfg, struct err *e)
{
	const struct identity *id = s->cfg.id;
	char host[64] = "";
	enum err_code rc;

	gethostname(host, sizeof host - 1);
	cfg->addr[0] = id->local;
	cfg->addr[1] = id->data;
	cfg->id = &id->conn;
	cfg->info = (struct hs_client_info){ .incarnation = s->incarnation,
		.rank = RANK_NONE,
		.role = s->cfg.role->key_role };
	memcpy(cfg->info.cluster, id->conn.cluster, sizeof cfg->info.cluster);
	memcpy(cfg->server_key, id->server_key, sizeof cfg->server_key);
	cfg->log = s->cfg.log;
	cfg->ctx = s;
	cfg->stats = server_stats;
	cfg->join = s->cfg.role->join_message(s, host);
	rc = agent_start(cfg, &s->agent, e);
	json_decref(cfg->join);
	return rc;
}

/* The version of a new ring: microseconds since 1970, so that it is also greater than the
 * versions of an earlier coordinator. */
static uint64_t next_keys_made(uint64_t last)
{
	uint64_t now = (uint64_t)(clock_wall() / (NSEC_PER_MSEC / 1000));

	return now > last ? now : last + 1;
}

enum err_code server_reload_keys(struct server *s, uint64_t *made, struct err *e)
{
	struct keyring *ring, *old;
	char *path;
	enum err_code rc;

	if (!s->coordinator || !s->cfg.id->run_dir)
		return ERR_OK; /* a store gets its keys with the view */
	path = rundir_path(s->cfg.id->run_dir, "keys/authorized_keys");
	rc = keyring_load(path, &ring, e);
	free(path);
	if (rc)
		return rc;
	rwlock_write(&s->keys.lock);
	old = s->keys.ring;
	s->keys.ring = ring;
	s->keys.made = *made = next_keys_made(s->keys.made);
	rwlock_unlock(&s->keys.lock);
	keyring_free(old);
	session_keys_recheck(s, *made);
	s->cfg.coordinator->keys_changed(s->coordinator);
	return ERR_OK;
}

void server_forget_key(struct server *s, const char *name, uint64_t *made)
{
	rwlock_write(&s->keys.lock);
	keyring_remove(s->keys.ring, name);
	s->keys.made = *made = next_keys_made(s->keys.made);
	rwlock_unlock(&s->keys.lock);
	session_keys_recheck(s, *made);
	s->cfg.coordinator->keys_changed(s->coordinator);
}

enum err_code server_reload(struct server *s, struct err *e)
{
	uint64_t made;

	return server_reload_keys(s, &made, e);
}

/* A coordinator reads authorized_keys before the first connection; others begin with an empty
 * ring and admit nobody until their first view. */
static enum err_code load_first_keys(struct server *s, struct err *e)
{
	char *path;
	enum err_code rc;

	if (!s->cfg.coordinator) {
		s->keys.ring = keyring_new();
		return ERR_OK;
	}
	path = rundir_path(s->cfg.id->run_dir, "keys/authorized_keys");
	rc = keyring_load(path, &s->keys.ring, e);
	free(path);
	s->keys.made = next_keys_made(0);
	atomic_store(&s->keys.known, !rc);
	return rc;
}

/* A process that a user starts for the first time fails at once. A store does not know whether it
 * has been started again, and waits for room only. */
static bool may_wait_for_room(const struct server *s, const struct err *e)
{
	if (s->cfg.coordinator)
		return s->state != NULL;
	return e->cause == CAUSE_NO_SPACE || e->cause == CAUSE_DISK_QUOTA;
}

bool server_wait_for_room(const struct server *s, int64_t *since, struct err *e)
{
	const struct timespec pause = { 0, ROOM_PAUSE };
	int64_t now = clock_now(), most = s->cfg.conf ? s->cfg.conf->deadline : STORE_WAITS;

	if (e->code != ERR_IO || !may_wait_for_room(s, e) || signals_end_is_pending() ||
	    (*since && now - *since > most))
		return false;
	if (!*since) {
		*since = now;
		log_error(s->cfg.log, "%s: trying again for up to %lld s", e->msg,
		    (long long)(most / NSEC_PER_SEC));
	}
	*e = (struct err){ 0 };
	nanosleep(&pause, NULL);
	return true;
}

enum err_code server_start(const struct server_config *cfg, struct server **out, struct err *e)
{
	struct server *s = mem_alloc(sizeof *s);
	struct err no_memory;
	enum err_code rc;

	s->cfg = *cfg;
	s->nio_threads = cfg->threads ? cfg->threads : default_threads();
	s->end.event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	randombytes_buf(&s->incarnation, sizeof s->incarnation);
	s->began = clock_wall();
	s->tracer = tracer_new();
	s->steps = session_trace_steps_new();
	s->incarnation >>= 1; /* never UINT64_MAX, which means "nobody" */
	rwlock_init(&s->keys.lock, LOCK_KEYS);
	quota_init(s);
	mutex_init(&s->end.lock, LOCK_END);
	mutex_init(&s->parser.lock, LOCK_PARSER);
	pthread_cond_init(&s->parser.woken, NULL);
	s->parser.last = &s->parser.first;
	s->listener[0].fd = s->listener[1].fd = -1;
	rc = server_choose_suites(s, cfg->conf ? cfg->conf->suite : "auto", e);
	descriptor_limit_raise(s);
	if (!rc && cfg->conf)
		rc = descriptor_limit_check(s, cfg->conf, e);
	if (!rc)
		rc = load_first_keys(s, e);
	if (!rc)
		rc = cfg->coordinator ? cfg->coordinator->find_earlier(s, e) : ERR_OK;
	if (!rc)
		rc = io_threads_prepare(s, e);
	if (!rc && cfg->role && published_new(&s->published, &no_memory))
		log_debug(cfg->log, "clients get copies of parameters: %s", no_memory.msg);
	if (!rc)
		rc = choose_address(s, e);
	if (!rc && cfg->coordinator)
		rc = cfg->coordinator->start(s, e);
	if (!rc)
		rc = io_threads_start(s, e);
	if (!rc && cfg->role)
		rc = cfg->role->start(s, e);
	if (rc) {
		server_stop(s);
		s = NULL;
	}
	*out = s;
	return rc;
}

/* The file may be the socket of another coordinator: one that has taken over, or one that was faster while
 * this process tried to. */
static void remove_socket(const struct server *s)
{
	struct stat st;

	if (s->socket_ino && lstat(s->cfg.unix_path, &st) == 0 && st.st_dev == s->socket_dev &&
	    st.st_ino == s->socket_ino)
		unlink(s->cfg.unix_path);
}

void server_stop(struct server *s)
{
	struct shard *shard;

	if (!s)
		return;
	/* After this no I/O thread uses the agent: report_cut_sessions holds keys.lock and tests
	 * `stopping`. */
	rwlock_write(&s->keys.lock);
	atomic_store(&s->stopping, true);
	rwlock_unlock(&s->keys.lock);
	if (s->cfg.role)
		s->cfg.role->stop(s);
	atomic_store(&s->coordinator_stopping, true);
	if (s->coordinator)
		s->cfg.coordinator->stop(s->coordinator);
	io_threads_stop(s);
	atomic_store(&s->role_waits, false);
	if (s->cfg.role)
		s->cfg.role->release(s);
	if (s->cfg.coordinator)
		s->cfg.coordinator->free(s);
	shard = atomic_load(&s->shard);
	shard_free(shard);
	published_free(s->published);
	state_free(s->state);
	json_decref(s->state_document);
	large_description_release(s->description);
	json_decref(s->load.push_rates);
	keyring_free(s->keys.ring);
	quota_release(s);
	relayed_ranks_free(s->keys.relays);
	tracer_free(s->tracer);
	session_trace_steps_free(s->steps);
	remove_socket(s);
	close(s->end.event);
	rwlock_destroy(&s->keys.lock);
	mutex_destroy(&s->end.lock);
	mutex_destroy(&s->parser.lock);
	pthread_cond_destroy(&s->parser.woken);
	free(s);
}

struct published *server_published(const struct server *s)
{
	/* Places that are given back keep their pages, which mem_limit does not count. */
	return atomic_load(&s->limits.shares) && !atomic_load(&s->limits.mem_limit) ? s->published
	                                                                            : NULL;
}

bool server_checkpoint(struct server *s)
{
	return s->coordinator && s->cfg.coordinator->checkpoint(s->coordinator);
}

bool server_leave(struct server *s, int sig)
{
	if (s->coordinator)
		return s->cfg.coordinator->leave(s->coordinator, sig);
	atomic_store(&s->leaving, true);
	/* The coordinator first moves our partitions to other servers, then sends "leave". If the
	 * session breaks, we ask again in the next one. */
	agent_tell_lasting(s->agent, "leave", MESSAGE(leave));
	return false;
}

int64_t server_moved_at(struct server *s)
{
	if (s->coordinator)
		return 0;
	return atomic_load(&s->moving) && agent_is_up(s->agent) ? clock_now()
	                                                        : atomic_load(&s->moved_at);
}

/* Only the first reason to end counts, and so does whether it lets the program begin again. */
static void end_server(struct server *s, const struct err *why, bool again)
{
	uint64_t one = 1;

	mutex_lock(&s->end.lock);
	if (!s->end.ended) {
		s->end.again = again;
		if (why)
			s->end.why = *why;
	}
	s->end.ended = true;
	mutex_unlock(&s->end.lock);
	if (write(s->end.event, &one, sizeof one) < 0)
		return; /* full: it is readable already */
}

void server_end(struct server *s, const struct err *why)
{
	end_server(s, why, false);
}

bool server_is_ending(const struct server *s)
{
	return atomic_load(&s->stopping) || atomic_load(&s->leaving) ||
	    (s->coordinator && s->cfg.coordinator->ended(s->coordinator));
}

void server_end_again(struct server *s, const struct err *why)
{
	end_server(s, why, true);
}

void server_end_overtaken(struct server *s, const struct err *why)
{
	end_server(s, why, s->cfg.standby);
}

bool server_begins_again(struct server *s)
{
	bool again;

	mutex_lock(&s->end.lock);
	again = s->end.again;
	mutex_unlock(&s->end.lock);
	return again;
}

bool server_ended(struct server *s, struct err *why)
{
	bool ended;

	mutex_lock(&s->end.lock);
	ended = s->end.ended;
	*why = s->end.why;
	mutex_unlock(&s->end.lock);
	return ended;
}

int server_fd(const struct server *s)
{
	return s->end.event;
}

struct shard *server_shard(struct server *s)
{
	return atomic_load(&s->shard);
}

void server_as_of(struct server *s, int64_t then)
{
	atomic_store(&s->as_of, then);
}

void server_hold(struct server *s, bool held)
{
	atomic_store(&s->held, held);
}

int64_t server_values_as_of(struct server *s)
{
	return atomic_load(&s->as_of);
}
