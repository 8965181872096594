/* SPDX-License-Identifier: ISC */
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/answer.h"
#include "relay/relay.h"
#include "relay/relay_shard.h"
#include "relay/uplink.h"
#include "session/tracer.h"
#include "server/quota.h"
#include "server/relayed_ranks.h"
#include "server/session_keys.h"

/* This process as a relay. Its shard has all partitions and makes no updates: it sums the pushes
 * of each step, and keeps the values that are pulled. The uplink exchanges both with the servers,
 * or with the relay above. Views are installed on the agent's thread. */

/* Makes the shard from the configuration of the first view. Session limits and suites are set
 * before s->shard, because I/O threads take records as soon as they see a shard. */
static enum err_code make_relay_shard(struct server *s, const struct view *view, struct err *e)
{
	struct shard_config cfg = { .wake = io_threads_wake, .forward = uplink_forward, .ctx = s };
	struct shard *shard;
	struct conf conf;
	enum err_code rc = conf_from_json(view->config, &conf, e);

	if (rc)
		return rc;
	agent_set_pace(s->agent, conf.heartbeat, conf.deadline);
	server_know_sessions(s, &conf);
	cfg.mode = conf.sync;
	cfg.mem_limit = conf.mem_limit;
	rc = server_choose_suites(s, conf.suite, e);
	cfg.published = server_published(s);
	if (!rc)
		rc = relay_shard_new(&cfg, &shard, e);
	if (!rc)
		atomic_store(&s->shard, shard);
	conf_release(&conf);
	return rc;
}

/* Was this relay asked to leave, and does the view say that no worker uses it any more? */
static bool has_left_cluster(struct server *s, const struct view *view)
{
	return atomic_load(&s->leaving) &&
	    (relay_of(s)->number >= view->nrelays || !view->relays[relay_of(s)->number].live);
}

/* Make this process the only replica of every partition. Row policies are for the servers. */
static void place_all_here(struct layout *l)
{
	for (size_t t = 0; t < l->ntables; t++) {
		struct table *x = &l->table[t];

		x->policy = (struct row_policy){ 0 };
		if (!x->nruns)
			continue;
		x->nruns = 1;
		x->run[0] = (struct run){ .first = 0,
			.count = x->nparts,
			.nchain = 1,
			.joining = NO_SERVER,
			.leaving = NO_SERVER };
	}
}

/* Install the workers that use this relay (`ours`), or all others. The shard does not wait for
 * clocks of the others. */
static void take_relay_workers(struct server *s, const struct view *view, bool ours)
{
	struct member *m = mem_array(view->nworkers + 1, sizeof *m);
	size_t n = 0;

	for (size_t i = 0; i < view->nworkers; i++) {
		const struct view_worker *w = &view->workers[i];

		if (relayed_ranks_comes_here(s, w, (int)relay_of(s)->number) != ours ||
		    (ours && w->state == WORKER_JOINING && !w->first))
			continue;
		m[n++] = (struct member){ .rank = (uint32_t)i,
			.state = !ours                ? MEMBER_GONE
			    : w->state == WORKER_DONE ? MEMBER_DONE
			                              : MEMBER_ACTIVE,
			.incarnation = w->incarnation,
			.at = ours ? (uint64_t)w->from : 0 };
		if (!ours)
			uplink_forget(relay_of(s)->uplink, (uint32_t)i);
	}
	shard_take_members(atomic_load(&s->shard), m, n);
	free(m);
}

/* Installs a view on the agent's thread, in the order that other threads rely on: `installing`, the
 * layout, the relays, this relay's workers, `installed` and `generation`, the workers of others,
 * and at last the uplink. An error ends the process. */
static enum err_code take_relay_view(struct server *s, const struct view *view, struct err *e)
{
	enum err_code rc = ERR_OK;
	struct layout layout;

	/* The configuration may still be replaced by an older checkpoint's. */
	if (view->checking)
		return ERR_OK;
	if (!atomic_load(&s->shard))
		rc = make_relay_shard(s, view, e);
	if (!rc)
		rc = layout_from_json(view->layout, &layout, e);
	if (rc)
		return rc;
	session_keys_take(s, view->keys, view->nkeys, (uint64_t)view->keys_made);
	quota_configure(s, view->now);
	place_all_here(&layout);
	server_know_tables(s, &layout);
	atomic_store(&s->epochs.installing, layout.epoch);
	if (layout.epoch != atomic_load(&s->epochs.installed))
		rc = shard_install(atomic_load(&s->shard), &layout, NULL, e);
	/* Before `installed`: a thread that sees the new layout epoch must also see its relays. */
	relayed_ranks_install(s, view, (int)relay_of(s)->number);
	/* Our workers before `installed`, so that nothing is pulled in this layout epoch for a step
	 * before their clocks. The other workers after it: workers that have left this relay learn
	 * so from the layout epoch. */
	take_relay_workers(s, view, true);
	atomic_store(&s->epochs.members_known, true);
	atomic_store(&s->epochs.installed, layout.epoch);
	atomic_store(&s->epochs.generation, layout.generation);
	layout_release(&layout);
	if (rc)
		return rc;
	take_relay_workers(s, view, false);
	uplink_view(relay_of(s)->uplink, view, relay_of(s)->number);
	io_threads_wake(s);
	return ERR_OK;
}

