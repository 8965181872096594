/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"

/* A job that resumes from a checkpoint: the same tables, the next generation, and every rank at the
 * step that it had completed. A checkpoint of step 0 is the model that a job begins with: until its
 * partitions are placed, dense tables may still grow. */

enum err_code coord_resume_check(const struct state_head *m, bool deterministic, unsigned workers,
    struct err *e)
{
	const struct state_leases *saved = m->data ? m->data->tasks : NULL;
	uint64_t had = saved ? (uint64_t)saved->assigned : 0;

	if (!saved || had == (deterministic ? workers : 0))
		return ERR_OK;
	if (!had)
		return err_set(e, ERR_CONFIG,
		    "deterministic: must be false for a job that resumes from this checkpoint, "
		    "because its data were leased on demand");
	if (!deterministic)
		return err_set(e, ERR_CONFIG,
		    "deterministic: must be true for a job that resumes from this checkpoint, whose data are "
		    "assigned to its workers");
	return err_set(e, ERR_CONFIG,
	    "workers: must be %llu for a deterministic job that resumes from this checkpoint, "
	    "because its data are read in blocks and assigned to that number of workers, got %u",
	    (unsigned long long)had, workers);
}

void coord_resume_begin(struct coord *c)
{
	const struct state_head *m = c->cfg.resume;
	const struct state_deal *deal = m->data ? m->data->deal : NULL;
	const json_t *item;
	size_t i;

	coord_description_set(c, m->data ? m->data->facts : NULL);
	c->data.given = c->data.facts && m->data->given;
	c->data.resumed = c->data.facts != NULL;
	/* A job that has ended early and is resumed goes on, until another evaluation is not the best. */
	coord_early_stop_load(c, m->stop);
	c->stopping.ended[0] = '\0';
	/* The checkpoint may be that of the best evaluation, which was not committed yet when it
	 * was written. In bsp its step is then that of the evaluation. */
	if (c->stopping.eval && c->stopping.state.best_step == c->stopping.state.seen_step &&
	    (int64_t)c->stopping.saved < c->stopping.state.best_step &&
	    (!c->cfg.lockstep || m->step == c->stopping.state.best_step))
		c->stopping.saved = (uint64_t)m->step;
	c->layout.generation = (uint32_t)m->generation + 1;
	c->layout.epoch = (uint32_t)m->epoch;
	json_array_foreach(m->tables, i, item) {
		struct table shape, *t;

		if (!table_from_json(item, &shape, NULL) &&
		    !table_past_from_json(item, &shape, NULL))
			layout_add(&c->layout, &shape, &t, NULL);
	}
	/* A cluster without a job counts no steps; its checkpoints are only numbered. */
	c->membership.first_step = c->cfg.has_job ? (uint64_t)m->step : 0;
	if (deal)
		c->membership.first_at = (struct data_position){ (uint64_t)deal->epoch,
			(uint64_t)deal->offset };
}

bool coord_resume_has_other_data(const struct coord *c)
{
	const struct state_head *m = c->cfg.resume;

	return m && m->data && m->data->examples && !c->data.stream &&
	    (uint64_t)m->data->examples != c->data.examples;
}

void coord_resume_fit_data(struct coord *c)
{
	const char *unit = c->data.blocks_per_lease ? "blocks" : "examples";

	if (!coord_resume_has_other_data(c))
		return;
	c->membership.first_at.offset = 0;
	coord_event(c, "data_changed",
	    "the data have %llu %s, and had %llu when the checkpoint was taken: the epoch that was begun "
	    "begins again with all of them",
	    (unsigned long long)c->data.examples, unit,
	    (unsigned long long)c->cfg.resume->data->examples);
}

void coord_resume_fit_table(struct coord *c, const struct table *shape)
{
	const struct state_head *m = c->cfg.resume;
	struct table *t = m && !m->step && !c->placed
	    ? (struct table *)(uintptr_t)layout_find(&c->layout, shape->name)
	    : NULL;

	if (!t || t->sparse != shape->sparse || t->cols != shape->cols ||
	    (!t->sparse && t->rows > shape->rows))
		return;
	t->decay = shape->decay;
	t->reduced = shape->reduced;
	t->init = shape->init;
	t->init_limit = shape->init_limit;
	t->seed = shape->seed;
	t->policy = shape->policy;
	/* A sparse table keeps its rows and its partitions. */
	if (t->sparse)
		return;
	t->rows = shape->rows;
	t->nparts = table_count_parts(t);
}

/* In bsp all ranks go on at the checkpoint's step; otherwise each rank at its own. */
void coord_resume_members(struct coord *c)
{
	const struct state_head *m = c->cfg.resume;

	for (unsigned k = 0; k < c->nworkers; k++) {
		c->worker[k].from = c->membership.first_step;
		c->worker[k].resumes = true;
	}
	for (uint64_t i = 0; !c->cfg.lockstep && i < m->nranks; i++)
		if (m->ranks[i].rank >= 0 && m->ranks[i].rank < c->nworkers)
			c->worker[m->ranks[i].rank].from = (uint64_t)m->ranks[i].clock;
}

const struct state_leases *coord_resume_saved_leases(const struct coord *c)
{
	const struct state_head *m = c->cfg.resume;

	return m && m->data ? m->data->tasks : NULL;
}
