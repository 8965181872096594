/* SPDX-License-Identifier: ISC */
#include "rundir/control.h"
#include "key.h"

#include <stdlib.h>
#include <string.h>

#include "auth/keys.h"
#include "rundir/rundir.h"

/* Timeout of a request, ns.  POST /v1/keys/revoke takes a second when a server is slow to cut its
 * sessions. */
#define PATIENCE (10 * NSEC_PER_SEC)

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct key_options, dir),
	{ "role", 'r', OPT_CHOICE, offsetof(struct key_options, role), "ROLE",
	    "of add: what the key permits", CTL_ROLES, 0, 0 },
	{ "public", 0, OPT_STR, offsetof(struct key_options, public), "KEY",
	    "of add: the public key, made elsewhere (ps-ctl keygen); else one is made", NULL, 0,
	    0 },
	{ "expires", 0, OPT_STR, offsetof(struct key_options, expires), "WHEN",
	    "of add: a time from now (30d, 12h), or a date (2027-01-31)", NULL, 0, 0 },
	{ "output", 'o', OPT_STR, offsetof(struct key_options, file), "FILE",
	    "of add: where the secret goes (RUN/keys/NAME.key)", NULL, 0, 0 },
	{ "grace", 0, OPT_DURATION, offsetof(struct key_options, grace), "TIME",
	    "of rotate-psk: how long the old secret is accepted (10m)", NULL, 0,
	    30. * 86400 * NSEC_PER_SEC },
	CTL_OPT_JSON(struct key_options, json),
};

enum err_code key_post(const struct key_options *o, const char *path, json_t *body, json_t **answer,
    struct err *e)
{
	struct http_client *client = NULL;
	enum err_code rc = control_connect(o->run, &client, e);

	if (rc == ERR_OK)
		rc = http_call(client, "POST", path, body, PATIENCE, NULL, answer, e);
	http_client_free(client);
	json_decref(body);
	return rc;
}

/* True when a coordinator answers on the control socket.  One that was started by hand holds no
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
	{ "add", 1, "one NAME", key_add },
	{ "revoke", 1, "one NAME", key_revoke },
	{ "release", 1, "one NAME", key_release },
	{ "list", 0, "nothing more", key_list },
	{ "rotate-psk", 0, "nothing more", key_secret },
};

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
		    "--role, --public, --expires and --output are for add");
	if (strcmp(a->name, "rotate-psk") != 0 && o.grace >= 0)
		return ctl_report_misuse(self, "--grace is for rotate-psk");
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
	    .args = "add NAME | revoke NAME | release NAME | list | rotate-psk",
	    .about = "admit, revoke and list keys while the cluster runs, and renew its secret",
	    .more =
	        "add and revoke change RUN/keys/authorized_keys, also where the cluster does not run.  Of one that does, "
	        "add lets the\nkey in at once; revoke cuts its sessions on every server, takes who has it for lost, and says "
	        "how many sessions\nwere cut.  add without --public makes a key pair and keeps the secret; of a monitor, it "
	        "prints a bearer token.\nrotate-psk draws a new secret of the cluster: the processes of the run directory take it "
	        "over by themselves,\njoin files that were given out stop working after the grace.\nrelease lets a worker count again that is in "
	        "quarantine (ps-cluster(5), quarantine).",
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
