/* SPDX-License-Identifier: ISC */
#include "coordinator/adapt.h"
#include "coordinator/checkpoint_schedule.h"
#include "coordinator/http/dashboard_feed.h"
#include "coordinator/file_service.h"
#include "coordinator/history.h"
#include "coordinator/initial_settings.h"
#include "coordinator/lease_log.h"
#include "coordinator/psk_renewal.h"
#include "coordinator/http/settings_request.h"
#include "coordinator/state_file.h"
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
#include "core/utf8.h"
#include "msg/cluster_status.h"
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

static void write_metrics(struct coordinator *h, int64_t now)
{
	struct cluster_progress p;
	int64_t period = 0;
	json_t *s;

	if (now < h->next_metrics || coord_phase(h->coord) == COORD_FORMING)
		return;
	s = summary_row_make(h, now);
	if (!cluster_progress_decode(s, &p, NULL) && p.seconds > 0)
		period = (int64_t)(p.seconds / METRICS_POINTS * NSEC_PER_SEC);
	h->next_metrics = now +
	    (period < METRICS_PERIOD              ? METRICS_PERIOD
	            : period < METRICS_PERIOD_MAX ? period
	                                          : METRICS_PERIOD_MAX);
	history_metrics(h->history, s);
	web_curve_add(h->web.curve, s);
	json_decref(s);
}

static void record_event(void *ctx, const char *kind, const char *text)
{
	struct coordinator *h = ctx;

	history_add(h->history, kind, text);
	/* Have the next metrics row show the state right after the event. Every evaluation gets
	 * a row. */
	h->next_metrics = 0;
	if (strcmp(kind, "eval") == 0)
		write_metrics(h, clock_now());
	log_info(h->server->cfg.log, "%s", text);
}

void coordinator_lock(struct coordinator *h)
{
	mutex_lock(&h->lock);
}

void coordinator_unlock(struct coordinator *h)
{
	mutex_unlock(&h->lock);
}

/* Announces the state when it is durable. True: the cluster ends, and this process with it. */
static bool publish(struct coordinator *h, bool tell)
{
	bool end = false;

	coordinator_announce(h);
	/* A store in this process learns of the stop from the view, like every other store. */
	if (coord_ended(h->coord) && !h->end_announced &&
	    !state_file_is_awaited(h, coord_stamp(h->coord))) {
		h->end_announced = true;
		end = !h->server->cfg.role;
	}
	if (tell)
		pthread_cond_broadcast(&h->changed);
	return end;
}

static void commit(struct coordinator *h, bool tell)
{
	bool end = publish(h, tell);

	mutex_unlock(&h->lock);
	if (end)
		server_end(h->server, NULL);
}

void coordinator_commit(struct coordinator *h)
{
	commit(h, true);
}

void coordinator_publish(struct coordinator *h)
{
	if (publish(h, true))
		server_end(h->server, NULL);
}

void coordinator_commit_and_wait(struct coordinator *h)
{
	uint64_t stamp = coord_stamp(h->coord);

	coordinator_publish(h);
	while (state_file_is_awaited(h, stamp))
		coordinator_wait(h, 0);
	mutex_unlock(&h->lock);
}

void coordinator_wait(struct coordinator *h, int64_t until)
{
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };

	if (until)
		mutex_wait_until(&h->changed, &h->lock, &ts);
	else
		mutex_wait(&h->changed, &h->lock);
}

void coordinator_wake_parked(struct coordinator *h)
{
	if (h->http)
		http_server_kick(h->http);
}

void coordinator_wake_waiters(struct coordinator *h)
{
	pthread_cond_broadcast(&h->changed);
}

void coordinator_event(struct coordinator *h, const char *kind, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	utf8_vprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	record_event(h, kind, text);
}

/* ---- calls from sessions ---- */

static void log_lease_change(void *ctx, uint64_t number, const struct task_change *change)
{
	struct coordinator *h = ctx;

	if (h->file.leaselog)
		lease_log_add(h->file.leaselog, number, change);
}

static bool coordinator_may_tell(struct coordinator *h, const struct coordinator_mark *due)
{
	return atomic_load(&h->file.tellable) >= due->stamp &&
	    atomic_load(&h->file.durable_leases) >= due->leases;
}

/* True when an answer must wait until the state is durable: when it gives away a rank or a
 * lease, or when its message has changed the state. */
