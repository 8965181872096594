/* SPDX-License-Identifier: ISC */
#include "coord/leases.h"

#include <assert.h>
#include <stdlib.h>

#include "coord/coord.h"
#include "core/mem.h"

/* uthash would call exit() when memory is lacking. */
#define uthash_malloc(size) mem_alloc(size)
#include <uthash.h>

#define NOBODY UINT32_MAX

/* A range that is leased, or that was taken back. */
struct lease_node {
	struct lease_node *next, **at; /* *at points to this node */
	UT_hash_handle hh;             /* in leases.by_id */
	uint32_t holder;               /* NOBODY: it was taken back */
	size_t recorded; /* the number, from 1, of its open attempt in leases.record; 0: none */
	bool listed;     /* only within leases_keep_only */
	struct lease lease;
};

/* The leases of one worker: two, or some thousands of partitions of a stream. */
struct holder {
	struct lease_node *leased;
	unsigned n;
};

/* An attempt on a range while a checkpoint is taken. */
struct recorded {
	uint64_t id;
	uint32_t worker;
	uint64_t until; /* the first step that is not one of it; UINT64_MAX: it continues */
	/* own.taken: for a lost worker (`lost`), its pushes that the partitions had when it was
	 * lost */
	struct lease_attempt own;
	int64_t place; /* of example own.from */
	bool lost;
};

struct leases {
	uint64_t examples, range, epochs, per_epoch;
	uint64_t next; /* id of the first range never leased */
	uint64_t done;
	bool stream;
	unsigned limit; /* of ranges that a worker holds */
	/* The number of workers to which ranges are assigned, and where they begin. 0: any worker
	 * may lease any range. */
	uint64_t assigned, first_step, first_batch;
	/* The epoch whose examples are counted, its ranges that are done, and their examples. */
	uint64_t counted_epoch, counted_ranges, counted_examples;
	struct holder *holder; /* by worker number */
	uint32_t nholders;
	uint64_t leased;         /* leases held by all workers */
	struct lease_node *back; /* ranges that were taken back; they are leased first */
	struct lease_node *by_id;
	void (*changed)(void *ctx, const struct lease_change *c);
	void *ctx;
	/* While a checkpoint is taken: the leases at its begin (else NULL), and the attempts in
	 * work then or begun since. */
	struct state_leases *base;
	struct recorded *record;
	size_t nrecorded, record_room;
};

struct leases *leases_new(uint64_t examples, uint64_t range, uint64_t epochs)
{
	struct leases *t = mem_alloc(sizeof *t);

	assert(examples > 0 && range > 0);
	t->examples = examples;
	t->range = range;
	t->epochs = epochs;
	t->per_epoch = (examples + range - 1) / range;
	t->limit = LEASES_UNASSIGNED_MAX;
	return t;
}

struct leases *leases_new_stream(uint64_t partitions)
{
	struct leases *t = leases_new(partitions, 1, 1);

	t->stream = true;
	return t;
}

void leases_extend(struct leases *t, uint64_t partitions)
{
	if (t->stream && partitions > t->examples)
		t->examples = t->per_epoch = partitions;
}

void leases_set_limit(struct leases *t, unsigned held)
{
	t->limit = held;
}

unsigned leases_held(const struct leases *t, uint32_t worker)
{
	return worker < t->nholders ? t->holder[worker].n : 0;
}

/* Numbers of examples and ranges are saved as an int64_t. Workers report some of them, and must not
 * make them wrap. */
static uint64_t at_most_int64(uint64_t n)
{
	return n < INT64_MAX ? n : INT64_MAX;
}

/* from + n * each, at most INT64_MAX. `from` is at most that. */
static uint64_t add_product(uint64_t from, uint64_t n, uint64_t each)
{
	return each && n > (INT64_MAX - from) / each ? INT64_MAX : from + n * each;
}

/* Counts the examples of the first epoch in which no range is done. */
static void begin_count(struct leases *t)
{
	t->counted_epoch = (t->done + t->per_epoch - 1) / t->per_epoch;
	t->counted_ranges = t->counted_examples = 0;
}

static void count_done(struct leases *t, uint64_t id, uint64_t examples)
{
	t->done++;
	if (id / t->per_epoch != t->counted_epoch)
		return;
	t->counted_ranges++;
	t->counted_examples = at_most_int64(t->counted_examples + at_most_int64(examples));
}

