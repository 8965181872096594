#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "ckpt/read.h"
#include "client/tracer.h"
#include "conf/rule.h"
#include "server/far.h"
#include "server/given.h"
#include "server/live.h"
#include "server/quota.h"
#include "server/repl.h"
#include "server/save.h"

/* This process as a store: it joins, takes every view over, votes. */

/* ---- configuration -------------------------------------------------------------------- */

/* The checkpoint that the job goes on from; no more of it is checked than has
 * been by who chose it. */
static enum err_code open_restore(struct server *s, const char *path, struct err *e)
{
	if (!*path)
		return ERR_OK;
	return s->cfg.id->run_dir ? ckpt_open(path, &s->restore, e) : far_restore(s, &s->restore, e);
}

/* Every worker's and every server's, and one of a tool; a coordinator has as many
 * again, for views and heartbeats. */
static uint64_t sessions_of(const struct server *s, uint64_t workers, uint64_t servers)
{
	return (workers + servers) * (s->host ? 2 : 1) + 1;
}

void server_know_sessions(struct server *s, const struct conf *conf)
{
	atomic_store(&s->takes_keys, strcmp(conf->row_ids, "raw") != 0);
	atomic_store(&s->shares, conf_shares_memory(conf));
	lanes_spin(s, conf->spin);
}

void server_know_tables(struct server *s, const struct layout *l)
{
	uint64_t asked = PEER_ASKED;
	bool sparse = atomic_load(&s->sparse);

	for (size_t i = 0; i < l->ntables; i++) {
		if (l->table[i].dropped)
			continue;
		sparse |= l->table[i].sparse;
		asked += PEER_ASKED_TABLE + (uint64_t)l->table[i].nparts * PEER_ASKED_PART;
	}
	/* Row ids take room. */
	atomic_store(&s->asked, sparse || asked > PEER_CREDIT ? PEER_CREDIT : asked);
	atomic_store(&s->sparse, sparse);
}

uint64_t server_session_memory(struct server *s)
{
	return (atomic_load(&s->takes_keys) ? PEER_MEMORY_KEYS : PEER_MEMORY) + (atomic_load(&s->shares) ? PEER_SHARED : 0);
}

/* One record that comes and answers that wait, with as much again of buffers that are kept;
 * questions, or one push that is staged; promises and receipts. */
uint64_t server_session_bound(struct server *s, uint64_t sessions, uint64_t parts)
{
	bool sparse = atomic_load(&s->sparse);
	uint64_t answers = 2 * (peer_queue(sessions) + (sparse ? RECORD_MAX : PART_ELEMENTS * 4));
	uint64_t asked = atomic_load(&s->asked) + (sparse ? PEER_CREDIT : 0);
	uint64_t keys = sparse && atomic_load(&s->takes_keys) ? KEYCACHE_BYTES + KEYS_MAX * 8 : 0;

	return RECORD_MAX + answers + asked + keys + (atomic_load(&s->shares) ? PEER_SHARED : 0) +
	    parts * 2 * (sizeof(struct promise) + MSG_RECEIPT_BYTES);
}

/* What is left of mem_limit for tables, beside the sessions.  ERR_CONFIG when that
 * is nothing. */
static enum err_code limit_tables(struct server *s, const struct conf *conf, uint64_t *out, struct err *e)
{
	uint64_t workers = conf_trains(conf) ? (uint64_t)conf->workers.max : 0;
	uint64_t sessions = sessions_of(s, workers, (uint64_t)conf->servers) * server_session_memory(s);

	*out = 0;
	s->mem_limit = conf->mem_limit;
	if (!conf->mem_limit)
		return ERR_OK;
	if (conf->mem_limit <= sessions)
		return err_set(e, ERR_CONFIG, "mem_limit: %llu bytes are less than the sessions of %lld workers and %lld servers may take, "
		    "which is %llu", (unsigned long long)conf->mem_limit, (long long)conf->workers.max, (long long)conf->servers,
		    (unsigned long long)sessions);
	*out = conf->mem_limit - sessions;
	return ERR_OK;
}

