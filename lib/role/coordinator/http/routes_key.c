/* SPDX-License-Identifier: ISC */
#include "coordinator/http/routes.h"
#include "coordinator/ownership.h"

#include <sodium.h>

#include "coordinator/psk_renewal.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "rundir/prepare.h"
#include "server/session_keys.h"

/* Routes that list, admit, revoke and release keys while the cluster runs. */

/* How long a revocation waits for servers to report that they have cut the sessions. */
#define CUT_PATIENCE_MS 1000

static enum err_code require_run_dir(const struct coordinator *coordinator, struct err *e)
{
	return coordinator->server->cfg.id->run_dir
	    ? ERR_OK
	    : err_set(e, ERR_UNSUPPORTED, "this coordinator has no run directory for keys");
}

/* ---- list ---- */

struct listing {
	struct coordinator *coordinator;
	json_t *list, *sessions;
	int64_t now, wall;
};

static json_t *date_or_null(int64_t expires)
{
	struct buf text = BUF_INIT;
	json_t *o;

	if (!expires)
		return json_null();
	keyring_put_date(expires, &text);
	o = json_string((const char *)text.data);
	buf_release(&text);
	return o;
}

static void list_key(void *ctx, const struct keyring_entry *entry)
{
	struct listing *l = ctx;
	char key[48], id[32], print[KEYRING_FINGERPRINT];
	const char *run = l->coordinator->server->cfg.id->run_dir;
	json_t *o = json_pack("{s:s, s:s, s:s}", "name", entry->name, "role",
	    role_name(entry->role), "type", entry->is_token ? "token" : "x25519");
	int64_t age;

	keyring_fingerprint(entry, print);
	key_to_text(entry->pk, key);
	json_object_set_new(o, "fingerprint", json_string(print));
	json_object_set_new(o, "expires", date_or_null(entry->expires));
	json_object_set_new(o, "expired",
	    json_boolean(entry->expires && l->wall >= entry->expires));
	json_object_set_new(o, "here", json_boolean(run && rundir_has_key_file(run, entry->name)));
	json_object_set_new(o, "sessions", json_integer(json_int(l->sessions, entry->name, 0)));
	if (!entry->is_token && coord_key_held(l->coordinator->coord, key, l->now, id, &age)) {
		json_object_set_new(o, "held_by", json_string(id));
		json_object_set_new(o, "seen_seconds",
		    json_of_num((double)age / (double)NSEC_PER_SEC));
	} else {
		json_object_set_new(o, "held_by", json_null());
		json_object_set_new(o, "seen_seconds", json_null());
	}
	json_array_append_new(l->list, o);
}

int routes_get_keys(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct coordinator *coordinator = ctx;
	struct listing l = { .coordinator = coordinator,
		.list = json_array(),
		.sessions = session_keys_census(coordinator->server),
		.now = clock_now(),
		.wall = clock_wall() / NSEC_PER_SEC };

	(void)req;
	coordinator_lock(coordinator);
	rwlock_read(&coordinator->server->keys.lock);
	keyring_each(coordinator->server->keys.ring, list_key, &l);
	rwlock_unlock(&coordinator->server->keys.lock);
	coordinator_commit_unlock(coordinator);
	json_decref(l.sessions);
	return routes_answer(a, json_pack("{s:o}", "keys", l.list));
}

/* ---- admit ---- */

static bool parse_token_hash(const char *hex, uint8_t out[static KEY_BYTES])
{
	size_t n;

	return strlen(hex) == 2 * KEY_BYTES &&
	    sodium_hex2bin(out, KEY_BYTES, hex, 2 * KEY_BYTES, NULL, &n, NULL) == 0 &&
	    n == KEY_BYTES;
}

static enum err_code read_entry(const json_t *body, struct keyring_entry *entry, struct err *e)
{
	const char *name = json_str(body, "name", ""), *date = json_str(body, "expires", NULL);

