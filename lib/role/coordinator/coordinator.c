/* SPDX-License-Identifier: ISC */
#include "coordinator/adapt.h"
#include "coordinator/checkpoint_schedule.h"
#include "coordinator/http/dashboard_feed.h"
#include "coordinator/file_service.h"
#include "coordinator/final_model.h"
#include "coordinator/history.h"
#include "coordinator/initial_settings.h"
#include "coordinator/lease_log.h"
#include "coordinator/ownership.h"
#include "coordinator/psk_renewal.h"
#include "coordinator/settings.h"
#include "coordinator/state_file.h"
#include "state/state_store.h"
#include "coordinator/http/summary_row.h"
#include "coordinator/http/trace_request.h"
#include "coordinator/upload.h"

#include <stdarg.h>

#include "ckpt/dirs.h"
#include "ckpt/names.h"
#include "ckpt/read.h"
#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/num.h"
#include "core/mem.h"
#include "core/thread.h"
#include "core/utf8.h"
#include "data/store/data_cache.h"
#include "msg/cluster_status.h"
#include "msg/large_description.h"
#include "msg/manifest.h"
#include "rundir/rundir.h"
#include "web/curve.h"
#include "web/sessions.h"

/* How often the ticker does its periodic work. */
#define TICK (50 * NSEC_PER_MSEC)
/* Metrics rows come as often as the first heartbeats, so that a short run has a curve, too. */
#define METRICS_PERIOD     (200 * NSEC_PER_MSEC)
#define METRICS_PERIOD_MAX (1 * NSEC_PER_SEC)
#define METRICS_POINTS     60

/* ---- callbacks of the state machine ---- */

static void mark_view_changed(void *ctx)
{
	((struct coordinator *)ctx)->views.dirty = true;
}

static void write_metrics(struct coordinator *coordinator, int64_t now)
{
	struct cluster_progress p;
	int64_t period = 0;
	json_t *s;

	if (now < coordinator->next_metrics || coord_phase(coordinator->coord) == PHASE_FORMING)
		return;
	s = summary_row_make(coordinator, now);
	if (!cluster_progress_decode(s, &p, NULL) && p.seconds > 0)
		period = (int64_t)(p.seconds / METRICS_POINTS * NSEC_PER_SEC);
	coordinator->next_metrics = now +
	    (period < METRICS_PERIOD              ? METRICS_PERIOD
	            : period < METRICS_PERIOD_MAX ? period
	                                          : METRICS_PERIOD_MAX);
	history_metrics(coordinator->history, s);
	web_curve_add(coordinator->web.curve, s);
	json_decref(s);
}

static void record_event(void *ctx, enum event_kind kind, const char *text)
{
	struct coordinator *coordinator = ctx;

	history_add(coordinator->history, kind, text);
	/* Have the next metrics row show the state right after the event. Every evaluation gets
	 * a row. */
	coordinator->next_metrics = 0;
	if (kind == EVENT_eval)
		write_metrics(coordinator, clock_now());
	log_info(coordinator->server->cfg.log, "%s", text);
}

void coordinator_lock(struct coordinator *coordinator)
{
	mutex_lock(&coordinator->lock);
}

void coordinator_unlock(struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	mutex_unlock(&coordinator->lock);
}

/* Announces the state when it is durable. True: the cluster ends, and this process with it. */
static bool publish(struct coordinator *coordinator, bool tell)
{
	bool end = false;

	coordinator_announce(coordinator);
	/* A store in this process learns of the stop from the view, like every other store. */
	if (coord_ended(coordinator->coord) && !coordinator->end_announced &&
	    !coord_awaits_return(coordinator->coord, clock_now()) &&
	    !state_file_is_awaited(coordinator, coord_state_rev(coordinator->coord))) {
		coordinator->end_announced = true;
		end = !coordinator->server->cfg.role;
	}
	if (tell)
		pthread_cond_broadcast(&coordinator->changed);
	return end;
}

static void commit(struct coordinator *coordinator, bool tell)
{
	bool end = publish(coordinator, tell);

	mutex_unlock(&coordinator->lock);
	if (end)
		server_end(coordinator->server, NULL);
}

void coordinator_commit_unlock(struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	commit(coordinator, true);
}

void coordinator_publish(struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	if (publish(coordinator, true))
		server_end(coordinator->server, NULL);
}

