/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/calls.h"

/* Processes: each has its memory, descriptors, signals, and its own copy of the programs' static
 * variables, which are exchanged when another process runs. */

/* The writable variables of the programs, which the build has gathered in three sections. */
extern char __start_appdata[] __attribute__((weak)), __stop_appdata[] __attribute__((weak));
extern char __start_apprel[] __attribute__((weak)), __stop_apprel[] __attribute__((weak));
extern char __start_appbss[] __attribute__((weak)), __stop_appbss[] __attribute__((weak));

struct proc *proc_current;

static struct proc *all;
static int next_pid;
static char *image; /* of the static variables before any program runs */

struct section {
	char *at;
	size_t n;
};

static size_t sections(struct section out[3])
{
	out[0] = (struct section){ __start_appdata, (size_t)(__stop_appdata - __start_appdata) };
	out[1] = (struct section){ __start_apprel, (size_t)(__stop_apprel - __start_apprel) };
	out[2] = (struct section){ __start_appbss, (size_t)(__stop_appbss - __start_appbss) };
	return out[0].n + out[1].n + out[2].n;
}

static void copy_statics(char *to, const char *from)
{
	struct section s[3];

	sections(s);
	for (int i = 0; i < 3; i++) {
		if (to && s[i].n)
			memcpy(to, s[i].at, s[i].n);
		else if (from && s[i].n)
			memcpy(s[i].at, from, s[i].n);
		if (to)
			to += s[i].n;
		if (from)
			from += s[i].n;
	}
}

static char *make_image(void)
{
	struct section s[3];
	char *p = malloc(sections(s) + 1);

	if (!p)
		sim_panic("no memory for static variables");
	return p;
}

void proc_enter(struct proc *p)
{
	if (p == proc_current)
		return;
	if (proc_current && proc_current->alive)
		copy_statics(proc_current->statics, NULL);
	proc_current = p;
	if (p)
		copy_statics(NULL, p->statics);
}

/* ---- life and death ---- */

static void *run_main(void *ctx)
{
	struct proc *p = ctx;

	proc_exit(p->main(p->argc, p->argv));
}

static void set_statics(struct proc *p)
{
	struct section s[3];

	memcpy(p->statics, image, sections(s));
}

/* Copies the arguments into the memory of the process. */
static void set_arguments(struct proc *p, const char *const *argv)
{
	int n = 0;

	while (argv[n])
		n++;
	p->argc = n;
	p->argv = arena_alloc(&p->arena, ((size_t)n + 1) * sizeof *p->argv);
	for (int i = 0; i < n; i++) {
		p->argv[i] = arena_alloc(&p->arena, strlen(argv[i]) + 1);
		memcpy(p->argv[i], argv[i], strlen(argv[i]) + 1);
	}
	p->argv[n] = NULL;
	p->given = p->arena.live;
}

struct proc *proc_start(unsigned slot, const char *name, int (*main)(int, char **),
    const char *const *argv)
{
	struct proc *p = calloc(1, sizeof *p);
	struct vfile *out;

	if (!p)
		sim_panic("no memory for a process");
	if (!image) {
		image = make_image();
		copy_statics(image, NULL);
	}
	p->pid = next_pid++;
	p->slot = slot;
	snprintf(p->name, sizeof p->name, "%s", name);
	p->alive = true;
	p->statics = make_image();
	set_statics(p);
	set_arguments(p, argv);
	p->main = main;
	p->next = all;
	all = p;
	out = disk_output();
	for (int i = 0; i < 3; i++)
		p->fd[i] = vfile_ref(out);
	vfile_unref(out);
	sim_trace("%-10s > starts as pid %d", p->name, p->pid);
	fiber_start(p, run_main, p);
	return p;
}

static void close_descriptors(struct proc *p, int from)
{
	for (int i = from; i < PROC_FDS; i++)
		if (p->fd[i]) {
			struct vfile *v = p->fd[i];

			p->fd[i] = NULL;
			vfile_unref(v);
		}
}

static void drop_words(struct proc *p)
{
	for (char **w = p->words; w && *w; w++)
		free(*w);
	free(p->words);
	p->words = NULL;
}

/* Everything but the fibers. */
static void bury(struct proc *p, int code)
{
	p->alive = false;
	p->code = code;
	close_descriptors(p, 0);
	drop_words(p);
	if (proc_current == p)
		proc_current = NULL;
	control_died(p);
	arena_release(&p->arena);
	free(p->statics);
	p->statics = NULL;
	waitq_wake_all(&p->exit_wait);
}

void proc_kill(struct proc *p)
{
	if (!p->alive)
		return;
	sim_trace("%-10s > is killed", p->name);
	fiber_kill_all(p);
	bury(p, -1);
}

