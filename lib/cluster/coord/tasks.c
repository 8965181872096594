/* SPDX-License-Identifier: ISC */
#include "coord/tasks.h"

#include "coord/coord.h"
#include "core/mem.h"

struct lease {
	struct lease *next;
	struct task task;
};

/* The leases of one worker: at most TASKS_HELD_MAX, so that the list is searched in constant
 * time. */
struct holder {
	struct lease *leased;
	unsigned n;
};

struct tasks {
	uint64_t examples, range, epochs, per_epoch;
	uint64_t next; /* id of the first range never leased */
	uint64_t done;
	struct holder *holder; /* by worker number */
	uint32_t nholders;
	uint64_t leased;    /* leases held by all workers */
	struct lease *back; /* ranges that were taken back; they are leased first */
	void (*changed)(void *ctx, const struct task_change *c);
	void *ctx;
};

struct tasks *tasks_new(uint64_t examples, uint64_t range, uint64_t epochs)
{
	struct tasks *t = mem_alloc(sizeof *t);

	t->examples = examples;
	t->range = range;
	t->epochs = epochs;
	t->per_epoch = (examples + range - 1) / range;
	return t;
}

void tasks_begin_at(struct tasks *t, uint64_t epoch, uint64_t offset)
{
	t->next = t->done = epoch * t->per_epoch + offset / t->range;
}

void tasks_watch(struct tasks *t, void (*changed)(void *ctx, const struct task_change *c),
    void *ctx)
{
	t->changed = changed;
	t->ctx = ctx;
}

static void report_lease_change(const struct tasks *t, enum task_event event, uint64_t id,
    uint32_t worker)
{
	if (t->changed)
		t->changed(t->ctx, &(struct task_change){ event, id, worker });
}

static void free_leases(struct lease *l)
{
	while (l) {
		struct lease *next = l->next;

		free(l);
		l = next;
	}
}

void tasks_free(struct tasks *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->nholders; i++)
		free_leases(t->holder[i].leased);
	free(t->holder);
	free_leases(t->back);
	free(t);
}

static struct holder *worker_holder(struct tasks *t, uint32_t worker)
{
	if (worker >= t->nholders) {
		t->holder = mem_regrow(t->holder, (size_t)worker + 1, sizeof *t->holder);
		memset(t->holder + t->nholders, 0,
		    ((size_t)worker + 1 - t->nholders) * sizeof *t->holder);
		t->nholders = worker + 1;
	}
	return &t->holder[worker];
}

static void give_lease(struct tasks *t, struct lease *l, uint32_t worker)
{
	struct holder *h = worker_holder(t, worker);

	l->next = h->leased;
	h->leased = l;
	h->n++;
	t->leased++;
}

/* Take the lease at *p out of the holder's list. */
static struct lease *unlink_lease(struct tasks *t, struct holder *h, struct lease **p)
{
	struct lease *l = *p;

	*p = l->next;
	h->n--;
	t->leased--;
	return l;
}

static uint64_t count_all_ranges(const struct tasks *t)
{
	return t->epochs ? t->epochs * t->per_epoch : UINT64_MAX;
}

static struct task range_task(const struct tasks *t, uint64_t id)
{
	uint64_t at = id % t->per_epoch * t->range;

	return (struct task){ id, id / t->per_epoch, at,
		at + t->range < t->examples ? at + t->range : t->examples };
}

bool tasks_may_lease(const struct tasks *t, uint32_t worker)
{
	return worker >= t->nholders || t->holder[worker].n < TASKS_HELD_MAX;
}

bool tasks_lease(struct tasks *t, uint32_t worker, struct task *out)
{
	struct lease *l = t->back;

	if (!tasks_may_lease(t, worker))
		return false;
	if (l) {
		t->back = l->next;
	} else {
		if (t->next >= count_all_ranges(t))
			return false;
		l = mem_alloc(sizeof *l);
		l->task = range_task(t, t->next++);
	}
	give_lease(t, l, worker);
	report_lease_change(t, TASK_LEASED, l->task.id, worker);
	*out = l->task;
	return true;
}

bool tasks_done(struct tasks *t, uint32_t worker, uint64_t id)
{
	struct holder *h = worker_holder(t, worker);

	for (struct lease **p = &h->leased; *p; p = &(*p)->next)
		if ((*p)->task.id == id) {
			free(unlink_lease(t, h, p));
			t->done++;
			report_lease_change(t, TASK_DONE, id, worker);
			return true;
		}
	return false;
}

