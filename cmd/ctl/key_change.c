/* SPDX-License-Identifier: ISC */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/keyring.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "key.h"
#include "rundir/prepare.h"

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
	                  : err_set(e, ERR_USAGE, "--expires: \"%.60s\" is over already", text);
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
	rc = key_post(o, "/v1/keys", body, NULL, e);
	buf_release(&date);
	return rc;
}

static void print_added_key(const struct key_options *o, const struct keyring_entry *entry,
    const char *file, const char *token)
{
	char print[KEYRING_FINGERPRINT];
	struct buf date = BUF_INIT;
	json_t *line;

	keyring_fingerprint(entry, print);
	if (entry->expires)
		keyring_put_date(entry->expires, &date);
	if (o->json) {
		line = json_pack("{s:s, s:s, s:s}", "name", entry->name, "role",
		    role_name(entry->role), "fingerprint", print);
		json_object_set_new(line, "expires",
		    date.len ? json_string((char *)date.data) : json_null());
		json_object_set_new(line, "file", file ? json_string(file) : json_null());
		json_object_set_new(line, "token",
		    entry->is_token ? json_string(token) : json_null());
		json_print_event("key_added", line);
		json_decref(line);
	} else {
		fprintf(entry->is_token ? stderr : stdout,
		    "%s (%s) is admitted%s%s, fingerprint %s%s%s\n", entry->name,
		    role_name(entry->role), date.len ? " until " : "",
		    date.len ? (char *)date.data : "", print, file ? ", secret in " : "",
		    file ? file : "");
		if (entry->is_token)
			puts(token);
	}
	buf_release(&date);
}

int key_add(const struct key_options *o, char **args)
{
	struct keyring_entry entry = { 0 };
	struct err e = { 0 };
	char *file = NULL, token[48] = "";
	enum err_code rc;

	if (!o->role)
		rc = err_set(&e, ERR_USAGE,
		    "key add: --role is missing: worker, server, relay, monitor, reader or admin");
	else if (o->public && o->file)
		rc = err_set(&e, ERR_USAGE,
		    "key add: of a public key there is no secret to write to --output");
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
	const json_t *missing = json_object_get(answer, "unreached"), *id;
	int64_t cut = json_int(answer, "sessions_cut", 0), servers = json_int(answer, "servers", 0);
	size_t i;

	if (o->json) {
		json_print_event("revoked", answer);
	} else if (o->alive) {
		printf("%s is revoked: %lld session%s cut, by %lld server%s\n",
		    json_str(answer, "name", ""), (long long)cut, NUM_S(cut), (long long)servers,
		    NUM_S(servers));
	} else {
		printf("%s is revoked; the cluster does not run\n", json_str(answer, "name", ""));
	}
	json_array_foreach(missing, i, id)
		fprintf(stderr,
		    "ps-ctl: %s has not said within 1 s that it has cut its sessions: it does as soon as the "
		    "coordinator reaches it\n",
		    json_string_value(id));
}

int key_revoke(const struct key_options *o, char **args)
{
	struct err e = { 0 };
	json_t *answer = NULL;
	enum err_code rc;
	bool all;

	if (o->alive) {
		rc = key_post(o, "/v1/keys/revoke", json_pack("{s:s}", "name", args[0]), &answer,
		    &e);
	} else {
		rc = rundir_revoke_key(o->run, args[0], NULL, &e);
		answer = json_pack("{s:s, s:i, s:i, s:[]}", "name", args[0], "sessions_cut", 0,
		    "servers", 0, "unreached");
	}
	if (!rc)
		print_revoked_key(o, answer);
	all = json_array_size(json_object_get(answer, "unreached")) == 0;
	json_decref(answer);
	return rc ? ctl_fail(&e) : all ? 0 : 1;
}

/* ---- release ---- */

int key_release(const struct key_options *o, char **args)
{
	struct err e = { 0 };
	json_t *answer = NULL;
	enum err_code rc;

	if (!o->alive)
		rc = err_set(&e, ERR_NOTREADY, "the cluster of %s does not run", o->run);
	else
		rc = key_post(o, "/v1/keys/release", json_pack("{s:s}", "name", args[0]), &answer,
		    &e);
	if (!rc && o->json)
		json_print_event("released", answer);
	else if (!rc)
		printf("%s is released: the event tells from which step on it counts\n", args[0]);
	json_decref(answer);
	return rc ? ctl_fail(&e) : 0;
}