/* True: the present state has become durable. */
static bool commit_and_wait(struct coordinator *coordinator)
{
	uint64_t rev = coord_state_rev(coordinator->coord);

	coordinator_publish(coordinator);
	while (state_file_is_awaited(coordinator, rev))
		coordinator_wait(coordinator, 0);
	return atomic_load(&coordinator->file.announced_up_to) >= rev;
}

void coordinator_commit_wait_unlock(struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	commit_and_wait(coordinator);
	mutex_unlock(&coordinator->lock);
}

enum err_code coordinator_commit_order_unlock(struct coordinator *coordinator, struct err *e)
{
	bool durable;

	mutex_assert_held(&coordinator->lock);
	durable = commit_and_wait(coordinator);
	mutex_unlock(&coordinator->lock);
	return durable
	    ? ERR_OK
	    : err_set(e, ERR_NOTREADY,
	          "the order holds, but the coordinator cannot write it to state.json (its log says why), and "
	          "forgets it if it ends before that: give it again when it can");
}

void coordinator_wait(struct coordinator *coordinator, int64_t until)
{
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };

	mutex_assert_held(&coordinator->lock);
	if (until)
		mutex_wait_until(&coordinator->changed, &coordinator->lock, &ts);
	else
		mutex_wait(&coordinator->changed, &coordinator->lock);
}

void coordinator_wake_parked(struct coordinator *coordinator)
{
	if (coordinator->http)
		http_server_kick(coordinator->http);
}

void coordinator_wake_waiters(struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	pthread_cond_broadcast(&coordinator->changed);
}

void coordinator_event(struct coordinator *coordinator, enum event_kind kind, const char *fmt, ...)
{
	mutex_assert_held(&coordinator->lock);
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	utf8_vprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	record_event(coordinator, kind, text);
}

/* ---- calls from sessions ---- */

static void log_lease_change(void *ctx, uint64_t number, const struct lease_change *change)
{
	struct coordinator *coordinator = ctx;

	if (coordinator->file.leaselog)
		lease_log_add(coordinator->file.leaselog, number, change);
}

static bool coordinator_may_announce(struct coordinator *coordinator,
    const struct durable_point *due)
{
	return atomic_load(&coordinator->file.announced_up_to) >= due->state_rev &&
	    atomic_load(&coordinator->file.durable_leases) >= due->leases;
}

/* True when an answer must wait until the state is durable: when it gives away a rank or a
 * lease, or when its message has changed the state. */
static bool announces_state(const struct coordinator *coordinator, enum message_kind kind,
    const struct durable_point *before)
{
	return kind == MESSAGE_lease || kind == MESSAGE_server_join ||
	    kind == MESSAGE_worker_join || kind == MESSAGE_relay_join ||
	    coord_state_rev(coordinator->coord) != before->state_rev ||
	    coord_lease_changes(coordinator->coord) != before->leases;
}

/* ---- messages that the state machine does not handle ---- */

/* A handler has the lock, and gives no answer. */
typedef void coordinator_message_fn(struct coordinator *coordinator, const struct coord_self *self,
    const struct message *m);
#define TO_PROCESS(name) static coordinator_message_fn coordinator_on_##name;
#include "msg/message.def"

static coordinator_message_fn *const handlers[MESSAGE_KINDS] = {
#define TO_PROCESS(name) [MESSAGE_##name] = coordinator_on_##name,
#include "msg/message.def"
};

static void coordinator_on_trace(struct coordinator *coordinator, const struct coord_self *self,
    const struct message *m)
{
	trace_request_take_page(coordinator, self, &m->trace, clock_now());
}

json_t *coordinator_handle(struct coordinator *coordinator, struct coord_self *self,
    const struct message *m, struct durable_point *due, struct err *e)
{
	struct durable_point before;
	json_t *answer;

	*due = (struct durable_point){ 0 };

	coordinator_lock(coordinator);
	if (handlers[m->kind]) {
		handlers[m->kind](coordinator, self, m);
		commit(coordinator, false);
		return NULL;
	}
	before = (struct durable_point){ .state_rev = coord_state_rev(coordinator->coord),
		.leases = coord_lease_changes(coordinator->coord) };
	answer = m->kind == MESSAGE_worker_join &&
	        initial_settings(coordinator, self, &m->worker_join, e)
	    ? NULL
	    : coord_handle(coordinator->coord, self, m, clock_now(), e);
	/* Parked requests wait for acknowledgements of a revoked key, or for another change to
	 * be decided. Neither makes a new view, so nothing else would wake them. */
	if (m->kind == MESSAGE_keys_checked || coordinator->change_is_awaited)
		coordinator_wake_parked(coordinator);
	coordinator->change_is_awaited = false;
	if (announces_state(coordinator, m->kind, &before))
		*due = (struct durable_point){ .state_rev = coord_state_rev(coordinator->coord),
			.leases = coord_lease_changes(coordinator->coord) };
	due->rev = coord_rev(coordinator->coord);
	/* Heartbeats come by the thousand each second, so they wake no thread in coordinator_wait.
	 * Changes that a heartbeat caused are seen at the next tick. */
	commit(coordinator, m->kind != MESSAGE_beat);
	return answer;
}