uint64_t leases_epoch_examples(const struct leases *t)
{
	return t->counted_ranges == t->per_epoch ? t->counted_examples : 0;
}

/* The last range of an epoch may be shorter than the others, which does not matter here. */
double leases_epochs_done(const struct leases *t)
{
	return (double)t->done / (double)t->per_epoch;
}

void leases_begin_at(struct leases *t, uint64_t epoch, uint64_t offset)
{
	t->next = t->done = epoch * t->per_epoch + offset / t->range;
	begin_count(t);
}

void leases_watch(struct leases *t, void (*changed)(void *ctx, const struct lease_change *c),
    void *ctx)
{
	t->changed = changed;
	t->ctx = ctx;
}

static void report_lease_change(const struct leases *t, const struct lease_change *c)
{
	if (t->changed)
		t->changed(t->ctx, c);
}

static struct lease_node *find_lease(const struct leases *t, uint64_t id)
{
	struct lease_node *l;

	HASH_FIND(hh, t->by_id, &id, sizeof id, l);
	return l;
}

/* Puts the node at this place of a list. */
static void link_lease(struct lease_node **at, struct lease_node *l)
{
	l->next = *at;
	l->at = at;
	if (l->next)
		l->next->at = &l->next;
	*at = l;
}

static void unlink_lease(struct lease_node *l)
{
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
}

static void free_lease(struct leases *t, struct lease_node *l)
{
	HASH_DEL(t->by_id, l);
	for (size_t i = 0; i < l->lease.n_earlier; i++)
		taken_release(&l->lease.earlier[i].taken);
	free(l->lease.earlier);
	free(l);
}

static void free_leases(struct leases *t, struct lease_node *l)
{
	while (l) {
		struct lease_node *next = l->next;

		free_lease(t, l);
		l = next;
	}
}

void leases_free(struct leases *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->nholders; i++)
		free_leases(t, t->holder[i].leased);
	free(t->holder);
	free_leases(t, t->back);
	leases_end_record(t);
	free(t);
}

/* ---- attempts while a checkpoint is taken ---- */

/* The holder of a lease has begun an attempt. */
static void record_attempt(struct leases *t, struct lease_node *l)
{
	if (!t->base || !l->lease.attempt.batch || t->assigned)
		return;
	t->record = mem_grow(t->record, &t->record_room, t->nrecorded + 1, sizeof *t->record);
	t->record[t->nrecorded++] = (struct recorded){ .id = l->lease.id,
		.worker = l->holder,
		.until = UINT64_MAX,
		.place = l->lease.place,
		.own = l->lease.attempt };
	l->recorded = t->nrecorded;
}

/* The holder's attempt has ended before `until`. taken: the pushes that the partitions had when the
 * worker was lost; NULL: it was not lost. */
static void record_end(struct leases *t, struct lease_node *l, uint64_t until,
    const struct taken *taken)
{
	struct recorded *r = l->recorded ? &t->record[l->recorded - 1] : NULL;

	l->recorded = 0;
	if (!r)
		return;
	r->until = until;
	r->lost = taken != NULL;
	if (taken)
		r->own.taken = taken_copy(taken);
}

void leases_end_record(struct leases *t)
{
	for (struct lease_node *l = t->by_id; l; l = l->hh.next)
		l->recorded = 0;
	for (size_t i = 0; i < t->nrecorded; i++)
		taken_release(&t->record[i].own.taken);
	free(t->record);
	state_leases_free(t->base);
	t->record = NULL;
	t->nrecorded = t->record_room = 0;
	t->base = NULL;
}

void leases_begin_record(struct leases *t)
{
	leases_end_record(t);
	t->base = leases_save(t);
	for (uint32_t i = 0; i < t->nholders; i++)
		for (struct lease_node *l = t->holder[i].leased; l; l = l->next)
			record_attempt(t, l);
}

static struct holder *worker_holder(struct leases *t, uint32_t worker)
{
	if (worker >= t->nholders) {
		t->holder = mem_regrow(t->holder, (size_t)worker + 1, sizeof *t->holder);
		memset(t->holder + t->nholders, 0,
		    ((size_t)worker + 1 - t->nholders) * sizeof *t->holder);
		/* The array may have moved. */
		for (uint32_t i = 0; i < t->nholders; i++)
			if (t->holder[i].leased)
				t->holder[i].leased->at = &t->holder[i].leased;
		t->nholders = worker + 1;
	}
	return &t->holder[worker];
}

