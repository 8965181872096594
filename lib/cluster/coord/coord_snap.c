/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"
#include "core/mem.h"

/* Checkpoints: every server that is the tail of a chain takes a snapshot of its partitions between
 * two steps, and then writes it. A change of the layout breaks the checkpoint, and the owner may
 * begin another one. coord.h draws the states. */

static bool server_is_a_tail(const struct layout *l, unsigned server)
{
	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			const struct run *r = &l->table[i].run[k];

			if (r->nchain && r->chain[r->nchain - 1] == server)
				return true;
		}
	return false;
}

/* Send an order to all servers that take part in the snapshot. Takes the reference. */
static void send_order(struct coord *c, json_t *order, int64_t now)
{
	struct snap *s = &c->snap;

	s->ordered_at = now;
	json_decref(s->order);
	s->order = order;
	s->answers = 0;
	memset(s->answered, 0, sizeof s->answered);
	for (unsigned i = 0; i < c->nservers; i++)
		if (s->asked[i])
			c->io.to_server(c->io.ctx, i, order);
}

/* The server has a new session: repeat the order, because messages of the old session are lost. */
void coord_snap_order_again(struct coord *c, unsigned server)
{
	const struct snap *s = &c->snap;

	if (s->order && s->asked[server] && !s->answered[server] &&
	    coord_snap_state(c) != SNAP_BROKEN)
		c->io.to_server(c->io.ctx, server, s->order);
}

/* Does the answer count? A server repeats its answer when the order was repeated. */
static bool is_first_answer(struct snap *s, unsigned server)
{
	if (s->answered[server])
		return false;
	s->answered[server] = true;
	s->answers++;
	return true;
}

/* An answer to an order of an earlier coordinator may arrive at this one. A coordinator begins with
 * a greater layout epoch than the one before it, so numbers that begin with the epoch differ. */
static uint64_t next_snapshot_id(const struct coord *c)
{
	uint64_t least = (uint64_t)c->layout.epoch << 31;

	return c->snap.id < least ? least : c->snap.id + 1;
}

void coord_snap_marks(struct coord *c, uint64_t mark, uint64_t base)
{
	c->snap.mark = mark;
	c->snap.base = base;
}

bool coord_snap_would_be_by_step(const struct coord *c, uint64_t step)
{
	struct sync_mode mode = coord_mode_at(c, step),
	                 mode_before = coord_mode_at(c, step ? step - 1 : 0);

	return c->cfg.has_job && sync_sums_steps(&mode) && sync_sums_steps(&mode_before);
}

/* Decides whether the snapshot is one of its step, and else how far the mode at that step
 * reaches. */
static void find_mode_of_snapshot(struct coord *c)
{
	struct snap *s = &c->snap;
	uint64_t before = s->step ? s->step - 1 : 0;
	struct sync_mode mode = coord_mode_at(c, s->step);

	s->by_step = coord_snap_would_be_by_step(c, s->step);
	s->from = 0;
	s->until = SYNC_NEVER;
	if (c->cfg.has_job && !s->by_step)
		coord_find_unclosed_steps(c, sync_sums_steps(&mode) ? before : s->step, &s->from,
		    &s->until);
}

bool coord_snap_begin(struct coord *c, uint64_t step, int64_t now)
{
	struct snap *s = &c->snap;

	if (!c->placed || c->phase < PHASE_RUNNING || c->phase > PHASE_DONE)
		return false;
	coord_snap_end(c);
	s->id = next_snapshot_id(c);
	s->step = s->first_free = step;
	s->layout_epoch = c->layout.epoch;
	s->settings = c->settings.newest;
	find_mode_of_snapshot(c);
	s->state = SNAP_ASKED;
	s->nasked = 0;
	for (unsigned i = 0; i < c->nservers; i++) {
		s->asked[i] = c->server[i].live && server_is_a_tail(&c->layout, i);
		s->nasked += s->asked[i];
	}
	s->clocks = json_object();
	s->descriptions = json_array();
	/* Save the leases before any server takes its snapshot, and record later changes of them. A
	 * worker reports a range as done when its pushes are acknowledged, so every snapshot
	 * contains the ranges that are done now. For a range in work, the servers report with the
	 * snapshot which of its pushes it contains. */
	s->taken = mem_array(COORD_WORKERS_MAX, sizeof *s->taken);
	if (c->data.leases) {
		leases_begin_record(c->data.leases);
		s->leases = leases_save(c->data.leases);
	}
	send_order(c,
	    MESSAGE(snapshot, .id = (int64_t)c->snap.id, .step = (int64_t)c->snap.step,
	        .mark = c->snap.mark, .base = c->snap.base),
	    now);
	return s->nasked > 0;
}