static void coordinator_gone(struct coordinator *coordinator, const struct coord_self *self)
{
	if (atomic_load(&coordinator->server->coordinator_stopping) ||
	    atomic_load(&coordinator->server->aside))
		return;
	coordinator_lock(coordinator);
	coord_session_gone(coordinator->coord, self, clock_now());
	coordinator_commit_unlock(coordinator);
}

static void coordinator_keys_changed(struct coordinator *coordinator)
{
	coordinator_lock(coordinator);
	coord_publish_view(coordinator->coord);
	coordinator_send_keys(coordinator);
	coordinator_commit_unlock(coordinator);
}

static void coordinator_keys_checked(struct coordinator *coordinator,
    const struct message_keys_checked *m)
{
	coordinator_lock(coordinator);
	coord_keys_checked(coordinator->coord, m);
	coordinator_wake_parked(coordinator);
	coordinator_commit_unlock(coordinator);
}

static bool coordinator_leave(struct coordinator *coordinator, int sig)
{
	bool saving;

	if (coordinator->server->cfg.returns) {
		/* The state is saved, as it is at any time; servers and workers go on, and connect
		 * to the next coordinator. */
		server_end(coordinator->server, NULL);
		return false;
	}
	coordinator_lock(coordinator);
	coordinator->leave_signal = sig;
	/* The parameters of a read-only cluster are those of its source. */
	saving = !coordinator->leaving && coordinator->checkpoints &&
	    !coordinator->server->cfg.conf->read_only &&
	    (coordinator->cfg.has_job || coord_count_tables(coordinator->coord)) &&
	    coord_phase(coordinator->coord) == PHASE_RUNNING;
	if (saving)
		checkpoint_schedule_request(coordinator->checkpoints);
	else
		coordinator_stop_job(coordinator);
	coordinator->leaving = saving;
	coordinator_commit_unlock(coordinator);
	return saving;
}

void coordinator_stop_job(struct coordinator *coordinator)
{
	char why[48] = "the coordinator was stopped";

	mutex_assert_held(&coordinator->lock);
	if (coordinator->leave_signal)
		snprintf(why, sizeof why, "the coordinator got SIG%s",
		    sigabbrev_np(coordinator->leave_signal));
	coord_stop(coordinator->coord, why, clock_now());
	coord_end(coordinator->coord);
}

static bool coordinator_ended(struct coordinator *coordinator)
{
	bool ended;

	coordinator_lock(coordinator);
	ended = coord_ended(coordinator->coord);
	coordinator_unlock(coordinator);
	return ended;
}

static bool coordinator_checkpoint(struct coordinator *coordinator)
{
	coordinator_lock(coordinator);
	if (coordinator->checkpoints)
		checkpoint_schedule_request(coordinator->checkpoints);
	coordinator_commit_unlock(coordinator);
	return coordinator->checkpoints != NULL;
}

/* ---- the ticker ---- */

static void do_periodic_work(struct coordinator *coordinator, int64_t now)
{
	if (ownership_is_aside(coordinator, now))
		return;
	coord_note_turn(coordinator->coord, now);
	if (coordinator->server->cfg.role)
		coord_own_server_alive(coordinator->coord, coordinator->server->incarnation, now);
	/* This process may have been suspended or slow. Measure a member's silence only up to
	 * the input that the I/O threads have processed. */
	coord_input_processed_until(coordinator->coord,
	    io_threads_handled_until(coordinator->server));
	if (coord_tick(coordinator->coord, now))
		io_threads_nudge(coordinator->server);
	resumed_replace_damaged(coordinator);
	settings_plan_tick(coordinator, now);
	write_metrics(coordinator, now);
	trace_request_tick(coordinator, now);
	psk_renewal_tick(coordinator);
}

/* The coordinator's own thread: does periodic work every TICK, and sends a deferred view as soon
 * as it is due. It counts its turns for the watchdog. The lock is released while it waits. */