	if (!role_parse(json_str(body, "role", ""), &entry->role))
		return err_set(e, ERR_USAGE,
		    "role: must be worker, server, relay, monitor, reader or admin");
	if (strlen(name) > KEYRING_NAME_MAX)
		return err_set(e, ERR_USAGE, "name: at most %d letters", KEYRING_NAME_MAX);
	snprintf(entry->name, sizeof entry->name, "%s", name);
	entry->is_token = json_object_get(body, "token_hash") != NULL;
	if (entry->is_token ? !parse_token_hash(json_str(body, "token_hash", ""), entry->pk)
	                    : !key_from_text(json_str(body, "key", ""), entry->pk))
		return err_set(e, ERR_USAGE,
		    "key: must be %d characters of base64 (or token_hash, %d hexadecimal digits)",
		    KEY_TEXT_LEN, 2 * KEY_BYTES);
	if (date && !keyring_date(date, &entry->expires))
		return err_set(e, ERR_USAGE,
		    "expires: must be YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SSZ");
	return ERR_OK;
}

int routes_post_keys(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "role", "name", "key", "token_hash", "expires", NULL };
	struct coordinator *coordinator = ctx;
	struct keyring_entry entry = { 0 };
	struct err e = { 0 };
	char print[KEYRING_FINGERPRINT];

	if (!json_only(req->body, "", keys, &e) || require_run_dir(coordinator, &e) ||
	    read_entry(req->body, &entry, &e) ||
	    rundir_authorize_key(coordinator->server->cfg.id->run_dir, &entry, &e) ||
	    server_reload(coordinator->server, &e))
		return routes_fail(a, &e);
	keyring_fingerprint(&entry, print);
	coordinator_lock(coordinator);
	coordinator_event(coordinator, EVENT_key_added, "a key of %s (%s) is admitted, by %s",
	    entry.name, role_name(entry.role), req->peer.name);
	coordinator_commit_unlock(coordinator);
	return routes_answer(a, json_pack("{s:s, s:s}", "name", entry.name, "fingerprint", print));
}

/* ---- revoke ---- */

static bool is_admitted(struct server *s, const char *name, struct keyring_entry *out)
{
	const struct keyring_entry *entry;

	rwlock_read(&s->keys.lock);
	entry = keyring_find_name(s->keys.ring, name);
	if (entry)
		*out = *entry;
	rwlock_unlock(&s->keys.lock);
	return entry != NULL;
}

static enum err_code revoke_named_key(struct coordinator *coordinator, const char *name,
    const char *who, uint64_t *made, struct err *e)
{
	const struct identity *id = coordinator->server->cfg.id;
	struct keyring_entry was;
	struct err unwritten = { 0 };
	char key[48];
	enum err_code rc = require_run_dir(coordinator, e);

	if (!rc && strcmp(name, id->name) == 0)
		rc = err_set(e, ERR_USAGE,
		    "%s is the coordinator's own key: it cannot be revoked while the coordinator "
		    "runs",
		    name);
	if (!rc)
		rc = rundir_revoke_key(id->run_dir, name, &was, e);
	/* An earlier request removed the line, but the file could not be reloaded then. */
	if (rc == ERR_NOTFOUND && is_admitted(coordinator->server, name, &was))
		rc = ERR_OK;
	/* The disk may be full. Revoke the key in memory all the same. */
	if (rc == ERR_IO && is_admitted(coordinator->server, name, &was)) {
		unwritten = *e;
		rc = ERR_OK;
	}
	if (rc)
		return rc;
	key_to_text(was.pk, key);
	coordinator_lock(coordinator);
	coord_revoke(coordinator->coord, name, was.is_token ? NULL : key, who, clock_now());
	coordinator_commit_unlock(coordinator);
	/* Since coord_revoke, the coordinator counts the sessions that servers cut because of this
	 * key. */
	if (unwritten.code)
		server_forget_key(coordinator->server, name, made);
	else
		rc = server_reload_keys(coordinator->server, made, e);
	if (unwritten.code)
		rc = err_set(e, ERR_IO,
		    "%s is revoked for as long as the coordinator runs, but its line remains in "
		    "authorized_keys: %.300s; free disk space and revoke it again",
		    name, unwritten.msg);
	return rc;
}

