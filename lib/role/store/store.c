/* SPDX-License-Identifier: ISC */
#include <unistd.h>

#include "core/clock.h"
#include "conf/conf_rule.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "msg/answer.h"
#include "session/tracer.h"
#include "socket/published.h"
#include "store/checkpoint_writer.h"
#include "server/descriptor_limit.h"
#include "store/file_client.h"
#include "server/quota.h"
#include "server/relayed_ranks.h"
#include "server/session_keys.h"
#include "store/replicate.h"
#include "store/restored.h"
#include "shard/spill.h"
#include "server/server_coordinator.h"
#include "store/store.h"
#include "store/store_state.h"
#include "store/store_settings.h"

/* This process as a store: it joins the cluster, installs every view, and votes on proposals. All
 * of this runs on the agent's thread, except for store_start and store_stop. */

/* ---- configuration ---- */

/* Partitions that the layout places here, with those that this server joins. */
static uint64_t count_parts_here(const struct server *s, const struct table *t)
{
	uint64_t n = 0;

	for (size_t i = 0; i < t->nruns; i++)
		if (run_chain_index(&t->run[i], (uint16_t)s->cfg.index) >= 0 ||
		    t->run[i].joining == s->cfg.index)
			n += t->run[i].count;
	return n;
}

/* *out: the bytes that mem_limit leaves for tables beside the sessions; 0: no limit. ERR_CONFIG
 * when the sessions need all of it. */
static enum err_code limit_tables(struct server *s, const struct conf *conf, uint64_t *out,
    struct err *e)
{
	uint64_t workers = conf_trains(conf) ? (uint64_t)conf->workers.max : 0;
	uint64_t sessions = server_count_sessions(s->cfg.coordinator, workers,
	                        (uint64_t)conf->servers) *
	    server_session_memory(s);

	*out = 0;
	s->limits.mem_limit = conf->mem_limit;
	if (!conf->mem_limit)
		return ERR_OK;
	if (conf->mem_limit <= sessions)
		return err_because(e, ERR_CONFIG, CAUSE_MEM_LIMIT,
		    "mem_limit: %llu bytes are less than the sessions of %lld worker%s and %lld "
		    "server%s may need, which is %llu bytes",
		    (unsigned long long)conf->mem_limit, (long long)conf->workers.max,
		    NUM_S(conf->workers.max), (long long)conf->servers, NUM_S(conf->servers),
		    (unsigned long long)sessions);
	*out = conf->mem_limit - sessions;
	return ERR_OK;
}

/* The path in job.init, a fresh string; NULL: job.init is not a path. */
static enum err_code copy_init_path(struct server *s, char **out, struct err *e)
{
	struct conf c;
	enum err_code rc;

	*out = NULL;
	if (!store_agent(s)->config)
		return ERR_OK;
	rc = conf_from_json(store_agent(s)->config, &c, e);
	if (rc)
		return rc;
	if (c.job.init && strchr(c.job.init, '/'))
		*out = mem_strdup(c.job.init);
	conf_release(&c);
	return ERR_OK;
}

/* Find the file with initial values (job.init), which a worker may have uploaded since the first
 * view. */
static enum err_code find_initial_values(struct server *s, struct err *e)
{
	char *path = NULL;
	enum err_code rc;

	if (store_agent(s)->init_path || store_agent(s)->restored.reader)
		return ERR_OK;
	rc = copy_init_path(s, &path, e);
	if (rc || !path)
		return rc;
	if (!s->cfg.id->run_dir) {
		free(path);
		path = NULL;
		rc = file_client_init(s, &path, e);
	}
	if (!rc)
		shard_set_init_file(atomic_load(&s->shard), path);
	store_agent(s)->init_path = path;
	return rc;
}