/* First values from a file, which a worker may have brought since the first view. */
static enum err_code find_first(struct server *s, struct err *e)
{
	const char *init = json_str(json_object_get(s->live.config, "job"), "init", "");
	char *path = NULL;
	enum err_code rc = ERR_OK;

	if (s->first_found || !strchr(init, '/') || s->restore)
		return ERR_OK;
	if (s->cfg.id->run_dir)
		path = mem_strdup(init);
	else
		rc = far_init(s, &path, e);
	if (!rc)
		shard_begin_with(atomic_load(&s->shard), path);
	s->first_found = !rc;
	return rc;
}

static void alive(void *ctx)
{
	agent_alive(((struct server *)ctx)->agent);
}

static enum err_code make_shard(struct server *s, const json_t *view, struct err *e)
{
	struct shard_config cfg = { .self = (unsigned)s->cfg.index, .wake = lanes_wake, .forward = repl_forward,
		.alive = alive, .ctx = s };
	struct conf_rule rule = { 0 };
	struct shard *shard;
	struct conf conf;
	enum err_code rc = conf_from_json(json_object_get(view, "config"), &conf, e);

	if (rc)
		return rc;
	agent_set_pace(s->agent, conf.heartbeat, conf.deadline);
	server_know_sessions(s, &conf);
	cfg.settings = (uint32_t)json_int(view, "settings_base", 0);
	cfg.mode = conf.sync;
	cfg.mode.backup = (unsigned)conf.backup;
	cfg.deterministic = conf.deterministic;
	cfg.reduced = strcmp(conf.via, "allreduce") == 0;
	cfg.deltas = conf.pull_delta;
	cfg.jobless = !conf_trains(&conf);
	cfg.slots = conf_trains(&conf) ? (unsigned)conf.workers.max : 0;
	cfg.watched = conf.quarantine;
	rc = robust_parse(conf.robust, &cfg.robust, e);
	if (!rc)
		rc = conf_server_rule(&conf, &rule, e);
	cfg.read_only = conf.read_only;
	atomic_store(&s->read_only, conf.read_only);
	cfg.rule = rule.rule;
	cfg.hyper = rule.hyper;
	cfg.schedule = rule.schedule;
	if (!rc)
		rc = server_choose_suites(s, conf.suite, e);
	if (!rc)
		rc = limit_tables(s, &conf, &cfg.mem_limit, e);
	if (!rc)
		rc = open_restore(s, json_str(view, "restore", ""), e);
	if (!rc) {
		cfg.restore = s->restore;
		rc = shard_new(&cfg, &shard, e);
	}
	if (!rc)
		atomic_store(&s->shard, shard);
	conf_release(&conf);
	return rc;
}

/* ---- views ------------------------------------------------------------------------------ */

static void take_workers(struct shard *shard, const json_t *workers)
{
	struct member *m = mem_array(json_array_size(workers) + 1, sizeof *m);
	const json_t *w;
	size_t i, n = 0;

	json_array_foreach(workers, i, w) {
		const char *state = json_str(w, "state", "");
		bool gone = strcmp(state, "lost") == 0 || strcmp(state, "left") == 0, done = strcmp(state, "done") == 0;

		/* Joining: of the first members, before the job runs.  Later ones are
		 * active from the step that was voted. */
		if (!gone && !done && strcmp(state, "active") != 0 && (strcmp(state, "joining") != 0 || !json_flag(w, "first")))
			continue;
		m[n++] = (struct member){ .slot = (uint32_t)i, .state = gone ? MEMBER_GONE : done ? MEMBER_DONE : MEMBER_ACTIVE,
			.incarnation = json_u64s(w, "incarnation", 0), .at = (uint64_t)json_int(w, gone ? "until" : "from", 0),
			.barred = json_u64s(w, "barred", 0), .barred_until = json_u64s(w, "barred_until", 0) };
	}
	shard_take_members(shard, m, n);
	free(m);
}

/* The program and its libraries, stacks, and what threads have spare. */
#define PROCESS_BYTES (UINT64_C(32) << 20)
/* Of the view: what its text takes on its way in and out, and as it is read. */
#define VIEW_FACTOR 16u

