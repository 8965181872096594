#include "base/clock.h"
#include "base/json.h"
#include "base/num.h"
#include "client/prepare.h"
#include "ckpt/dirs.h"
#include "server/history.h"
#include "server/keep.h"
#include "server/metrics.h"
#include "server/settings.h"

#define WAIT_MAX_SECONDS 60.0

/* ---- who asks ----------------------------------------------------------------------- */

static bool fill_peer(const struct keyring_entry *entry, struct http_peer *peer)
{
	if (!entry)
		return false;
	peer->role = entry->role;
	snprintf(peer->name, sizeof peer->name, "%s", entry->name);
	return true;
}

bool host_find_key(void *ctx, const uint8_t pk[KEY_BYTES], struct http_peer *peer)
{
	struct host *h = ctx;
	bool found;

	pthread_rwlock_rdlock(&h->server->keys_lock);
	found = fill_peer(keyring_find(h->server->ring, pk, clock_wall() / NSEC_PER_SEC), peer);
	pthread_rwlock_unlock(&h->server->keys_lock);
	return found;
}

bool host_find_token(void *ctx, const char *token, struct http_peer *peer)
{
	struct host *h = ctx;
	bool found;

	pthread_rwlock_rdlock(&h->server->keys_lock);
	found = fill_peer(keyring_find_token(h->server->ring, token, clock_wall() / NSEC_PER_SEC), peer);
	pthread_rwlock_unlock(&h->server->keys_lock);
	return found;
}

/* ---- reading ------------------------------------------------------------------------- */

static int fail(struct http_answer *a, const struct err *e)
{
	http_fail_err(a, e);
	return HTTP_DONE;
}

static int answer(struct http_answer *a, json_t *json)
{
	a->json = json;
	return HTTP_DONE;
}

static int bad_query(struct http_answer *a, const char *key)
{
	http_fail(a, ERR_USAGE, NULL, "%s: must be a number that is not negative", key);
	return HTTP_DONE;
}

/* ?wait=SECONDS; false when it is malformed. */
static bool wait_ms(const struct http_request *req, int64_t *out)
{
	const char *text = http_query(req, "wait");
	double s;

	*out = 0;
	if (!text)
		return true;
	if (!num_double(text, &s) || s < 0)
		return false;
	*out = (int64_t)((s < WAIT_MAX_SECONDS ? s : WAIT_MAX_SECONDS) * 1000);
	return true;
}

static int get_status(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct host *h = ctx;
	const char *since = http_query(req, "rev");
	uint64_t rev = 0;
	bool same;

	if (since && !num_uint(since, UINT64_MAX, &rev))
		return bad_query(a, "rev");
	if (!wait_ms(req, &a->park_ms))
		return bad_query(a, "wait");
	host_lock(h);
	same = since && rev == coord_rev(h->coord);
	if (!same || req->late || !a->park_ms)
		a->json = coord_status(h->coord, clock_now());
	host_unlock(h);
	return a->json ? HTTP_DONE : HTTP_PARK;
}

typedef json_t *(*list_fn)(const struct coord *, int64_t now);

static json_t *locked_list(struct host *h, list_fn fn)
{
	json_t *list;

	host_lock(h);
	list = fn(h->coord, clock_now());
	host_unlock(h);
	return list;
}

static int get_servers(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return answer(a, json_pack("{s:o}", "servers", locked_list(ctx, coord_servers)));
}

static int get_relays(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return answer(a, json_pack("{s:o}", "relays", locked_list(ctx, coord_relays)));
}

static int get_workers(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return answer(a, json_pack("{s:o}", "workers", locked_list(ctx, coord_workers)));
}

static int get_why(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return answer(a, json_pack("{s:o}", "why", locked_list(ctx, coord_why)));
}

static json_t *locked(struct host *h, json_t *(*fn)(const struct coord *))
{
	json_t *doc;

	host_lock(h);
	doc = fn(h->coord);
	host_unlock(h);
	return doc;
}