static bool announces_state(const struct coordinator *h, enum message_kind kind,
    const struct coordinator_mark *before)
{
	return kind == MESSAGE_lease || kind == MESSAGE_server_join ||
	    kind == MESSAGE_worker_join || kind == MESSAGE_relay_join ||
	    coord_stamp(h->coord) != before->stamp || coord_leases(h->coord) != before->leases;
}

/* ---- messages that the state machine does not handle ---- */

/* A handler has the lock, and gives no answer. */
typedef void coordinator_message_fn(struct coordinator *h, const struct coord_self *self,
    const struct message *m);
#define TO_PROCESS(name) static coordinator_message_fn coordinator_on_##name;
#include "msg/message.def"

static coordinator_message_fn *const handlers[MESSAGE_KINDS] = {
#define TO_PROCESS(name) [MESSAGE_##name] = coordinator_on_##name,
#include "msg/message.def"
};

static void coordinator_on_trace(struct coordinator *h, const struct coord_self *self,
    const struct message *m)
{
	trace_request_take_page(h, self, &m->trace, clock_now());
}

json_t *coordinator_handle(struct coordinator *h, struct coord_self *self, const struct message *m,
    struct coordinator_mark *due, struct err *e)
{
	struct coordinator_mark before;
	json_t *answer;

	*due = (struct coordinator_mark){ 0 };

	coordinator_lock(h);
	if (handlers[m->kind]) {
		handlers[m->kind](h, self, m);
		commit(h, false);
		return NULL;
	}
	before = (struct coordinator_mark){ coord_stamp(h->coord), coord_leases(h->coord) };
	answer = m->kind == MESSAGE_worker_join && initial_settings(h, self, &m->worker_join, e)
	    ? NULL
	    : coord_handle(h->coord, self, m, clock_now(), e);
	/* Parked requests wait for acknowledgements of a revoked key, or for another change to
	 * be decided. Neither makes a new view, so nothing else would wake them. */
	if (m->kind == MESSAGE_keys_checked || h->change_is_awaited)
		coordinator_wake_parked(h);
	h->change_is_awaited = false;
	if (announces_state(h, m->kind, &before))
		*due = (struct coordinator_mark){ coord_stamp(h->coord), coord_leases(h->coord) };
	/* Heartbeats come by the thousand each second, so they wake no thread in coordinator_wait.
	 * Changes that a heartbeat caused are seen at the next tick. */
	commit(h, m->kind != MESSAGE_beat);
	return answer;
}

static void coordinator_gone(struct coordinator *h, const struct coord_self *self)
{
	if (atomic_load(&h->server->coordinator_stopping))
		return;
	coordinator_lock(h);
	coord_session_gone(h->coord, self, clock_now());
	coordinator_commit(h);
}

static void coordinator_keys_changed(struct coordinator *h)
{
	coordinator_lock(h);
	coord_publish_view(h->coord);
	coordinator_send_keys(h);
	coordinator_commit(h);
}

static void coordinator_keys_checked(struct coordinator *h, const struct message_keys_checked *m)
{
	coordinator_lock(h);
	coord_keys_checked(h->coord, m);
	coordinator_wake_parked(h);
	coordinator_commit(h);
}

static bool coordinator_leave(struct coordinator *h, int sig)
{
	bool saving;

	coordinator_lock(h);
	h->leave_signal = sig;
	saving = !h->leaving && h->checkpoints &&
	    (h->cfg.has_job || coord_count_tables(h->coord)) &&
	    coord_phase(h->coord) == COORD_RUNNING;
	if (saving)
		checkpoint_schedule_request(h->checkpoints);
	else
		coordinator_stop_job(h);
	h->leaving = saving;
	coordinator_commit(h);
	return saving;
}

void coordinator_stop_job(struct coordinator *h)
{
	char why[48] = "the coordinator was asked to leave";

	if (h->leave_signal)
		snprintf(why, sizeof why, "the coordinator got SIG%s",
		    sigabbrev_np(h->leave_signal));
	coord_stop(h->coord, why, clock_now());
	coord_end(h->coord);
}

static bool coordinator_ended(struct coordinator *h)
{
	bool ended;

	coordinator_lock(h);
	ended = coord_ended(h->coord);
	coordinator_unlock(h);
	return ended;
}

static bool coordinator_checkpoint(struct coordinator *h)
{
	coordinator_lock(h);
	if (h->checkpoints)
		checkpoint_schedule_request(h->checkpoints);
	coordinator_commit(h);
	return h->checkpoints != NULL;
}

