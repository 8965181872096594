#include "base/endian.h"
#include "base/mem.h"
#include "client/client_state.h"

/* Sparse tables whole: rows that nobody has named. */

/* All rows of one partition, as (id, floats) records in ascending order. */
static enum err_code scan_part(struct client *c, const struct table *t, uint32_t part, struct buf *out, struct err *e)
{
	struct link *l = link_of_pull(c, t, part, CLIENT_NOW, e);
	uint64_t after = 0;
	bool begin = true, last = false;

	if (!l)
		return ERR_NOTREADY;
	while (!last) {
		struct buf body = BUF_INIT;
		struct ask *a = ask_add(c, l, REC_SCAN, t, CLIENT_NOW);
		const uint8_t *ids, *values;
		enum err_code rc;
		uint32_t n;

		a->part = part;
		a->begin = begin;
		a->after = after;
		a->scanned = &body;
		a->dst = (float *)(void *)&last;
		if (l->state == LINK_UP)
			link_send_ask(l, a);
		rc = client_wait(c, CLIENT_NOW, e);
		if (!rc && !msg_get_rows(body.data, body.len, t->cols, &n, &ids, &values))
			rc = err_set(e, ERR_PROTO, "%s sends rows that do not fit", l->id);
		for (uint32_t i = 0; !rc && i < n; i++) {
			buf_append(out, ids + (size_t)i * 8, 8);
			buf_append(out, values + (size_t)i * t->cols * 4, t->cols * 4);
			after = get_le64(ids + (size_t)i * 8);
		}
		begin = false;
		buf_release(&body);
		if (rc)
			return rc;
	}
	return ERR_OK;
}

static int by_first_u64(const void *a, const void *b)
{
	uint64_t x = get_le64(a), y = get_le64(b);

	return (x > y) - (x < y);
}

enum err_code client_scan(struct client *c, const struct table *t, client_rows_fn fn, void *ctx, struct err *e)
{
	size_t stride = 8 + (size_t)t->cols * 4, n;
	struct buf all = BUF_INIT;
	enum err_code rc = ERR_OK;
	uint64_t *ids;
	float *rows;

	for (uint32_t p = 0; !rc && p < t->nparts; p++)
		rc = scan_part(c, t, p, &all, e);
	n = all.len / stride;
	if (!rc && n) {
		qsort(all.data, n, stride, by_first_u64);
		ids = mem_array(n, sizeof *ids);
		rows = mem_array(n * t->cols, sizeof *rows);
		for (size_t i = 0; i < n; i++) {
			ids[i] = get_le64(all.data + i * stride);
			memcpy(rows + i * t->cols, all.data + i * stride + 8, t->cols * 4);
		}
		rc = fn(ctx, ids, rows, n, e);
		free(ids);
		free(rows);
	}
	buf_release(&all);
	return rc;
}
