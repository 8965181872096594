/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rundir/control.h"
#include "auth/keyring.h"
#include "core/json.h"
#include "key.h"
#include "rundir/prepare.h"
#include "rundir/rundir.h"

/* Appends a key of authorized_keys in the form of GET /v1/keys.  Sessions and holders are
 * unknown. */
static void add_listed_key(void *ctx, const struct keyring_entry *entry)
{
	const struct key_options *o = ((void **)ctx)[0];
	json_t *list = ((void **)ctx)[1];
	char print[KEYRING_FINGERPRINT];
	struct buf date = BUF_INIT;

	keyring_fingerprint(entry, print);
	if (entry->expires)
		keyring_put_date(entry->expires, &date);
	json_array_append_new(list,
	    json_pack("{s:s, s:s, s:s, s:s, s:s?, s:b, s:b, s:i, s:n, s:n, s:n}", "name",
	        entry->name, "role", role_name(entry->role), "type",
	        entry->is_token ? "token" : "x25519", "fingerprint", print, "expires",
	        date.len ? (char *)date.data : NULL, "expired",
	        entry->expires && clock_wall() / NSEC_PER_SEC >= entry->expires, "here",
	        rundir_has_key_file(o->run, entry->name), "sessions", 0, "held_by", "seen_seconds",
	        "quarantine"));
	buf_release(&date);
}

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
	struct http_client *client = NULL;
	enum err_code rc = control_connect(o->run, &client, e);

	if (!rc)
		rc = http_call(client, "GET", "/v1/keys", NULL, CTL_CALL, NULL, out, e);
	http_client_free(client);
	return rc;
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
		printf("%-20s %-8s %-24s %-20s %-10s %8lld %6s%s\n", json_str(k, "name", ""),
		    json_str(k, "role", ""), json_str(k, "fingerprint", ""),
		    json_flag(k, "expired") ? "expired" : json_str(k, "expires", "never"),
		    json_str(k, "held_by", "-"), (long long)json_int(k, "sessions", 0), age,
		    json_is_string(json_object_get(k, "quarantine")) ? "  quarantined" : "");
	}
}

int key_list(const struct key_options *o, char **args)
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
