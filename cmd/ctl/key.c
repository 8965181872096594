/* SPDX-License-Identifier: ISC */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/keyring.h"
#include "auth/keys.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "session/control.h"
#include "rundir/prepare.h"
#include "rundir/rundir.h"

/* ps-ctl key: changes and lists the keys that a cluster admits. While the cluster runs, its
 * coordinator is asked to do it; otherwise the files of the run directory are changed. */
struct key_options {
	const char *dir, *role, *public, *expires, *file;
	int64_t grace;
	bool json, force;
	char *run;  /* the run directory */
	bool alive; /* its cluster is running */
};

/* Timeout of a request, ns. POST /v1/keys/revoke takes a second when a server is slow to cut its
 * sessions. */
#define PATIENCE (10 * NSEC_PER_SEC)

/* Sends a POST request to the coordinator of o->run. Takes over the reference to body. */
static enum err_code post_key_request(const struct key_options *o, const char *path, json_t *body,
    json_t **answer, struct err *e)
{
	enum err_code rc = ctl_request_soon(o->run,
	    &(struct ctl_call){ .path = path, .body = body }, PATIENCE, answer, e);

	json_decref(body);
	return rc;
}

/* ---- add ---- */

/* Parses --expires to seconds since 1970: a number of days ("30d"), another duration, or a date. */
static enum err_code parse_expiry(const char *text, int64_t *out, struct err *e)
{
	size_t n = strlen(text);
	int64_t now = clock_wall() / NSEC_PER_SEC, ns;
	char *digits = mem_strdup(text);
	uint64_t days = 0;
	bool in_days;

	in_days = n > 1 && text[n - 1] == 'd';
	digits[n - (n > 0)] = '\0';
	in_days = in_days && num_uint(digits, 36500, &days);
	free(digits);
	if (in_days)
		*out = now + (int64_t)days * 86400;
	else if (!keyring_date(text, out)) {
		if (!num_duration(text, &ns))
			return err_set(e, ERR_USAGE,
			    "--expires: \"%.60s\" is neither a time from now (30d, 12h) nor a date (2027-01-31)",
			    text);
		*out = now + ns / NSEC_PER_SEC;
	}
	return *out > now ? ERR_OK
	                  : err_set(e, ERR_USAGE, "--expires: \"%.60s\" is in the past", text);
}

/* Fills in the entry to admit: the public key that was given, or a fresh one, whose secret is
 * written to *file (to be freed), or for a monitor a fresh token. */
static enum err_code make_key_entry(const struct key_options *o, const char *name,
    struct keyring_entry *entry, char **file, char token[static 48], struct err *e)
{
	const char *text = o->public && strncmp(o->public, "x25519:", 7) == 0 ? o->public + 7
	                                                                      : o->public;
	struct keyring *ring = keyring_new();
	struct key_pair pair;
	enum err_code rc = ERR_OK;

	if (strlen(name) > KEYRING_NAME_MAX)
		rc = err_set(e, ERR_USAGE, "NAME must be at most %d characters", KEYRING_NAME_MAX);
	snprintf(entry->name, sizeof entry->name, "%s", name);
	role_parse(o->role, &entry->role);
	if (!rc && o->expires)
		rc = parse_expiry(o->expires, &entry->expires, e);
	/* Refuse an entry that authorized_keys cannot hold before any file is written. */
	if (!rc && keyring_add(ring, entry, e))
		rc = e->code = ERR_USAGE;
	keyring_free(ring);
	if (rc)
		return rc;
	if (text)
		return key_from_text(text, entry->pk)
		    ? ERR_OK
		    : err_set(e, ERR_USAGE,
		          "--public: must be %d characters of base64, as in the line that ps-ctl keygen prints",
		          KEY_TEXT_LEN);
	if (entry->role == ROLE_MONITOR) {
		entry->is_token = true;
		keyring_token_new(token);
		keyring_token_hash(token, entry->pk);
		return ERR_OK;
	}
	*file = o->file ? mem_strdup(o->file) : mem_printf("%s/keys/%s.key", o->run, name);
	rc = key_pair_create(*file, &pair, e);
	if (rc) {
		free(*file);
		*file = NULL;
		return rc;
	}
	memcpy(entry->pk, pair.pk, sizeof entry->pk);
	key_pair_wipe(&pair);
	return ERR_OK;
}

