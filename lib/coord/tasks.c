#include "coord/tasks.h"

#include "base/json.h"
#include "base/mem.h"

struct lease {
	struct lease *next;
	struct task task;
	uint32_t worker;
};

struct tasks {
	uint64_t examples, range, epochs, per_epoch;
	uint64_t next;                  /* id of the first range never leased */
	uint64_t done;
	struct lease *leased;           /* held by workers */
	struct lease *back;             /* taken back, to be leased first */
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

static void free_list(struct lease *l)
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
	free_list(t->leased);
	free_list(t->back);
	free(t);
}

static uint64_t total(const struct tasks *t)
{
	return t->epochs ? t->epochs * t->per_epoch : UINT64_MAX;
}

static struct task task_of(const struct tasks *t, uint64_t id)
{
	uint64_t at = id % t->per_epoch * t->range;

	return (struct task){ id, id / t->per_epoch, at, at + t->range < t->examples ? at + t->range : t->examples };
}

bool tasks_lease(struct tasks *t, uint32_t worker, struct task *out)
{
	struct lease *l = t->back;

	if (l) {
		t->back = l->next;
	} else {
		if (t->next >= total(t))
			return false;
		l = mem_alloc(sizeof *l);
		l->task = task_of(t, t->next++);
	}
	l->worker = worker;
	l->next = t->leased;
	t->leased = l;
	*out = l->task;
	return true;
}

bool tasks_done(struct tasks *t, uint32_t worker, uint64_t id)
{
	for (struct lease **p = &t->leased; *p; p = &(*p)->next)
		if ((*p)->task.id == id && (*p)->worker == worker) {
			struct lease *l = *p;

			*p = l->next;
			free(l);
			t->done++;
			return true;
		}
	return false;
}

static bool among(uint64_t x, const uint64_t *id, size_t n)
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

bool tasks_keep(struct tasks *t, uint32_t worker, const uint64_t *id, size_t n)
{
	struct lease **p = &t->leased;
	bool some = false;

	while (*p) {
		struct lease *l = *p;

		if (l->worker != worker || among(l->task.id, id, n)) {
			p = &l->next;
			continue;
		}
		*p = l->next;
		l->next = t->back;
		t->back = l;
		some = true;
	}
	return some;
}

bool tasks_finished(const struct tasks *t)
{
	return t->done >= total(t);
}

void tasks_count(const struct tasks *t, uint64_t *done, uint64_t *leased, uint64_t *all)
{
	*done = t->done;
	*all = total(t);
	*leased = 0;
	for (const struct lease *l = t->leased; l; l = l->next)
		++*leased;
}

json_t *tasks_to_json(const struct tasks *t)
{
	json_t *open = json_array(), *held = json_array();

	for (const struct lease *l = t->leased; l; l = l->next) {
		json_array_append_new(open, json_integer((json_int_t)l->task.id));
		json_array_append_new(held, json_integer(l->worker));
	}
	for (const struct lease *l = t->back; l; l = l->next)
		json_array_append_new(open, json_integer((json_int_t)l->task.id));
	return json_pack("{s:I, s:I, s:I, s:o, s:o}", "range", (json_int_t)t->range, "next", (json_int_t)t->next, "done",
	    (json_int_t)t->done, "open", open, "held", held);
}

void tasks_from_json(struct tasks *t, const json_t *j, bool held)
{
	const json_t *open = json_object_get(j, "open"), *workers = held ? json_object_get(j, "held") : NULL, *id;
	struct lease **back = &t->back, **leased = &t->leased;
	size_t i;

	/* Cut otherwise: an epoch that was begun is begun again. */
	if ((uint64_t)json_int(j, "range", 0) != t->range) {
		t->next = t->done = (uint64_t)json_int(j, "next", 0) / t->per_epoch * t->per_epoch;
		return;
	}
	t->next = (uint64_t)json_int(j, "next", 0);
	t->done = (uint64_t)json_int(j, "done", 0);
	json_array_foreach(open, i, id) {
		struct lease *l = mem_alloc(sizeof *l), ***end = i < json_array_size(workers) ? &leased : &back;

		l->task = task_of(t, (uint64_t)json_integer_value(id));
		l->worker = (uint32_t)json_integer_value(json_array_get(workers, i));
		**end = l;
		*end = &l->next;
	}
}