void coord_snap_write(struct coord *c, const char *dir, int64_t now)
{
	c->snap.state = SNAP_WRITING;
	send_order(c,
	    MESSAGE(save, .id = (int64_t)c->snap.id, .step = (int64_t)c->snap.step, .dir = dir),
	    now);
}

void coord_snap_release(struct coord *c)
{
	coord_snap_end(c);
	json_decref(c->snap.order);
}

void coord_snap_end(struct coord *c)
{
	struct snap *s = &c->snap;

	if (s->state == SNAP_SAVED)
		s->saved_step = s->step;
	if (s->state != SNAP_NONE)
		send_order(c, MESSAGE(snapshot_end, .id = (int64_t)c->snap.id), s->ordered_at);
	s->state = SNAP_NONE;
	json_decref(s->clocks);
	json_decref(s->descriptions);
	state_leases_free(s->leases);
	s->clocks = s->descriptions = NULL;
	s->leases = NULL;
	for (unsigned i = 0; s->taken && i < COORD_WORKERS_MAX; i++)
		taken_release(&s->taken[i]);
	free(s->taken);
	s->taken = NULL;
	if (c->data.leases)
		leases_end_record(c->data.leases);
}

enum coord_snap coord_snap_state(const struct coord *c)
{
	const struct snap *s = &c->snap;

	return s->state != SNAP_NONE &&
	        (s->layout_epoch != c->layout.epoch || s->settings != c->settings.newest)
	    ? SNAP_BROKEN
	    : s->state;
}

uint64_t coord_snap_id(const struct coord *c)
{
	return c->snap.id;
}

uint64_t coord_snap_step(const struct coord *c)
{
	return c->snap.step;
}

uint64_t coord_snap_first_free(const struct coord *c)
{
	return c->snap.first_free;
}

uint64_t coord_snap_newest_clock(const struct coord *c)
{
	const char *rank;
	json_t *clock;
	uint64_t newest = 0;

	json_object_foreach(c->snap.clocks, rank, clock)
		if (json_integer_value(clock) > (int64_t)newest)
			newest = (uint64_t)json_integer_value(clock);
	return newest;
}

bool coord_snap_is_by_step(const struct coord *c)
{
	return c->snap.by_step;
}

uint64_t coord_snap_first_step(const struct coord *c)
{
	return c->snap.by_step ? c->snap.step : c->snap.from;
}

/* Has a rank gone on to the bsp after the snapshot's mode? Not if all workers rest: then none is
 * left in that mode, and the snapshot has the values before the first step of bsp. */
static bool is_after_mode(const struct coord *c)
{
	uint64_t rest;

	return coord_snap_newest_clock(c) >= c->snap.until && !coord_is_at_rest(c, &rest);
}

bool coord_snap_rename(struct coord *c, uint64_t step)
{
	struct snap *s = &c->snap;
	uint64_t reached = coord_newest_step(c);

	if (s->by_step)
		return true;
	if (is_after_mode(c)) {
		s->state = SNAP_LATE;
		s->first_free = s->first_free < s->until ? s->until : s->first_free;
		return false;
	}
	/* A worker has reported this step, and the order came later. */
	reached = reached < s->step ? reached : s->step;
	s->step = step > reached ? step : reached;
	/* The fastest worker of the snapshot before may have been lost, and then no server has its
	 * step any more. */
	s->step = s->step < s->saved_step ? s->saved_step : s->step;
	s->step = s->step < s->from ? s->from : s->step;
	s->step = s->step > s->until ? s->until : s->step;
	return true;
}

const json_t *coord_snap_descriptions(const struct coord *c)
{
	return c->snap.descriptions;
}

const struct err *coord_snap_failure(const struct coord *c)
{
	return &c->snap.failure;
}

/* Merge the clocks of one server: for each rank, the least of all servers counts. */
static void merge_least_clocks(struct snap *s, const json_t *clocks)
{
	const char *rank;
	json_t *clock;

	json_object_foreach((json_t *)clocks, rank, clock) {
		const json_t *had = json_object_get(s->clocks, rank);

		if (!had || json_integer_value(clock) < json_integer_value(had))
			json_object_set(s->clocks, rank, clock);
	}
}

/* Merges the pushes in one server's snapshot. */
static void merge_taken(struct coord *c, const json_t *taken)
{
	for (unsigned i = 0; i < COORD_WORKERS_MAX && i < json_array_size(taken); i++) {
		struct taken list;

		taken_from_json(json_array_get(taken, i), &list, NULL);
		taken_merge(&c->snap.taken[i], &list);
		taken_release(&list);
	}
}

/* All servers have taken their snapshots: the leases as of these go into the manifest. */
static void note_recorded_leases(struct coord *c)
{
	struct snap *s = &c->snap;

	if (!s->leases)
		return;
	state_leases_free(s->leases);
	s->leases = leases_recorded(c->data.leases, s->taken, COORD_WORKERS_MAX);
	leases_end_record(c->data.leases);
}