static void give_lease(struct leases *t, struct lease_node *l, uint32_t worker)
{
	struct holder *h = worker_holder(t, worker);

	link_lease(&h->leased, l);
	l->holder = worker;
	h->n++;
	t->leased++;
}

/* Takes a lease from its holder. The lease must be held. */
static void take_from_holder(struct leases *t, struct lease_node *l)
{
	unlink_lease(l);
	t->holder[l->holder].n--;
	t->leased--;
	l->holder = NOBODY;
}

static uint64_t count_all_ranges(const struct leases *t)
{
	return t->epochs ? add_product(0, t->epochs, t->per_epoch) : UINT64_MAX;
}

static struct lease make_lease(const struct leases *t, uint64_t id)
{
	uint64_t at = id % t->per_epoch * t->range;

	return (struct lease){ .id = id,
		.epoch = id / t->per_epoch,
		.place = LEASES_NOT_BEGUN,
		.begin = at,
		.end = at + t->range < t->examples ? at + t->range : t->examples };
}

/* A lease that is in no list. */
static struct lease_node *new_lease(struct leases *t, uint64_t id)
{
	struct lease_node *l = mem_alloc(sizeof *l);

	l->holder = NOBODY;
	l->lease = make_lease(t, id);
	HASH_ADD(hh, t->by_id, lease.id, sizeof l->lease.id, l);
	return l;
}

static void return_lease(struct leases *t, struct lease_node *l)
{
	link_lease(&t->back, l);
}

/* ---- assigned ranges ---- */

/* Each worker's first range has a mark from the beginning, so that the place of a worker that is
 * lost before it has reported anything is known. */
static void mark_first_ranges(struct leases *t)
{
	for (uint64_t i = 0; i < t->assigned && t->next < count_all_ranges(t); i++) {
		struct lease_node *l = new_lease(t, t->next++);

		l->lease.attempt = (struct lease_attempt){ .step = t->first_step,
			.batch = t->first_batch };
		return_lease(t, l);
	}
}

void leases_assign(struct leases *t, uint64_t workers, uint64_t step, uint64_t batch)
{
	t->assigned = workers;
	t->first_step = step;
	t->first_batch = batch;
	t->limit = LEASES_ASSIGNED_MAX;
	mark_first_ranges(t);
}

bool leases_are_assigned(const struct leases *t)
{
	return t->assigned > 0;
}

/* Takes the worker's first range that nobody holds. NULL: it has no more. */
static struct lease_node *take_assigned_range(struct leases *t, uint32_t worker)
{
	struct lease_node *first = NULL;

	for (struct lease_node *l = t->back; l; l = l->next)
		if (l->lease.id % t->assigned == worker &&
		    (!first || l->lease.id < first->lease.id))
			first = l;
	if (first) {
		unlink_lease(first);
		return first;
	}
	while (t->next < count_all_ranges(t)) {
		struct lease_node *l = new_lease(t, t->next++);

		if (l->lease.id % t->assigned == worker)
			return l;
		return_lease(t, l);
	}
	return NULL;
}

/* Takes the range that is next in turn. NULL: there is none. */
static struct lease_node *take_next_range(struct leases *t)
{
	struct lease_node *l = t->back;

	if (l)
		unlink_lease(l);
	else if (t->next < count_all_ranges(t))
		l = new_lease(t, t->next++);
	return l;
}

/* ---- attempts ---- */

static void begin_attempt(struct lease *lease, uint64_t step, uint64_t batch, bool assigned)
{
	if (assigned && lease->attempt.batch)
		return;
	lease->attempt.step = step;
	lease->attempt.batch = batch;
	for (size_t i = 0, from = 0; batch && i < lease->n_earlier; i++)
		if (lease->earlier[i].from <= lease->attempt.from &&
		    lease->earlier[i].from >= from) {
			from = lease->earlier[i].from;
			lease->attempt.batch = lease->earlier[i].batch;
		}
}

/* The step of the attempt at which example `from` is the first of a batch, or the next step after
 * it. */
static uint64_t step_of_example(const struct lease_attempt *a, uint64_t from)
{
	return a->step +
	    (a->batch && from > a->from ? (from - a->from + a->batch - 1) / a->batch : 0);
}

/* The end of the examples that an attempt may have pushed. */
static uint64_t attempt_end(const struct lease_attempt *a)
{
	uint64_t end = taken_end(&a->taken);

	return add_product(a->from, end > a->step ? end - a->step : 0, a->batch);
}