bool store_may_read_again(struct server *s, struct read_retry *r, struct err *e)
{
	if (!read_retry_wanted(r, e, s->cfg.log, clock_now()))
		return false;
	clock_sleep(READ_RETRY_PAUSE_MS);
	agent_beat_busy(s->agent);
	if (!server_is_ending(s))
		return true;
	log_info(s->cfg.log, "this process ends, and does not try to read again");
	err_set(e, ERR_STOPPED, "this process was stopped");
	return false;
}

/* For shard_config.read_again. */
static bool may_read_values_again(void *ctx, struct read_retry *r, struct err *e)
{
	return store_may_read_again(ctx, r, e);
}

/* For shard_config.alive: shard_install runs on the agent's thread, which cannot send heartbeats
 * meanwhile. */
static void send_late_heartbeat(void *ctx)
{
	agent_beat_busy(((struct server *)ctx)->agent);
}

/* Opens the place for rows on the disk, where the configuration names one. */
static enum err_code open_spill(struct server *s, const struct conf *conf, struct spill **out,
    struct err *e)
{
	char *name;
	enum err_code rc;

	if (!conf_is_named(conf->spill_dir))
		return ERR_OK;
	name = mem_printf("%s-server-%d", conf->name && *conf->name ? conf->name : "cluster",
	    (int)s->cfg.index);
	rc = spill_open(conf->spill_dir, name, s->cfg.log, out, e);
	free(name);
	return rc;
}

/* Makes the shard from the first view: the job's configuration gives the mode, update rule, limits
 * and the checkpoint to continue from. s->shard is set last, and only on success.
 * ERR_CONFIG when mem_limit or the number of descriptors is too low; errors of conf_from_json, of
 * opening the checkpoint and of shard_new. */
static enum err_code make_store_shard(struct server *s, const struct view *view, struct err *e)
{
	struct shard_config cfg = { .self = (unsigned)s->cfg.index,
		.wake = io_threads_wake,
		.forward = replicate_forward,
		.alive = send_late_heartbeat,
		.read_again = may_read_values_again,
		.ctx = s };
	struct conf_rule rule = { 0 };
	struct shard *shard;
	struct conf conf;
	enum err_code rc = conf_from_json(view->config, &conf, e);

	if (rc)
		return rc;
	rc = replicate_choose_transport(store_of(s)->repl, &conf, e);
	if (rc) {
		conf_release(&conf);
		return rc;
	}
	agent_set_pace(s->agent, conf.heartbeat, conf.deadline);
	server_know_sessions(s, &conf);
	cfg.settings = (uint32_t)view->settings_base;
	cfg.mode = conf.sync;
	cfg.mode.backup = (unsigned)conf.backup;
	cfg.deterministic = conf.deterministic;
	cfg.reduced = strcmp(conf.via, "allreduce") == 0;
	cfg.deltas = conf.pull_delta;
	cfg.row_versions = conf.pull_delta || conf.lookahead;
	cfg.jobless = !conf_trains(&conf);
	cfg.ranks = conf_trains(&conf) ? (unsigned)conf.workers.max : 0;
	rc = aggregate_parse(conf.robust, &cfg.aggregate, e);
	if (!rc)
		rc = conf_server_rule(&conf, &rule, e);
	cfg.read_only = conf.read_only;
	atomic_store(&s->read_only, conf.read_only);
	cfg.rule = rule.rule;
	cfg.hyper = rule.hyper;
	cfg.schedule = rule.schedule;
	cfg.tables = rule.tables;
	if (!rc)
		rc = server_choose_suites(s, conf.suite, e);
	if (!rc)
		rc = descriptor_limit_check(s, &conf, e);
	if (!rc)
		rc = limit_tables(s, &conf, &cfg.mem_limit, e);
	if (!rc)
		rc = restored_open(s, view, e);
	if (!rc)
		rc = open_spill(s, &conf, &cfg.spill, e);
	if (!rc) {
		cfg.restore = store_agent(s)->restored.reader;
		cfg.source = s->cfg.source ? *s->cfg.source : NULL;
		cfg.published = server_published(s);
		rc = shard_new(&cfg, &shard, e);
	}
	if (!rc)
		atomic_store(&s->shard, shard);
	else
		spill_close(cfg.spill);
	/* store_stop, which sees the shard from now on, may have been called before. */
	if (!rc && atomic_load(&s->stopping))
		shard_give_up_disk(shard);
	conf_release(&conf);
	return rc;
}

