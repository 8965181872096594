#include "server/host.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "launch/rundir.h"

#define TICK (50 * NSEC_PER_MSEC)
#define METRICS_PERIOD (1 * NSEC_PER_SEC)

/* ---- effects of the state machine -------------------------------------------------- */

static void to_server(void *ctx, unsigned index, json_t *msg)
{
	struct host *h = ctx;
	char *text = json_text(msg);

	lanes_shout(h->server, text, (int)index);
	free(text);
}

static void view_changed(void *ctx)
{
	((struct host *)ctx)->dirty = true;
}

static void event(void *ctx, const char *kind, const char *text)
{
	struct host *h = ctx;
	json_t *e = json_event("event"), **place = &h->event[h->nevents % EVENTS_KEPT];

	json_object_set_new(e, "rev", json_integer((json_int_t)h->nevents));
	json_object_set_new(e, "event", json_string(kind));
	json_object_set_new(e, "text", json_string(text));
	json_decref(*place);
	*place = e;
	h->nevents++;
	log_info(h->server->cfg.log, "%s", text);
}

/* ---- views ---------------------------------------------------------------------------- */

static void add_key(void *ctx, const struct keyring_entry *entry)
{
	char text[48];

	if (entry->is_token)
		return;
	key_to_text(entry->pk, text);
	json_array_append_new(ctx, json_pack("{s:s, s:s, s:s, s:I}", "key", text, "role", role_name(entry->role),
	    "name", entry->name, "expires", (json_int_t)entry->expires));
}

json_t *host_keys(struct host *h)
{
	json_t *keys = json_array();

	pthread_rwlock_rdlock(&h->server->keys_lock);
	keyring_each(h->server->ring, add_key, keys);
	pthread_rwlock_unlock(&h->server->keys_lock);
	return keys;
}

static char *view_text(struct host *h)
{
	json_t *v = coord_view(h->coord);
	char *text;

	json_object_set_new(v, "keys", host_keys(h));
	text = json_text(v);
	json_decref(v);
	return text;
}

char *host_view(struct host *h)
{
	char *text;

	host_lock(h);
	text = view_text(h);
	host_unlock(h);
	return text;
}

void host_lock(struct host *h)
{
	pthread_mutex_lock(&h->lock);
}

void host_unlock(struct host *h)
{
	bool end = false;

	if (h->dirty) {
		char *text = view_text(h);

		h->dirty = false;
		lanes_shout(h->server, text, -1);
		free(text);
		if (h->http)
			http_server_kick(h->http);
	}
	if (coord_ended(h->coord) && !h->told_end)
		end = h->told_end = true;
	pthread_mutex_unlock(&h->lock);
	/* A store in this process learns of the stop from the view, as others. */
	if (end && !h->server->cfg.store)
		server_end(h->server, NULL);
}

/* ---- calls from sessions ---------------------------------------------------------------- */