/* Removes the earlier attempts that pushed nothing from example `from` on. */
static void drop_past_attempts(struct lease *lease)
{
	size_t n = 0;

	for (size_t i = 0; i < lease->n_earlier; i++)
		if (attempt_end(&lease->earlier[i]) > lease->attempt.from)
			lease->earlier[n++] = lease->earlier[i];
		else
			taken_release(&lease->earlier[i].taken);
	lease->n_earlier = n;
}

/* The holder is lost. Its steps before `complete` have all their pushes. */
static void end_attempt(struct lease *lease, uint64_t complete, const struct taken *taken)
{
	struct lease_attempt a = lease->attempt;

	if (!a.batch)
		return;
	if (complete > a.step) {
		a.from = add_product(a.from, complete - a.step, a.batch);
		a.step = complete;
	}
	if (taken)
		a.taken = taken_copy(taken);
	taken_drop_before(&a.taken, a.step);
	lease->attempt = (struct lease_attempt){ .from = a.from };
	if (a.taken.n) {
		lease->earlier = mem_regrow(lease->earlier, lease->n_earlier + 1,
		    sizeof *lease->earlier);
		lease->earlier[lease->n_earlier++] = a;
	}
	drop_past_attempts(lease);
}

static void advance_attempt(struct lease *lease, uint64_t from, uint64_t step, uint64_t batch,
    int64_t place)
{
	lease->attempt = (struct lease_attempt){ .from = from, .step = step, .batch = batch };
	lease->placed = from;
	lease->place = place;
	drop_past_attempts(lease);
}

/* ---- leases ---- */

bool leases_may_lease(const struct leases *t, uint32_t worker)
{
	return leases_held(t, worker) < t->limit;
}

const struct lease *leases_give(struct leases *t, uint32_t worker, uint64_t step, uint64_t batch)
{
	struct lease_node *l;

	if (!leases_may_lease(t, worker))
		return NULL;
	l = t->assigned ? take_assigned_range(t, worker) : take_next_range(t);
	if (!l)
		return NULL;
	begin_attempt(&l->lease, step, batch, t->assigned);
	give_lease(t, l, worker);
	record_attempt(t, l);
	report_lease_change(t,
	    &(struct lease_change){ .event = LEASE_GIVEN,
	        .id = l->lease.id,
	        .worker = worker,
	        .step = step,
	        .batch = batch });
	return &l->lease;
}

/* NULL: the worker does not hold this range. */
static struct lease_node *held_lease(const struct leases *t, uint32_t worker, uint64_t id)
{
	struct lease_node *l = find_lease(t, id);

	return l && l->holder == worker ? l : NULL;
}

/* May a worker that trains on this range in this way say that it is there? */
static bool may_advance(const struct leases *t, const struct lease_attempt *a, uint64_t from)
{
	/* A partition of a stream on which the worker rests, or an assigned range that was leased
	 * ahead: no example of it is passed. */
	return a->batch ? from >= a->from : (t->stream || t->assigned) && from == a->from;
}

void leases_advance(struct leases *t, uint32_t worker, uint64_t id, uint64_t from, uint64_t step,
    uint64_t batch, int64_t place)
{
	struct lease_node *l = held_lease(t, worker, id);
	const struct lease_attempt *a = l ? &l->lease.attempt : NULL;

	/* A place that was reported is not taken back. */
	if (t->stream && a && place == LEASES_NOT_BEGUN && l->lease.place != LEASES_NOT_BEGUN)
		return;
	if (!a || !may_advance(t, a, from) || (!batch && !t->stream) ||
	    (a->from == from && (a->step == step || !batch) && a->batch == batch &&
	        (!t->stream || l->lease.place == place)))
		return;
	record_end(t, l, step_of_example(a, from), NULL);
	advance_attempt(&l->lease, from, step, batch, place);
	record_attempt(t, l);
	report_lease_change(t,
	    &(struct lease_change){ .event = LEASE_ADVANCED,
	        .id = id,
	        .worker = worker,
	        .from = from,
	        .step = step,
	        .batch = batch,
	        .place = place });
}

/* The holder has used a range up. */
static void end_lease(struct leases *t, struct lease_node *l, uint64_t examples)
{
	count_done(t, l->lease.id, examples);
	take_from_holder(t, l);
	free_lease(t, l);
}