/* Adds the entry to authorized_keys: by the coordinator while it runs, else directly. */
static enum err_code admit_key(const struct key_options *o, const struct keyring_entry *entry,
    struct err *e)
{
	struct buf date = BUF_INIT;
	char text[2 * KEY_BYTES + 1];
	json_t *body;
	enum err_code rc;

	if (!o->alive)
		return rundir_authorize_key(o->run, entry, e);
	if (entry->is_token)
		sodium_bin2hex(text, sizeof text, entry->pk, KEY_BYTES);
	else
		key_to_text(entry->pk, text);
	body = json_pack("{s:s, s:s, s:s}", "role", role_name(entry->role), "name", entry->name,
	    entry->is_token ? "token_hash" : "key", text);
	if (entry->expires) {
		keyring_put_date(entry->expires, &date);
		json_object_set_new(body, "expires", json_string((char *)date.data));
	}
	rc = post_key_request(o, "/v1/keys", body, NULL, e);
	buf_release(&date);
	return rc;
}

/* A token goes to stdout alone, so that a script can take it, and the sentence for people then goes
 * to stderr. `file` and `token` may be NULL. */
static void print_added_key(const struct key_options *o, const struct keyring_entry *entry,
    const char *file, const char *token)
{
	char fingerprint[KEYRING_FINGERPRINT];
	struct buf date = BUF_INIT;
	json_t *line;

	keyring_fingerprint(entry, fingerprint);
	if (entry->expires)
		keyring_put_date(entry->expires, &date);
	if (o->json) {
		line = json_pack("{s:s, s:s, s:s}", "name", entry->name, "role",
		    role_name(entry->role), "fingerprint", fingerprint);
		json_object_set_new(line, "expires",
		    date.len ? json_string((char *)date.data) : json_null());
		json_object_set_new(line, "file", file ? json_string(file) : json_null());
		json_object_set_new(line, "token",
		    entry->is_token ? json_string(token) : json_null());
		json_print_event("key_added", line);
		json_decref(line);
	} else {
		fprintf(entry->is_token ? stderr : stdout,
		    "%s (%s) can connect%s%s, fingerprint %s%s%s\n", entry->name,
		    role_name(entry->role), date.len ? " until " : "",
		    date.len ? (char *)date.data : "", fingerprint, file ? ", secret key in " : "",
		    file ? file : "");
		if (entry->is_token)
			puts(token);
	}
	buf_release(&date);
}

/* A secret file that was made is removed again when the key cannot be admitted. */
static int run_key_add(const struct key_options *o, char **args)
{
	struct keyring_entry entry = { 0 };
	struct err e = { 0 };
	char *file = NULL, token[48] = "";
	enum err_code rc;

	if (!o->role)
		rc = err_set(&e, ERR_USAGE,
		    "key add: --role is required: worker, server, relay, monitor, reader or admin");
	else if (o->public && o->file)
		rc = err_set(&e, ERR_USAGE,
		    "key add: --output cannot be used with --public, because there is no secret key to write");
	else
		rc = make_key_entry(o, args[0], &entry, &file, token, &e);
	if (!rc)
		rc = admit_key(o, &entry, &e);
	if (rc && file)
		unlink(file);
	if (!rc)
		print_added_key(o, &entry, file, token);
	free(file);
	return rc ? ctl_fail(&e) : 0;
}

/* ---- revoke ---- */

