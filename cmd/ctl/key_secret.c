/* SPDX-License-Identifier: ISC */
#include <stdio.h>

#include "core/json.h"
#include "key.h"

static void print_rotated_secret(const struct key_options *o, const json_t *answer)
{
	int64_t grace = json_int(answer, "grace_seconds", 0);
	const json_t *guest;
	size_t i;

	if (o->json) {
		json_print_event("psk_rotated", answer);
	} else {
		printf("the cluster has a new secret; the one before is accepted ");
		printf(grace ? "until %s\n" : "no longer\n", json_str(answer, "until", ""));
	}
	json_array_foreach(json_object_get(answer, "guests"), i, guest)
		fprintf(stderr, "note: %s (%s) has come by a join file: invite it again%s\n",
		    json_str(guest, "name", ""), json_str(guest, "role", ""),
		    grace ? ", or give its file the new secret, before then" : "");
}

int key_secret(const struct key_options *o, char **args)
{
	json_t *body = json_object(), *answer = NULL;
	struct err e = { 0 };
	enum err_code rc;

	(void)args;
	if (o->grace >= 0)
		json_object_set_new(body, "grace_seconds",
		    json_integer((o->grace + NSEC_PER_SEC - 1) / NSEC_PER_SEC));
	if (o->alive) {
		rc = key_post(o, "/v1/keys/secret", body, &answer, &e);
	} else {
		json_decref(body);
		rc = err_set(&e, ERR_NOTREADY,
		    "the cluster of %s does not run: a new run draws a secret of its own, and one that is resumed can be given another then",
		    o->run);
	}
	if (!rc)
		print_rotated_secret(o, answer);
	json_decref(answer);
	return rc ? ctl_fail(&e) : 0;
}