static void *run_ticker(void *ctx)
{
	struct coordinator *coordinator = ctx;
	int64_t next = 0;

	coordinator_lock(coordinator);
	while (!atomic_load(&coordinator->stop)) {
		int64_t now = clock_now(), until;
		struct timespec ts;

		atomic_fetch_add(&coordinator->turns, 1);
		if (now >= next) {
			do_periodic_work(coordinator, now);
			next = now + TICK;
		}
		coordinator_commit_unlock(coordinator);
		coordinator_lock(coordinator);
		until = coordinator->views.deferred && state_file_is_durable(coordinator) &&
		        coordinator_view_due(coordinator) < next
		    ? coordinator_view_due(coordinator)
		    : next;
		ts = (struct timespec){ until / NSEC_PER_SEC, until % NSEC_PER_SEC };
		mutex_wait_until(&coordinator->woken, &coordinator->lock, &ts);
	}
	coordinator_commit_unlock(coordinator);
	return NULL;
}

/* ---- start and stop ---- */

/* The configuration of the coordinator's state. Texts and documents in it are borrowed from the
 * host and its configuration. Times are in ns. */
static struct coord_config make_coord_config(struct coordinator *coordinator, const struct conf *c)
{
	struct coord_config cfg = {
		.name = coordinator->server->cfg.conf->name ? coordinator->server->cfg.conf->name
		                                            : "cluster",
		.run_dir = coordinator->server->cfg.id->run_dir,
		.cluster_id = coordinator->cluster_id,
		.servers = (unsigned)c->servers,
		.workers = conf_trains(c) ? (unsigned)c->workers.max : 0,
		.servers_max = (unsigned)c->servers_max,
		.replicas = (unsigned)c->replicas,
		.workers_min = (unsigned)c->workers.min,
		.workers_max = (unsigned)c->workers.max,
		.has_job = conf_trains(c),
		.deterministic = c->deterministic,
		.lease = c->lease,
		/* Seven heartbeats and a half: 1.5 s by default. */
		.server_lost = c->heartbeat * 15 / 2,
		.deadline = c->deadline,
		.join_wait = c->join_wait,
		.took_over = coordinator->server->cfg.standby,
		.epochs = (uint64_t)c->job.epochs,
		.steps = (uint64_t)c->job.steps,
	};

	coord_config_follow(&cfg, c);
	resumed_configure(coordinator, &cfg);
	return cfg;
}

void coordinator_http_address(struct coordinator *coordinator, char out[static 128])
{
	coordinator_lock(coordinator);
	snprintf(out, 128, "%s", coordinator->http ? http_server_address(coordinator->http) : "");
	coordinator_unlock(coordinator);
}

/* Starts the control plane: at the address of an earlier coordinator whose job goes on, if it is
 * free, else at the configured one. */
static enum err_code start_http(struct coordinator *coordinator, struct err *e)
{
	const struct server_config *cfg = &coordinator->server->cfg;
	char *sock = cfg->id->run_dir ? rundir_path(cfg->id->run_dir, "ctl.sock") : NULL;
	const char *before = coordinator->server->recover ? coordinator->server->state->http : NULL;
	struct http_server_config http = {
		.unix_path = sock,
		.tcp_fd = cfg->http_fd,
		.tcp_addr = !cfg->http_fd && before && strchr(before, ':') && *before != '/'
		    ? before
		    : cfg->conf->http,
		.routes = coordinator_routes,
		.nroutes = coordinator_nroutes,
		.ctx = coordinator,
		.keys = cfg->id->conn.hs.key,
		.find_key = routes_find_key,
		.find_token = routes_find_token,
		.find_session = routes_find_session,
		.log = cfg->log,
	};
	struct http_server *server = NULL;
	enum err_code rc;
	int64_t since = 0;

	memcpy(http.psk, cfg->id->conn.hs.psk, sizeof http.psk);
	rc = http_server_listen(&http, &server, e);
	if (rc && http.tcp_addr != cfg->conf->http) {
		log_warn(cfg->log, "not where it was before: %s", e->msg);
		http.tcp_addr = cfg->conf->http;
		rc = http_server_listen(&http, &server, e);
	}
	while (rc && server_wait_for_room(coordinator->server, &since, e))
		rc = http_server_listen(&http, &server, e);
	free(sock);
	if (rc)
		return rc;
	coordinator_lock(coordinator);
	coordinator->http = server;
	psk_renewal_update_http(coordinator);
	state_file_note_http(coordinator);
	coordinator_unlock(coordinator);
	return http_server_run(server, e);
}