/* ---- views ---- */

/* Applies the members of the view to the shard, all at once. A worker whose state does not count
 * yet is left out, which leaves its rank as it is. A key that cannot be parsed counts as
 * unknown. */
static void take_store_workers(struct shard *shard, const struct view *view)
{
	struct member *m = mem_array(view->nworkers + 1, sizeof *m);
	size_t n = 0;

	for (size_t i = 0; i < view->nworkers; i++) {
		const struct view_worker *w = &view->workers[i];
		bool gone = w->state == WORKER_LOST || w->state == WORKER_LEFT,
		     done = w->state == WORKER_DONE;

		/* A joining worker counts if it is one of the first members, before the job runs.
		 * One that joins later counts when it is active, from the step that was voted
		 * on. */
		if (!gone && !done && w->state != WORKER_ACTIVE &&
		    (w->state != WORKER_JOINING || !w->first))
			continue;
		m[n++] = (struct member){ .rank = (uint32_t)i,
			.state = gone ? MEMBER_GONE
			    : done    ? MEMBER_DONE
			              : MEMBER_ACTIVE,
			.incarnation = w->incarnation,
			.at = (uint64_t)(gone ? w->until : w->from) };
		if (!key_from_text(w->key, m[n - 1].key))
			memset(m[n - 1].key, 0, sizeof m[n - 1].key);
	}
	shard_take_members(shard, m, n);
	free(m);
}

/* Memory of the program, its libraries, its stacks and the allocator's caches for each thread. */
#define PROCESS_BYTES (UINT64_C(32) << 20)
/* Memory that a view takes as text in queues and as parsed JSON, for each byte of its text. */
#define VIEW_FACTOR 16u

static bool has_replicas(const struct view *view)
{
	struct conf c;
	struct err e;
	bool has;

	if (conf_from_json(view->config, &c, &e))
		return false;
	has = c.replicas > 1;
	conf_release(&c);
	return has;
}

/* Compute and log the bound of this process's memory: P6 in ps-consistency(7). */
static void log_memory_bound(struct server *s, const struct view *view)
{
	uint64_t workers = view->nworkers;
	uint64_t sessions = server_count_sessions(s->cfg.coordinator, workers, view->nservers);
	struct shard_memory m = shard_memory(atomic_load(&s->shard), workers);
	uint64_t parts = atomic_load(&s->limits.parts),
	         each = server_session_bound(s, sessions, parts), view_bytes;
	uint64_t others = has_replicas(view) ? view->nservers - 1 : 0;
	uint64_t filled = published_bytes(server_published(s));
	char tables[16], beside[16], session[16], all[16], published[96] = "",
	                                                   *text = json_text(view_document(view));

	view_bytes = strlen(text) * VIEW_FACTOR * (s->coordinator ? 2 : 1);
	free(text);
	/* Pending acknowledgements of records from other servers, which wait for the next
	 * replicas. */
	m.beside += others * session_records_limit(parts) * 2 * sizeof(struct pending_ack);
	num_human((double)m.tables, tables);
	num_human((double)(m.beside + view_bytes + PROCESS_BYTES), beside);
	num_human((double)each, session);
	atomic_store(&s->limits.memory_bound,
	    m.tables + m.beside + view_bytes + PROCESS_BYTES + sessions * each);
	num_human((double)atomic_load(&s->limits.memory_bound), all);
	if (filled) {
		char most[16];

		num_human((double)filled, most);
		snprintf(published, sizeof published,
		    "; other programs of this user can make it up to %sB more, without mem_limit",
		    most);
	}
	log_info(s->cfg.log,
	    "memory: at most %sB: %sB for tables, %sB of other data, %sB for each of %llu "
	    "session%s%s%s",
	    all, tables, beside, session, (unsigned long long)sessions, NUM_S(sessions),
	    atomic_load(&s->limits.sparse) ? "; sparse tables grow with their rows" : "",
	    published);
}