/* A server's answer about a snapshot. Answers about an older one are ignored. */
json_t *coord_on_snap(struct coord *c, const struct coord_request *r)
{
	const struct message_snap *m = &r->m->snap;
	unsigned server = r->self->index;
	struct snap *s = &c->snap;
	uint64_t first_free = (uint64_t)m->first_free;

	if ((uint64_t)m->id != s->id || !s->asked[server] || s->layout_epoch != c->layout.epoch)
		return NULL;
	if (first_free > s->first_free)
		s->first_free = first_free;
	if (m->state == SNAP_ANSWER_LATE && s->state == SNAP_ASKED) {
		s->state = SNAP_LATE;
	} else if (m->state == SNAP_ANSWER_FAILED) {
		err_because(&s->failure, ERR_FAILED, err_cause_by_name(m->cause),
		    "server-%u: %.250s", server, m->message);
		s->state = SNAP_FAILED;
	} else if (m->state == SNAP_ANSWER_TAKEN && s->state == SNAP_ASKED &&
	    is_first_answer(s, server)) {
		merge_least_clocks(s, m->clocks);
		merge_taken(c, m->taken);
		if (s->answers == s->nasked) {
			s->state = SNAP_TAKEN;
			note_recorded_leases(c);
		}
	} else if (m->state == SNAP_ANSWER_SAVED && s->state == SNAP_WRITING &&
	    is_first_answer(s, server)) {
		json_array_append(s->descriptions, (json_t *)(uintptr_t)m->description);
		if (s->answers == s->nasked)
			s->state = SNAP_SAVED;
	}
	return NULL;
}

/* ---- the rest of the manifest ---- */

static void describe_ranks(const struct coord *c, struct state_head *head)
{
	const char *rank;
	json_t *clock;

	head->ranks = mem_array(json_object_size(c->snap.clocks), sizeof *head->ranks);
	json_object_foreach(c->snap.clocks, rank, clock) {
		unsigned long i = strtoul(rank, NULL, 10);
		int64_t at = json_integer_value(clock), step = (int64_t)c->snap.step;

		/* The values have no push of a later step, so a rank that continues by its own
		 * clock repeats it. */
		head->ranks[head->nranks++] = (struct state_clock){ .rank = (int64_t)i,
			.clock = c->snap.by_step && at > step ? step : at,
			.done = i < c->nworkers && c->worker[i].state == WORKER_DONE };
	}
}

/* In bsp: the position in the data at the snapshot's step. NULL without members. */
static struct state_deal *snap_data_position(const struct coord *c)
{
	const struct members *m = NULL;
	struct state_deal *deal;
	struct step_shape shape;
	struct data_position at;

	for (unsigned i = 0; i < c->membership.n; i++)
		if (c->membership.entry[i].step <= c->snap.step)
			m = &c->membership.entry[i];
	if (!m)
		return NULL;
	shape = (struct step_shape){ c->data.examples, m->batch, m->n ? m->n : 1 };
	at = step_data_advance(m->at, m->n ? c->snap.step - m->step : 0, &shape);
	deal = mem_alloc(sizeof *deal);
	*deal = (struct state_deal){ (int64_t)at.epoch, (int64_t)at.offset };
	return deal;
}

/* The last batch sizes before the snapshot's step. */
static void describe_batches(const struct coord *c, struct state_data *data)
{
	data->batches = mem_array(c->membership.n, sizeof *data->batches);
	for (unsigned i = 0; i < c->membership.n; i++) {
		const struct members *m = &c->membership.entry[i];

		if (m->step < c->snap.step)
			data->batches[data->nbatches++] = (struct state_batch){ (int64_t)m->step,
				(int64_t)m->batch };
	}
}

json_t *coord_snap_head(const struct coord *c)
{
	const struct conf *conf = coord_conf_at(c, c->snap.step);
	char mode[32];
	json_t *json, *config = coord_config_at(c, c->snap.step);
	struct state_head head = { .generation = c->layout.generation,
		.epoch = c->layout.epoch,
		.tables = layout_tables(&c->layout),
		.name = c->cfg.name,
		.config = config,
		.optimizer = conf->job.optimizer,
		.mode = mode,
		.data = mem_alloc(sizeof *head.data),
		.eval = c->evaluation.last.eval,
		.stop = coord_early_stop_save(c) };

	sync_format(&conf->sync, mode);
	describe_ranks(c, &head);
	*head.data = (struct state_data){ .examples = (int64_t)c->data.examples,
		.deal = snap_data_position(c),
		.tasks = c->snap.leases ? state_leases_copy(c->snap.leases) : NULL,
		.facts = c->data.facts,
		.given = c->data.given };
	if (head.data->tasks && head.data->tasks->assigned)
		describe_batches(c, head.data);
	json = state_head_encode(&head);
	state_head_release(&head);
	json_decref(config);
	return json;
}