/* ---- the ticker ---- */

static void do_periodic_work(struct coordinator *h, int64_t now)
{
	if (h->server->cfg.role)
		coord_own_server_alive(h->coord, h->server->incarnation, now);
	/* This process may have been suspended or slow. Measure a member's silence only up to
	 * the input that the I/O threads have processed. */
	coord_input_processed_until(h->coord, io_threads_handled_until(h->server));
	if (coord_tick(h->coord, now))
		io_threads_nudge(h->server);
	settings_request_tick(h, now);
	write_metrics(h, now);
	trace_request_tick(h, now);
	psk_renewal_tick(h);
}

/* The coordinator's own thread: does periodic work every TICK, and sends a deferred view as soon
 * as it is due. It counts its turns for the watchdog. The lock is released while it waits. */
static void *run_ticker(void *ctx)
{
	struct coordinator *h = ctx;
	int64_t next = 0;

	coordinator_lock(h);
	while (!atomic_load(&h->stop)) {
		int64_t now = clock_now(), until;
		struct timespec ts;

		atomic_fetch_add(&h->turns, 1);
		if (now >= next) {
			do_periodic_work(h, now);
			next = now + TICK;
		}
		coordinator_commit(h);
		coordinator_lock(h);
		until = h->views.deferred && state_file_is_durable(h) &&
		        coordinator_view_due(h) < next
		    ? coordinator_view_due(h)
		    : next;
		ts = (struct timespec){ until / NSEC_PER_SEC, until % NSEC_PER_SEC };
		mutex_wait_until(&h->woken, &h->lock, &ts);
	}
	coordinator_commit(h);
	return NULL;
}

/* ---- start and stop ---- */

/* The configuration of the coordinator's state. Texts and documents in it are borrowed from the
 * host and its configuration. Times are in ns. */
static struct coord_config make_coord_config(struct coordinator *h, const struct conf *c)
{
	return (struct coord_config){
		.name = h->server->cfg.conf->name ? h->server->cfg.conf->name : "cluster",
		.resume = h->resume ? &h->resume_head : NULL,
		.resume_path = h->resume_path,
		.cluster_id = h->cluster_id,
		.servers = (unsigned)c->servers,
		.workers = conf_trains(c) ? (unsigned)c->workers.max : 0,
		.replicas = (unsigned)c->replicas,
		.workers_min = (unsigned)c->workers.min,
		.workers_max = (unsigned)c->workers.max,
		.has_job = conf_trains(c),
		.lockstep = sync_is_lockstep(&c->sync),
		.deterministic = c->deterministic,
		.on_worker_loss = settings_request_policy(c),
		.loss_wait = c->on_worker_loss.wait,
		.lease = c->lease,
		/* Seven heartbeats and a half: 1.5 s by default. */
		.server_lost = c->heartbeat * 15 / 2,
		.deadline = c->deadline,
		.batch = conf_step_examples(c),
		.epochs = (uint64_t)c->job.epochs,
		.steps = (uint64_t)c->job.steps,
		.config = h->config,
	};
}

/* Starts the control plane: at the address of an earlier coordinator whose job goes on, if it is
 * free, else at the configured one. */
static enum err_code start_http(struct coordinator *h, struct err *e)
{
	const struct server_config *cfg = &h->server->cfg;
	char *sock = cfg->id->run_dir ? rundir_path(cfg->id->run_dir, "ctl.sock") : NULL;
	const char *before = h->server->recover ? h->server->state->http : NULL;
	struct http_server_config http = {
		.unix_path = sock,
		.tcp_fd = cfg->http_fd,
		.tcp_addr = !cfg->http_fd && before && strchr(before, ':') && *before != '/'
		    ? before
		    : cfg->conf->http,
		.routes = coordinator_routes,
		.nroutes = coordinator_nroutes,
		.ctx = h,
		.keys = cfg->id->conn.hs.key,
		.find_key = routes_find_key,
		.find_token = routes_find_token,
		.find_session = routes_find_session,
		.log = cfg->log,
	};
	struct http_server *started = NULL;
	enum err_code rc;

	memcpy(http.psk, cfg->id->conn.hs.psk, sizeof http.psk);
	rc = http_server_start(&http, &started, e);
	if (rc && http.tcp_addr != cfg->conf->http) {
		log_warn(cfg->log, "not where it was before: %s", e->msg);
		http.tcp_addr = cfg->conf->http;
		rc = http_server_start(&http, &started, e);
	}
	free(sock);
	/* The server's threads run already and read h->http, so set it under the lock. */
	coordinator_lock(h);
	h->http = started;
	if (!rc)
		psk_renewal_update_http(h);
	coordinator_unlock(h);
	return rc;
}