/* A coordinator whose state has not been made yet. coordinator_free releases it. */
static struct coordinator *coordinator_new(struct server *s)
{
	struct coordinator *coordinator = mem_alloc(sizeof *coordinator);
	pthread_condattr_t attr;

	coordinator->server = s;
	coordinator->views.notices_last = &coordinator->views.notices;
	mutex_init(&coordinator->lock, LOCK_COORDINATOR);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&coordinator->woken, &attr);
	pthread_cond_init(&coordinator->changed, &attr);
	pthread_cond_init(&coordinator->file.writer_woken, &attr);
	pthread_cond_init(&coordinator->ownership.woken, &attr);
	pthread_condattr_destroy(&attr);
	coordinator->adapt = adapt_new();
	coordinator->history = history_new(s->cfg.id->run_dir, s->cfg.log);
	coordinator->web.curve = web_curve_new();
	if (s->recover)
		history_curve(coordinator->history, coordinator->web.curve);
	coordinator->web.sessions = web_sessions_new();
	coordinator->web.board = routes_web_feed_new();
	coordinator->tracing = trace_request_new();
	coordinator_lock(coordinator);
	psk_renewal_begin(coordinator);
	coordinator_unlock(coordinator);
	return coordinator;
}

/* Makes the state machine for the job's initial configuration: from the state and the leases of a
 * killed coordinator, from a checkpoint, or afresh. The new state is durable then. */
static enum err_code make_state(struct coordinator *coordinator, const struct conf *initial,
    struct err *e)
{
	const struct coord_io io = { .to_server = coordinator_notice,
		.view_changed = mark_view_changed,
		.event = record_event,
		.lease_changed = log_lease_change,
		.ctx = coordinator };
	struct server *s = coordinator->server;
	enum err_code rc = ERR_OK;

	coordinator->cfg = make_coord_config(coordinator, initial);
	if (s->state_store && !s->cfg.role)
		rc = lease_log_open(coordinator, &coordinator->file.leaselog, e);
	if (rc)
		return rc;
	coordinator_lock(coordinator);
	coordinator->coord = coord_new(&coordinator->cfg, &io, clock_now());
	if (s->recover)
		rc = coord_recover(coordinator->coord, s->state, clock_now(), e);
	else if (s->state)
		coord_begin_after(coordinator->coord, s->state);
	if (!rc && s->recover)
		rc = lease_log_replay(coordinator, e);
	state_file_begin_life(coordinator);
	if (!rc)
		rc = state_file_write_first(coordinator, e);
	if (!rc && s->state_store)
		s->state_store->ops->clean(s->state_store);
	coordinator_unlock(coordinator);
	return rc;
}

/* Starts the threads of the coordinator and then the control plane, whose requests use what the
 * threads are for: one that arrived earlier would be told that this coordinator cannot make
 * checkpoints. c: the present configuration. */
static enum err_code start_services(struct coordinator *coordinator, const struct conf *c,
    struct err *e)
{
	enum err_code rc = state_file_start(coordinator, e);

	if (!rc)
		rc = ownership_start(coordinator, e);
	if (!rc)
		rc = thread_start(&coordinator->ticker, run_ticker, coordinator, e);
	if (!rc)
		rc = checkpoint_schedule_start(coordinator, c, e);
	if (!rc)
		rc = upload_start(coordinator, c, e);
	if (!rc)
		rc = start_http(coordinator, e);
	if (!rc)
		rc = final_model_start(coordinator, c, e);
	return rc;
}

static enum err_code coordinator_start(struct server *s, struct err *e)
{
	struct coordinator *coordinator = s->coordinator = coordinator_new(s);
	struct conf conf;
	enum err_code rc = resumed_find(coordinator, e);

	if (rc)
		return rc;
	coordinator->config = resumed_settings(coordinator);
	rc = conf_from_json(coordinator->config, &conf, e);
	if (rc)
		return rc;
	rc = make_state(coordinator, &conf, e);
	conf_release(&conf);
	if (!rc)
		rc = conf_from_json(coord_present_config(coordinator->coord), &conf, e);
	if (rc)
		return rc;
	history_open(coordinator->history);
	coordinator_lock(coordinator);
	resumed_tell_damage(coordinator);
	coordinator_show_first_view(coordinator);
	coordinator_unlock(coordinator);
	rc = start_services(coordinator, &conf, e);
	conf_release(&conf);
	return rc;
}