/* Closes the parameters that a read-only server began with. */
static void close_source(struct server *s)
{
	if (!s->cfg.source || !*s->cfg.source)
		return;
	(*s->cfg.source)->ops->close(*s->cfg.source);
	*s->cfg.source = NULL;
}

/* Installs the layout of a new epoch. It may take long: partitions are filled from files or a
 * checkpoint. *e says what failed; the process then ends, so a half-installed layout is never
 * used. */
static enum err_code install_layout(struct server *s, const struct view *view,
    const struct layout *layout, struct err *e)
{
	size_t n = view->nservers;
	uint64_t *process = mem_array(n + 1, sizeof *process);
	enum err_code rc;

	server_know_tables(s, layout);
	for (size_t i = 0; i < n; i++)
		process[i] = view->servers[i].incarnation;
	rc = layout->ntables && layout->table[0].nruns ? find_initial_values(s, e) : ERR_OK;
	if (!rc)
		rc = shard_install(atomic_load(&s->shard), layout, process, e);
	free(process);
	/* The partitions exist: close what they began from, which holds disk space or memory. */
	if (layout->ntables && layout->table[0].nruns) {
		shard_restore_done(atomic_load(&s->shard));
		restored_close(s);
		close_source(s);
	}
	if (!rc)
		log_memory_bound(s, view);
	return rc;
}

/* Notes whether partitions move from this server to others. */
static void note_moves(struct server *s, const struct layout *layout)
{
	bool moving = layout_moves_from(layout, (unsigned)s->cfg.index);

	if (atomic_exchange(&s->moving, moving) && !moving)
		atomic_store(&s->moved_at, clock_now());
}

/* Installs a view on the agent's thread. The order matters: links before the layout that uses them,
 * settings before partitions, relays before `installed`, members after it, and at last the end of a
 * vote. Sessions that wait are woken once. */
static enum err_code take_store_view(struct server *s, const struct view *view, struct err *e)
{
	struct layout layout;
	enum err_code rc = FAIL_ERROR("view_take", e);

	/* The next view may name another checkpoint: make nothing from this one yet. */
	if (!rc && view->checking && *view->restore)
		return restored_check(s, view, e);
	if (!rc && !atomic_load(&s->shard))
		rc = make_store_shard(s, view, e);
	if (rc)
		return rc;
	if (!s->coordinator)
		session_keys_take(s, view->keys, view->nkeys, (uint64_t)view->keys_made);
	rc = layout_from_json(view->layout, &layout, e);
	if (rc)
		return rc;
	quota_configure(s, view->now);
	replicate_prepare(store_of(s)->repl, view);
	/* Settings come before the layout: a partition that arrives begins with the present
	 * ones. */
	rc = store_settings_apply(s, view, e);
	atomic_store(&s->epochs.installing, layout.epoch);
	if (!rc && layout.epoch != atomic_load(&s->epochs.installed))
		rc = install_layout(s, view, &layout, e);
	/* No thread may see the epoch of a layout that is installed in part. */
	if (rc) {
		layout_release(&layout);
		return rc;
	}
	/* Before `installed`: a thread that sees the new layout epoch must also see its relays. */
	relayed_ranks_install(s, view, -1);
	atomic_store(&s->epochs.installed, layout.epoch);
	atomic_store(&s->epochs.generation, layout.generation);
	replicate_view(store_of(s)->repl, view, &layout);
	note_moves(s, &layout);
	layout_release(&layout);
	atomic_store(&s->epochs.members, (uint32_t)((uint64_t)view->members_base + view->nmembers));
	take_store_workers(atomic_load(&s->shard), view);
	shard_note_end(atomic_load(&s->shard), view_phase_is(view, PHASE_DONE));
	atomic_store(&s->epochs.members_known, true);
	if ((uint64_t)view->decided >= store_agent(s)->proposal && store_agent(s)->proposal) {
		store_agent(s)->proposal = 0;
		shard_end_vote(atomic_load(&s->shard));
	}
	io_threads_wake(s); /* sessions that knew the new layout before us may have waited */
	return ERR_OK;
}

