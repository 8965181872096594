#include "server/adapt.h"
#include "server/board.h"
#include "server/files.h"
#include "server/history.h"
#include "server/keep.h"
#include "server/offsite.h"
#include "server/propose.h"
#include "server/remember.h"
#include "server/row.h"
#include "server/secret.h"
#include "server/settings.h"
#include "server/tensorboard.h"
#include "server/tracing.h"

#include <stdarg.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/dirs.h"
#include "conf/rule.h"
#include "ckpt/names.h"
#include "ckpt/read.h"
#include "launch/rundir.h"
#include "web/curve.h"
#include "web/sessions.h"

#define TICK (50 * NSEC_PER_MSEC)
/* As often as heartbeats come at first, so that a short run has a curve, too. */
#define METRICS_PERIOD (200 * NSEC_PER_MSEC)
#define METRICS_PERIOD_MAX (1 * NSEC_PER_SEC)
#define METRICS_POINTS 60

/* ---- effects of the state machine -------------------------------------------------- */

static void view_changed(void *ctx)
{
	((struct host *)ctx)->dirty = true;
}

static void write_metrics(struct host *h, int64_t now)
{
	int64_t period;
	json_t *s;

	if (now < h->next_metrics || coord_phase(h->coord) == COORD_FORMING)
		return;
	s = row_take(h, now);
	period = (int64_t)(json_num(s, "seconds", 0) / METRICS_POINTS * NSEC_PER_SEC);
	h->next_metrics = now + (period < METRICS_PERIOD ? METRICS_PERIOD :
	    period < METRICS_PERIOD_MAX ? period : METRICS_PERIOD_MAX);
	history_metrics(h->history, s);
	web_curve_add(h->curve, s);
	tensorboard_row(h->tensorboard, s);
	json_decref(s);
}

static void event(void *ctx, const char *kind, const char *text)
{
	struct host *h = ctx;

	history_add(h->history, kind, text);
	/* The metrics shall have how things stood then; no evaluation is to be missed. */
	h->next_metrics = 0;
	if (strcmp(kind, "eval") == 0)
		write_metrics(h, clock_now());
	log_info(h->server->cfg.log, "%s", text);
}

void host_lock(struct host *h)
{
	pthread_mutex_lock(&h->lock);
}

static void unlock(struct host *h, bool tell)
{
	bool end = false;

	host_send(h);
	if (coord_ended(h->coord) && !h->told_end)
		end = h->told_end = true;
	if (tell)
		pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
	/* A store in this process learns of the stop from the view, as others. */
	if (end && !h->server->cfg.store)
		server_end(h->server, NULL);
}

void host_unlock(struct host *h)
{
	unlock(h, true);
}

void host_wait(struct host *h, int64_t until)
{
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };

	if (until)
		pthread_cond_timedwait(&h->changed, &h->lock, &ts);
	else
		pthread_cond_wait(&h->changed, &h->lock);
}

void host_kick(struct host *h)
{
	if (h->http)
		http_server_kick(h->http);
}

void host_rouse(struct host *h)
{
	pthread_cond_broadcast(&h->changed);
}

void host_event(struct host *h, const char *kind, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	event(h, kind, text);
}

/* ---- calls from sessions ---------------------------------------------------------------- */

json_t *host_handle(struct host *h, struct coord_self *self, const json_t *msg, struct err *e)
{
	const char *op = json_str(msg, "op", "");
	json_t *answer;

	host_lock(h);
	if (strcmp(json_str(msg, "op", ""), "trace") == 0) {
		tracing_take(h, self, msg, clock_now());
		unlock(h, false);
		return NULL;
	}
	answer = strcmp(op, "worker_join") == 0 && propose(h, self, msg, e) ? NULL : coord_handle(h->coord, self, msg, clock_now(), e);
	/* Who has revoked a key waits for it; and what all servers have to know of, or workers to be past, is told
	 * of here: no view follows. */
	if (strcmp(op, "keys") == 0 || h->change_waits)
		host_kick(h);
	h->change_waits = false;
	/* Of thousands of heartbeats a second none wakes who waits: what one may have changed is
	 * seen at the next tick. */
	unlock(h, strcmp(op, "beat") != 0);
	return answer;
}

void host_gone(struct host *h, const struct coord_self *self)
{
	if (atomic_load(&h->server->host_stopping))
		return;
	host_lock(h);
	coord_gone(h->coord, self, clock_now());
	host_unlock(h);
}

void host_touch(struct host *h)
{
	host_lock(h);
	coord_touch(h->coord);
	host_unlock(h);
}

void host_keys_checked(struct host *h, const json_t *msg)
{
	host_lock(h);
	coord_keys_checked(h->coord, msg);
	host_kick(h);
	host_unlock(h);
}