static int get_tables(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return answer(a, json_pack("{s:o}", "tables", locked(ctx, coord_tables)));
}

static int get_layout(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return answer(a, locked(ctx, coord_layout));
}

static int get_tasks(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return answer(a, locked(ctx, coord_tasks));
}

static int get_config(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return answer(a, settings_now(ctx));
}

static int get_result(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)req;
	return answer(a, locked_list(ctx, coord_result));
}

static int get_checkpoints(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct host *h = ctx;
	struct ckpt_entry *list = NULL;
	json_t *out = json_array();
	struct err e = { 0 };
	size_t n = 0;

	(void)req;
	/* The directory's name never changes: no lock. */
	if (h->keep && ckpt_list(keep_dir(h->keep), false, &list, &n, &e)) {
		json_decref(out);
		return fail(a, &e);
	}
	for (size_t i = 0; i < n; i++)
		json_array_append_new(out, json_pack("{s:I, s:s, s:b, s:I}", "step", (json_int_t)list[i].step, "path",
		    list[i].path, "whole", list[i].whole, "size_bytes", (json_int_t)list[i].bytes));
	ckpt_list_free(list, n);
	return answer(a, json_pack("{s:o}", "checkpoints", out));
}

/* Parked until the one that it has asked for is made, or has failed. */
static int post_checkpoints(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { NULL };
	struct host *h = ctx;
	struct err e = { 0 };
	bool done;

	if (!json_only(req->body, "", keys, &e))
		return fail(a, &e);
	if (!h->keep) {
		http_fail(a, ERR_UNSUPPORTED, NULL, "this coordinator has no run directory to keep checkpoints in");
		return HTTP_DONE;
	}
	a->park_ms = HTTP_PARK_MAX_MS;
	host_lock(h);
	if (!*req->memo)
		*req->memo = keep_want(h->keep);
	done = keep_last(h->keep)->done >= *req->memo;
	e = keep_last(h->keep)->why;
	if (done && !e.code)
		a->json = json_pack("{s:I, s:s}", "step", (json_int_t)keep_last(h->keep)->step, "path", keep_last(h->keep)->path);
	host_unlock(h);
	if (done && e.code)
		return fail(a, &e);
	return done ? HTTP_DONE : HTTP_PARK;
}

static int get_events(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct host *h = ctx;
	const char *text = http_query(req, "since");
	uint64_t since = 0, next;
	json_t *list;

	if ((text && !num_uint(text, UINT64_MAX, &since)) || !wait_ms(req, &a->park_ms))
		return bad_query(a, "since, wait");
	host_lock(h);
	list = history_events(h->history, since, &next);
	host_unlock(h);
	if (json_array_size(list) || req->late || !a->park_ms)
		a->json = json_pack("{s:O, s:I}", "events", list, "next", (json_int_t)next);
	json_decref(list);
	return a->json ? HTTP_DONE : HTTP_PARK;
}

static int get_metrics(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct host *h = ctx;
	json_t *status, *servers, *workers;
	int64_t now = clock_now();

	(void)req;
	host_lock(h);
	status = coord_status(h->coord, now);
	servers = coord_servers(h->coord, now);
	workers = coord_workers(h->coord, now);
	host_unlock(h);
	metrics_text(status, servers, workers, &a->text);
	a->content_type = "text/plain; version=0.0.4; charset=utf-8";
	json_decref(status);
	json_decref(servers);
	json_decref(workers);
	return HTTP_DONE;
}

static int get_livez(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)ctx;
	(void)req;
	return answer(a, json_pack("{s:s}", "status", "ok"));
}

static int get_readyz(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct host *h = ctx;
	json_t *s = locked_list(h, coord_status);
	const char *state = json_str(s, "state", "");
	bool ready = strcmp(state, "forming") != 0 && strcmp(state, "failed") != 0 && strcmp(state, "stopped") != 0;

	(void)req;
	a->status = ready ? 200 : 503;
	a->json = json_pack("{s:s, s:s, s:s}", "status", ready ? "ok" : "not ready", "state", state, "waiting_for",
	    json_str(s, "waiting_for", ""));
	json_decref(s);
	return HTTP_DONE;
}