static void end_process(void *ctx)
{
	struct proc *p = ctx;

	if (!p->alive)
		return;
	fiber_kill_all(p);
	bury(p, p->code);
}

/* The fibers go when this one does not run any more. */
void proc_exit(int code)
{
	struct proc *p = proc_current;
	struct waitq never = { 0 };

	p->left_allocations = p->arena.live - p->given;
	for (int i = 3; i < PROC_FDS; i++)
		p->left_descriptors += p->fd[i] != NULL;
	sim_trace("%-10s > ends with %d; left: %zu allocations, %u descriptors", p->name, code,
	    p->left_allocations, p->left_descriptors);
	p->code = code;
	event_at(sim_now, end_process, p);
	for (;;)
		fiber_wait_one(&never, INT64_MAX);
}

/* All descriptors but the standard ones are closed on exec. The environment stays. */
static void begin_again(void *ctx)
{
	struct proc *p = ctx;

	if (!p->alive)
		return;
	fiber_kill_all(p);
	close_descriptors(p, 3);
	control_died(p);
	arena_release(&p->arena);
	set_statics(p);
	set_arguments(p, (const char *const *)p->words);
	drop_words(p);
	p->life++;
	sim_trace("%-10s > begins again", p->name);
	fiber_start(p, run_main, p);
}

int sim_execv(const char *path, char *const argv[])
{
	struct proc *p = proc_current;
	struct waitq never = { 0 };
	size_t n = 0;

	if (strcmp(path, "/proc/self/exe") != 0)
		return errno = ENOENT, -1;
	while (argv[n])
		n++;
	p->words = calloc(n + 1, sizeof *p->words);
	for (size_t i = 0; p->words && i < n; i++)
		p->words[i] = strdup(argv[i]);
	if (!p->words)
		sim_panic("no memory for arguments");
	event_at(sim_now, begin_again, p);
	for (;;)
		fiber_wait_one(&never, INT64_MAX);
}

/* ---- the environment ---- */

static struct variable *find_variable(const char *name)
{
	for (size_t i = 0; proc_current && i < PROC_ENV; i++)
		if (strcmp(proc_current->env[i].name, name) == 0)
			return &proc_current->env[i];
	return NULL;
}

const char *proc_getenv(const char *name)
{
	const struct variable *v = find_variable(name);

	return v ? v->value : NULL;
}

int sim_setenv(const char *name, const char *value, int replace)
{
	struct variable *v = find_variable(name);

	if (v && !replace)
		return 0;
	if (!v)
		v = find_variable("");
	if (!v || strlen(name) >= sizeof v->name || strlen(value) >= sizeof v->value)
		return errno = ENOMEM, -1;
	memcpy(v->name, name, strlen(name) + 1);
	memcpy(v->value, value, strlen(value) + 1);
	return 0;
}

int sim_unsetenv(const char *name)
{
	struct variable *v = find_variable(name);

	if (v)
		*v->name = 0;
	return 0;
}

void proc_signal(struct proc *p, int sig)
{
	if (!p->alive)
		return;
	sim_trace("%-10s > signal %d", p->name, sig);
	p->signals |= UINT64_C(1) << sig;
	waitq_wake_all(&p->signal_wait);
	vfile_signalled(p);
}

void proc_pause(struct proc *p, bool paused)
{
	if (!p->alive || p->paused == paused)
		return;
	sim_trace("%-10s > %s", p->name, paused ? "is stopped" : "goes on");
	p->paused = paused;
	if (!paused)
		fiber_resumed(p);
}

struct proc *proc_find(int pid)
{
	for (struct proc *p = all; p; p = p->next)
		if (p->pid == pid)
			return p;
	return NULL;
}

void proc_reset(void)
{
	for (struct proc *p = all; p; p = p->next)
		if (p->alive) {
			fiber_kill_all(p);
			bury(p, -1);
		}
	while (all) {
		struct proc *p = all;

		all = p->next;
		free(p);
	}
	next_pid = 100;
	proc_current = NULL;
}

/* ---- descriptors ---- */

int proc_install(struct proc *p, struct vfile *v)
{
	for (int i = 3; i < PROC_FDS; i++)
		if (!p->fd[i]) {
			p->fd[i] = v;
			return i;
		}
	vfile_unref(v);
	return errno = EMFILE, -1;
}

struct vfile *proc_vfile(int fd)
{
	struct vfile *v = fd >= 0 && fd < PROC_FDS && proc_current ? proc_current->fd[fd] : NULL;

	if (!v)
		errno = EBADF;
	return v;
}
