/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "client/client_state.h"
#include "codec/delta.h"
#include "codec/row_versions.h"
#include "math/copy.h"

/* Pulls of rows of sparse tables. A call sorts its rows by partition, and asks for each
 * partition in as many records as it needs; all of them share one list of ids. */

/* With this many bytes queued, send before preparing more. */
#define UNDER_WAY (256u << 10)
/* With at least this many rows, prepare the partitions in this many groups: the rows are read
 * several times, but the first partitions are sent early. */
#define MANY_ROWS (128u << 10)
#define GROUPS    4u

/* ---- lists ---- */

void client_row_list_free(struct client_row_list *list)
{
	if (!list)
		return;
	free(list->ids);
	free(list->pos);
	free(list);
}

static struct client_row_list *new_row_list(struct client *c, size_t n)
{
	struct client_row_list *list = c->spare.list ? c->spare.list : mem_alloc(sizeof *list);

	c->spare.list = NULL;
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

/* Give up one use of a list. Its memory stays with the client for the next. */
static void drop_row_list(struct client *c, struct client_row_list *list)
{
	if (--list->users)
		return;
	client_row_list_free(c->spare.list);
	c->spare.list = list;
}

/* ---- the request ---- */

/* Queues the ids, and the versions that are cached, on the request's link, which is UP. */
static void send_row_pull(struct request *r)
{
	struct client *c = r->client;
	struct link *l = r->link;
	struct record head = client_record_head(c, REC_PULL_ROWS, r->step);
	bool block = client_row_ids_in_block(c, r->pull.ids, r->n);
	size_t most = (block ? row_ids_bound(r->n) : (size_t)r->n * 8) +
	    (r->pull.since ? row_versions_bound(r->n) : 0),
	       len = (size_t)r->n * 8;
	uint8_t small[BATCHER_SMALL], *body = batcher_reserve(&l->batcher, l->conn, most, small);

	head.seq = r->seq;
	head.table = r->table->id;
	head.part = r->part;
	if (c->cfg.coding.pull_codec && r->step != CLIENT_NOW)
		head.codec = c->cfg.coding.pull_codec->id;
	if (r->pull.early)
		head.flags |= RECORD_EARLY;
	if (block) {
		head.flags |= RECORD_ROW_IDS;
		len = client_row_ids_put(l, r->pull.ids, r->n, body);
	} else {
		memcpy(body, r->pull.ids, len);
	}
	if (r->pull.since) {
		head.flags |= RECORD_DELTA;
		head.total = len;
		len += row_versions_put(client_zip(c), r->pull.since, r->n, body + len);
	}
	head.len = (uint32_t)len;
	batcher_commit(&l->batcher, l->conn, &head, body, small);
}

static enum err_code set_unasked_error(struct err *e)
{
	return err_set(e, ERR_PROTO, "rows that were not requested");
}

/* Take an answer with all rows of the question. */
static enum err_code take_whole_rows(const struct request *r, const struct answer *a, struct err *e)
{
	size_t floats = (size_t)r->n * r->table->cols;
	const struct codec *codec = codec_by_id(a->head->codec);
	float *room;

	if (!codec || codec->check(a->payload, a->head->len, floats) == CODEC_MALFORMED)
		return set_unasked_error(e);
	room = codec->lossy ? mem_regrow(NULL, floats + 1, sizeof *room) : NULL;
	r->client->ops->took_rows(r, codec_decode(codec, a->payload, a->head->len, floats, room),
	    a->head->total);
	free(room);
	return ERR_OK;
}

/* Take an answer with changes. dst holds the cached rows already. */
static enum err_code take_row_changes(const struct request *r, const struct answer *a,
    struct err *e)
{
	const struct codec *codec = codec_by_id(a->head->codec);

