/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/child.h"
#include "auth/authfile.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/launch.h"
#include "core/mem.h"
#include "ctl.h"

/* ps-ctl remote, the far end of a remote shell (supervisor/remote.h): runs one process of a cluster, replaces
 * its join file when a new one comes on standard input, and ends the process when the session
 * ends. */

#define LINE_MAX_BYTES 16384
/* How long the process may take to leave after the session has ended. */
#define GRACE (5 * NSEC_PER_SEC)

struct options {
	const char *dir;
	bool kill_if_cut;
};

static const struct opt opts[] = {
	{ "kill-if-cut", 0, OPT_FLAG, offsetof(struct options, kill_if_cut), NULL,
	    "end the program with SIGKILL when the session is interrupted", NULL, 0, 0 },
	{ "dir", 0, OPT_STR, offsetof(struct options, dir), "DIR",
	    "working directory of the program (default: the current one)", NULL, 0, 0 },
};

struct remote {
	const char *id;
	char *dir, *join; /* a temporary directory, and the join file in it */
	struct launch_set *set;
	size_t child;
	struct buf line; /* the received part of the next line */
	int signals;
};

/* Write a received join file: create it the first time, replace it later. */
static enum err_code save_join_line(struct remote *r, bool first, struct err *e)
{
	return first ? authfile_create(r->join, r->line.data, r->line.len, e)
	             : file_replace(r->join, r->line.data, r->line.len, 0600, e);
}

/* Read one byte of standard input. *whole: it ended a line. ERR_CLOSED at the end of the
 * input. */
static enum err_code read_line_byte(struct remote *r, bool *whole, struct err *e)
{
	ssize_t n = read(STDIN_FILENO, buf_reserve(&r->line, 1), 1);

	*whole = false;
	if (n < 0 && errno == EINTR)
		return ERR_OK;
	if (n <= 0)
		return err_set(e, ERR_CLOSED, "the session has ended");
	buf_commit(&r->line, 1);
	*whole = r->line.data[r->line.len - 1] == '\n';
	return r->line.len < LINE_MAX_BYTES
	    ? ERR_OK
	    : err_set(e, ERR_FORMAT, "standard input is not a join file");
}

static bool is_leave_line(const struct buf *line)
{
	return line->len == strlen(LAUNCH_LEAVE) &&
	    memcmp(line->data, LAUNCH_LEAVE, line->len) == 0;
}

/* Read the first join file, and write it to a temporary directory of our own. */
static enum err_code receive_first_join(struct remote *r, struct err *e)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	enum err_code rc = ERR_OK;
	bool whole = false;

	while (rc == ERR_OK && !whole)
		rc = read_line_byte(r, &whole, e);
	if (rc != ERR_OK)
		return err_set(e, rc,
		    "standard input has no join file: only ps-ctl uses this command, on other hosts");
	/* XDG_RUNTIME_DIR is in memory: the secret is not written to a disk where it exists. */
	rc = file_make_unique_dir(runtime && access(runtime, W_OK) == 0
	        ? mem_printf("%s/pskit-XXXXXX", runtime)
	        : path_temporary("remote"),
	    &r->dir, e);
	if (rc)
		return rc;
	r->join = mem_printf("%s/%s.join", r->dir, r->id);
	return save_join_line(r, true, e);
}

/* Wait until the program ends or must be ended, and return its exit code. kill_if_cut: a worker
 * that leaves in order changes the members of the following steps. A worker whose session is cut
 * must be lost instead, without a chance to leave, so that the process started in its place makes
 * the same steps. */
static int attend_remote(struct remote *r, bool kill_if_cut)
{
	struct pollfd p[] = { { .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = r->signals, .events = POLLIN },
		{ .fd = launch_fd(r->set), .events = POLLIN } };
	struct launch_event how;
	struct err e = { 0 };
	bool whole, told = false, cut = false;

	buf_clear(&r->line);
	while (!told && !cut && !p[2].revents) {
		if (poll(p, CTL_COUNT(p), -1) < 0)
			continue;
		told = p[1].revents && child_read_signal(r->signals) != SIGUSR1;
		cut = !told && p[0].revents && read_line_byte(r, &whole, &e) != ERR_OK;
		if (told || cut || !p[0].revents || !whole)
			continue;
		told = is_leave_line(&r->line);
		if (told)
			continue;
		if (save_join_line(r, false, &e) != ERR_OK)
			fprintf(stderr, "ps-ctl remote: the new join file was not accepted: %s\n",
			    e.msg);
		buf_clear(&r->line);
	}
	if (told || cut)
		launch_stop_all(r->set, cut && kill_if_cut ? 0 : GRACE);
	else
		launch_wait(r->set, 0, &how, NULL);
	return child_exit_code(r->set, r->child);
}

/* Runs on the other host, started through ssh or a similar tool: the join file arrives on standard
 * input, is written to a directory of our own and is removed at the end. The line that had it is
 * wiped. */
static int run_remote(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct remote r = { 0 };
	struct err e = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	argv[nargs + 1] = NULL;
	r.id = argv[1];
	if (strchr(r.id, '/'))
		return ctl_report_misuse(self, "\"%s\" is not the name of a process", r.id);
	r.signals = child_open_signals();
	if (receive_first_join(&r, &e) == ERR_OK && !setenv("PS_CLUSTER", r.join, 1) &&
	    child_start_program(r.id, o.dir, argv + 2, false, &r.set, &r.child, &e) == ERR_OK)
		code = attend_remote(&r, o.kill_if_cut);
	else
		code = ctl_fail(&e);
	launch_free(r.set);
	if (r.dir)
		file_remove_tree(r.dir, NULL);
	if (r.line.data)
		sodium_memzero(r.line.data, r.line.cap);
	buf_release(&r.line);
	free(r.join);
	free(r.dir);
	return code;
}

const struct ctl_cmd ctl_cmd_remote = {
	"remote",
	{
	    .prog = "ps-ctl remote",
	    .args = "NAME -- PROGRAM [ARG ...]",
	    .about = "run one process of a cluster for a ps-ctl on another host",
	    .more =
	        "ps-ctl start and run call this command through the remote shell on the hosts of the key hosts;\n"
	        "there is no other use for it. The first line of standard input is a join file, and each further\n"
	        "line replaces it. The line \"leave\" ends the program with SIGTERM, and with SIGKILL after 5 s. If\n"
	        "standard input ends without that line, the session was interrupted, which ends the program in the\n"
	        "same way, or with --kill-if-cut immediately.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 2,
	    .max_args = -1,
	    .examples =
	        "  { ps-ctl invite --role worker; cat; } | ssh b ps-ctl remote w7 -- ps-work train\n",
	},
	run_remote,
};
