/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"
#include "trace_rows.h"

void trace_release(struct trace *t)
{
	free(t->process);
	free(t->item);
	*t = (struct trace){ 0 };
}

/* Finds a process, or adds it. A process that was started again has another pid and counts as
 * another one. */
static struct trace_process *find_trace_process(struct trace *t, const char *id, int64_t pid)
{
	struct trace_process *p;

	for (size_t i = 0; i < t->nprocesses; i++)
		if (t->process[i].pid == pid && strcmp(t->process[i].id, id) == 0)
			return &t->process[i];
	t->process = mem_regrow(t->process, t->nprocesses + 1, sizeof *t->process);
	p = &t->process[t->nprocesses++];
	*p = (struct trace_process){ .pid = pid,
		.least = INT64_MIN,
		.most = INT64_MAX,
		.wall = INT64_MAX };
	snprintf(p->id, sizeof p->id, "%s", id);
	return p;
}

/* By kind of row: how many numbers it has, and a bit mask of those that are times. */
static const struct {
	unsigned n;
	uint16_t times;
} shape[] = {
	[TRACE_STEP] = { 9, 0xfa },
	[TRACE_APPLY] = { 6, 0xc },
	[TRACE_CLOSE] = { 4, 0xc },
};

/* Adds one row of a page. Skips rows of an unknown kind or length, and sets t->full beyond the
 * limit. */
static void add_trace_item(struct trace *t, uint32_t process, const json_t *row)
{
	size_t kind = (size_t)json_integer_value(json_array_get(row, 0));
	struct trace_item *x;

	if (kind >= sizeof shape / sizeof *shape || json_array_size(row) != shape[kind].n + 1)
		return;
	if (t->nitems == t->most) {
		t->full = true;
		return;
	}
	t->item = mem_grow(t->item, &t->cap, t->nitems + 1, sizeof *t->item);
	x = &t->item[t->nitems++];
	*x = (struct trace_item){ .process = process, .kind = (uint8_t)kind };
	for (unsigned i = 0; i < shape[kind].n; i++)
		x->v[i] = json_integer_value(json_array_get(row, i + 1));
}

void trace_add_page(struct trace *t, const json_t *page)
{
	struct trace_process *p = find_trace_process(t, json_str(page, "id", "?"),
	    json_int(page, "pid", 0));
	int64_t now = json_int(page, "now", 0), most = json_int(page, "received", 0) - now;
	int64_t wall = json_int(page, "wall", 0) - now - (t->wall - t->began);
	const json_t *row;
	size_t i;

	p->heard = json_int(page, "heard", 0);
	p->least = t->began - p->heard;
	if (most < p->most)
		p->most = most;
	/* The sender may have been interrupted between reading its two clocks, which makes the estimate
	 * too large: take the smallest. */
	if (wall < p->wall)
		p->wall = wall;
	json_array_foreach(json_object_get(page, "rows"), i, row)
		add_trace_item(t, (uint32_t)(p - t->process), row);
}

/* Uses the wall clocks' offset if it lies within the bounds, as it always does on one host: it is
 * more precise than the bounds. Otherwise uses the middle of the bounds. */
static void choose_clock_offset(struct trace_process *p)
{
	p->by_wall = p->wall >= p->least && p->wall <= p->most;
	p->offset = p->by_wall ? p->wall : p->least + (p->most - p->least) / 2;
}

void trace_align_clocks(struct trace *t)
{
	for (size_t i = 0; i < t->nprocesses; i++)
		choose_clock_offset(&t->process[i]);
	for (size_t i = 0; i < t->nitems; i++) {
		struct trace_item *x = &t->item[i];
		const struct trace_process *p = &t->process[x->process];
		int64_t add = p->heard + p->offset - t->began;

		/* Spans that were open when the trace began are cut there. */
		for (unsigned k = 0; k < shape[x->kind].n; k++)
			if (shape[x->kind].times >> k & 1)
				x->v[k] = x->v[k] + add > 0 ? x->v[k] + add : 0;
	}
}
