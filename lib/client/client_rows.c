#include "base/mem.h"
#include "client/client_state.h"
#include "codec/since.h"

/* Rows of sparse tables: how their ids travel. */

/* Of a shorter list the name is no shorter. */
#define NAMED_LEAST 8u

enum client_ids client_ids_by_name(const char *name)
{
	static const char *const names[] = { "raw", "packed", "cached" };
	unsigned i = 2;

	while (i && strcmp(name, names[i]) != 0)
		i--;
	return (enum client_ids)i;
}

/* ---- ids --------------------------------------------------------------------------- */

static bool in_block(const struct client *c, const uint64_t *ids, size_t n)
{
	return c->cfg.coding.ids != CLIENT_IDS_RAW && n <= KEYS_MAX && keys_ascend(ids, n);
}

static struct zip *zip_of(struct client *c)
{
	if (!c->zip)
		c->zip = zip_new();
	return c->zip;
}

/* Of more ids than are kept the first lists would be gone before they come again. */
static bool worth_keeping(const struct client *c, size_t n)
{
	return c->cfg.coding.ids == CLIENT_IDS_CACHED && n >= NAMED_LEAST && n <= KEYS_KEEP_MAX &&
	    c->listed <= KEYCACHE_BYTES / sizeof(uint64_t);
}

/* Its name only, where the server keeps the list; else whole, and kept from now on. */
static size_t put_ids(struct link *l, const uint64_t *ids, size_t n, uint8_t *out)
{
	bool keep = worth_keeping(l->client, n);
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
	return keys_put(zip_of(l->client), ids, n, keep, out);
}

void rows_ask(struct link *l, const struct ask *a, struct record *r)
{
	struct client *c = l->client;
	bool block = in_block(c, a->ids, a->n);
	size_t most = (block ? keys_bound(a->n) : (size_t)a->n * 8) + (a->since ? since_bound(a->n) : 0), len = (size_t)a->n * 8;
	uint8_t small[BATCHER_SMALL], *body = batcher_room(&l->batcher, l->conn, most, small);

	if (c->cfg.coding.pull_codec && a->step != CLIENT_NOW)
		r->codec = c->cfg.coding.pull_codec->id;
	if (block) {
		r->flags |= RECORD_KEYS;
		len = put_ids(l, a->ids, a->n, body);
	} else {
		memcpy(body, a->ids, len);
	}
	if (a->since) {
		r->flags |= RECORD_DELTA;
		r->total = len;
		len += since_put(zip_of(c), a->since, a->n, body + len);
	}
	r->len = (uint32_t)len;
	batcher_filled(&l->batcher, l->conn, r, body, small);
}

static void forget(struct link *l, const uint64_t *ids, size_t n)
{
	uint8_t name[KEYS_NAME];

	keys_name(ids, n, name);
	if (l->kept)
		keycache_forget(l->kept, name);
}

static const uint64_t *ids_of(const struct doubt *d)
{
	return (const uint64_t *)(const void *)(d->body + MSG_ROWS_HEAD);
}

void rows_unknown(struct link *l, const struct record *r)
{
	struct ask *a = r->offset == REC_PULL_ROWS ? ask_find(l, r->seq) : NULL;
	struct doubt *d = r->offset == REC_PUSH_ROWS ? doubt_find(l, r->table, r->part, r->step) : NULL;

	if (a && a->type == REC_PULL_ROWS) {
		forget(l, a->ids, a->n);
		link_send_ask(l, a);
	}
	if (d && d->table->sparse) {
		forget(l, ids_of(d), d->n);
		link_send_doubt(l, d);
	}
}

/* ---- sending ------------------------------------------------------------------------ */

/* lend: the body stays as it is until the receipt. */
static void send_whole(struct link *l, struct record *r, const uint8_t *body, size_t len, bool lend)
{
	r->total = len;
	for (size_t at = 0; at < len; at += r->len) {
		r->offset = at;
		r->len = len - at < RECORD_MAX ? (uint32_t)(len - at) : RECORD_MAX;
		if (!lend || r->len <= BATCHER_SMALL) {
			link_send(l, r, body + at);
			continue;
		}
		batcher_flush(&l->batcher, l->conn);
		conn_lend(l->conn, r, body + at);
	}
}

/* With the ids in a block. */
static void send_packed(struct link *l, struct record *r, const struct doubt *d)
{
	size_t plain = MSG_ROWS_HEAD + (size_t)d->n * 8, values = d->len - plain, most = keys_bound(d->n) + values, n;
	uint8_t small[BATCHER_SMALL], *own = most > RECORD_MAX ? mem_regrow(NULL, most, 1) : NULL;
	uint8_t *body = own ? own : batcher_room(&l->batcher, l->conn, most, small);
	int64_t begin = clock_now();

	r->flags |= RECORD_KEYS;
	n = put_ids(l, ids_of(d), d->n, body);
	memcpy(body + n, d->body + plain, values);
	encoded_since(l->client, begin);
	if (own) {
		send_whole(l, r, own, n + values, false);
	} else {
		r->len = (uint32_t)(n + values);
		r->total = r->len;
		batcher_filled(&l->batcher, l->conn, r, body, small);
	}
	free(own);
}

void rows_send(struct link *l, const struct doubt *d, struct record *r)
{
	r->type = REC_PUSH_ROWS;
	if (in_block(l->client, ids_of(d), d->n))
		send_packed(l, r, d);
	else
		send_whole(l, r, d->body, d->len, true);
}