static void print_revoked_key(const struct key_options *o, const json_t *answer)
{
	const json_t *missing = json_object_get(answer, "unreached"),
	             *lost = json_object_get(answer, "lost"), *id;
	int64_t cut = json_int(answer, "sessions_cut", 0), servers = json_int(answer, "servers", 0);
	size_t i;

	if (o->json) {
		json_print_event("revoked", answer);
	} else if (o->alive) {
		printf("%s is revoked: %lld session%s closed on %lld server%s\n",
		    json_str(answer, "name", ""), (long long)cut, NUM_S(cut), (long long)servers,
		    NUM_S(servers));
	} else {
		printf("%s is revoked; the cluster is not running\n", json_str(answer, "name", ""));
	}
	json_array_foreach(missing, i, id)
		fprintf(stderr,
		    "ps-ctl: %s has not confirmed within 1 s that its sessions are closed; it closes them when "
		    "the coordinator can reach it\n",
		    json_string_value(id));
	json_array_foreach(lost, i, id)
		fprintf(stderr,
		    "ps-ctl: %s was lost before it confirmed that its sessions are closed; if its process still "
		    "runs, end it\n",
		    json_string_value(id));
}

/* A running coordinator also cuts the key's sessions. Exit code 1: the key is revoked, but some
 * server has not confirmed that. */
static int run_key_revoke(const struct key_options *o, char **args)
{
	struct err e = { 0 };
	json_t *answer = NULL;
	enum err_code rc;
	bool all;

	if (o->alive) {
		rc = post_key_request(o, "/v1/keys/revoke", json_pack("{s:s}", "name", args[0]),
		    &answer, &e);
	} else {
		rc = rundir_revoke_key(o->run, args[0], NULL, &e);
		answer = json_pack("{s:s, s:i, s:i, s:[], s:[]}", "name", args[0], "sessions_cut",
		    0, "servers", 0, "unreached", "lost");
	}
	if (!rc)
		print_revoked_key(o, answer);
	all = json_array_size(json_object_get(answer, "unreached")) == 0 &&
	    json_array_size(json_object_get(answer, "lost")) == 0;
	json_decref(answer);
	return rc ? ctl_fail(&e) : all ? 0 : 1;
}

/* Appends a key of authorized_keys in the form of GET /v1/keys. Sessions and holders are
 * unknown. */
static void add_listed_key(void *ctx, const struct keyring_entry *entry)
{
	const struct key_options *o = ((void **)ctx)[0];
	json_t *list = ((void **)ctx)[1];
	char fingerprint[KEYRING_FINGERPRINT];
	struct buf date = BUF_INIT;

	keyring_fingerprint(entry, fingerprint);
	if (entry->expires)
		keyring_put_date(entry->expires, &date);
	json_array_append_new(list,
	    json_pack("{s:s, s:s, s:s, s:s, s:s?, s:b, s:b, s:i, s:n, s:n}", "name", entry->name,
	        "role", role_name(entry->role), "type", entry->is_token ? "token" : "x25519",
	        "fingerprint", fingerprint, "expires", date.len ? (char *)date.data : NULL,
	        "expired", entry->expires && clock_wall() / NSEC_PER_SEC >= entry->expires, "here",
	        rundir_has_key_file(o->run, entry->name), "sessions", 0, "held_by",
	        "seen_seconds"));
	buf_release(&date);
}

/* Without a coordinator only the file is known: no sessions, and not when a key was last seen. */
static enum err_code read_key_list(const struct key_options *o, json_t **out, struct err *e)
{
	char *path = rundir_path(o->run, "keys/authorized_keys");
	json_t *list = json_array();
	const void *ctx[2] = { o, list };
	struct keyring *ring;
	enum err_code rc = keyring_load(path, &ring, e);

	if (!rc) {
		keyring_each(ring, add_listed_key, ctx);
		keyring_free(ring);
	}
	*out = json_pack("{s:o}", "keys", list);
	free(path);
	return rc;
}

