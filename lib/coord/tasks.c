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