bool host_leave(struct host *h)
{
	bool saving;

	host_lock(h);
	saving = !h->leaving && h->keep && h->cfg.has_job && coord_phase(h->coord) == COORD_RUNNING;
	if (saving)
		keep_want(h->keep);
	else
		host_left(h);
	h->leaving = saving;
	host_unlock(h);
	return saving;
}

void host_left(struct host *h)
{
	coord_stop(h->coord, "the coordinator was asked to leave", clock_now());
	coord_end(h->coord);
}

bool host_ended(struct host *h)
{
	bool ended;

	host_lock(h);
	ended = coord_ended(h->coord);
	host_unlock(h);
	return ended;
}

bool host_checkpoint(struct host *h)
{
	host_lock(h);
	if (h->keep)
		keep_want(h->keep);
	host_unlock(h);
	return h->keep != NULL;
}

/* ---- the ticker --------------------------------------------------------------------------- */

static void on_time(struct host *h, int64_t now)
{
	if (h->server->cfg.store)
		coord_here(h->coord, h->server->incarnation, now);
	/* This process may have stood still, or be slow: what others said meanwhile is read first. */
	coord_heard(h->coord, lanes_heard(h->server));
	if (coord_tick(h->coord, now))
		lanes_nudge(h->server);
	settings_tick(h, now);
	write_metrics(h, now);
	tracing_tick(h, now);
	secret_tick(h);
}