static void release_keys_check(struct coord_keys_check *check)
{
	json_decref(check->missing);
	json_decref(check->lost);
}

/* Parked until all servers have cut the key's sessions, or for CUT_PATIENCE_MS. */
int routes_post_revoke(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "name", NULL };
	struct coordinator *coordinator = ctx;
	const char *name = json_str(req->body, "name", "");
	struct coord_keys_check check = { .missing = json_array(), .lost = json_array() };
	struct err e = { 0 };
	bool all_checked;

	a->park_ms = CUT_PATIENCE_MS;
	if (!*req->memo &&
	    (!json_only(req->body, "", keys, &e) ||
	        revoke_named_key(coordinator, name, req->peer.name, req->memo, &e))) {
		release_keys_check(&check);
		return routes_fail(a, &e);
	}
	coordinator_lock(coordinator);
	all_checked = coord_keys_are_checked(coordinator->coord, *req->memo, name, &check);
	coordinator_commit_unlock(coordinator);
	if (!all_checked && !req->late) {
		release_keys_check(&check);
		return HTTP_PARK;
	}
	return routes_answer(a,
	    json_pack("{s:s, s:I, s:I, s:o, s:o}", "name", name, "sessions_cut",
	        (json_int_t)check.cut, "servers", (json_int_t)check.checked, "unreached",
	        check.missing, "lost", check.lost));
}

/* ---- invite -------------------------------------------------------------------------
 * The public key goes into authorized_keys; the secret key goes into the answer alone. */

/* The join file by which a process on another host runs as `name`. It contains secrets. */
static json_t *join_file(struct coordinator *coordinator, enum role role, const char *name,
    const struct key_pair *pair)
{
	const struct identity *id = coordinator->server->cfg.id;
	struct secret_pair secret;
	struct identity_join_words words = { .cluster = coordinator->cfg.name,
		.name = name,
		.role = role,
		.server_key = id->conn.hs.key.pk,
		.psk = secret.now,
		.key = pair->sk };
	char *data, *http;
	json_t *out;

	coordinator_lock(coordinator);
	words.data = data = ownership_addresses(coordinator, false);
	words.http = http = ownership_addresses(coordinator, true);
	coordinator_unlock(coordinator);
	secrets_both(id->conn.secrets, &secret);
	out = identity_join_json(&words);
	sodium_memzero(&secret, sizeof secret);
	free(data);
	free(http);
	return out;
}

/* Make a new key or, for a monitor, a new token. */
static enum err_code invite_new(struct coordinator *coordinator, enum role role, const char *name,
    json_t **out, struct err *e)
{
	struct keyring_entry entry = { .role = role, .is_token = role == ROLE_MONITOR };
	struct key_pair pair;
	char token[48] = "";
	enum err_code rc;

	snprintf(entry.name, sizeof entry.name, "%s", name);
	key_pair_generate(&pair);
	memcpy(entry.pk, pair.pk, sizeof entry.pk);
	if (entry.is_token) {
		keyring_token_new(token);
		keyring_token_hash(token, entry.pk);
	}
	rc = rundir_authorize_key(coordinator->server->cfg.id->run_dir, &entry, e);
	if (!rc)
		rc = server_reload(coordinator->server, e);
	if (!rc)
		*out = entry.is_token ? json_pack("{s:s, s:s}", "name", name, "token", token)
		                      : join_file(coordinator, role, name, &pair);
	key_pair_wipe(&pair);
	return rc;
}

/* Use a key of the run directory, whose process was to run on this host and is to run elsewhere. */
static enum err_code invite_kept(struct coordinator *coordinator, const char *name, json_t **out,
    struct err *e)
{
	const char *run = coordinator->server->cfg.id->run_dir;
	struct keyring_entry entry;
	struct key_pair pair;
	char *path;
	enum err_code rc;