static enum err_code request_key_list(const struct key_options *o, json_t **out, struct err *e)
{
	return ctl_request_soon(o->run,
	    &(struct ctl_call){ .method = "GET", .path = "/v1/keys", .repeatable = true }, CTL_CALL,
	    out, e);
}

static void print_key_table(const json_t *keys)
{
	const json_t *k;
	size_t i;

	printf("%-20s %-8s %-24s %-20s %-10s %8s %6s\n", "NAME", "ROLE", "FINGERPRINT", "EXPIRES",
	    "HELD BY", "SESSIONS", "SEEN");
	json_array_foreach(keys, i, k) {
		double seen = json_num(k, "seen_seconds", -1);
		char age[32] = "-";

		if (seen >= 0)
			snprintf(age, sizeof age, "%.1fs", seen);
		printf("%-20s %-8s %-24s %-20s %-10s %8lld %6s\n", json_str(k, "name", ""),
		    json_str(k, "role", ""), json_str(k, "fingerprint", ""),
		    json_flag(k, "expired") ? "expired" : json_str(k, "expires", "never"),
		    json_str(k, "held_by", "-"), (long long)json_int(k, "sessions", 0), age);
	}
}

static int run_key_list(const struct key_options *o, char **args)
{
	json_t *answer = NULL;
	const json_t *keys, *k;
	struct err e = { 0 };
	enum err_code rc = o->alive ? request_key_list(o, &answer, &e)
	                            : read_key_list(o, &answer, &e);
	size_t i;

	(void)args;
	keys = json_object_get(answer, "keys");
	if (!rc && o->json)
		json_array_foreach(keys, i, k)
			json_print_event("key", k);
	else if (!rc)
		print_key_table(keys);
	json_decref(answer);
	return rc ? ctl_fail(&e) : 0;
}

static void print_rotated_secret(const struct key_options *o, const json_t *answer)
{
	int64_t grace = json_int(answer, "grace_seconds", 0);
	const json_t *guest;
	size_t i;

	if (o->json) {
		json_print_event("psk_rotated", answer);
	} else {
		printf("the cluster has a new secret; the previous one is accepted ");
		printf(grace ? "until %s\n" : "no longer\n", json_str(answer, "until", ""));
	}
	json_array_foreach(json_object_get(answer, "guests"), i, guest)
		fprintf(stderr, "note: %s (%s) joined with a join file: invite it again%s\n",
		    json_str(guest, "name", ""), json_str(guest, "role", ""),
		    grace ? ", or copy the new secret into it, before the previous one expires"
		          : "");
}

/* The grace period is rounded up to whole seconds. Only a running coordinator can do this, because
 * the members must learn the new secret from it. */
static int rotate_psk(const struct key_options *o, char **args)
{
	json_t *body = json_object(), *answer = NULL;
	struct err e = { 0 };
	enum err_code rc;

	(void)args;
	if (o->grace >= 0)
		json_object_set_new(body, "grace_seconds",
		    json_integer((o->grace + NSEC_PER_SEC - 1) / NSEC_PER_SEC));
	if (o->force)
		json_object_set_new(body, "force", json_true());
	if (o->alive) {
		rc = post_key_request(o, "/v1/keys/secret", body, &answer, &e);
	} else {
		json_decref(body);
		rc = err_set(&e, ERR_NOTREADY,
		    "the cluster of %s is not running: a new run generates its own secret, and a resumed "
		    "run can rotate it",
		    o->run);
	}
	if (!rc)
		print_rotated_secret(o, answer);
	json_decref(answer);
	return rc ? ctl_fail(&e) : 0;
}

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct key_options, dir),
	{ "role", 'r', OPT_CHOICE, offsetof(struct key_options, role), "ROLE",
	    "for add: the role of the key", CTL_ROLES, 0, 0 },
	{ "public", 0, OPT_STR, offsetof(struct key_options, public), "KEY",
	    "for add: a public key that was generated elsewhere (ps-ctl keygen)", NULL, 0, 0 },
	{ "expires", 0, OPT_STR, offsetof(struct key_options, expires), "WHEN",
	    "for add: expiry, as a time from now (30d, 12h) or a date (2027-01-31)", NULL, 0, 0 },
	{ "output", 'o', OPT_STR, offsetof(struct key_options, file), "FILE",
	    "for add: the file for the secret key (RUN/keys/NAME.key)", NULL, 0, 0 },
	{ "grace", 0, OPT_DURATION, offsetof(struct key_options, grace), "TIME",
	    "for rotate-psk: how long the previous secret is accepted (10m)", NULL, 0,
	    30. * 86400 * NSEC_PER_SEC },
	{ "force", 0, OPT_FLAG, offsetof(struct key_options, force), NULL,
	    "for rotate-psk: also during the grace period of the renewal before", NULL, 0, 0 },
	CTL_OPT_JSON(struct key_options, json),
};

