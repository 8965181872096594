#include "coord/tasks.h"

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

bool tasks_lease(struct tasks *t, uint32_t worker, struct task *out)
{
	struct lease *l = t->back;
	uint64_t at;

	if (l) {
		t->back = l->next;
	} else {
		if (t->next >= total(t))
			return false;
		l = mem_alloc(sizeof *l);
		at = t->next % t->per_epoch * t->range;
		l->task = (struct task){ t->next, t->next / t->per_epoch, at,
			at + t->range < t->examples ? at + t->range : t->examples };
		t->next++;
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

void tasks_return(struct tasks *t, uint32_t worker)
{
	struct lease **p = &t->leased;

	while (*p) {
		struct lease *l = *p;

		if (l->worker != worker) {
			p = &l->next;
			continue;
		}
		*p = l->next;
		l->next = t->back;
		t->back = l;
	}
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

static void add_ids(json_t *list, const struct lease *l)
{
	for (; l; l = l->next)
		json_array_append_new(list, json_integer((json_int_t)l->task.id));
}

json_t *tasks_to_json(const struct tasks *t)
{
	json_t *open = json_array();

	add_ids(open, t->leased);
	add_ids(open, t->back);
	return json_pack("{s:I, s:I, s:I, s:o}", "range", (json_int_t)t->range, "next", (json_int_t)t->next, "done",
	    (json_int_t)t->done, "open", open);
}

void tasks_from_json(struct tasks *t, const json_t *j)
{
	const json_t *open = json_object_get(j, "open"), *id;
	struct lease **end = &t->back;
	size_t i;

	/* Cut otherwise: an epoch that was begun is begun again. */
	if ((uint64_t)json_integer_value(json_object_get(j, "range")) != t->range) {
		t->next = t->done = (uint64_t)json_integer_value(json_object_get(j, "next")) / t->per_epoch * t->per_epoch;
		return;
	}
	t->next = (uint64_t)json_integer_value(json_object_get(j, "next"));
	t->done = (uint64_t)json_integer_value(json_object_get(j, "done"));
	json_array_foreach(open, i, id) {
		struct lease *l = mem_alloc(sizeof *l);
		uint64_t n = (uint64_t)json_integer_value(id), at = n % t->per_epoch * t->range;

		l->task = (struct task){ n, n / t->per_epoch, at, at + t->range < t->examples ? at + t->range : t->examples };
		*end = l;
		end = &l->next;
	}
}
