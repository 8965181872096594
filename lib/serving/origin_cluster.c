/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "serving/origin.h"
#include "tool/tool.h"

/* The time between two attempts to reach all servers at the start. */
#define PAUSE (100 * NSEC_PER_MSEC)

struct cluster_origin {
	struct served_origin origin; /* must be first */
	char *run, *saved;
	struct cluster_origin_config cfg; /* run and saved of it are those above */
};

/* Each model has a client of its own, because the clients of different threads share nothing. */
struct cluster_model {
	struct identity id;
	struct admin_client tool;
};

static struct cluster_origin *cluster_of(struct served_origin *o)
{
	return (struct cluster_origin *)o;
}

/* May the servers come later? */
static bool may_come(enum err_code rc)
{
	return rc == ERR_NOTREADY || rc == ERR_TIMEOUT || rc == ERR_UNREACH;
}

/* Waits until the servers have their partitions. ERR_STOPPED: the process is to end. */
static enum err_code connect_servers(const struct cluster_origin_config *c, struct cluster_model *x,
    struct err *e)
{
	int64_t until = clock_now() + c->patience;
	enum err_code rc;

	while (may_come(rc = tool_open(&x->id, "auto", c->read_patience, c->interrupt, c->log,
	                    &x->tool, e)) &&
	    clock_now() < until)
		if (interrupt_await(c->interrupt, PAUSE))
			return err_set(e, ERR_STOPPED, "this process was stopped");
	return rc;
}

static enum err_code open_cluster(struct served_origin *o, bool check, struct served_model *m,
    struct err *e)
{
	const struct cluster_origin *s = cluster_of(o);
	struct cluster_model *x = mem_alloc(sizeof *x);
	enum err_code rc = identity_from_run(s->run, "admin", &x->id, e);

	(void)check;
	m->own = x;
	if (!rc)
		rc = connect_servers(&s->cfg, x, e);
	/* A signal ends the start, and not the request that is being answered when it comes. */
	x->tool.interrupt = NULL;
	if (!rc)
		rc = tool_source(&x->tool, &m->source, e);
	/* The values stay as they are. */
	m->fresh = INT64_MAX;
	if (!rc && s->saved)
		origin_describe_saved(s->saved, m);
	else
		snprintf(m->version, sizeof m->version, "live");
	return rc;
}

static void hand_over(struct served_model *m)
{
	tool_hand_over(&((struct cluster_model *)m->own)->tool);
}

static void close_cluster(struct served_model *m)
{
	struct cluster_model *x = m->own;

	tool_close(&x->tool);
	identity_release(&x->id);
	free(x);
}

static int64_t age_of_values(const struct served_origin *o, const struct served_model *m)
{
	(void)o;
	return m->made ? clock_wall() - m->made : -1;
}

static void free_cluster(struct served_origin *o)
{
	free(cluster_of(o)->run);
	free(cluster_of(o)->saved);
	free(o);
}

static const struct served_origin_ops cluster_ops = { .open = open_cluster,
	.age = age_of_values,
	.hand_over = hand_over,
	.close = close_cluster,
	.free = free_cluster };

struct served_origin *origin_cluster(const struct cluster_origin_config *c)
{
	struct cluster_origin *s = mem_alloc(sizeof *s);

	*s = (struct cluster_origin){ .origin.ops = &cluster_ops,
		.run = mem_strdup(c->run),
		.saved = c->saved ? mem_strdup(c->saved) : NULL,
		.cfg = *c };
	return &s->origin;
}