bool leases_note_done(struct leases *t, uint32_t worker, uint64_t id, uint64_t examples)
{
	struct lease_node *l = held_lease(t, worker, id);

	if (!l)
		return false;
	end_lease(t, l, examples);
	report_lease_change(t,
	    &(struct lease_change){ .event = LEASE_DONE,
	        .id = id,
	        .worker = worker,
	        .from = examples });
	return true;
}

/* Takes a lease back from its holder, whose pushes count as end_attempt says. The range is leased
 * again before those that were never leased. */
static void return_to_queue(struct leases *t, struct lease_node *l, uint64_t complete,
    const struct taken *taken)
{
	if (!t->assigned)
		end_attempt(&l->lease, complete, taken);
	take_from_holder(t, l);
	return_lease(t, l);
}

/* Takes back a worker's leases that are not listed. c: how far it is with them. */
static bool take_back_leases(struct leases *t, const struct lease_change *c)
{
	struct lease_node *next = worker_holder(t, c->worker)->leased, *l;
	struct lease_change change = *c;
	bool some = false;

	while ((l = next)) {
		next = l->next;
		if (l->listed) {
			l->listed = false;
			continue;
		}
		/* Without a list of pushes there are none since the worker last reported its
		 * place. */
		record_end(t, l, c->taken ? UINT64_MAX : l->lease.attempt.step, c->taken);
		return_to_queue(t, l, c->step, c->taken);
		change.id = l->lease.id;
		report_lease_change(t, &change);
		some = true;
	}
	return some;
}

bool leases_keep_only(struct leases *t, uint32_t worker, const uint64_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct lease_node *l = held_lease(t, worker, id[i]);

		if (l)
			l->listed = true;
	}
	return take_back_leases(t,
	    &(struct lease_change){ .event = LEASE_TAKEN_BACK, .worker = worker });
}

bool leases_take_back(struct leases *t, uint32_t worker, uint64_t complete,
    const struct taken *taken)
{
	return take_back_leases(t,
	    &(struct lease_change){ .event = LEASE_TAKEN_BACK,
	        .worker = worker,
	        .step = complete,
	        .taken = taken });
}

/* Takes a range that was taken back. NULL: it was not. */
static struct lease_node *take_returned_range(struct leases *t, uint64_t id)
{
	struct lease_node *l = held_lease(t, NOBODY, id);

	if (l)
		unlink_lease(l);
	return l;
}

static bool replay_lease(struct leases *t, const struct lease_change *c)
{
	struct lease_node *l = t->assigned ? take_assigned_range(t, c->worker)
	                                   : take_returned_range(t, c->id);

	if (l && l->lease.id != c->id) {
		return_lease(t, l);
		return false;
	}
	/* The stream got this partition after the state was saved. */
	if (c->id == t->next)
		leases_extend(t, c->id + 1);
	if (!l && c->id == t->next && t->next < count_all_ranges(t))
		l = new_lease(t, t->next++);
	if (!l)
		return false;
	begin_attempt(&l->lease, c->step, c->batch, t->assigned);
	give_lease(t, l, c->worker);
	return true;
}

bool leases_replay(struct leases *t, const struct lease_change *c)
{
	struct lease_node *l;

	if (c->worker >= COORD_WORKERS_MAX)
		return false;
	if (c->event == LEASE_GIVEN)
		return replay_lease(t, c);
	l = held_lease(t, c->worker, c->id);
	if (!l)
		return false;
	if (c->event == LEASE_ADVANCED) {
		advance_attempt(&l->lease, c->from, c->step, c->batch, c->place);
	} else if (c->event == LEASE_TAKEN_BACK) {
		return_to_queue(t, l, c->step, c->taken);
	} else {
		end_lease(t, l, c->from);
	}
	return true;
}

bool leases_finished(const struct leases *t)
{
	return t->done >= count_all_ranges(t);
}

void leases_count(const struct leases *t, uint64_t *done, uint64_t *leased, uint64_t *all)
{
	*done = t->done;
	*all = count_all_ranges(t);
	*leased = t->leased;
}

/* Makes room for this many more attempts and places. */
static void reserve_saved(struct state_leases *s, size_t attempts, size_t places)
{
	s->attempts = mem_regrow(s->attempts, s->nattempts + attempts + 1, sizeof *s->attempts);
	s->places = mem_regrow(s->places, s->nplaces + places + 1, sizeof *s->places);
}