	if (!r->pull.since || !codec ||
	    delta_check(codec, a->payload, a->head->len, r->n, r->table->cols) == CODEC_MALFORMED)
		return set_unasked_error(e);
	delta_apply(codec, a->payload, a->head->len, r->n, r->table->cols, r->pull.pos,
	    r->pull.dst);
	return ERR_OK;
}

static enum err_code row_pull_answered(struct request *r, const struct answer *a, struct err *e)
{
	enum err_code rc;

	if (a->head->type != REC_ROWS)
		return err_set(e, ERR_PROTO, "%s answered a different request", r->link->id);
	rc = a->head->flags & RECORD_DELTA ? take_row_changes(r, a, e) : take_whole_rows(r, a, e);
	if (!rc && r->pull.since)
		client_row_cache_store(r, a->head->total);
	if (!rc)
		*client_version_at(r->client, r->table, r->part) = a->head->total;
	return rc;
}

/* The cached versions mean nothing to a relay or another replica: ask for all rows. */
static void forget_versions(struct request *r)
{
	free(r->pull.since);
	r->pull.since = NULL;
}

static void release_row_pull(struct request *r)
{
	forget_versions(r);
	drop_row_list(r->client, r->pull.list);
}

const struct request_ops client_row_pull_ops = { .class = REQUEST_PULL,
	.server = table_tail,
	.send = send_row_pull,
	.answered = row_pull_answered,
	.forget_server = forget_versions,
	.release = release_row_pull };

/* ---- asking ---- */

/* The number of rows to pull by one record. Both the request and the answer must fit into 1 MiB. */
static uint32_t rows_per_record(const struct table *t, bool changed)
{
	uint32_t by_ids = RECORD_MAX / (changed ? 16 : 8), by_rows = RECORD_MAX / (t->cols * 4);

	return by_ids < by_rows ? by_ids : by_rows;
}

/* One call of a function client_want_..._rows. */
struct row_want {
	const struct table *table;
	uint64_t step;
	const uint64_t *ids;
	size_t n;
	bool changed; /* leave out rows that are cached in their present version */
	bool early;   /* answer each partition as soon as its own step is complete */
	float *dst;
};

/* Ask for n rows of one partition, from list position `at` on, cut to records. */
static enum err_code want_part_rows(struct client *c, const struct row_want *want, uint32_t part,
    struct client_row_list *list, uint32_t at, uint32_t n, struct err *e)
{
	uint32_t most = rows_per_record(want->table, want->changed);

	for (uint32_t end = at + n; at < end; at += most) {
		struct request *r = request_new(c, &client_row_pull_ops, want->table, part,
		    want->step);

		r->n = end - at < most ? end - at : most;
		r->pull = (struct pull_request){ .dst = want->dst,
			.early = want->early,
			.list = list,
			.ids = list->ids + at,
			.pos = list->pos + at };
		list->users++;
		/* Only servers know the versions of rows. A relay has rows for one step only. */
		if (want->changed && request_route(r, NULL) != client_relay_link(c))
			client_row_cache_lookup(r);
		if (request_submit(r, e)) {
			request_free(r);
			return ERR_NOTREADY;
		}
	}
	return ERR_OK;
}

uint16_t *client_rows_parts(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start)
{
	uint16_t *part = mem_regrow(NULL, n, sizeof *part);

	table_parts_of(t, ids, n, part);
	for (size_t i = 0; i < n; i++)
		start[part[i] + 1]++;
	for (uint32_t p = 0; p < t->nparts; p++)
		start[p + 1] += start[p];
	return part;
}

void client_rows_sort_by_part(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start,
    uint32_t *order, uint64_t *sorted)
{
	uint16_t *part = client_rows_parts(t, ids, n, start);

	for (size_t i = 0; i < n; i++) {
		uint32_t at = start[part[i]]++;

		order[at] = (uint32_t)i;
		if (sorted)
			sorted[at] = ids[i];
	}
	/* start[p] has moved to the end of partition p, which is the beginning of p + 1: shift
	 * the array back. */
	memmove(start + 1, start, t->nparts * sizeof *start);
	start[0] = 0;
	free(part);
}

uint32_t client_rows_group_size(const struct table *t, size_t n)
{
	return n < MANY_ROWS || t->nparts < GROUPS ? t->nparts : (t->nparts + GROUPS - 1) / GROUPS;
}

uint32_t client_rows_pick(const uint16_t *part, uint32_t n, uint32_t first, uint32_t count,
    uint16_t some[static ROWS_PICKED])
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++) {
		some[k] = (uint16_t)i;
		k += part[i] - first < count;
	}
	return k;
}