/* What this process may come to use: P6 in ps-consistency(7). */
static void say_bound(struct server *s, const json_t *view)
{
	uint64_t workers = json_array_size(json_object_get(view, "workers"));
	uint64_t sessions = sessions_of(s, workers, json_array_size(json_object_get(view, "servers")));
	struct shard_memory m = shard_memory(atomic_load(&s->shard), workers);
	uint64_t each = server_session_bound(s, sessions, m.parts), view_bytes;
	char tables[16], beside[16], session[16], all[16], *text = json_text(view);

	view_bytes = strlen(text) * VIEW_FACTOR * (s->host ? 2 : 1);
	free(text);
	num_human((double)m.tables, tables);
	num_human((double)(m.beside + view_bytes + PROCESS_BYTES), beside);
	num_human((double)each, session);
	atomic_store(&s->memory_bound, m.tables + m.beside + view_bytes + PROCESS_BYTES + sessions * each);
	num_human((double)atomic_load(&s->memory_bound), all);
	log_info(s->cfg.log, "memory: at most %sB: %sB for tables, %sB beside them, %sB for each of %llu sessions%s", all, tables, beside,
	    session, (unsigned long long)sessions, atomic_load(&s->sparse) ? "; sparse tables grow with their rows" : "");
}

static enum err_code install(struct server *s, const json_t *view, const struct layout *layout, struct err *e)
{
	const json_t *servers = json_object_get(view, "servers");
	size_t n = json_array_size(servers);
	uint64_t *process = mem_array(n + 1, sizeof *process);
	enum err_code rc;

	server_know_tables(s, layout);
	for (size_t i = 0; i < n; i++)
		process[i] = json_u64s(json_array_get(servers, i), "incarnation", 0);
	rc = layout->ntables && layout->table[0].nruns ? find_first(s, e) : ERR_OK;
	if (!rc)
		rc = shard_install(atomic_load(&s->shard), layout, process, e);
	free(process);
	/* What the partitions were made of takes room on a disk, or in memory. */
	if (layout->ntables && layout->table[0].nruns) {
		shard_begun(atomic_load(&s->shard));
		ckpt_close(s->restore);
		s->restore = NULL;
	}
	if (!rc)
		say_bound(s, view);
	return rc;
}

static enum err_code take_view(struct server *s, const json_t *view, struct err *e)
{
	const json_t *jl = json_object_get(view, "layout"), *members = json_object_get(view, "members");
	struct layout layout;
	enum err_code rc = FAIL_ERROR("view_take", e);

	if (!rc && !atomic_load(&s->shard))
		rc = make_shard(s, view, e);
	if (rc)
		return rc;
	if (!s->host)
		store_take_keys(s, view);
	rc = layout_from_json(jl, &layout, e);
	if (rc)
		return rc;
	quota_know(s, json_object_get(view, "now"));
	repl_prepare(s->repl, view);
	/* A partition that comes begins by what was set before. */
	rc = live_take(s, view, e);
	if (!rc && layout.epoch != atomic_load(&s->epoch))
		rc = install(s, view, &layout, e);
	/* Whoever goes by the epoch goes by this. */
	given_take(s, view, -1);
	atomic_store(&s->epoch, layout.epoch);
	atomic_store(&s->generation, layout.generation);
	repl_view(s->repl, view, &layout);
	layout_release(&layout);
	if (rc)
		return rc;
	atomic_store(&s->members, (uint32_t)(json_int(view, "members_base", 0) + (json_int_t)json_array_size(members)));
	take_workers(atomic_load(&s->shard), json_object_get(view, "workers"));
	if ((uint64_t)json_int(view, "decided", 0) >= s->proposal && s->proposal) {
		s->proposal = 0;
		shard_decided(atomic_load(&s->shard));
	}
	lanes_wake(s);          /* some may have known of it before */
	return ERR_OK;
}