static void *tick(void *ctx)
{
	struct host *h = ctx;
	int64_t next = 0;

	host_lock(h);
	while (!atomic_load(&h->stop)) {
		int64_t now = clock_now(), until;
		struct timespec ts;

		atomic_fetch_add(&h->turns, 1);
		if (now >= next) {
			on_time(h, now);
			next = now + TICK;
		}
		host_unlock(h);
		host_lock(h);
		until = h->dirty && host_view_due(h) < next ? host_view_due(h) : next;
		ts = (struct timespec){ until / NSEC_PER_SEC, until % NSEC_PER_SEC };
		pthread_cond_timedwait(&h->woken, &h->lock, &ts);
	}
	host_unlock(h);
	return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------ */

static struct coord_config configure(struct host *h, const struct conf *c)
{
	return (struct coord_config){
		.name = h->server->cfg.conf->name ? h->server->cfg.conf->name : "cluster",
		.resume = h->resume,
		.resume_path = h->resume_path,
		.cluster_id = h->cluster_id,
		.servers = (unsigned)c->servers,
		.workers = conf_trains(c) ? (unsigned)c->workers.max : 0,
		.replicas = (unsigned)c->replicas,
		.workers_min = (unsigned)c->workers.min,
		.workers_max = (unsigned)c->workers.max,
		.has_job = conf_trains(c),
		.bsp = c->sync.kind == SYNC_bsp,
		.deterministic = c->deterministic,
		.on_worker_loss = settings_policy(c),
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

static enum err_code start_http(struct host *h, struct err *e)
{
	const struct server_config *cfg = &h->server->cfg;
	char *sock = cfg->id->run_dir ? rundir_path(cfg->id->run_dir, "ctl.sock") : NULL;
	const char *before = h->server->recover ? json_str(h->server->state, "http", "") : NULL;
	struct http_server_config http = {
		.unix_path = sock,
		.tcp_fd = cfg->http_fd,
		.tcp_addr = !cfg->http_fd && before && strchr(before, ':') && *before != '/' ? before : cfg->conf->http,
		.routes = host_routes,
		.nroutes = host_nroutes,
		.ctx = h,
		.keys = cfg->id->conn.hs.key,
		.find_key = host_find_key,
		.find_token = host_find_token,
		.find_session = host_find_session,
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
	/* Its threads are at work, and look here under the lock. */
	host_lock(h);
	h->http = started;
	if (!rc)
		secret_tell(h);
	host_unlock(h);
	return rc;
}

static void passed_over(void *ctx, const char *path, const char *why)
{
	log_warn(ctx, "%s is passed over: %s", path, why);
}

/* auto: the newest whole checkpoint, if there is one; else the one that is named. */
static enum err_code find_resume(struct host *h, struct err *e)
{
	const char *want = h->server->cfg.resume, *run = h->server->cfg.id->run_dir;
	enum err_code rc = ERR_OK;
	char *dir;

	if (h->server->recover && *json_str(h->server->state, "restore", ""))
		h->resume_path = mem_strdup(json_str(h->server->state, "restore", ""));
	if (!want || !run || strcmp(want, "none") == 0)
		return ERR_OK;
	dir = rundir_path(run, "checkpoints");
	if (strcmp(want, "auto") == 0)
		rc = ckpt_newest(dir, passed_over, h->server->cfg.log, &h->resume_path, e);
	else
		h->resume_path = mem_strdup(want);
	free(dir);
	if (rc == ERR_NOTFOUND)
		return ERR_OK;
	if (!rc)
		rc = ckpt_verify(h->resume_path, e);
	if (!rc) {
		h->resume = ckpt_manifest_read(h->resume_path, e);
		rc = h->resume ? ERR_OK : e->code;
	}
	if (rc)
		return rc;
	log_info(h->server->cfg.log, "going on from %s", h->resume_path);
	return ERR_OK;
}

/* Made by this run: what differs in it was set while it ran. */
static bool own_checkpoint(const struct host *h)
{
	const char *run = h->server->cfg.id->run_dir;
	char *dir = run ? rundir_path(run, "checkpoints") : NULL;
	size_t n = dir ? strlen(dir) : 0;
	bool own = h->resume && dir && strncmp(h->resume_path, dir, n) == 0 && h->resume_path[n] == '/';

	free(dir);
	return own;
}

enum err_code host_start(struct server *s, struct err *e)
{
	struct coord_io io = { .to_server = host_notice, .view_changed = view_changed, .event = event };
	struct conf first;
	struct host *h = mem_alloc(sizeof *h);
	pthread_condattr_t attr;
	enum err_code rc;

	h->server = s;
	h->notices_last = &h->notices;
	io.ctx = h;
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->woken, &attr);
	pthread_cond_init(&h->changed, &attr);
	pthread_condattr_destroy(&attr);
	h->adapt = adapt_new();
	h->history = history_new(s->cfg.id->run_dir, s->cfg.log);
	h->curve = web_curve_new();
	if (s->recover)
		history_curve(h->history, h->curve);
	h->sessions = web_sessions_new();
	h->board = board_new();
	h->tensorboard = tensorboard_new(s->cfg.id->run_dir, s->cfg.log);
	h->tracing = tracing_new();
	secret_begin(h);
	s->host = h;
	rc = find_resume(h, e);
	if (rc)
		return rc;
	h->config = settings_first(s->cfg.conf, own_checkpoint(h) ? h->resume : NULL);
	rc = conf_from_json(h->config, &first, e);
	if (rc)
		return rc;
	h->cfg = configure(h, &first);
	h->coord = coord_new(&h->cfg, &io, clock_now());
	if (s->recover)
		rc = coord_recover(h->coord, s->state, clock_now(), e);
	else if (s->state)
		coord_follow(h->coord, s->state);
	if (!rc && !remember(h, clock_now()))
		rc = err_set(e, ERR_IO, "the coordinator's state cannot be written to %s", s->cfg.id->run_dir);
	conf_release(&first);
	if (!rc)
		rc = conf_from_json(coord_config_now(h->coord), &first, e);
	if (rc)
		return rc;
	history_open(h->history);
	host_lock(h);
	host_send_view(h, clock_now());
	host_unlock(h);
	rc = start_http(h, e);
	if (!rc && pthread_create(&h->ticker, NULL, tick, h))
		rc = err_sys(e, ERR_IO, "cannot start a thread");
	if (!rc)
		rc = keep_start(h, &first, e);
	if (!rc)
		rc = offsite_start(h, &first, e);
	conf_release(&first);
	return rc;
}

/* Of its own accord it does nothing any more; sessions may still call. */
void host_stop(struct host *h)
{
	struct http_server *http;

	if (!h)
		return;
	offsite_stop(h);
	keep_stop(h);
	files_stop(h);
	if (h->ticker) {
		pthread_mutex_lock(&h->lock);
		atomic_store(&h->stop, true);
		pthread_cond_signal(&h->woken);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->ticker, NULL);
	}
	pthread_mutex_lock(&h->lock);
	if (h->ticker) {
		/* The last line is how it ended. */
		h->next_metrics = 0;
		write_metrics(h, clock_now());
	}
	http = h->http;
	h->http = NULL;
	pthread_mutex_unlock(&h->lock);
	http_server_stop(http);
}

/* The lanes have ended: nobody calls any more. */
void host_free(struct host *h)
{
	if (!h)
		return;
	offsite_free(h->offsite);
	keep_free(h->keep);
	coord_free(h->coord);
	json_decref(h->resume);
	free(h->resume_path);
	views_unref(h->views);
	history_free(h->history);
	web_curve_free(h->curve);
	web_sessions_free(h->sessions);
	board_free(h->board);
	tensorboard_free(h->tensorboard);
	tracing_free(h->tracing);
	json_decref(h->config);
	json_decref(h->followed);
	adapt_free(h->adapt);
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->woken);
	pthread_cond_destroy(&h->changed);
	free(h);
}