static void log_skipped_checkpoint(void *ctx, const char *path, const char *why)
{
	log_warn(ctx, "%s is passed over: %s", path, why);
}

/* Find the checkpoint to resume from: the newest whole one for "auto", else the one that was
 * named. */
static enum err_code find_resume(struct coordinator *h, struct err *e)
{
	const char *want = h->server->cfg.resume, *run = h->server->cfg.id->run_dir;
	const struct state *state = h->server->state;
	const char *restore = state && state->restore ? state->restore : "";
	enum err_code rc = ERR_OK;
	char *dir;

	if (h->server->recover && *restore)
		h->resume_path = mem_strdup(restore);
	/* The coordinator before this one was killed before it had begun from that checkpoint. */
	else if (!want && !h->server->cfg.force_new && *restore && coord_state_is_forming(state))
		want = restore;
	if (!want || !run || strcmp(want, "none") == 0)
		return ERR_OK;
	dir = rundir_path(run, "checkpoints");
	if (strcmp(want, "auto") == 0)
		rc = ckpt_newest(dir, log_skipped_checkpoint, h->server->cfg.log, &h->resume_path,
		    e);
	else
		h->resume_path = mem_strdup(want);
	free(dir);
	if (rc == ERR_NOTFOUND)
		return ERR_OK;
	if (!rc)
		rc = ckpt_verify(h->resume_path, e);
	if (!rc) {
		h->resume = ckpt_manifest_read(h->resume_path, e);
		rc = h->resume ? state_head_decode(manifest_document(h->resume), &h->resume_head, e)
		               : e->code;
	}
	if (!rc && !h->server->cfg.conf->read_only)
		rc = ckpt_state_check(h->resume, h->resume_path, e);
	if (!rc && conf_trains(h->server->cfg.conf))
		rc = coord_resume_check(&h->resume_head, h->server->cfg.conf->deterministic,
		    (unsigned)h->server->cfg.conf->workers.max, e);
	if (rc)
		return rc;
	log_info(h->server->cfg.log, "going on from %s", h->resume_path);
	return ERR_OK;
}

/* Was the checkpoint made by this run? Then settings in it that differ from the cluster file
 * were changed while the job ran. */
static bool own_checkpoint(const struct coordinator *h)
{
	const char *run = h->server->cfg.id->run_dir;
	char *dir = run ? rundir_path(run, "checkpoints") : NULL;
	size_t n = dir ? strlen(dir) : 0;
	bool own = h->resume && dir && strncmp(h->resume_path, dir, n) == 0 &&
	    h->resume_path[n] == '/';

	free(dir);
	return own;
}

static enum err_code coordinator_start(struct server *s, struct err *e)
{
	struct coord_io io = { .to_server = coordinator_notice,
		.view_changed = mark_view_changed,
		.event = record_event,
		.lease_changed = log_lease_change };
	struct conf first;
	struct coordinator *h = mem_alloc(sizeof *h);
	pthread_condattr_t attr;
	enum err_code rc;

