/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "serving/origin.h"
#include "shard/shard_source.h"

/* How long the server may take until it has its tables, and the time between two looks. */
#define PATIENCE (60 * NSEC_PER_SEC)
#define LOOK     (10 * NSEC_PER_MSEC)

struct replica_origin {
	struct served_origin origin; /* must be first */
	struct origin_target target;
	/* of the model: it stays the same while its values change */
	json_t *config, *facts;
	struct layout layout;
	int64_t fresh;
};

static const struct replica_origin *replica_of(const struct served_origin *o)
{
	return (const struct replica_origin *)o;
}

static enum err_code try_to_open(const struct replica_origin *r, struct param_source **out,
    struct err *e)
{
	struct shard *shard = r->target.shard(r->target.server);

	return shard ? shard_source_open(shard, &r->layout, r->config, r->facts, out, e)
	             : err_set(e, ERR_NOTREADY, "the server has no tables yet");
}

/* Waits for the tables, which the server gets when it joins its cluster. ERR_STOPPED: the process
 * ends meanwhile. */
static enum err_code open_replica(struct served_origin *o, bool check, struct served_model *m,
    struct err *e)
{
	const struct replica_origin *r = replica_of(o);
	int64_t until = clock_now() + PATIENCE;
	enum err_code rc;

	(void)check;
	while ((rc = try_to_open(r, &m->source, e)) == ERR_NOTREADY && clock_now() < until)
		if (r->target.wait_for_end(r->target.server, LOOK))
			return err_set(e, ERR_STOPPED, "this process was stopped");
	m->fresh = r->fresh;
	snprintf(m->version, sizeof m->version, "live");
	return rc;
}

static int64_t age_of_values(const struct served_origin *o, const struct served_model *m)
{
	const struct replica_origin *r = replica_of(o);
	int64_t then = r->target.as_of(r->target.server);

	(void)m;
	return then ? clock_now() - then : -1;
}

static void free_replica(struct served_origin *o)
{
	struct replica_origin *r = (struct replica_origin *)o;

	json_decref(r->config);
	json_decref(r->facts);
	layout_release(&r->layout);
	free(r);
}

static const struct served_origin_ops replica_ops = { .open = open_replica,
	.age = age_of_values,
	.free = free_replica };

/* A copy of the shapes alone. Cannot fail, as the tables are those of a layout. */
static void copy_shapes(const struct layout *from, struct layout *to)
{
	for (size_t i = 0; i < from->ntables; i++) {
		struct table shape = from->table[i], *added;

		shape.run = NULL;
		shape.nruns = 0;
		if (!shape.dropped && layout_add(to, &shape, &added, NULL))
			abort();
	}
}

struct served_origin *origin_replica(const struct origin_target *target,
    const struct param_source *source, int64_t fresh)
{
	struct replica_origin *r = mem_alloc(sizeof *r);

	*r = (struct replica_origin){ .origin.ops = &replica_ops,
		.target = *target,
		.config = json_deep_copy(source->config),
		.facts = json_deep_copy(source->facts),
		.fresh = fresh };
	copy_shapes(source->ops->layout(source), &r->layout);
	return &r->origin;
}