json_t *host_handle(struct host *h, struct coord_self *self, const json_t *msg, struct err *e)
{
	json_t *answer;

	host_lock(h);
	answer = coord_handle(h->coord, self, msg, clock_now(), e);
	host_unlock(h);
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

void host_leave(struct host *h)
{
	host_lock(h);
	coord_stop(h->coord, "the coordinator was asked to leave", clock_now());
	coord_end(h->coord);
	host_unlock(h);
}

/* ---- the ticker --------------------------------------------------------------------------- */

static void write_metrics(struct host *h, int64_t now)
{
	json_t *s;
	char *text;

	if (h->metrics_fd < 0 || now < h->next_metrics || coord_phase(h->coord) == COORD_FORMING)
		return;
	h->next_metrics = now + METRICS_PERIOD;
	s = coord_status(h->coord, now);
	text = json_text(s);
	/* A full disk costs the history, not the job. */
	if (dprintf(h->metrics_fd, "%s\n", text) < 0)
		log_warn(h->server->cfg.log, "cannot write metrics.jsonl: %s", strerrordesc_np(errno));
	free(text);
	json_decref(s);
}

static void *tick(void *ctx)
{
	struct host *h = ctx;

	host_lock(h);
	while (!atomic_load(&h->stop)) {
		int64_t now = clock_now(), until = now + TICK;
		struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };

		coord_tick(h->coord, now);
		write_metrics(h, now);
		host_unlock(h);
		host_lock(h);
		pthread_cond_timedwait(&h->stopped, &h->lock, &ts);
	}
	host_unlock(h);
	return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------ */

static struct coord_config configure(struct host *h, const struct conf *c)
{
	char hex[3] = "";

	h->cluster_id[0] = 0;
	for (int i = 0; i < HS_CLUSTER_BYTES; i++) {
		snprintf(hex, sizeof hex, "%02x", h->server->cfg.id->conn.cluster[i]);
		memcpy(h->cluster_id + 2 * i, hex, 3);
	}
	return (struct coord_config){
		.name = c->name ? c->name : "cluster",
		.cluster_id = h->cluster_id,
		.servers = (unsigned)c->servers,
		.workers = c->has_job ? (unsigned)c->workers.max : 0,
		.has_job = c->has_job,
		.bsp = c->sync.kind == SYNC_bsp,
		.deterministic = c->deterministic,
		.on_worker_loss = c->on_worker_loss.policy == CONF_WAIT ? COORD_WAIT :
		    c->on_worker_loss.policy == CONF_FAIL ? COORD_FAIL : COORD_SHRINK,
		.loss_wait = c->on_worker_loss.wait,
		.lease = c->lease,
		/* Seven heartbeats and a half: 1.5 s by default. */
		.server_lost = c->heartbeat * 15 / 2,
		.deadline = c->deadline,
		.batch = (uint64_t)c->job.batch,
		.epochs = (uint64_t)c->job.epochs,
		.steps = (uint64_t)c->job.steps,
		.config = h->config,
	};
}

static void open_metrics(struct host *h)
{
	const char *dir = h->server->cfg.id->run_dir;
	char *path;

	h->metrics_fd = -1;
	if (!dir)
		return;
	path = rundir_path(dir, "metrics.jsonl");
	h->metrics_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	free(path);
}

static enum err_code start_http(struct host *h, struct err *e)
{
	const struct server_config *cfg = &h->server->cfg;
	char *sock = cfg->id->run_dir ? rundir_path(cfg->id->run_dir, "ctl.sock") : NULL;
	struct http_server_config http = {
		.unix_path = sock,
		.tcp_addr = cfg->conf->http,
		.routes = host_routes,
		.nroutes = host_nroutes,
		.ctx = h,
		.keys = cfg->id->conn.hs.key,
		.find_key = host_find_key,
		.find_token = host_find_token,
		.log = cfg->log,
	};
	struct http_server *started = NULL;
	enum err_code rc;

	memcpy(http.psk, cfg->id->conn.hs.psk, sizeof http.psk);
	rc = http_server_start(&http, &started, e);
	free(sock);
	/* Its threads are at work, and look here under the lock. */
	host_lock(h);
	h->http = started;
	host_unlock(h);
	return rc;
}

enum err_code host_start(struct server *s, struct err *e)
{
	struct coord_io io = { .to_server = to_server, .view_changed = view_changed, .event = event };
	struct host *h = mem_alloc(sizeof *h);
	pthread_condattr_t attr;
	enum err_code rc;

	h->server = s;
	io.ctx = h;
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->stopped, &attr);
	pthread_condattr_destroy(&attr);
	h->config = conf_to_json(s->cfg.conf);
	h->cfg = configure(h, s->cfg.conf);
	h->coord = coord_new(&h->cfg, &io, clock_now());
	open_metrics(h);
	s->host = h;
	rc = start_http(h, e);
	if (!rc && pthread_create(&h->ticker, NULL, tick, h))
		rc = err_sys(e, ERR_IO, "cannot start a thread");
	return rc;
}

/* Of its own accord it does nothing any more; sessions may still call. */
void host_stop(struct host *h)
{
	struct http_server *http;

	if (!h)
		return;
	if (h->ticker) {
		pthread_mutex_lock(&h->lock);
		atomic_store(&h->stop, true);
		pthread_cond_signal(&h->stopped);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->ticker, NULL);
	}
	pthread_mutex_lock(&h->lock);
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
	coord_free(h->coord);
	for (size_t i = 0; i < EVENTS_KEPT; i++)
		json_decref(h->event[i]);
	json_decref(h->config);
	if (h->metrics_fd >= 0)
		close(h->metrics_fd);
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->stopped);
	free(h);
}
