/* SPDX-License-Identifier: ISC */
#include "cmd/stat/extra.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/spawn.h"

/* Limits: commands that run at a time, columns, and the output of one command in bytes. */
#define TOGETHER 8
#define COLUMNS  16
#define PRINTED  (64u << 10)

struct extra {
	const char *command;
	struct column column[COLUMNS];
	size_t ncolumns;
	bool complained;
};

/* A running command. */
struct child {
	pid_t pid;
	int fd; /* its output; -1: closed, or not started */
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

static void report_first_failure(struct extra *x, const json_t *row, const char *what)
{
	if (!x->complained)
		fprintf(stderr, "ps-stat: -c: the command for %s %s\n", json_str(row, "id", ""),
		    what);
	x->complained = true;
}

/* ---- starting ---- */

/* The environment with the variables of the row in front. The caller frees the array and its
 * first four strings. */
#define OWN_VARIABLES 4
static char **make_row_environment(const json_t *row)
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

/* Start the command for a row, in a process group of its own. False: it could not be started. */
static bool start_row_command(struct extra *x, json_t *row, struct child *out)
{
	char *argv[] = { (char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
		(char *)(uintptr_t)x->command, NULL };
	char **env = make_row_environment(row);
	int fd[2] = { -1, -1 }, in = open("/dev/null", O_RDONLY | O_CLOEXEC), fault;

	*out = (struct child){ .fd = -1, .row = row };
	fault = in < 0 || pipe2(fd, O_CLOEXEC) ? errno : 0;
	if (!fault)
		fault = spawn_tool("/bin/sh", argv, env, (const int[]){ in, fd[1], -1 }, true,
		    &out->pid);
	if (fd[1] >= 0)
		close(fd[1]);
	if (in >= 0)
		close(in);
	if (!fault)
		out->fd = fd[0];
	else if (fd[0] >= 0)
		close(fd[0]);
	for (size_t i = 0; i < OWN_VARIABLES; i++)
		free(env[i]);
	free((void *)env);
	if (fault)
		report_first_failure(x, row, strerrordesc_np(fault));
	return !fault;
}

/* ---- output ---- */

static void add_extra_column(struct extra *x, const char *name)
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

/* Add NAME=VALUE to the row, unless the row has that member. names: also make a column of it. */
static void add_printed_member(struct extra *x, json_t *row, char *line, bool names)
{
	char *value = strchr(line, '=');
	double v;

	if (!value || value == line)
		return;
	*value++ = '\0';
	if (names)
		add_extra_column(x, line);
	if (!json_object_get(row, line))
		json_object_set_new(row, line,
		    num_double(value, &v) ? json_real(v) : json_string(value));
}

static void add_printed_members(struct extra *x, struct child *k, bool names)
{
	char *at = (char *)k->out.data, *line;

	while (at && (line = strsep(&at, "\n")))
		add_printed_member(x, k->row, line, names);
}

/* Reap the command. If it is still running at the deadline, kill its process group. */
static void finish_row_command(struct extra *x, struct child *k, int64_t deadline)
{
	bool late = k->fd >= 0;
	int status = 0;

	for (; !late && !waitpid(k->pid, &status, WNOHANG); late = clock_now() > deadline)
		clock_sleep(1);
	if (late) {
		kill(-k->pid, SIGKILL);
		waitpid(k->pid, &status, 0);
		report_first_failure(x, k->row, "took too long and was killed");
	} else if (WIFEXITED(status) && WEXITSTATUS(status)) {
		report_first_failure(x, k->row, "failed");
	}
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
}

/* Read some of the output. False: it has ended, or is too long, and is closed. */
static bool read_command_output(struct child *k)
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

/* Read the outputs of n commands until all are closed or the deadline has passed. */
static void gather_command_output(struct child *k, size_t n, int64_t deadline)
{
	struct pollfd p[TOGETHER];
	size_t open = 0;

	for (size_t i = 0; i < n; i++)
		open += k[i].fd >= 0;
	while (open) {
		int64_t left = deadline - clock_now();

		for (size_t i = 0; i < n; i++)
			p[i] = (struct pollfd){ k[i].fd, POLLIN, 0 };
		if (left <= 0 || (poll(p, n, clock_poll_timeout(left)) < 0 && errno != EINTR))
			return;
		for (size_t i = 0; i < n; i++)
			if (p[i].revents && !read_command_output(&k[i]))
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
			n += start_row_command(x, json_array_get(rows, i), &k[n]);
		gather_command_output(k, n, deadline);
		for (size_t i = 0; i < n; i++) {
			finish_row_command(x, &k[i], deadline);
			add_printed_members(x, &k[i], names);
			buf_release(&k[i].out);
		}
	}
}
