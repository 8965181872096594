/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/file.h"
#include "core/launch.h"
#include "core/mem.h"
#include "lab/sweep_runner.h"

struct local {
	struct sweep_runner base;
	const struct sweep *s;
	char *ctl;
	struct launch_set *set;
	size_t *child; /* of each point */
	char how[64];
};

static enum err_code start_locally(struct sweep_runner *r, const struct point *p, const char *begin,
    bool *found, struct err *e)
{
	struct local *l = (struct local *)r;
	char *file = sweep_point_path(l->s, p, ".json"), *log = sweep_point_path(l->s, p, ".log"),
	     *from = mem_strdup(begin);
	/* The last rung writes no checkpoint of its own, but it can begin again with that of the rung
	 * before it. */
	char *argv[] = { l->ctl, (char[]){ "run" }, file, (char[]){ "--json" },
		(char[]){ "--resume" }, from,
		l->s->ladder.rungs > 1 ? (char[]){ "--max-restarts" } : NULL,
		(char[]){ SWEEP_RUNG_RESTARTS }, NULL };
	struct launch_spec spec = { .id = p->id,
		.argv = argv,
		.log_path = log,
		.die_with_parent = true };
	enum err_code rc;

	*found = false;
	unlink(log);
	rc = launch_start(l->set, &spec, &l->child[p - l->s->point], e);
	r->running = launch_running(l->set);
	free(from);
	free(file);
	free(log);
	return rc;
}

static void submit_locally(struct sweep_runner *r)
{
	(void)r;
}

static bool ended_locally(struct sweep_runner *r, size_t *point, const char **how)
{
	struct local *l = (struct local *)r;
	struct launch_event event;

	if (launch_wait(l->set, 0, &event, NULL) != ERR_OK)
		return false;
	r->running = launch_running(l->set);
	launch_how(&event, l->how);
	*how = l->how;
	for (*point = 0; *point < l->s->npoints; (*point)++)
		if (l->s->point[*point].state == POINT_RUNNING && l->child[*point] == event.child)
			return true;
	return false;
}

static void stop_locally(struct sweep_runner *r, int sig)
{
	launch_signal_all(((struct local *)r)->set, sig);
}

static void close_locally(struct sweep_runner *r)
{
	struct local *l = (struct local *)r;

	launch_free(l->set);
	free(l->child);
	free(l->ctl);
	free(l);
}

static const struct sweep_runner_ops local_ops = {
	.start = start_locally,
	.submit = submit_locally,
	.ended = ended_locally,
	.stop = stop_locally,
	.close = close_locally,
};

enum err_code sweep_local_open(const struct sweep *s, const char *bin, struct sweep_runner **r,
    struct err *e)
{
	struct launch_set *set;
	struct local *l;
	enum err_code rc = launch_new(NULL, &set, e);

	*r = NULL;
	if (rc != ERR_OK)
		return rc;
	l = mem_alloc(sizeof *l);
	*l = (struct local){ .base = { &local_ops, 0, launch_fd(set), -1 },
		.s = s,
		.ctl = path_join(bin, "ps-ctl"),
		.set = set,
		.child = mem_array(s->npoints, sizeof *l->child) };
	*r = &l->base;
	return ERR_OK;
}