	if (!is_admitted(coordinator->server, name, &entry) || entry.is_token ||
	    !rundir_has_key_file(run, name))
		return err_set(e, ERR_NOTFOUND, "the run directory has no key named %.*s",
		    KEYRING_NAME_MAX, name);
	path = mem_printf("%s/keys/%s.key", run, entry.name);
	rc = key_pair_load(path, &pair, e);
	if (!rc)
		*out = join_file(coordinator, entry.role, entry.name, &pair);
	key_pair_wipe(&pair);
	free(path);
	return rc;
}

static enum err_code invite_process(struct coordinator *coordinator, const json_t *body,
    json_t **out, struct err *e)
{
	const char *kept = json_str(body, "kept", NULL), *wish = json_str(body, "name", "");
	enum role role;
	char name[KEYRING_NAME_MAX + 1];

	if (require_run_dir(coordinator, e))
		return e->code;
	if (kept)
		return invite_kept(coordinator, kept, out, e);
	if (!role_parse(json_str(body, "role", ""), &role))
		return err_set(e, ERR_USAGE,
		    "role: must be worker, server, relay, monitor, reader or admin");
	if (strlen(wish) > KEYRING_NAME_MAX)
		return err_set(e, ERR_USAGE, "name: at most %d letters", KEYRING_NAME_MAX);
	snprintf(name, sizeof name, "%s", wish);
	if (!name[0])
		snprintf(name, sizeof name, "%s-%llx", role_name(role),
		    (unsigned long long)(clock_wall() & 0xffffffffff));
	return invite_new(coordinator, role, name, out, e);
}

int routes_post_invite(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "role", "name", "kept", NULL };
	struct err e = { 0 };
	json_t *out = NULL;

	if (!json_only(req->body, "", keys, &e) || invite_process(ctx, req->body, &out, &e))
		return routes_fail(a, &e);
	return routes_answer(a, out);
}

/* ---- the cluster's pre-shared key ---- */

struct guests {
	const char *run;
	json_t *list;
};

/* A process whose secret key is not here got its credentials in a join file, which contains the
 * old pre-shared key. */
static void add_remote_process(void *ctx, const struct keyring_entry *entry)
{
	struct guests *g = ctx;

	if (!entry->is_token && !rundir_has_key_file(g->run, entry->name))
		json_array_append_new(g->list,
		    json_pack("{s:s, s:s}", "name", entry->name, "role", role_name(entry->role)));
}

int routes_post_secret(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "grace_seconds", "force", NULL };
	struct coordinator *coordinator = ctx;
	struct guests g = { .run = coordinator->server->cfg.id->run_dir, .list = json_array() };
	int64_t grace = json_int(req->body, "grace_seconds", SECRET_GRACE);
	struct psk_renewal renewal = { .force = json_flag(req->body, "force"),
		.who = req->peer.name };
	struct err e = { 0 };
	enum err_code rc = json_only(req->body, "", keys, &e) ? require_run_dir(coordinator, &e)
	                                                      : e.code;

	if (!rc && (grace < 0 || grace > SECRET_GRACE_MAX))
		rc = err_set(&e, ERR_USAGE, "grace_seconds: must be from 0 to %d",
		    SECRET_GRACE_MAX);
	if (!rc) {
		renewal.until = clock_wall() / NSEC_PER_SEC + grace;
		rc = psk_renewal_rotate(coordinator, &renewal, &e);
	}
	if (rc) {
		json_decref(g.list);
		return routes_fail(a, &e);
	}
	rwlock_read(&coordinator->server->keys.lock);
	keyring_each(coordinator->server->keys.ring, add_remote_process, &g);
	rwlock_unlock(&coordinator->server->keys.lock);
	return routes_answer(a,
	    json_pack("{s:I, s:o, s:o}", "grace_seconds", (json_int_t)grace, "until",
	        date_or_null(renewal.until), "guests", g.list));
}
