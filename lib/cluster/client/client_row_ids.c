/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "client/client_state.h"

/* Encoding of the row ids in pulls and pushes of sparse tables. */

/* A list of fewer ids is not longer than its name. */
#define NAMED_LEAST 8u

enum client_ids client_ids_by_name(const char *name)
{
	static const char *const names[] = { "raw", "packed", "cached" };
	unsigned i = 2;

	while (i && strcmp(name, names[i]) != 0)
		i--;
	return (enum client_ids)i;
}

bool client_row_ids_in_block(const struct client *c, const uint64_t *ids, size_t n)
{
	return c->cfg.coding.ids != CLIENT_IDS_RAW && n <= ROW_IDS_MAX && row_ids_ascend(ids, n);
}

struct zip *client_zip(struct client *c)
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

size_t client_row_ids_put(struct link *l, const uint64_t *ids, size_t n, uint8_t *out)
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

void client_row_ids_resend(struct link *l, const struct record *head)
{
	bool push = head->offset == REC_PUSH_ROWS;
	struct request *r = push ? request_of_receipt(l, head->table, head->part, head->step)
	                         : request_of_answer(l, head->seq);
	uint8_t name[ROW_IDS_NAME];

	if (!r || r->ops != (push ? &client_row_push_ops : &client_row_pull_ops))
		return;
	row_ids_name(push ? client_row_ids_pushed(r) : r->pull.ids, r->n, name);
	if (l->row_ids_cache)
		row_ids_cache_forget(l->row_ids_cache, name);
	request_send(r);
}
