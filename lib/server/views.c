#include "server/views.h"

#include <stdatomic.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"

/* A part of a worker's view, and the revision that brought it as it is. */
struct part {
	char *text;
	uint64_t since;
};

struct views {
	_Atomic unsigned refs;
	uint64_t rev;
	char *all;
	struct part common;             /* for every worker: an object's members */
	struct part *row;               /* by slot */
	size_t nrows;
};

static void part_make(struct part *p, char *text, uint64_t rev, const struct part *before)
{
	p->text = text;
	p->since = before && strcmp(before->text, text) == 0 ? before->since : rev;
}

/* {"a":1} as "a":1 */
static char *members_text(const json_t *o)
{
	char *text = json_text(o);
	size_t n = strlen(text);

	memmove(text, text + 1, n - 2);
	text[n - 2] = 0;
	return text;
}

struct views *views_make(json_t *view, const struct views *before)
{
	struct views *v = mem_alloc(sizeof *v);
	json_t *rows = json_incref(json_object_get(view, "workers"));

	atomic_init(&v->refs, 1);
	v->rev = (uint64_t)json_int(view, "rev", 0);
	v->all = json_text(view);
	json_object_del(view, "rev");
	json_object_del(view, "workers");
	json_object_del(view, "keys");
	json_object_del(view, "keys_made");
	part_make(&v->common, members_text(view), v->rev, before ? &before->common : NULL);
	v->nrows = json_array_size(rows);
	v->row = mem_array(v->nrows + 1, sizeof *v->row);
	for (size_t i = 0; i < v->nrows; i++)
		part_make(&v->row[i], json_text(json_array_get(rows, i)), v->rev,
		    before && i < before->nrows ? &before->row[i] : NULL);
	json_decref(rows);
	json_decref(view);
	return v;
}

struct views *views_ref(struct views *v)
{
	atomic_fetch_add(&v->refs, 1);
	return v;
}

void views_unref(struct views *v)
{
	if (!v || atomic_fetch_sub(&v->refs, 1) > 1)
		return;
	for (size_t i = 0; i < v->nrows; i++)
		free(v->row[i].text);
	free(v->row);
	free(v->common.text);
	free(v->all);
	free(v);
}

uint64_t views_rev(const struct views *v)
{
	return v->rev;
}

char *views_text(const struct views *v, uint64_t had)
{
	return had < v->rev ? mem_strdup(v->all) : NULL;
}

char *views_text_worker(const struct views *v, unsigned slot, uint64_t had)
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
