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
	return c->cfg.coding.ids != CLIENT_IDS_RAW && n <= KEYS_MAX && keys_ascend(ids, n);
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
	return c->cfg.coding.ids == CLIENT_IDS_CACHED && n >= NAMED_LEAST && n <= KEYS_KEEP_MAX &&
	    c->listed <= KEYCACHE_BYTES / sizeof(uint64_t);
}

/* Write a list of ids: only its name when the server of this session keeps the list already,
 * else all ids, which the server keeps from now on. Returns the length. */
static size_t put_id_list(struct link *l, const uint64_t *ids, size_t n, uint8_t *out)
{
	bool keep = is_list_cacheable(l->client, n);
	uint8_t name[KEYS_NAME];
	const uint64_t *none;

	if (keep) {
		keys_name(ids, n, name);
		if (!l->kept)
			l->kept = keycache_new();
		if (keycache_find(l->kept, name, n, &none))
			return keys_put_name(name, n, out);
		keycache_put(l->kept, name, n, NULL);
	}
	return keys_put(client_zip(l->client), ids, n, keep, out);
}

void client_rows_send_pull(struct link *l, const struct ask *a, struct record *r)
{
	struct client *c = l->client;
	bool block = goes_in_block(c, a->ids, a->n);
	size_t most = (block ? keys_bound(a->n) : (size_t)a->n * 8) +
	    (a->since ? since_bound(a->n) : 0),
	       len = (size_t)a->n * 8;
	uint8_t small[BATCHER_SMALL], *body = batcher_reserve(&l->batcher, l->conn, most, small);

	if (c->cfg.coding.pull_codec && a->step != CLIENT_NOW)
		r->codec = c->cfg.coding.pull_codec->id;
	if (block) {
		r->flags |= RECORD_KEYS;
		len = put_id_list(l, a->ids, a->n, body);
	} else {
		memcpy(body, a->ids, len);
	}
	if (a->since) {
		r->flags |= RECORD_DELTA;
		r->total = len;
		len += since_put(client_zip(c), a->since, a->n, body + len);
	}
	r->len = (uint32_t)len;
	batcher_commit(&l->batcher, l->conn, r, body, small);
}

/* The server no longer keeps this list. */
static void forget_id_list(struct link *l, const uint64_t *ids, size_t n)
{
	uint8_t name[KEYS_NAME];

	keys_name(ids, n, name);
	if (l->kept)
		keycache_forget(l->kept, name);
}

static const uint64_t *pushed_ids(const struct inflight_push *d)
{
	return (const uint64_t *)(const void *)(d->body + MSG_ROWS_HEAD);
}

void client_rows_resend_ids(struct link *l, const struct record *r)
{
	struct ask *a = r->offset == REC_PULL_ROWS ? client_pull_find(l, r->seq) : NULL;
	struct inflight_push *d = r->offset == REC_PUSH_ROWS
	    ? client_push_find(l, r->table, r->part, r->step)
	    : NULL;

	if (a && a->type == REC_PULL_ROWS) {
		forget_id_list(l, a->ids, a->n);
		client_link_send_pull(l, a);
	}
	if (d && d->table->sparse) {
		forget_id_list(l, pushed_ids(d), d->n);
		client_link_send_push(l, d);
	}
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
			client_link_send(l, r, body + at);
			continue;
		}
		batcher_flush(&l->batcher, l->conn);
		conn_lend(l->conn, r, body + at);
	}
}

/* Send a push with its ids in a block (codec/keys.h). */
static void send_packed_push(struct link *l, struct record *r, const struct inflight_push *d)
{
	size_t plain = MSG_ROWS_HEAD + (size_t)d->n * 8, values = d->len - plain,
	       most = keys_bound(d->n) + values, n;
	uint8_t small[BATCHER_SMALL], *own = most > RECORD_MAX ? mem_regrow(NULL, most, 1) : NULL;
	uint8_t *body = own ? own : batcher_reserve(&l->batcher, l->conn, most, small);
	int64_t begin = clock_now();

	r->flags |= RECORD_KEYS;
	n = put_id_list(l, pushed_ids(d), d->n, body);
	memcpy(body + n, d->body + plain, values);
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

void client_rows_send_push(struct link *l, const struct inflight_push *d, struct record *r)
{
	r->type = REC_PUSH_ROWS;
	if (goes_in_block(l->client, pushed_ids(d), d->n))
		send_packed_push(l, r, d);
	else
		send_row_body(l, r, d->body, d->len, true);
}