void client_rows_flush_if_many(struct client *c)
{
	size_t queued = 0;

	client_assert_owner(c);
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->state == LINK_UP)
			queued += conn_queued(c->link[i]->conn);
	if (queued >= UNDER_WAY)
		c->ops->relieve(c);
}

/* Put the rows of partitions first .. first + count - 1 into the list. next[p]: the list
 * position of the next row of partition p. */
static void fill_row_list(const uint16_t *part, const uint64_t *ids, size_t n, uint32_t *next,
    struct client_row_list *list, uint32_t first, uint32_t count)
{
	uint16_t some[ROWS_PICKED];

	for (size_t i = 0, m; i < n; i += m) {
		uint32_t picked;

		m = n - i < ROWS_PICKED ? n - i : ROWS_PICKED;
		picked = client_rows_pick(part + i, (uint32_t)m, first, count, some);
		for (uint32_t k = 0; k < picked; k++) {
			size_t row = i + some[k];
			uint32_t at = next[part[row]]++;

			list->pos[at] = (uint32_t)row;
			list->ids[at] = ids[row];
		}
	}
}

/* Asks each partition for its rows, in groups: while the first questions are on their way the
 * lists of the next partitions are filled. All questions share one list, which the last answer
 * gives back. ERR_NOTREADY: a partition is on no server; no question of the call is left then,
 * unless dst is NULL. */
static enum err_code want_table_rows(struct client *c, const struct row_want *want, struct err *e)
{
	const struct table *t = want->table;
	size_t n = want->n;
	uint32_t *start = mem_array(t->nparts + 1, sizeof *start),
	         *next = mem_array(t->nparts, sizeof *next), some = client_rows_group_size(t, n);
	struct client_row_list *list = new_row_list(c, n);
	uint16_t *part = client_rows_parts(t, want->ids, n, start);
	enum err_code rc = ERR_OK;

	client_rows_begin(c, n);
	memcpy(next, start, t->nparts * sizeof *next);
	for (uint32_t p = 0; !rc && p < t->nparts; p++) {
		if (p % some == 0)
			fill_row_list(part, want->ids, n, next, list, p, some);
		if (start[p + 1] == start[p])
			continue;
		rc = want_part_rows(c, want, p, list, start[p], start[p + 1] - start[p], e);
		client_rows_flush_if_many(c);
	}
	if (rc)
		request_free_pulls_to(c, want->dst);
	drop_row_list(c, list);
	free(part);
	free(next);
	free(start);
	return rc;
}

enum err_code client_want_rows(struct client *c, const struct table *t, uint64_t step,
    const uint64_t *ids, size_t n, float *dst, struct err *e)
{
	client_assert_owner(c);
	return want_table_rows(c, &(struct row_want){ t, step, ids, n, false, false, dst }, e);
}

enum err_code client_want_changed_rows(struct client *c, const struct table *t, uint64_t step,
    const uint64_t *ids, size_t n, float *dst, struct err *e)
{
	client_assert_owner(c);
	return want_table_rows(c, &(struct row_want){ t, step, ids, n, true, false, dst }, e);
}

enum err_code client_want_changed_rows_early(struct client *c, const struct table *t, uint64_t step,
    const uint64_t *ids, size_t n, float *dst, struct err *e)
{
	client_assert_owner(c);
	return want_table_rows(c, &(struct row_want){ t, step, ids, n, true, true, dst }, e);
}