/* The workers of this host share parsed data only while the cluster lives (job.cache). */
static void remove_parsed_data(const struct coordinator *coordinator)
{
	const char *run = coordinator->server->cfg.id->run_dir;
	char *dir = run ? rundir_path(run, RUNDIR_PARSED) : NULL;

	if (dir)
		data_cache_remove(dir);
	free(dir);
}

/* End the coordinator's own threads and the HTTP server. Sessions may still call afterwards. */
static void coordinator_stop(struct coordinator *coordinator)
{
	struct http_server *http;

	if (!coordinator)
		return;
	final_model_stop(coordinator);
	upload_stop(coordinator);
	checkpoint_schedule_stop(coordinator);
	file_service_stop(coordinator);
	lease_log_stop(coordinator->file.leaselog);
	ownership_stop(coordinator);
	if (coordinator->ticker) {
		mutex_lock(&coordinator->lock);
		atomic_store(&coordinator->stop, true);
		pthread_cond_signal(&coordinator->woken);
		mutex_unlock(&coordinator->lock);
		pthread_join(coordinator->ticker, NULL);
	}
	state_file_stop(coordinator);
	mutex_lock(&coordinator->lock);
	if (coordinator->ticker) {
		/* The last row of the metrics shows how the run ended. */
		coordinator->next_metrics = 0;
		write_metrics(coordinator, clock_now());
	}
	http = coordinator->http;
	coordinator->http = NULL;
	mutex_unlock(&coordinator->lock);
	http_server_stop(http);
	remove_parsed_data(coordinator);
}

/* Called after all I/O threads have ended, so that no other thread uses coordinator. */
static void free_coordinator(struct coordinator *coordinator)
{
	final_model_free(coordinator->final_model);
	upload_free(coordinator->offsite);
	checkpoint_schedule_free(coordinator->checkpoints);
	coord_free(coordinator->coord);
	lease_log_free(coordinator->file.leaselog);
	resumed_release(&coordinator->resumed);
	coordinator_drop_notices(coordinator);
	view_text_unref(coordinator->views.last);
	history_free(coordinator->history);
	web_curve_free(coordinator->web.curve);
	web_sessions_free(coordinator->web.sessions);
	routes_web_feed_free(coordinator->web.board);
	trace_request_free(coordinator->tracing);
	json_decref(coordinator->config);
	json_decref(coordinator->followed);
	adapt_free(coordinator->adapt);
	mutex_destroy(&coordinator->lock);
	pthread_cond_destroy(&coordinator->woken);
	pthread_cond_destroy(&coordinator->changed);
	pthread_cond_destroy(&coordinator->file.writer_woken);
	pthread_cond_destroy(&coordinator->ownership.woken);
	free(coordinator);
}

static void coordinator_free(struct server *s)
{
	if (s->coordinator)
		free_coordinator(s->coordinator);
	state_store_close(s->state_store);
}

/* ---- for the server process ---- */

static void describe_coordinator(struct coordinator *coordinator, char *out, size_t size)
{
	struct cluster_status *st;
	const char *state;
	json_t *json;

	coordinator_lock(coordinator);
	json = coord_status(coordinator->coord, clock_now());
	coordinator_unlock(coordinator);
	st = cluster_status_decode(json);
	state = words_text(words_phase, st ? st->state : -1);
	json_decref(json);
	if (!st)
		*out = '\0';
	else if (*st->waiting_for)
		snprintf(out, size, "%s, waiting for %s", state, st->waiting_for);
	else if (*st->reason)
		snprintf(out, size, "%s: %s", state, st->reason);
	else
		snprintf(out, size, "%s, step %lld, %lld server%s, %lld worker%s, on %s", state,
		    (long long)st->step, (long long)st->servers, NUM_S(st->servers),
		    (long long)st->workers, NUM_S(st->workers), coordinator->server->address);
	cluster_status_free(st);
}

static uint64_t count_turns(struct coordinator *coordinator)
{
	return atomic_load(&coordinator->turns);
}

const struct server_coordinator coordinator_role = {
	.find_earlier = state_file_read,
	.start = coordinator_start,
	.stop = coordinator_stop,
	.free = coordinator_free,
	.handle = coordinator_handle,
	.may_announce = coordinator_may_announce,
	.gone = coordinator_gone,
	.rev_sent = coordinator_rev_sent,
	.leave = coordinator_leave,
	.checkpoint = coordinator_checkpoint,
	.ended = coordinator_ended,
	.keys_changed = coordinator_keys_changed,
	.keys_checked = coordinator_keys_checked,
	.take_files = file_service_take,
	.turns = count_turns,
	.describe = describe_coordinator,
};