static void on_notice(void *ctx, const json_t *msg)
{
	struct server *s = ctx;
	struct shard *shard = atomic_load(&s->shard);
	const char *op = json_str(msg, "op", "");
	const char *kind = json_str(msg, "kind", "");
	bool of_all = strcmp(kind, "set") == 0 || strcmp(kind, "table") == 0;
	struct shard_vote v;
	json_t *vote;

	if (strcmp(op, "leave") == 0) {
		log_info(s->cfg.log, "what was here is elsewhere now: leaving");
		server_end(s, NULL);
		return;
	}
	if (strcmp(op, "sure") == 0)
		repl_ask(s->repl, json_int(msg, "server", -1));
	if (save_notice(s->save, msg) || strcmp(op, "propose") != 0)
		return;
	/* Asked before the first view has come: the vote is cast when it has. */
	if (!shard) {
		json_decref(s->unvoted);
		s->unvoted = json_deep_copy(msg);
		return;
	}
	s->proposal = (uint64_t)json_int(msg, "id", 0);
	if (live_refuse(s, msg))
		return;
	v = shard_vote(shard, of_all ? SHARD_OUTSIDE : (uint32_t)json_int(msg, "slot", 0), json_u64s(msg, "incarnation", 0),
	    (uint64_t)json_int(msg, "step", 0), strcmp(kind, "resume") == 0);
	vote = json_pack("{s:s, s:I, s:b, s:I, s:I}", "op", "vote", "id", (json_int_t)s->proposal, "yes", v.yes,
	    "frontier", (json_int_t)v.frontier, "clock", (json_int_t)v.clock);
	FAIL_POINT("vote_cast");
	agent_tell(s->agent, vote);
	json_decref(vote);
}

/* All steps are done: the result's figures are these, whenever the next heartbeat would be. */
static void last_figures(struct server *s, const json_t *view)
{
	bool finishing = strcmp(json_str(view, "phase", ""), "finishing") == 0;

	if (finishing && !s->finishing)
		agent_beat(s->agent);
	s->finishing = finishing;
}

static void on_view(void *ctx, const json_t *view)
{
	struct server *s = ctx;
	struct err e = { 0 };
	json_t *ack;

	tracer_view(s->tracer, s->agent, view);
	if (json_flag(view, "ended")) {
		server_end(s, NULL);
		return;
	}
	if (take_view(s, view, &e)) {
		server_end(s, &e);
		return;
	}
	if (s->unvoted) {
		if (json_int(s->unvoted, "id", 0) > json_int(view, "decided", 0))
			on_notice(s, s->unvoted);
		json_decref(s->unvoted);
		s->unvoted = NULL;
	}
	FAIL_POINT("view_taken");
	last_figures(s, view);
	ack = json_pack("{s:s, s:I}", "op", "ack", "rev", (json_int_t)json_int(view, "rev", 0));
	agent_tell(s->agent, ack);
	json_decref(ack);
}

static void on_joined(void *ctx, const json_t *answer)
{
	struct server *s = ctx;

	s->cfg.index = (int)json_int(answer, "index", 0);
	log_info(s->cfg.log, "joined as server-%d, data plane on %s", s->cfg.index, s->address);
}

/* That this process's own coordinator was told to end, before we had joined, is no failure. */
static void on_lost(void *ctx, const struct err *why)
{
	struct server *s = ctx;

	server_end(s, s->host && host_ended(s->host) ? NULL : why);
}

/* ---- start and stop ------------------------------------------------------------------------- */

enum err_code store_start(struct server *s, struct err *e)
{
	struct agent_config cfg = {
		.heartbeat = s->cfg.conf ? s->cfg.conf->heartbeat : 200 * NSEC_PER_MSEC,
		.deadline = s->cfg.conf ? s->cfg.conf->deadline : 60 * NSEC_PER_SEC,
		.joined = on_joined,
		.view = on_view,
		.notice = on_notice,
		.lost = on_lost,
	};
	enum err_code rc = repl_start(s, e);

	if (!rc)
		rc = save_start(s, e);
	return rc ? rc : server_join(s, &cfg, e);
}

void store_stop(struct server *s)
{
	/* No lane tells the agent anything from now on. */
	pthread_rwlock_wrlock(&s->keys_lock);
	atomic_store(&s->stopping, true);
	pthread_rwlock_unlock(&s->keys_lock);
	if (s->uplink)
		return;
	save_stop(s->save);
	repl_stop(s->repl);
	agent_stop(s->agent);
	s->agent = NULL;
}