static void save_attempt(struct state_leases *s, uint64_t id, const struct lease_attempt *a,
    bool earlier)
{
	s->attempts[s->nattempts++] = (struct state_attempt){ .id = (int64_t)id,
		.from = (int64_t)a->from,
		.step = (int64_t)a->step,
		.batch = (int64_t)a->batch,
		.taken = earlier ? taken_to_json(&a->taken) : NULL };
}

/* Adds the place of example `placed` of a range. */
static void save_place(struct state_leases *s, uint64_t id, uint64_t placed, int64_t place)
{
	if (place == LEASES_NOT_BEGUN)
		return;
	s->places[s->nplaces++] = (struct state_place){ .id = (int64_t)id,
		.placed = (int64_t)placed,
		.place = place };
}

/* Adds a range that is not done: its id, and where its attempts are. */
static void save_lease(const struct leases *t, struct state_leases *s, const struct lease *lease)
{
	s->open[s->nopen++] = (int64_t)lease->id;
	if (t->stream)
		save_place(s, lease->id, lease->placed, lease->place);
	for (size_t i = 0; i < lease->n_earlier; i++)
		save_attempt(s, lease->id, &lease->earlier[i], true);
	if (lease->attempt.from || lease->attempt.batch)
		save_attempt(s, lease->id, &lease->attempt, false);
}

struct state_leases *leases_save(const struct leases *t)
{
	struct state_leases *s = mem_alloc(sizeof *s);
	size_t n = t->leased, attempts = 0;

	*s = (struct state_leases){ .stream = t->stream,
		.assigned = (int64_t)t->assigned,
		.range = (int64_t)t->range,
		.next = (int64_t)t->next,
		.done = (int64_t)t->done,
		.counted_epoch = (int64_t)t->counted_epoch,
		.counted_ranges = (int64_t)t->counted_ranges,
		.counted_examples = (int64_t)t->counted_examples };
	for (const struct lease_node *l = t->back; l; l = l->next)
		n++;
	for (const struct lease_node *l = t->by_id; l; l = l->hh.next)
		attempts += l->lease.n_earlier + 1;
	reserve_saved(s, attempts, n);
	s->open = mem_array(n + 1, sizeof *s->open);
	s->held = mem_array(t->leased + 1, sizeof *s->held);
	for (uint32_t i = 0; i < t->nholders; i++)
		for (const struct lease_node *l = t->holder[i].leased; l; l = l->next) {
			save_lease(t, s, &l->lease);
			s->held[s->nheld++] = i;
		}
	for (const struct lease_node *l = t->back; l; l = l->next)
		save_lease(t, s, &l->lease);
	return s;
}

/* Loads the attempts on all ranges. A list of pushes that is malformed counts as empty:
 * state_decode has checked its type, and nobody else writes it. whole: present attempts
 * continue. */
static void load_attempts(struct leases *t, const struct state_leases *s, bool whole)
{
	for (uint64_t i = 0; i < s->nattempts; i++) {
		const struct state_attempt *saved = &s->attempts[i];
		struct lease_attempt a = { (uint64_t)saved->from, (uint64_t)saved->step,
			(uint64_t)saved->batch, { 0 } };
		struct lease_node *l = find_lease(t, (uint64_t)saved->id);

		if (!l)
			continue;
		if (!saved->taken) {
			l->lease.attempt = whole ? a : (struct lease_attempt){ .from = a.from };
			continue;
		}
		taken_from_json(saved->taken, &a.taken, NULL);
		l->lease.earlier = mem_regrow(l->lease.earlier, l->lease.n_earlier + 1,
		    sizeof *l->lease.earlier);
		l->lease.earlier[l->lease.n_earlier++] = a;
	}
}

static void load_places(struct leases *t, const struct state_leases *s)
{
	for (uint64_t i = 0; i < s->nplaces; i++) {
		struct lease_node *l = find_lease(t, (uint64_t)s->places[i].id);

		if (!l)
			continue;
		l->lease.placed = (uint64_t)s->places[i].placed;
		l->lease.place = s->places[i].place;
	}
}

static void begin_epoch(struct leases *t, uint64_t epoch)
{
	t->next = t->done = add_product(0, epoch, t->per_epoch);
	begin_count(t);
	mark_first_ranges(t);
}

