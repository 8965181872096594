#include "base/mem.h"
#include "client/client_state.h"
#include "client/relayed.h"
#include "codec/delta.h"
#include "kern/copy.h"

/* Pulls of sparse tables' rows. */

/* So much goes out before more is made. */
#define UNDER_WAY (256u << 10)
/* Rows whose places are fetched before they come. */
#define AHEAD 16u
/* So many rows are worth to be gone through several times, so that the first partitions
 * are on their way early: there are so many groups of them. */
#define MANY_ROWS (128u << 10)
#define GROUPS 4u

/* ---- lists --------------------------------------------------------------------------------- */

void list_free(struct row_list *list)
{
	if (!list)
		return;
	free(list->ids);
	free(list->pos);
	free(list);
}

static struct row_list *list_new(struct client *c, size_t n)
{
	struct row_list *list = c->spare_list ? c->spare_list : mem_alloc(sizeof *list);

	c->spare_list = NULL;
	list->users = 1;
	if (n > list->cap) {
		free(list->ids);
		free(list->pos);
		list->ids = mem_regrow(NULL, n, sizeof *list->ids);
		list->pos = mem_regrow(NULL, n, sizeof *list->pos);
		list->cap = n;
	}
	return list;
}

void list_drop(struct client *c, struct row_list *list)
{
	if (!list || --list->users)
		return;
	list_free(c->spare_list);
	c->spare_list = list;
}

/* ---- asking -------------------------------------------------------------------------------- */

/* Rows asked for in one record: bounded by its 1 MiB both ways. */
static uint32_t rows_a_record(const struct table *t, bool changed)
{
	uint32_t by_ids = RECORD_MAX / (changed ? 16 : 8), by_rows = RECORD_MAX / (t->cols * 4);

	return by_ids < by_rows ? by_ids : by_rows;
}

/* The n rows of one partition from `at` on, cut to records. */
static enum err_code want_part(struct client *c, const struct table *t, uint64_t step, uint32_t part, struct row_list *list,
    uint32_t at, uint32_t n, bool changed, float *dst, struct err *e)
{
	uint32_t most = rows_a_record(t, changed);
	struct link *l = link_of_pull(c, t, part, step, e);

	if (!l)
		return ERR_NOTREADY;
	for (uint32_t end = at + n; at < end; at += most) {
		struct ask *a = ask_add(c, l, REC_PULL_ROWS, t, step);

		a->part = part;
		a->dst = dst;
		a->n = end - at < most ? end - at : most;
		a->list = list;
		a->ids = list->ids + at;
		a->pos = list->pos + at;
		list->users++;
		/* A relay keeps rows for a step only. */
		if (changed && l != relay_link(c))
			known_ask(c, a);
		if (l->state == LINK_UP)
			link_send_ask(l, a);
	}
	return ERR_OK;
}

uint16_t *rows_parts(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start)
{
	uint16_t *part = mem_regrow(NULL, n, sizeof *part);

	table_parts_of(t, ids, n, part);
	for (size_t i = 0; i < n; i++)
		start[part[i] + 1]++;
	for (uint32_t p = 0; p < t->nparts; p++)
		start[p + 1] += start[p];
	return part;
}

void rows_by_part(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start, uint32_t *order, uint64_t *sorted)
{
	uint16_t *part = rows_parts(t, ids, n, start);

	for (size_t i = 0; i < n; i++) {
		uint32_t at = start[part[i]]++;

		order[at] = (uint32_t)i;
		if (sorted)
			sorted[at] = ids[i];
	}
	/* start[p] has gone up to the end of p, where the next begins: shift it back. */
	memmove(start + 1, start, t->nparts * sizeof *start);
	start[0] = 0;
	free(part);
}

uint32_t rows_group(const struct table *t, size_t n)
{
	return n < MANY_ROWS || t->nparts < GROUPS ? t->nparts : (t->nparts + GROUPS - 1) / GROUPS;
}

uint32_t rows_pick(const uint16_t *part, uint32_t n, uint32_t first, uint32_t count, uint16_t some[static ROWS_PICKED])
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++) {
		some[k] = (uint16_t)i;
		k += part[i] - first < count;
	}
	return k;
}

void rows_on_their_way(struct client *c)
{
	size_t queued = 0;

	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->state == LINK_UP)
			queued += conn_queued(c->link[i]->conn);
	/* A relay's own is served by its hooks' owner alone. */
	if (queued >= UNDER_WAY && !c->cfg.hooks)
		client_serve(c, 0);
}

