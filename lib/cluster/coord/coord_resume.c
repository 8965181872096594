/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"

/* A job that resumes from a checkpoint: the same tables, the next generation, and every rank at the
 * step that it had completed. */

void coord_resume_begin(struct coord *c)
{
	const json_t *m = c->cfg.resume, *item,
	             *deal = json_object_get(json_object_get(m, "data"), "deal");
	size_t i;

	c->data.facts = json_incref(json_object_get(json_object_get(m, "data"), "facts"));
	c->layout.generation = (uint32_t)json_int(m, "generation", 1) + 1;
	c->layout.epoch = (uint32_t)json_int(m, "epoch", 0);
	json_array_foreach(json_object_get(m, "tables"), i, item) {
		struct table shape, *t;

		if (!table_from_json(item, &shape, NULL) &&
		    !table_past_from_json(item, &shape, NULL))
			layout_add(&c->layout, &shape, &t, NULL);
	}
	/* A cluster without a job counts no steps; its checkpoints are only numbered. */
	c->membership.first_step = c->cfg.has_job ? (uint64_t)json_int(m, "step", 0) : 0;
	c->membership.first_at = (struct deal_pos){ (uint64_t)json_int(deal, "epoch", 0),
		(uint64_t)json_int(deal, "offset", 0) };
}

/* In bsp all ranks go on at the checkpoint's step; otherwise each rank at its own. */
void coord_resume_members(struct coord *c)
{
	const json_t *item;
	size_t i;

	for (unsigned k = 0; k < c->nworkers; k++) {
		c->worker[k].from = c->membership.first_step;
		c->worker[k].resumes = true;
	}
	json_array_foreach(json_object_get(c->cfg.resume, "slots"), i, item) {
		int64_t slot = json_int(item, "slot", -1);

		if (!c->cfg.lockstep && slot >= 0 && slot < c->nworkers)
			c->worker[slot].from = (uint64_t)json_int(item, "clock", 0);
	}
}

const json_t *coord_resume_saved_tasks(const struct coord *c)
{
	return json_object_get(json_object_get(c->cfg.resume, "data"), "tasks");
}

void coord_resume_tasks(struct coord *c)
{
	const json_t *tasks = coord_resume_saved_tasks(c);

	if (json_is_object(tasks))
		tasks_from_json(c->data.tasks, tasks, false);
}