/* ---- changing ------------------------------------------------------------------------- */

static int post_stop(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "why", NULL };
	struct host *h = ctx;
	struct err e = { 0 };

	if (!json_only(req->body, "", keys, &e))
		return fail(a, &e);
	host_lock(h);
	coord_stop(h->coord, json_str(req->body, "why", "asked to stop"), clock_now());
	/* A job that is over has a phase of its own: the servers end all the same. */
	coord_end(h->coord);
	host_unlock(h);
	return answer(a, json_object());
}

static int post_log(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "level", NULL };
	struct host *h = ctx;
	struct err e = { 0 };
	int level = log_level_parse(json_str(req->body, "level", ""));

	if (!json_only(req->body, "", keys, &e))
		return fail(a, &e);
	if (level < 0) {
		http_fail(a, ERR_USAGE, NULL, "level: must be error, warn, info or debug");
		return HTTP_DONE;
	}
	atomic_store(&h->server->cfg.log->level, level);
	return answer(a, json_object());
}

/* Keys for those that were not foreseen. */
static enum err_code add_keys(struct host *h, const char *prefix, enum role role, int64_t n, struct err *e)
{
	char name[32];
	enum err_code rc = ERR_OK;

	for (int64_t i = 0; !rc && i < n; i++) {
		snprintf(name, sizeof name, "%s-%lld", prefix, (long long)i);
		rc = run_add_key(h->server->cfg.id->run_dir, name, role, e);
		if (rc == ERR_EXISTS)
			rc = ERR_OK;
	}
	return rc;
}

static int post_scale(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "servers", "workers", NULL };
	struct host *h = ctx;
	int64_t servers = json_int(req->body, "servers", -1), workers = json_int(req->body, "workers", -1);
	struct err e = { 0 };
	enum err_code rc = json_only(req->body, "", keys, &e) ? ERR_OK : e.code;

	if (!rc && h->server->cfg.id->run_dir && servers <= COORD_SERVERS_MAX && workers <= COORD_WORKERS_MAX) {
		rc = add_keys(h, "server", ROLE_SERVER, servers, &e);
		if (!rc)
			rc = add_keys(h, "worker", ROLE_WORKER, workers, &e);
		if (!rc)
			rc = server_reload(h->server, &e);
	}
	if (!rc) {
		host_lock(h);
		rc = coord_scale(h->coord, servers, workers, clock_now(), &e);
		host_unlock(h);
	}
	return rc ? fail(a, &e) : answer(a, json_object());
}

static int post_drain(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "server", NULL };
	struct host *h = ctx;
	const char *id = json_str(req->body, "server", "");
	struct err e = { 0 };
	uint64_t n;
	enum err_code rc = ERR_OK;

	if (!json_only(req->body, "", keys, &e))
		return fail(a, &e);
	if (strncmp(id, "server-", 7) != 0 || !num_uint(id + 7, COORD_SERVERS_MAX - 1, &n))
		rc = err_set(&e, ERR_USAGE, "server: must be server-0, server-1 ..., got \"%s\"", id);
	if (!rc) {
		host_lock(h);
		rc = coord_drain(h->coord, (unsigned)n, clock_now(), &e);
		host_unlock(h);
	}
	return rc ? fail(a, &e) : answer(a, json_object());
}

static int post_rebalance(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { NULL };
	struct host *h = ctx;
	struct err e = { 0 };
	enum err_code rc;

	if (!json_only(req->body, "", keys, &e))
		return fail(a, &e);
	host_lock(h);
	rc = coord_rebalance(h->coord, clock_now(), &e);
	host_unlock(h);
	return rc ? fail(a, &e) : answer(a, json_object());
}