/* Those of partitions first .. first + count - 1 to their places in the list; next: of each. */
static void fill_list(const uint16_t *part, const uint64_t *ids, size_t n, uint32_t *next, struct row_list *list,
    uint32_t first, uint32_t count)
{
	uint16_t some[ROWS_PICKED];

	for (size_t i = 0, m; i < n; i += m) {
		uint32_t picked;

		m = n - i < ROWS_PICKED ? n - i : ROWS_PICKED;
		picked = rows_pick(part + i, (uint32_t)m, first, count, some);
		for (uint32_t k = 0; k < picked; k++) {
			size_t row = i + some[k];
			uint32_t at = next[part[row]]++;

			list->pos[at] = (uint32_t)row;
			list->ids[at] = ids[row];
		}
	}
}

static enum err_code want_rows(struct client *c, const struct table *t, uint64_t step, const uint64_t *ids, size_t n,
    bool changed, float *dst, struct err *e)
{
	uint32_t *start = mem_array(t->nparts + 1, sizeof *start), *next = mem_array(t->nparts, sizeof *next), some = rows_group(t, n);
	struct row_list *list = list_new(c, n);
	uint16_t *part = rows_parts(t, ids, n, start);
	enum err_code rc = ERR_OK;

	rows_begin(c, n);
	memcpy(next, start, t->nparts * sizeof *next);
	for (uint32_t p = 0; !rc && p < t->nparts; p++) {
		if (p % some == 0)
			fill_list(part, ids, n, next, list, p, some);
		if (start[p + 1] == start[p])
			continue;
		rc = want_part(c, t, step, p, list, start[p], start[p + 1] - start[p], changed, dst, e);
		rows_on_their_way(c);
	}
	list_drop(c, list);
	free(part);
	free(next);
	free(start);
	return rc;
}

enum err_code client_want_rows(struct client *c, const struct table *t, uint64_t step, const uint64_t *ids, size_t n,
    float *dst, struct err *e)
{
	return want_rows(c, t, step, ids, n, false, dst, e);
}

enum err_code client_want_changed_rows(struct client *c, const struct table *t, uint64_t step, const uint64_t *ids, size_t n,
    float *dst, struct err *e)
{
	return want_rows(c, t, step, ids, n, true, dst, e);
}

/* ---- answers -------------------------------------------------------------------------------- */

static enum err_code unasked(struct err *e)
{
	return err_set(e, ERR_PROTO, "rows that were not asked for");
}

/* All of them. */
static enum err_code take_whole(const struct client_hooks *h, const struct ask *a, const struct record *r,
    const uint8_t *payload, struct err *e)
{
	size_t cols = a->table->cols, floats = a->n * cols;
	const struct codec *codec = codec_by_id(r->codec);
	float *room;
	const float *x;

	if (!codec || codec->check(payload, r->len, floats) == CODEC_MALFORMED)
		return unasked(e);
	room = codec->lossy ? mem_regrow(NULL, floats + 1, sizeof *room) : NULL;
	x = codec_values(codec, payload, r->len, floats, room);
	if (h)
		h->rows(h->ctx, a->table, a->part, a->step, a->ids, a->n, x, r->total);
	for (uint32_t i = 0; !h && i < a->n; i++) {
		if (i + AHEAD < a->n)
			__builtin_prefetch(a->dst + a->pos[i + AHEAD] * cols, 1);
		copy_floats(a->dst + a->pos[i] * cols, x + i * cols, cols);
	}
	free(room);
	return ERR_OK;
}

/* Of those that are known, what has changed; the others are in their places already. */
static enum err_code take_changed(const struct ask *a, const struct record *r, const uint8_t *payload, struct err *e)
{
	const struct codec *codec = codec_by_id(r->codec);

	if (!a->since || !codec || delta_check(codec, payload, r->len, a->n, a->table->cols) == CODEC_MALFORMED)
		return unasked(e);
	delta_apply(codec, payload, r->len, a->n, a->table->cols, a->pos, a->dst);
	return ERR_OK;
}

enum err_code rows_take(struct link *l, const struct ask *a, const struct record *r, const uint8_t *payload, struct err *e)
{
	enum err_code rc;

	if (a->type != REC_PULL_ROWS)
		return unasked(e);
	rc = r->flags & RECORD_DELTA ? take_changed(a, r, payload, e) : take_whole(l->client->cfg.hooks, a, r, payload, e);
	if (!rc && a->since)
		known_take(l->client, a, r->total);
	return rc;
}
