/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "session/control.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/spawn.h"
#include "ctl.h"
#include "rundir/rundir.h"

#define BROWSER "xdg-open"

extern char **environ;

struct options {
	const char *dir;
	bool open, read_only, json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "open", 0, OPT_FLAG, offsetof(struct options, open), NULL,
	    "open it in the browser, by " BROWSER, NULL, 0, 0 },
	{ "read-only", 'r', OPT_FLAG, offsetof(struct options, read_only), NULL,
	    "create a session that cannot change anything", NULL, 0, 0 },
	CTL_OPT_JSON(struct options, json),
};

static enum err_code request_session(const struct options *o, const char *dir, json_t **answer,
    struct err *e)
{
	json_t *body = json_pack("{s:b}", "read_only", o->read_only);
	enum err_code rc = ctl_request_soon(dir,
	    &(struct ctl_call){ .path = "/v1/dashboard", .body = body, .repeatable = true },
	    CTL_CALL, answer, e);

	json_decref(body);
	return rc;
}

static enum err_code run_browser(const char *file, struct err *e)
{
	char *argv[] = { (char *)BROWSER, (char *)(uintptr_t)file, NULL };
	int rc, status;
	pid_t pid;

	rc = spawn_tool(BROWSER, argv, NULL, (const int[]){ -1, -1, -1 }, false, &pid);
	if (rc != 0) {
		errno = rc;
		return err_sys(e, ERR_FAILED, "cannot run " BROWSER " (open the address manually)");
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0
	    ? ERR_OK
	    : err_set(e, ERR_FAILED, BROWSER " found no browser: open the address manually");
}

/* Opens the dashboard in a browser. The address contains a secret, and every user of the host can
 * see a process's arguments: so the browser gets the name of a private file, which redirects to the
 * address. */
static enum err_code open_dashboard(const char *dir, const char *address, struct err *e)
{
	char *path = rundir_path(dir, "dashboard.html");
	char *file = path_absolute(path);
	char *text = mem_printf(
	    "<!doctype html>\n<meta charset=\"utf-8\">\n<title>pskit</title>\n"
	    "<meta http-equiv=\"refresh\" content=\"0;url=%s\">\n<a href=\"%s\">the dashboard</a>\n",
	    address, address);
	enum err_code rc = file_replace(path, text, strlen(text), 0600, e);

	if (rc == ERR_OK)
		rc = run_browser(file != NULL ? file : path, e);
	free(text);
	free(file);
	free(path);
	return rc;
}

/* Prints the address of a new session, which works once, and opens it with --open. */
static enum err_code show_dashboard(void *options, const char *dir, struct err *e)
{
	const struct options *o = options;
	json_t *answer = NULL, *line;
	enum err_code rc = request_session(o, dir, &answer, e);
	int64_t seconds = json_int(answer, "seconds", 0);
	char *address;

	if (rc != ERR_OK)
		return rc;
	address = mem_printf("http://%s/#%s", json_str(answer, "address", ""),
	    json_str(answer, "token", ""));
	if (o->json) {
		line = json_pack("{s:s, s:I}", "address", address, "seconds", (json_int_t)seconds);
		json_print_event("dashboard", line);
		json_decref(line);
	} else {
		puts(address);
		fflush(stdout);
		fprintf(stderr, "the address works once, within %lld s, on this host%s\n",
		    (long long)seconds, o->read_only ? "; read-only" : "");
	}
	if (o->open)
		rc = open_dashboard(dir, address, e);
	free(address);
	json_decref(answer);
	return rc;
}

static int run_dashboard(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	return ctl_act_on_run(o.dir, true, show_dashboard, &o);
}

const struct ctl_cmd ctl_cmd_dashboard = {
	"dashboard",
	{
	    .prog = "ps-ctl dashboard",
	    .args = NULL,
	    .about = "print an address that opens the cluster's dashboard in a browser",
	    .more =
	        "The address works once, for a short time, and on the coordinator's own host. It is a secret. The\n"
	        "session that it opens can change settings, pause, take checkpoints and stop the cluster. This\n"
	        "right ends after 15 minutes without use, and with the coordinator.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .examples = "  ps-ctl dashboard\n  ps-ctl dashboard --open --read-only\n",
	},
	run_dashboard,
};