static store_message_fn *const handlers[MESSAGE_KINDS] = {
#define TO_STORE(name)   [MESSAGE_##name] = store_on_##name,
#define TO_SERVERS(name) [MESSAGE_##name] = store_on_##name,
#include "msg/message.def"
};

void store_on_must_leave(struct server *s, const struct message *m)
{
	(void)m;
	log_info(s->cfg.log, "all partitions have moved to other servers: leaving");
	server_end(s, NULL);
}

void store_on_keys(struct server *s, const struct message *m)
{
	session_keys_take_message(s, &m->keys);
}

void store_on_sure(struct server *s, const struct message *m)
{
	replicate_report_again(store_of(s)->repl, m->sure.server);
}

/* Judge a proposed change, or keep it for after the first view: without a shard there is nothing to
 * judge by. */
void store_on_propose(struct server *s, const struct message *message)
{
	const struct message_propose *m = &message->propose;
	struct shard *shard = atomic_load(&s->shard);
	bool of_all = m->kind == CHANGE_SET || m->kind == CHANGE_TABLE;
	struct shard_vote v;

	if (!shard) {
		json_decref(store_agent(s)->unvoted);
		store_agent(s)->unvoted = json_deep_copy(message->json);
		return;
	}
	store_agent(s)->proposal = (uint64_t)m->id;
	if (store_settings_refuse(s, m))
		return;
	v = shard_vote(shard, of_all ? SHARD_OUTSIDE : (uint32_t)m->rank, m->incarnation,
	    (uint64_t)m->step, m->kind == CHANGE_RESUME);
	FAIL_POINT("vote_cast");
	agent_tell(s->agent,
	    MESSAGE(vote, .id = (int64_t)store_agent(s)->proposal, .yes = v.yes,
	        .first_free = (int64_t)v.first_free, .clock = (int64_t)v.clock,
	        .complete = of_all ? 0 : (int64_t)shard_complete_steps(shard, (uint32_t)m->rank)));
}

/* For the agent: handles a message of the coordinator that is not a view. Messages that message.def
 * does not define for servers are ignored, and malformed ones are logged. */
static void on_store_notice(void *ctx, const json_t *json)
{
	struct server *s = ctx;
	struct message m;
	struct err e;

	if (message_decode(json, MESSAGE_COORDINATOR, &m, &e)) {
		log_warn(s->cfg.log, "a message of the coordinator is not understood: %s", e.msg);
		return;
	}
	if (handlers[m.kind])
		handlers[m.kind](s, &m);
}

/* When all steps are done, send a heartbeat at once: its statistics go into the result. */
static void send_last_stats(struct server *s, const struct view *view)
{
	bool finishing = view_phase_is(view, PHASE_FINISHING);

	if (finishing && !store_agent(s)->finishing)
		agent_beat(s->agent);
	store_agent(s)->finishing = finishing;
}

/* For the agent: installs the view, judges a proposal that came before the first one, and
 * acknowledges the revision. An error ends the process. */
static void on_store_view(void *ctx, const struct view *view)
{
	struct server *s = ctx;
	struct err e = { 0 };
	struct message m;

	tracer_view(s->tracer, s->agent, view);
	if (view->ended) {
		server_end(s, NULL);
		return;
	}
	if (take_store_view(s, view, &e)) {
		server_end(s, e.code == ERR_STOPPED ? NULL : &e);
		return;
	}
	if (store_agent(s)->unvoted) {
		if (!message_decode(store_agent(s)->unvoted, MESSAGE_COORDINATOR, &m, &e) &&
		    m.propose.id > view->decided)
			on_store_notice(s, store_agent(s)->unvoted);
		json_decref(store_agent(s)->unvoted);
		store_agent(s)->unvoted = NULL;
	}
	FAIL_POINT("view_taken");
	send_last_stats(s, view);
	agent_tell(s->agent, MESSAGE(ack, .rev = view->rev));
}

