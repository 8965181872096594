/* SPDX-License-Identifier: ISC */
#include "server/view_text.h"

#include <stdatomic.h>

#include "core/json.h"
#include "core/mem.h"
#include "msg/view.h"

/* A part of a worker's view, and the revision in which it changed last. */
struct part {
	char *text;
	uint64_t since;
};

struct view_text {
	_Atomic unsigned refs;
	uint64_t rev;
	char *all;
	struct part common; /* an object: what every worker gets */
	struct part guest;  /* the common part without the member "ring" */
	struct part *row;   /* by rank */
	size_t nrows;
};

static void make_view_part(struct part *p, char *text, uint64_t rev, const struct part *before)
{
	p->text = text;
	p->since = before && strcmp(before->text, text) == 0 ? before->since : rev;
}

struct view_text *view_text_make(json_t *view, const struct view_text *before)
{
	struct view_text *v = mem_alloc(sizeof *v);
	struct view_cut cut;

	view_cut(view, &cut);
	atomic_init(&v->refs, 1);
	v->rev = cut.rev;
	v->all = json_text(view);
	make_view_part(&v->common, json_text(cut.common), v->rev, before ? &before->common : NULL);
	make_view_part(&v->guest, json_text(cut.guest), v->rev, before ? &before->guest : NULL);
	v->nrows = json_array_size(cut.workers);
	v->row = mem_array(v->nrows + 1, sizeof *v->row);
	for (size_t i = 0; i < v->nrows; i++)
		make_view_part(&v->row[i], json_text(json_array_get(cut.workers, i)), v->rev,
		    before && i < before->nrows ? &before->row[i] : NULL);
	view_cut_release(&cut);
	json_decref(view);
	return v;
}

struct view_text *view_text_ref(struct view_text *v)
{
	atomic_fetch_add(&v->refs, 1);
	return v;
}

void view_text_unref(struct view_text *v)
{
	if (!v || atomic_fetch_sub(&v->refs, 1) > 1)
		return;
	for (size_t i = 0; i < v->nrows; i++)
		free(v->row[i].text);
	free(v->row);
	free(v->common.text);
	free(v->guest.text);
	free(v->all);
	free(v);
}

uint64_t view_text_rev(const struct view_text *v)
{
	return v->rev;
}

char *view_text_full(const struct view_text *v, uint64_t had)
{
	return had < v->rev ? mem_strdup(v->all) : NULL;
}

char *view_text_for_worker(const struct view_text *v, unsigned rank, uint64_t had)
{
	const struct part *row = rank < v->nrows ? &v->row[rank] : NULL;

	if (had >= v->common.since && (!row || had >= row->since))
		return NULL;
	return view_complete_text(v->common.text, v->rev, row ? row->text : NULL);
}

char *view_text_for_guest(const struct view_text *v, uint64_t had)
{
	return had < v->guest.since ? view_complete_text(v->guest.text, v->rev, NULL) : NULL;
}
