#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/authfile.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "attend.h"
#include "ctl.h"
#include "launch/launch.h"

/* The far end of a remote shell: runs one process, and ends it when the session ends. */

#define LINE_MAX_BYTES 16384
/* So long a process may take to leave when the session is over. */
#define GRACE (5 * NSEC_PER_SEC)

struct options {
	const char *dir;
};

static const struct opt opts[] = {
	{ "dir", 0, OPT_STR, offsetof(struct options, dir), "DIR", "where the program runs; else here", NULL, 0, 0 },
};

struct remote {
	const char *id;
	char *dir, *join;               /* of our own, for the join file alone */
	struct launch_set *set;
	size_t child;
	struct buf line;                /* what has come of the next join file */
	int signals;
};

/* A join file has come whole: the first is made, a further one takes its place. */
static enum err_code take_join(struct remote *r, bool first, struct err *e)
{
	return first ? authfile_create(r->join, r->line.data, r->line.len, e) :
	               file_replace(r->join, r->line.data, r->line.len, 0600, e);
}

/* Read what is there: *whole when a line has come to its end.  ERR_CLOSED at the end of all. */
static enum err_code read_some(struct remote *r, bool *whole, struct err *e)
{
	ssize_t n = read(STDIN_FILENO, buf_reserve(&r->line, 1), 1);

	*whole = false;
	if (n < 0 && errno == EINTR)
		return ERR_OK;
	if (n <= 0)
		return err_set(e, ERR_CLOSED, "the session has ended");
	buf_commit(&r->line, 1);
	*whole = r->line.data[r->line.len - 1] == '\n';
	return r->line.len < LINE_MAX_BYTES ? ERR_OK : err_set(e, ERR_FORMAT, "standard input is no join file");
}

static enum err_code first_join(struct remote *r, struct err *e)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");
	enum err_code rc = ERR_OK;
	bool whole = false;

	while (rc == ERR_OK && !whole)
		rc = read_some(r, &whole, e);
	if (rc != ERR_OK)
		return err_set(e, rc, "no join file came on standard input: this is for ps-ctl, which starts it on other hosts");
	/* In memory alone, where there is such a place. */
	r->dir = mem_printf("%s/pskit-XXXXXX", runtime && access(runtime, W_OK) == 0 ? runtime : tmp ? tmp : "/tmp");
	if (!mkdtemp(r->dir)) {
		rc = err_sys(e, ERR_IO, "cannot make the directory %s", r->dir);
		free(r->dir);
		r->dir = NULL;
		return rc;
	}
	r->join = mem_printf("%s/%s.join", r->dir, r->id);
	return take_join(r, true, e);
}

/* Until the program ends, or is to: its exit code. */
static int attend(struct remote *r)
{
	struct pollfd p[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = r->signals, .events = POLLIN },
	                      { .fd = launch_fd(r->set), .events = POLLIN } };
	struct launch_event how;
	struct err e = { 0 };
	bool whole, told = false;

	buf_clear(&r->line);
	while (!told && !p[2].revents) {
		if (poll(p, CTL_COUNT(p), -1) < 0)
			continue;
		told = (p[1].revents && attend_signal(r->signals) != SIGUSR1) || (p[0].revents && read_some(r, &whole, &e) != ERR_OK);
		if (told || !p[0].revents || !whole)
			continue;
		if (take_join(r, false, &e) != ERR_OK)
			fprintf(stderr, "ps-ctl remote: the new join file is not taken: %s\n", e.msg);
		buf_clear(&r->line);
	}
	if (told)
		launch_stop_all(r->set, GRACE);
	else
		launch_wait(r->set, 0, &how, NULL);
	return attend_code(r->set, r->child);
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
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
		return ctl_misuse(self, "\"%s\" is no name of a process", r.id);
	r.signals = attend_signals();
	if (first_join(&r, &e) == ERR_OK && !setenv("PS_CLUSTER", r.join, 1) &&
	    attend_start(r.id, o.dir, argv + 2, false, &r.set, &r.child, &e) == ERR_OK)
		code = attend(&r);
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
		.prog = "ps-ctl remote", .args = "NAME -- PROGRAM [ARG ...]",
		.about = "run one process of a cluster for a ps-ctl on another host",
		.more = "This is what ps-ctl start and run have the remote shell do on the hosts of the key hosts; nobody else\n"
		        "needs it.  The first line of standard input is a join file, each further one takes its place.  When\n"
		        "standard input ends, so does the program: SIGTERM, and SIGKILL after 5 s.",
		.opts = opts, .nopts = CTL_COUNT(opts), .min_args = 2, .max_args = -1,
		.examples = "  { ps-ctl invite --role worker; cat; } | ssh b ps-ctl remote w7 -- ps-work train\n",
	},
	run,
};