static void on_store_joined(void *ctx, const json_t *answer)
{
	struct server *s = ctx;

	struct answer_server_join a;
	struct err e;

	if (answer_decode_server_join(answer, &a, &e)) {
		server_end(s, &e);
		return;
	}
	s->cfg.index = (int)a.index;
	log_info(s->cfg.log, "joined as server-%d, data plane on %s", s->cfg.index, s->address);
}

/* It is not an error if the coordinator in this process was asked to end before the store had
 * joined. */
static void on_store_lost(void *ctx, const struct err *why)
{
	struct server *s = ctx;

	server_end(s, s->coordinator && s->cfg.coordinator->ended(s->coordinator) ? NULL : why);
}

/* ---- start and stop ---- */

/* Starts the role's threads before the agent, whose first view uses both. After an error
 * store_stop and store_release clean up. */
static enum err_code store_start(struct server *s, struct err *e)
{
	struct agent_config cfg = {
		.heartbeat = s->cfg.conf ? s->cfg.conf->heartbeat : 200 * NSEC_PER_MSEC,
		.deadline = s->cfg.conf ? s->cfg.conf->deadline : server_first_wait(s),
		.joined = on_store_joined,
		.view = on_store_view,
		.notice = on_store_notice,
		.lost = on_store_lost,
	};
	enum err_code rc;

	s->role_state = mem_alloc(sizeof(struct store));
	rc = replicate_start(s, e);
	if (!rc)
		rc = checkpoint_writer_start(s, e);
	return rc ? rc : server_join(s, &cfg, e);
}

/* Ends the threads that call the shard; sessions may still call replicate_forward until
 * store_release. */
static void store_stop(struct server *s)
{
	if (!s->role_state)
		return;
	/* Any thread may wait for the disk of rows, and all of them are joined. */
	shard_give_up_disk(atomic_load(&s->shard));
	checkpoint_writer_stop(store_of(s)->writer);
	replicate_stop(store_of(s)->repl);
	agent_stop(s->agent);
	s->agent = NULL;
}

static void store_release(struct server *s)
{
	if (!s->role_state)
		return;
	replicate_free(store_of(s)->repl);
	checkpoint_writer_free(store_of(s)->writer);
	restored_close(s);
	free(store_agent(s)->restored.checked);
	free(store_agent(s)->init_path);
	json_decref(store_agent(s)->unvoted);
	store_settings_free(s);
	free(s->role_state);
	s->role_state = NULL;
}

static void wake_checkpoint_writer(struct server *s)
{
	checkpoint_writer_wake(store_of(s)->writer);
}

static json_t *store_join_message(const struct server *s, const char *host)
{
	return MESSAGE(server_join, .zone = s->cfg.zone, .pid = getpid(), .host = host,
	    .tcp = s->advertised, .unix_path = s->cfg.unix_path, .index = s->cfg.index,
	    .spills = spill_is_possible());
}

static bool store_describe(struct server *s, char *out, size_t size)
{
	/* The agent's thread sets the number before it makes the shard. */
	bool ready = atomic_load(&s->shard);

	if (ready)
		snprintf(out, size, "server-%d, on %s", s->cfg.index, s->address);
	else
		snprintf(out, size, "joining the cluster, on %s", s->address);
	return ready;
}

const struct server_role store_role = {
	.key_role = ROLE_SERVER,
	.join_message = store_join_message,
	.start = store_start,
	.stop = store_stop,
	.release = store_release,
	.wake = wake_checkpoint_writer,
	.parts_here = count_parts_here,
	.describe = store_describe,
};