void leases_load_epoch(struct leases *t, const struct state_leases *s, uint64_t examples)
{
	uint64_t range = s->range ? (uint64_t)s->range : 1, first = (uint64_t)s->next;
	uint64_t per_epoch = examples / range + (examples % range > 0);

	free_leases(t, t->back);
	t->back = NULL;
	for (uint64_t i = 0; i < s->nopen; i++)
		first = (uint64_t)s->open[i] < first ? (uint64_t)s->open[i] : first;
	begin_epoch(t, per_epoch ? first / per_epoch : 0);
}

void leases_load(struct leases *t, const struct state_leases *s, bool held)
{
	struct lease_node **back = &t->back;

	/* The leases that leases_assign has marked */
	free_leases(t, t->back);
	t->back = NULL;
	/* The ranges are different now, so the saved ids do not apply: the present epoch begins
	 * again. */
	if ((uint64_t)s->range != t->range || s->stream != t->stream) {
		begin_epoch(t, (uint64_t)s->next / t->per_epoch);
		return;
	}
	t->next = (uint64_t)s->next;
	t->done = (uint64_t)s->done;
	t->counted_epoch = (uint64_t)s->counted_epoch;
	t->counted_ranges = (uint64_t)s->counted_ranges;
	t->counted_examples = (uint64_t)s->counted_examples;
	for (uint64_t i = 0; i < s->nopen; i++) {
		struct lease_node *l;

		/* Only a damaged state has a range twice. */
		if (find_lease(t, (uint64_t)s->open[i]))
			continue;
		l = new_lease(t, (uint64_t)s->open[i]);
		if (held && i < s->nheld) {
			give_lease(t, l, (uint32_t)s->held[i]);
		} else {
			link_lease(back, l);
			back = &l->next;
		}
	}
	load_attempts(t, s, held || t->assigned);
	load_places(t, s);
}

/* Adds the places of ranges that were begun since the record was begun and that nobody has trained
 * on. */
static void add_new_places(const struct leases *t, struct state_leases *s)
{
	for (uint32_t i = 0; t->stream && i < t->nholders; i++)
		for (const struct lease_node *l = t->holder[i].leased; l; l = l->next)
			if (!l->lease.placed)
				save_place(s, l->lease.id, 0, l->lease.place);
	for (const struct lease_node *l = t->back; t->stream && l; l = l->next)
		if (!l->lease.placed)
			save_place(s, l->lease.id, 0, l->lease.place);
}

/* Adds the ranges that were leased for the first time since the record was begun, as to be
 * leased. */
static void add_new_ranges(const struct leases *t, struct state_leases *s)
{
	uint64_t more = t->next - (uint64_t)s->next;

	s->open = mem_regrow(s->open, s->nopen + more + 1, sizeof *s->open);
	for (uint64_t id = (uint64_t)s->next; id < t->next; id++)
		s->open[s->nopen++] = (int64_t)id;
	s->next = (int64_t)t->next;
}

static int compare_places(const void *a, const void *b)
{
	const struct state_place *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->placed > y->placed) - (x->placed < y->placed);
}

/* Keeps only the place of the first example where a range has several places. */
static void keep_first_places(struct state_leases *s)
{
	uint64_t n = 0;

	if (s->nplaces)
		qsort(s->places, s->nplaces, sizeof *s->places, compare_places);
	for (uint64_t i = 0; i < s->nplaces; i++)
		if (!n || s->places[n - 1].id != s->places[i].id)
			s->places[n++] = s->places[i];
	s->nplaces = n;
}

struct state_leases *leases_recorded(const struct leases *t, const struct taken *taken, size_t n)
{
	struct state_leases *s = t->base ? state_leases_copy(t->base) : NULL;

	if (!s || t->assigned)
		return s;
	add_new_ranges(t, s);
	reserve_saved(s, t->nrecorded, t->nrecorded + HASH_COUNT(t->by_id));
	for (size_t i = 0; i < t->nrecorded; i++) {
		const struct recorded *r = &t->record[i];
		struct lease_attempt a = r->own;

		if (t->stream)
			save_place(s, r->id, a.from, r->place);
		if (r->worker >= n)
			continue;
		a.taken = taken_copy(&taken[r->worker]);
		taken_limit(&a.taken, r->lost ? &r->own.taken : &taken[r->worker], r->until);
		taken_drop_before(&a.taken, a.step);
		if (a.taken.n)
			save_attempt(s, r->id, &a, true);
		taken_release(&a.taken);
	}
	add_new_places(t, s);
	keep_first_places(s);
	return s;
}
