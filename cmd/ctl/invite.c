/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/control.h"
#include "auth/authfile.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "ctl.h"
#include "rundir/rundir.h"

struct options {
	const char *dir, *role, *name, *file;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "role", 'r', OPT_CHOICE, offsetof(struct options, role), "ROLE",
	    "the role of the new process", CTL_ROLES, 0, 0 },
	{ "name", 0, OPT_STR, offsetof(struct options, name), "NAME",
	    "the name of its key in authorized_keys and in logs (default: generated)", NULL, 0, 0 },
	{ "output", 'o', OPT_STR, offsetof(struct options, file), "FILE",
	    "write a new file of mode 0600 instead of standard output", NULL, 0, 0 },
};

static bool listens_on_loopback(const char *addr)
{
	return strncmp(addr, "127.", 4) == 0 || strncmp(addr, "localhost:", 10) == 0 ||
	    strncmp(addr, "[::1]", 5) == 0;
}

/* Warns about a join file that works on this host only. */
static void warn_loopback(const json_t *join)
{
	const char *data = json_str(join, "data", "");

	if (listens_on_loopback(data))
		fprintf(stderr,
		    "note: the cluster listens only on %s, which other machines cannot reach; "
		    "to invite processes on them, start it with --set listen=ADDRESS:0 --set "
		    "http=ADDRESS:0\n",
		    data);
}

/* Sends one request. Steals the reference to body. */
static enum err_code post_request(const char *dir, const char *path, json_t *body, json_t **answer,
    struct err *e)
{
	enum err_code rc = ctl_request_soon(dir, &(struct ctl_call){ .path = path, .body = body },
	    10 * NSEC_PER_SEC, answer, e);

	json_decref(body);
	return rc;
}

static enum err_code request_join(const struct options *o, const char *dir, json_t **join,
    struct err *e)
{
	json_t *body = json_pack("{s:s}", "role", o->role);

	if (o->name)
		json_object_set_new(body, "name", json_string(o->name));
	return post_request(dir, "/v1/invite", body, join, e);
}

/* Revokes the key of a join file that could not be written: nobody can use it, and a part of it may
 * have been read. */
static void revoke_unwritten_key(const json_t *join, const char *dir)
{
	const char *name = json_str(join, "name", "");
	json_t *answer = NULL;
	struct err e = { 0 };

	if (post_request(dir, "/v1/keys/revoke", json_pack("{s:s}", "name", name), &answer, &e))
		fprintf(stderr, "ps-ctl: the new key %s is not revoked: %s\n", name, e.msg);
	json_decref(answer);
}

/* A join file is one line of JSON with a secret key: a file is created for its owner only, and
 * without one it goes to stdout. */
static enum err_code write_join_file(void *options, const char *dir, struct err *e)
{
	const struct options *o = options;
	struct buf line = BUF_INIT;
	json_t *join = NULL;
	enum err_code rc = request_join(o, dir, &join, e);
	char *text;

	if (rc != ERR_OK)
		return rc;
	text = json_text(join);
	buf_printf(&line, "%s\n", text);
	rc = o->file ? authfile_create(o->file, line.data, line.len, e)
	             : file_write_all(STDOUT_FILENO, line.data, line.len, e);
	if (rc == ERR_OK)
		warn_loopback(join);
	else
		revoke_unwritten_key(join, dir);
	free(text);
	buf_release(&line);
	json_decref(join);
	return rc;
}

static int run_invite(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (!o.role)
		return ctl_report_misuse(self, "--role is required: one of %s", CTL_ROLES);
	return ctl_act_on_run(o.dir, true, write_join_file, &o);
}

const struct ctl_cmd ctl_cmd_invite = {
	"invite",
	{
	    .prog = "ps-ctl invite",
	    .args = NULL,
	    .about = "admit one more process, and print its join file",
	    .more =
	        "The join file contains the cluster's address and secret, and a new key: copy it to the other\n"
	        "machine, keep it secret, and start ps-work train --join FILE or ps-serve --join FILE there. A\n"
	        "monitor gets a bearer token for HTTP instead.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .examples = "  ps-ctl invite --role worker --name w7 -o w7.join\n",
	},
	run_invite,
};