static bool id_in_list(uint64_t x, const uint64_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (id[i] == x)
			return true;
	return false;
}

bool tasks_return(struct tasks *t, uint32_t worker)
{
	return tasks_keep(t, worker, NULL, 0);
}

static void return_lease(struct tasks *t, struct lease *l)
{
	l->next = t->back;
	t->back = l;
}

bool tasks_keep(struct tasks *t, uint32_t worker, const uint64_t *id, size_t n)
{
	struct holder *h = worker_holder(t, worker);
	struct lease **p = &h->leased;
	bool some = false;

	while (*p) {
		struct lease *l;

		if (id_in_list((*p)->task.id, id, n)) {
			p = &(*p)->next;
			continue;
		}
		l = unlink_lease(t, h, p);
		return_lease(t, l);
		report_lease_change(t, TASK_RETURNED, l->task.id, worker);
		some = true;
	}
	return some;
}

static struct lease *unlink_lease_by_id(struct lease **p, uint64_t id)
{
	for (; *p; p = &(*p)->next)
		if ((*p)->task.id == id) {
			struct lease *l = *p;

			*p = l->next;
			return l;
		}
	return NULL;
}

static bool replay_lease(struct tasks *t, const struct task_change *c)
{
	struct lease *l = unlink_lease_by_id(&t->back, c->id);

	if (!l && c->id == t->next && t->next < count_all_ranges(t)) {
		l = mem_alloc(sizeof *l);
		l->task = range_task(t, t->next++);
	}
	if (l)
		give_lease(t, l, c->worker);
	return l != NULL;
}

bool tasks_replay(struct tasks *t, const struct task_change *c)
{
	struct holder *h;

	if (c->worker >= COORD_WORKERS_MAX)
		return false;
	h = worker_holder(t, c->worker);
	if (c->event == TASK_LEASED)
		return replay_lease(t, c);
	for (struct lease **p = &h->leased; *p; p = &(*p)->next) {
		if ((*p)->task.id != c->id)
			continue;
		if (c->event == TASK_RETURNED) {
			return_lease(t, unlink_lease(t, h, p));
		} else {
			free(unlink_lease(t, h, p));
			t->done++;
		}
		return true;
	}
	return false;
}

bool tasks_finished(const struct tasks *t)
{
	return t->done >= count_all_ranges(t);
}

void tasks_count(const struct tasks *t, uint64_t *done, uint64_t *leased, uint64_t *all)
{
	*done = t->done;
	*all = count_all_ranges(t);
	*leased = t->leased;
}

struct state_tasks *tasks_save(const struct tasks *t)
{
	struct state_tasks *s = mem_alloc(sizeof *s);
	size_t n = t->leased;

	*s = (struct state_tasks){ .range = (int64_t)t->range,
		.next = (int64_t)t->next,
		.done = (int64_t)t->done };
	for (const struct lease *l = t->back; l; l = l->next)
		n++;
	s->open = mem_array(n + 1, sizeof *s->open);
	s->held = mem_array(t->leased + 1, sizeof *s->held);
	for (uint32_t i = 0; i < t->nholders; i++)
		for (const struct lease *l = t->holder[i].leased; l; l = l->next) {
			s->open[s->nopen++] = (int64_t)l->task.id;
			s->held[s->nheld++] = i;
		}
	for (const struct lease *l = t->back; l; l = l->next)
		s->open[s->nopen++] = (int64_t)l->task.id;
	return s;
}

void tasks_load(struct tasks *t, const struct state_tasks *s, bool held)
{
	struct lease **back = &t->back;

	/* The ranges have another size now, so the saved ids do not apply: the present epoch begins
	 * again. */
	if ((uint64_t)s->range != t->range) {
		t->next = t->done = (uint64_t)s->next / t->per_epoch * t->per_epoch;
		return;
	}
	t->next = (uint64_t)s->next;
	t->done = (uint64_t)s->done;
	for (uint64_t i = 0; i < s->nopen; i++) {
		struct lease *l = mem_alloc(sizeof *l);

		l->task = range_task(t, (uint64_t)s->open[i]);
		if (held && i < s->nheld) {
			give_lease(t, l, (uint32_t)s->held[i]);
		} else {
			*back = l;
			back = &l->next;
		}
	}
}
