#include "cmd/stat/extra.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

/* Commands under way at a time, columns, and bytes that one may print. */
#define TOGETHER 8
#define COLUMNS 16
#define PRINTED (64u << 10)

struct extra {
	const char *command;
	struct column column[COLUMNS];
	size_t ncolumns;
	bool complained;
};

/* A command under way. */
struct child {
	pid_t pid;
	int fd;                         /* what it prints; -1: it has ended, or was never there */
	json_t *row;
	struct buf out;
};

struct extra *extra_new(const char *command)
{
	struct extra *x = mem_alloc(sizeof *x);

	x->command = command;
	return x;
}

void extra_free(struct extra *x)
{
	for (size_t i = 0; x && i < x->ncolumns; i++)
		free((char *)(uintptr_t)x->column[i].name);
	free(x);
}

const struct column *extra_columns(const struct extra *x, size_t *n)
{
	*n = x->ncolumns;
	return x->column;
}

static void complain(struct extra *x, const json_t *row, const char *what)
{
	if (!x->complained)
		fprintf(stderr, "ps-stat: -c: the command for %s %s\n", json_str(row, "id", ""), what);
	x->complained = true;
}

/* ---- starting ------------------------------------------------------------------------------ */

/* The environment with the row's own variables before all others; an array to be freed with
 * its first four. */
#define OWN_VARIABLES 4
static char **environment(const json_t *row)
{
	size_t n = 0;
	char **all;

	while (environ[n])
		n++;
	all = mem_array(n + OWN_VARIABLES + 1, sizeof *all);
	all[0] = mem_printf("PS_ID=%s", json_str(row, "id", ""));
	all[1] = mem_printf("PS_PID=%lld", (long long)json_int(row, "pid", 0));
	all[2] = mem_printf("PS_HOST=%s", json_str(row, "host", ""));
	all[3] = mem_printf("PS_STATE=%s", json_str(row, "state", ""));
	memcpy((void *)(all + OWN_VARIABLES), (void *)environ, n * sizeof *all);
	return all;
}

static bool start(struct extra *x, json_t *row, struct child *out)
{
	char *argv[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", (char *)(uintptr_t)x->command, NULL };
	char **env = environment(row);
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t pipe_set;
	int fd[2] = { -1, -1 }, fault;

	*out = (struct child){ .fd = -1, .row = row };
	fault = pipe2(fd, O_CLOEXEC) ? errno : 0;
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attr, &pipe_set);
	if (!fault) {
		posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
		posix_spawn_file_actions_adddup2(&files, fd[1], STDOUT_FILENO);
		fault = posix_spawn(&out->pid, "/bin/sh", &files, &attr, argv, env);
		close(fd[1]);
	}
	if (!fault)
		out->fd = fd[0];
	else if (fd[0] >= 0)
		close(fd[0]);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	for (size_t i = 0; i < OWN_VARIABLES; i++)
		free(env[i]);
	free((void *)env);
	if (fault)
		complain(x, row, strerrordesc_np(fault));
	return !fault;
}

/* ---- what comes out ------------------------------------------------------------------------ */

static void add_column(struct extra *x, const char *name)
{
	size_t i = 0;

	while (i < x->ncolumns && strcmp(x->column[i].name, name) != 0)
		i++;
	if (i < COLUMNS && i == x->ncolumns) {
		x->column[i] = (struct column){ .kind = COL_GIVEN, .shown = true };
		x->column[i].name = x->column[i].key = mem_strdup(name);
		x->ncolumns++;
	}
}

/* A name of the row's own is not written over. */
static void take_line(struct extra *x, json_t *row, char *line, bool names)
{
	char *value = strchr(line, '=');
	double v;

	if (!value || value == line)
		return;
	*value++ = '\0';
	if (names)
		add_column(x, line);
	if (!json_object_get(row, line))
		json_object_set_new(row, line, num_double(value, &v) ? json_real(v) : json_string(value));
}

static void take_all(struct extra *x, struct child *k, bool names)
{
	char *at = (char *)k->out.data, *line;

	while (at && (line = strsep(&at, "\n")))
		take_line(x, k->row, line, names);
}

/* Until it has closed its output and is reaped, but not beyond the deadline. */
static void finish(struct extra *x, struct child *k, int64_t deadline)
{
	bool late = k->fd >= 0;
	int status = 0;

	for (; !late && !waitpid(k->pid, &status, WNOHANG); late = clock_now() > deadline)
		poll(NULL, 0, 1);
	if (late) {
		kill(-k->pid, SIGKILL);
		waitpid(k->pid, &status, 0);
		complain(x, k->row, "took too long, and was killed");
	} else if (WIFEXITED(status) && WEXITSTATUS(status)) {
		complain(x, k->row, "failed");
	}
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
}

/* False: it has no more to say. */
static bool read_some(struct child *k)
{
	ssize_t n = read(k->fd, buf_reserve(&k->out, 4096), 4096);

	if (n < 0 && errno == EINTR)
		return true;
	if (n > 0)
		buf_commit(&k->out, (size_t)n);
	if (n > 0 && k->out.len < PRINTED)
		return true;
	close(k->fd);
	k->fd = -1;
	return false;
}

static void gather(struct child *k, size_t n, int64_t deadline)
{
	struct pollfd p[TOGETHER];
	size_t open = 0;

	for (size_t i = 0; i < n; i++)
		open += k[i].fd >= 0;
	while (open) {
		int64_t left = deadline - clock_now();

		for (size_t i = 0; i < n; i++)
			p[i] = (struct pollfd){ k[i].fd, POLLIN, 0 };
		if (left <= 0 || (poll(p, n, (int)(left / NSEC_PER_MSEC) + 1) < 0 && errno != EINTR))
			return;
		for (size_t i = 0; i < n; i++)
			if (p[i].revents && !read_some(&k[i]))
				open--;
	}
}

void extra_run(struct extra *x, json_t *rows, int64_t longest)
{
	bool names = !x->ncolumns;
	size_t all = json_array_size(rows);

	for (size_t first = 0; first < all; first += TOGETHER) {
		int64_t deadline = clock_now() + (longest > NSEC_PER_SEC ? longest : NSEC_PER_SEC);
		struct child k[TOGETHER];
		size_t n = 0;

		for (size_t i = first; i < all && i < first + TOGETHER; i++)
			n += start(x, json_array_get(rows, i), &k[n]);
		gather(k, n, deadline);
		for (size_t i = 0; i < n; i++) {
			finish(x, &k[i], deadline);
			take_all(x, &k[i], names);
			buf_release(&k[i].out);
		}
	}
}
