/* SPDX-License-Identifier: ISC */
#include "server/view_text.h"

#include <stdatomic.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"

/* A part of a worker's view, and the revision in which it changed last. */
struct part {
	char *text;
	uint64_t since;
};

struct view_text {
	_Atomic unsigned refs;
	uint64_t rev;
	char *all;
	struct part common; /* members of an object, for every worker */
	struct part guest;  /* the common part without the member "ring" */
	struct part *row;   /* by rank */
	size_t nrows;
};

static void make_view_part(struct part *p, char *text, uint64_t rev, const struct part *before)
{
	p->text = text;
	p->since = before && strcmp(before->text, text) == 0 ? before->since : rev;
}

/* The text of an object without its braces: {"a":1} as "a":1. */
static char *text_of_members(const json_t *o)
{
	char *text = json_text(o);
	size_t n = strlen(text);

	memmove(text, text + 1, n - 2);
	text[n - 2] = 0;
	return text;
}

struct view_text *view_text_make(json_t *view, const struct view_text *before)
{
	struct view_text *v = mem_alloc(sizeof *v);
	json_t *rows = json_incref(json_object_get(view, "workers"));

	atomic_init(&v->refs, 1);
	v->rev = (uint64_t)json_int(view, "rev", 0);
	v->all = json_text(view);
	json_object_del(view, "rev");
	json_object_del(view, "workers");
	json_object_del(view, "keys");
	json_object_del(view, "keys_made");
	make_view_part(&v->common, text_of_members(view), v->rev, before ? &before->common : NULL);
	json_object_del(view, "ring");
	make_view_part(&v->guest, text_of_members(view), v->rev, before ? &before->guest : NULL);
	v->nrows = json_array_size(rows);
	v->row = mem_array(v->nrows + 1, sizeof *v->row);
	for (size_t i = 0; i < v->nrows; i++)
		make_view_part(&v->row[i], json_text(json_array_get(rows, i)), v->rev,
		    before && i < before->nrows ? &before->row[i] : NULL);
	json_decref(rows);
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

char *view_text_for_worker(const struct view_text *v, unsigned slot, uint64_t had)
{
	const struct part *row = slot < v->nrows ? &v->row[slot] : NULL;
	struct buf b = BUF_INIT;

	if (had >= v->common.since && (!row || had >= row->since))
		return NULL;
	buf_puts(&b, "{");
	buf_puts(&b, v->common.text);
	buf_printf(&b, ",\"rev\":%llu", (unsigned long long)v->rev);
	if (row) {
		buf_puts(&b, ",\"worker\":");
		buf_puts(&b, row->text);
	}
	buf_puts(&b, "}");
	return (char *)b.data;
}

char *view_text_for_guest(const struct view_text *v, uint64_t had)
{
	struct buf b = BUF_INIT;

	if (had >= v->guest.since)
		return NULL;
	buf_printf(&b, "{%s,\"rev\":%llu}", v->guest.text, (unsigned long long)v->rev);
	return (char *)b.data;
}
