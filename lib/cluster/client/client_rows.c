/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "client/client_state.h"
#include "codec/since.h"

/* Encoding of row ids in pulls and pushes of sparse tables, and the sending of both. */

/* A list of fewer ids is no longer than its name. */
#define NAMED_LEAST 8u

enum client_ids client_ids_by_name(const char *name)
{
	static const char *const names[] = { "raw", "packed", "cached" };
	unsigned i = 2;

	while (i && strcmp(name, names[i]) != 0)
		i--;
	return (enum client_ids)i;
}

/* ---- ids ---- */

/* Do these ids travel in a block? Only ascending ones can. */
static bool goes_in_block(const struct client *c, const uint64_t *ids, size_t n)
{
	return c->cfg.coding.ids != CLIENT_IDS_RAW && n <= ROW_IDS_MAX && row_ids_ascend(ids, n);
}

static struct zip *client_zip(struct client *c)
{
	if (!c->zip)
		c->zip = zip_new();
	return c->zip;
}

/* When one pull or push lists more ids than a cache holds, the first lists would be evicted
 * before they are used again. */
static bool is_list_cacheable(const struct client *c, size_t n)
{
	return c->cfg.coding.ids == CLIENT_IDS_CACHED && n >= NAMED_LEAST &&
	    n <= ROW_IDS_KEEP_MAX && c->ids_per_server <= ROW_IDS_CACHE_BYTES / sizeof(uint64_t);
}

/* Write a list of ids: only its name when the server of this session keeps the list already,
 * else all ids, which the server keeps from now on. Returns the length. */
static size_t put_id_list(struct link *l, const uint64_t *ids, size_t n, uint8_t *out)
{
	bool keep = is_list_cacheable(l->client, n);
	uint8_t name[ROW_IDS_NAME];
	const uint64_t *none;

	if (keep) {
		row_ids_name(ids, n, name);
		if (!l->row_ids_cache)
			l->row_ids_cache = row_ids_cache_new();
		if (row_ids_cache_find(l->row_ids_cache, name, n, &none))
			return row_ids_put_name(name, n, out);
		row_ids_cache_put(l->row_ids_cache, name, n, NULL);
	}
	return row_ids_put(client_zip(l->client), ids, n, keep, out);
}

void client_rows_send_pull(struct request *r, struct record *head)
{
	struct client *c = r->client;
	struct link *l = r->link;
	bool block = goes_in_block(c, r->pull.ids, r->n);
	size_t most = (block ? row_ids_bound(r->n) : (size_t)r->n * 8) +
	    (r->pull.since ? since_bound(r->n) : 0),
	       len = (size_t)r->n * 8;
	uint8_t small[BATCHER_SMALL], *body = batcher_reserve(&l->batcher, l->conn, most, small);

	if (c->cfg.coding.pull_codec && r->step != CLIENT_NOW)
		head->codec = c->cfg.coding.pull_codec->id;
	if (block) {
		head->flags |= RECORD_ROW_IDS;
		len = put_id_list(l, r->pull.ids, r->n, body);
	} else {
		memcpy(body, r->pull.ids, len);
	}
	if (r->pull.since) {
		head->flags |= RECORD_DELTA;
		head->total = len;
		len += since_put(client_zip(c), r->pull.since, r->n, body + len);
	}
	head->len = (uint32_t)len;
	batcher_commit(&l->batcher, l->conn, head, body, small);
}

/* The server no longer keeps this list. */
static void forget_id_list(struct link *l, const uint64_t *ids, size_t n)
{
	uint8_t name[ROW_IDS_NAME];

	row_ids_name(ids, n, name);
	if (l->row_ids_cache)
		row_ids_cache_forget(l->row_ids_cache, name);
}

static const uint64_t *pushed_ids(const struct request *r)
{
	return (const uint64_t *)(const void *)(r->push.body + PAYLOAD_ROWS_HEAD);
}

void client_rows_resend_ids(struct link *l, const struct record *head)
{
	bool push = head->offset == REC_PUSH_ROWS;
	struct request *r = push ? request_of_receipt(l, head->table, head->part, head->step)
	                         : request_of_answer(l, head->seq);

	if (!r || r->ops != (push ? &client_row_push_ops : &client_row_pull_ops))
		return;
	forget_id_list(l, push ? pushed_ids(r) : r->pull.ids, r->n);
	request_send(r);
}

/* ---- sending ---- */

/* Send a body in one or more records. lend: the body stays unchanged until the receipt, so the
 * connection may borrow it. */
static void send_row_body(struct link *l, struct record *r, const uint8_t *body, size_t len,
    bool lend)
{
	r->total = len;
	for (size_t at = 0; at < len; at += r->len) {
		r->offset = at;
		r->len = len - at < RECORD_MAX ? (uint32_t)(len - at) : RECORD_MAX;
		if (!lend || r->len <= BATCHER_SMALL) {
			batcher_add(&l->batcher, l->conn, r, body + at);
			continue;
		}
		batcher_flush(&l->batcher, l->conn);
		conn_lend(l->conn, r, body + at);
	}
}

/* Send a push with its ids in a block (codec/row_ids.h). */
static void send_packed_push(struct request *d, struct record *r)
{
	struct link *l = d->link;
	size_t plain = PAYLOAD_ROWS_HEAD + (size_t)d->n * 8, values = d->push.len - plain,
	       most = row_ids_bound(d->n) + values, n;
	uint8_t small[BATCHER_SMALL], *own = most > RECORD_MAX ? mem_regrow(NULL, most, 1) : NULL;
	uint8_t *body = own ? own : batcher_reserve(&l->batcher, l->conn, most, small);
	int64_t begin = clock_now();

	r->flags |= RECORD_ROW_IDS;
	n = put_id_list(l, pushed_ids(d), d->n, body);
	memcpy(body + n, d->push.body + plain, values);
	client_encode_count_time(l->client, begin);
	if (own) {
		send_row_body(l, r, own, n + values, false);
	} else {
		r->len = (uint32_t)(n + values);
		r->total = r->len;
		batcher_commit(&l->batcher, l->conn, r, body, small);
	}
	free(own);
}

void client_rows_send_push(struct request *r, struct record *head)
{
	if (goes_in_block(r->client, pushed_ids(r), r->n))
		send_packed_push(r, head);
	else
		send_row_body(r->link, head, r->push.body, r->push.len, true);
}