	h->server = s;
	h->views.notices_last = &h->views.notices;
	io.ctx = h;
	mutex_init(&h->lock, LOCK_COORDINATOR);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->woken, &attr);
	pthread_cond_init(&h->changed, &attr);
	pthread_cond_init(&h->file.writer_woken, &attr);
	pthread_condattr_destroy(&attr);
	h->adapt = adapt_new();
	h->history = history_new(s->cfg.id->run_dir, s->cfg.log);
	h->web.curve = web_curve_new();
	if (s->recover)
		history_curve(h->history, h->web.curve);
	h->web.sessions = web_sessions_new();
	h->web.board = routes_web_feed_new();
	h->tracing = trace_request_new();
	psk_renewal_begin(h);
	s->coordinator = h;
	rc = find_resume(h, e);
	if (rc)
		return rc;
	h->config = settings_initial(s->cfg.conf, own_checkpoint(h) ? h->resume : NULL);
	rc = conf_from_json(h->config, &first, e);
	if (rc)
		return rc;
	h->cfg = make_coord_config(h, &first);
	if (s->cfg.id->run_dir && !s->cfg.role)
		rc = lease_log_open(h, &h->file.leaselog, e);
	if (rc)
		return rc;
	h->coord = coord_new(&h->cfg, &io, clock_now());
	if (s->recover)
		rc = coord_recover(h->coord, s->state, clock_now(), e);
	else if (s->state)
		coord_begin_after(h->coord, s->state);
	if (!rc && s->recover)
		rc = lease_log_replay(h, s->state, e);
	state_file_begin_life(h);
	coordinator_lock(h);
	if (!rc)
		rc = state_file_write_first(h, e);
	coordinator_unlock(h);
	if (!rc && h->file.leaselog)
		lease_log_remove_others(h);
	conf_release(&first);
	if (!rc)
		rc = conf_from_json(coord_present_config(h->coord), &first, e);
	if (rc)
		return rc;
	history_open(h->history);
	coordinator_lock(h);
	coordinator_show_first_view(h);
	coordinator_unlock(h);
	rc = state_file_start(h, e);
	if (!rc)
		rc = start_http(h, e);
	if (!rc && pthread_create(&h->ticker, NULL, run_ticker, h))
		rc = err_sys(e, ERR_IO, "cannot start a thread");
	if (!rc)
		rc = checkpoint_schedule_start(h, &first, e);
	if (!rc)
		rc = upload_start(h, &first, e);
	conf_release(&first);
	return rc;
}

/* End the coordinator's own threads and the HTTP server. Sessions may still call afterwards. */
static void coordinator_stop(struct coordinator *h)
{
	struct http_server *http;

	if (!h)
		return;
	upload_stop(h);
	checkpoint_schedule_stop(h);
	file_service_stop(h);
	lease_log_stop(h->file.leaselog);
	if (h->ticker) {
		mutex_lock(&h->lock);
		atomic_store(&h->stop, true);
		pthread_cond_signal(&h->woken);
		mutex_unlock(&h->lock);
		pthread_join(h->ticker, NULL);
	}
	state_file_stop(h);
	mutex_lock(&h->lock);
	if (h->ticker) {
		/* The last row of the metrics shows how the run ended. */
		h->next_metrics = 0;
		write_metrics(h, clock_now());
	}
	http = h->http;
	h->http = NULL;
	mutex_unlock(&h->lock);
	http_server_stop(http);
}

/* Called after all I/O threads have ended, so that no other thread uses h. */
static void coordinator_free(struct coordinator *h)
{
	if (!h)
		return;
	upload_free(h->offsite);
	checkpoint_schedule_free(h->checkpoints);
	coord_free(h->coord);
	lease_log_free(h->file.leaselog);
	state_head_release(&h->resume_head);
	manifest_free(h->resume);
	free(h->resume_path);
	view_text_unref(h->views.last);
	history_free(h->history);
	web_curve_free(h->web.curve);
	web_sessions_free(h->web.sessions);
	routes_web_feed_free(h->web.board);
	trace_request_free(h->tracing);
	json_decref(h->config);
	json_decref(h->followed);
	adapt_free(h->adapt);
	mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->woken);
	pthread_cond_destroy(&h->changed);
	pthread_cond_destroy(&h->file.writer_woken);
	free(h);
}

/* ---- for the server process ---- */

static void describe_coordinator(struct coordinator *h, char *out, size_t size)
{
	struct cluster_status *st;
	json_t *json;

	coordinator_lock(h);
	json = coord_status(h->coord, clock_now());
	coordinator_unlock(h);
	st = cluster_status_decode(json);
	json_decref(json);
	if (!st)
		*out = '\0';
	else if (*st->waiting_for)
		snprintf(out, size, "%s, waiting for %s", st->state, st->waiting_for);
	else if (*st->reason)
		snprintf(out, size, "%s: %s", st->state, st->reason);
	else
		snprintf(out, size, "%s, step %lld, %lld server%s, %lld worker%s, on %s", st->state,
		    (long long)st->step, (long long)st->servers, NUM_S(st->servers),
		    (long long)st->workers, NUM_S(st->workers), h->server->address);
	cluster_status_free(st);
}

static uint64_t count_turns(struct coordinator *h)
{
	return atomic_load(&h->turns);
}

const struct server_coordinator coordinator_role = {
	.find_earlier = state_file_read,
	.start = coordinator_start,
	.stop = coordinator_stop,
	.free = coordinator_free,
	.handle = coordinator_handle,
	.may_tell = coordinator_may_tell,
	.gone = coordinator_gone,
	.rev = coordinator_rev,
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
