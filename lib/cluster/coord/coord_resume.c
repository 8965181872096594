/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"

/* Servers that have not answered yet and are named. */
#define CHECKING_NAMED 8u

/* A job that resumes from a checkpoint: the same tables, the next generation, and every rank at the
 * step that it had completed. A checkpoint of step 0 is the model that a job begins with: until its
 * partitions are placed, dense tables may still grow.
 *
 * The coordinator has read only the manifest, because a checkpoint may have hundreds of GB. The
 * servers compare its files with their digests, each a share of them:
 *
 *   state     event                                                        next state
 *   (none)    coord_new with cfg.check_resume                              open
 *   open      every server is here and has compared its share: workers     closed
 *             may join
 *   open      a server has found damage                                    open, damaged
 *   damaged   coord_resume_instead: nothing is left of the checkpoint      open
 *   any       coord_recover: the partitions have been placed, which is     closed
 *             only done after the check
 *
 * While it is open, nothing may depend on the checkpoint but what coord_resume_instead replaces. So
 * no worker joins: it would read its data by the checkpoint's description, and begin at its step. A
 * coordinator that is killed meanwhile leaves a state that names the checkpoint, but has no
 * partitions; the next one begins the check again. A server's answer names the checkpoint and the
 * share. If two servers find damage at the same time, the later answer therefore does not also
 * refuse the checkpoint that was taken instead. */

bool coord_resume_is_checked(const struct coord *c)
{
	return !c->checking.open;
}

const char *coord_resume_damage(const struct coord *c)
{
	return c->checking.open ? c->checking.damage : NULL;
}

/* Has this server compared its present share? */
static bool has_checked(const struct coord *c, unsigned i)
{
	return c->server[i].live && c->server[i].checked_of == c->nservers;
}

void coord_resume_end_check(struct coord *c)
{
	bool done = c->checking.open && !c->checking.damage;

	for (unsigned i = 0; done && i < c->nservers; i++)
		done = has_checked(c, i);
	if (!done)
		return;
	c->checking.open = false;
	coord_changed(c);
}

void coord_resume_describe_check(const struct coord *c, char *out, size_t size)
{
	struct buf names = BUF_INIT;
	unsigned n = 0;
	char id[24];

	for (unsigned i = 0; i < c->nservers; i++) {
		if (has_checked(c, i))
			continue;
		snprintf(id, sizeof id, "server-%u", i);
		names_put(&names, &n, CHECKING_NAMED, id);
	}
	names_put_rest(&names, n, CHECKING_NAMED);
	snprintf(out, size, "%s to verify %.200s", n ? (char *)names.data : "the servers",
	    path_basename(c->cfg.resume_path));
	buf_release(&names);
}

json_t *coord_on_checked(struct coord *c, const struct coord_request *r)
{
	const struct message_checked *m = &r->m->checked;
	unsigned server = r->self->index;

	if (!c->checking.open || strcmp(m->restore, c->cfg.resume_path) != 0 ||
	    m->index != (int64_t)server || m->of != (int64_t)c->nservers)
		return NULL;
	if (!*m->damage)
		c->server[server].checked_of = c->nservers;
	else if (!c->checking.damage)
		c->checking.damage = mem_strdup(m->damage);
	return NULL;
}

void coord_resume_instead(struct coord *c, const struct coord_config *cfg, int64_t now)
{
	uint32_t epoch = c->layout.epoch, generation = c->layout.generation;

	free(c->checking.damage);
	c->checking.damage = NULL;
	for (unsigned i = 0; i < c->nservers; i++)
		c->server[i].checked_of = 0;
	c->cfg.resume = cfg->resume;
	c->cfg.resume_path = cfg->resume_path;
	c->cfg.description = cfg->description;
	c->cfg.config = cfg->config;
	coord_settings_release(c);
	c->settings = (struct coord_settings){ 0 };
	coord_settings_begin(c);
	layout_release(&c->layout);
	c->layout = (struct layout){ .zone = c->zone };
	c->membership.first_step = 0;
	c->membership.first_at = (struct data_position){ 0 };
	coord_early_stop_reset(c);
	coord_resume_begin(c);
	/* Processes that have seen the layout of the damaged one are older than this one. */
	if (c->layout.epoch < epoch)
		c->layout.epoch = epoch;
	if (c->layout.generation < generation)
		c->layout.generation = generation;
	coord_changed(c);
	coord_progress(c, now);
}

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
	/* A job that has ended early and is resumed goes on, until another evaluation is not the
	 * best. */
	coord_early_stop_load(c, m->stop);
	c->stopping.ended[0] = '\0';
	/* The checkpoint may have the model of the best evaluation, which was not committed yet
	 * when it was written. In bsp its step is then the step of the evaluation. */
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
	coord_event(c, EVENT_data_changed,
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