/* For the agent: a view has arrived. The end of the job, or of this relay's work, ends the process
 * without an error. */
static void on_relay_view(void *ctx, const struct view *view)
{
	struct server *s = ctx;
	struct err e = { 0 };

	tracer_view(s->tracer, s->agent, view);
	if (view->ended || view_phase_is(view, PHASE_DONE) || view_phase_is(view, PHASE_FAILED) ||
	    view_phase_is(view, PHASE_STOPPED) || has_left_cluster(s, view))
		server_end(s, NULL);
	else if (take_relay_view(s, view, &e))
		server_end(s, &e);
}

/* Handles a message of the coordinator, relay_on_NAME. */
typedef void relay_message_fn(struct server *s, const struct message *m);
#define TO_SERVERS(name) static relay_message_fn relay_on_##name;
#include "msg/message.def"

static relay_message_fn *const handlers[MESSAGE_KINDS] = {
#define TO_SERVERS(name) [MESSAGE_##name] = relay_on_##name,
#include "msg/message.def"
};

static void relay_on_keys(struct server *s, const struct message *m)
{
	session_keys_take_message(s, &m->keys);
}

/* For the agent: handles a message of the coordinator that is not a view. Messages that
 * message.def does not define for relays are ignored, and malformed ones are logged. */
static void on_relay_notice(void *ctx, const json_t *json)
{
	struct server *s = ctx;
	struct message m;
	struct err e;

	if (message_decode(json, MESSAGE_COORDINATOR, &m, &e))
		log_warn(s->cfg.log, "invalid message from the coordinator: %s", e.msg);
	else if (handlers[m.kind])
		handlers[m.kind](s, &m);
}

static void on_relay_joined(void *ctx, const json_t *answer)
{
	struct server *s = ctx;

	struct answer_relay_join a;
	struct err e;

	if (answer_decode_relay_join(answer, &a, &e)) {
		server_end(s, &e);
		return;
	}
	relay_of(s)->number = (unsigned)a.relay;
	log_info(s->cfg.log, "joined as relay-%u for zone %s, data plane on %s",
	    relay_of(s)->number, s->cfg.zone, s->address);
}

static void on_relay_lost(void *ctx, const struct err *why)
{
	server_end(ctx, why);
}

/* Starts the uplink before the agent, because the first view is handed to it. The pace is the
 * configuration's once there is a view. */
static enum err_code relay_start(struct server *s, struct err *e)
{
	struct agent_config cfg = { .heartbeat = 200 * NSEC_PER_MSEC,
		.deadline = server_first_wait(s),
		.joined = on_relay_joined,
		.view = on_relay_view,
		.notice = on_relay_notice,
		.lost = on_relay_lost };
	enum err_code rc;

	s->role_state = mem_alloc(sizeof(struct relay));
	rc = uplink_start(s, e);

	return rc ? rc : server_join(s, &cfg, e);
}

/* Ends the uplink's thread and then the agent. Sessions may still use the uplink's functions
 * until relay_release. */
static void relay_stop(struct server *s)
{
	if (!s->role_state)
		return;
	uplink_stop(relay_of(s)->uplink);
	agent_stop(s->agent);
	s->agent = NULL;
}

static void relay_release(struct server *s)
{
	if (!s->role_state)
		return;
	uplink_free(relay_of(s)->uplink);
	free(s->role_state);
	s->role_state = NULL;
}

static json_t *relay_join_message(const struct server *s, const char *host)
{
	return MESSAGE(relay_join, .zone = s->cfg.zone, .pid = getpid(), .host = host,
	    .tcp = s->advertised, .unix_path = s->cfg.unix_path);
}

/* A relay has all partitions. */
static uint64_t relay_parts_here(const struct server *s, const struct table *t)
{
	(void)s;
	return t->nparts;
}

static bool relay_describe(struct server *s, char *out, size_t size)
{
	snprintf(out, size, "a relay, on %s", s->address);
	return true;
}

static uint64_t pass_clock(struct server *s, const struct rank_clock *c)
{
	return uplink_clock(relay_of(s)->uplink, c);
}

static uint64_t read_acked(struct server *s)
{
	return uplink_acked(relay_of(s)->uplink);
}

static void want_table(struct server *s, uint16_t table, uint64_t step, uint32_t epoch)
{
	uplink_request_table(relay_of(s)->uplink, table, step, epoch);
}

static bool want_rows(struct server *s, uint16_t table, uint32_t part, uint64_t step,
    uint32_t epoch, const uint8_t *ids, uint32_t n)
{
	return uplink_request_rows(relay_of(s)->uplink, table, part, step, epoch, ids, n);
}

static const struct server_upstream upstream = {
	.clock = pass_clock,
	.acked = read_acked,
	.want_table = want_table,
	.want_rows = want_rows,
};

const struct server_role relay_role = {
	.key_role = ROLE_RELAY,
	.upstream = &upstream,
	.join_message = relay_join_message,
	.start = relay_start,
	.stop = relay_stop,
	.release = relay_release,
	.parts_here = relay_parts_here,
	.describe = relay_describe,
};