static int post_set(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "set", NULL };
	struct err e = { 0 };
	int64_t number;

	if (!json_only(req->body, "", keys, &e) ||
	    settings_change(ctx, json_object_get(req->body, "set"), req->peer.name, &number, &e))
		return fail(a, &e);
	return answer(a, json_pack("{s:I}", "settings", (json_int_t)number));
}

static int post_tables(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "tables", NULL };
	struct host *h = ctx;
	struct coord_self self = { .kind = COORD_ADMIN };
	struct err e = { 0 };
	json_t *msg, *done;

	if (!json_only(req->body, "", keys, &e))
		return fail(a, &e);
	msg = json_copy((json_t *)(uintptr_t)req->body);
	json_object_set_new(msg, "op", json_string("table"));
	done = host_handle(h, &self, msg, &e);
	json_decref(msg);
	return done ? answer(a, done) : fail(a, &e);
}

/* The key's line goes into authorized_keys, its secret into the answer alone. */
static enum err_code invite_key(struct host *h, enum role role, const char *name, json_t **out, struct err *e)
{
	const struct identity *id = h->server->cfg.id;
	struct keyring_entry entry = { .role = role };
	char token[48], key[48], psk[48], server[48];
	struct key_pair pair;
	enum err_code rc;

	if (strlen(name) > KEYRING_NAME_MAX)
		return err_set(e, ERR_USAGE, "name: at most %d letters", KEYRING_NAME_MAX);
	snprintf(entry.name, sizeof entry.name, "%s", name);
	if (role == ROLE_MONITOR) {
		keyring_token_new(token);
		keyring_token_hash(token, entry.pk);
		entry.is_token = true;
	} else {
		key_pair_generate(&pair);
		memcpy(entry.pk, pair.pk, sizeof entry.pk);
	}
	rc = run_authorize(id->run_dir, &entry, e);
	if (!rc)
		rc = server_reload(h->server, e);
	if (rc)
		return rc;
	if (role == ROLE_MONITOR) {
		*out = json_pack("{s:s}", "token", token);
		return ERR_OK;
	}
	key_to_text(pair.sk, key);
	key_to_text(id->conn.hs.psk, psk);
	key_to_text(id->conn.hs.key.pk, server);
	*out = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "v", 1, "cluster", h->cfg.name, "role",
	    role_name(role), "name", name, "data", h->server->advertised, "http",
	    h->http ? http_server_address(h->http) : "", "server_key", server, "psk", psk, "key", key);
	key_pair_wipe(&pair);
	return ERR_OK;
}

static int post_invite(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "role", "name", NULL };
	struct host *h = ctx;
	struct err e = { 0 };
	enum role role;
	char name[64];
	json_t *out;

	if (!json_only(req->body, "", keys, &e))
		return fail(a, &e);
	if (!role_parse(json_str(req->body, "role", ""), &role)) {
		http_fail(a, ERR_USAGE, NULL, "role: must be worker, server, relay, monitor or admin");
		return HTTP_DONE;
	}
	if (!h->server->cfg.id->run_dir) {
		http_fail(a, ERR_UNSUPPORTED, NULL, "this coordinator has no run directory to keep keys in");
		return HTTP_DONE;
	}
	snprintf(name, sizeof name, "%s", json_str(req->body, "name", ""));
	if (!name[0])
		snprintf(name, sizeof name, "%s-%llx", role_name(role), (unsigned long long)(clock_wall() & 0xffffffffff));
	return invite_key(h, role, name, &out, &e) ? fail(a, &e) : answer(a, out);
}

#define W (1u << ROLE_WORKER)
#define S (1u << ROLE_SERVER)
#define R (1u << ROLE_RELAY)
#define M (1u << ROLE_MONITOR)
#define A (1u << ROLE_ADMIN)
const struct http_route host_routes[] = {
#define ROUTE(method, path, handler, roles, flags, help) { method, path, roles, flags, handler, help },
#include "server/routes.def"
#undef ROUTE
};
const size_t host_nroutes = sizeof host_routes / sizeof *host_routes;