/* True when a coordinator answers on the control socket. One that was started by hand holds no
 * lock, but must learn of changed keys all the same. */
static bool coordinator_answers(const char *run)
{
	struct http_client *client = NULL;
	bool is = control_connect(run, &client, NULL) == ERR_OK &&
	    http_call(client, "GET", "/livez", NULL, CTL_CALL, NULL, NULL, NULL) == ERR_OK;

	http_client_free(client);
	return is;
}

static const struct action {
	const char *name;
	int args;
	const char *wants;
	int (*run)(const struct key_options *o, char **args);
} actions[] = {
	{ "add", 1, "one NAME", run_key_add },
	{ "revoke", 1, "one NAME", run_key_revoke },
	{ "list", 0, "no operand", run_key_list },
	{ "rotate-psk", 0, "no operand", rotate_psk },
};

/* Whether the cluster is alive is asked once and handed to the action: a change of the files alone
 * would not reach a running coordinator. */
static int run_key(const struct ctl_cmd *self, int argc, char **argv)
{
	struct key_options o = { .grace = -1 };
	const struct action *a;
	struct err e = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	a = CTL_ACTION(self, argv[1], actions);
	if (!a)
		return 2;
	if (nargs - 1 != a->args)
		return ctl_report_misuse(self, "%s takes %s", a->name, a->wants);
	if (strcmp(a->name, "add") != 0 && (o.role || o.public || o.expires || o.file))
		return ctl_report_misuse(self,
		    "--role, --public, --expires and --output can only be used with add");
	if (strcmp(a->name, "rotate-psk") != 0 && (o.grace >= 0 || o.force))
		return ctl_report_misuse(self,
		    "--grace and --force can only be used with rotate-psk");
	if (key_init(&e) || ctl_run_dir(o.dir, &o.run, &e))
		return ctl_fail(&e);
	o.alive = rundir_is_alive(o.run, NULL) || coordinator_answers(o.run);
	code = a->run(&o, argv + 2);
	free(o.run);
	return code;
}

const struct ctl_cmd ctl_cmd_key = {
	"key",
	{
	    .prog = "ps-ctl key",
	    .args = "add NAME | revoke NAME | list | rotate-psk",
	    .about = "admit, revoke and list keys while the cluster runs, and renew its secret",
	    .more =
	        "add and revoke change RUN/keys/authorized_keys, even if the cluster is not running. In a running\n"
	        "cluster, add admits the key immediately, and revoke closes its sessions on every server, considers\n"
	        "the process that has it lost, and prints the number of closed sessions. add without --public\n"
	        "generates a key pair and stores the secret key; for a monitor it prints a bearer token. rotate-psk\n"
	        "generates a new secret for the cluster: the processes of the run directory get it by themselves,\n"
	        "and join files with the old secret are refused after the grace period.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 2,
	    .examples =
	        "  ps-ctl key add alice --role worker --expires 30d\n  ps-ctl key revoke worker-2\n  ps-ctl key list\n"
	        "  ps-ctl key rotate-psk --grace 1h\n",
	},
	run_key,
};
