/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "core/mem.h"
#include "server/session_row_ids.h"

/* Room for n ids in p->ids, which is used again for later records because fresh pages cost more
 * than writing the ids. A list that will be cached (`keep`) gets an array of exactly its size.
 * NULL: no memory. */
static uint64_t *reserve_ids(struct server_session *p, size_t n, bool keep)
{
	if (p->data.ids_cap > n && !keep)
		return p->data.ids;
	free(p->data.ids);
	p->data.ids = mem_try_array(n + 1, sizeof *p->data.ids);
	p->data.ids_cap = p->data.ids ? n + 1 : 0;
	return p->data.ids;
}

static enum row_ids_found request_whole_ids(struct server_session *p, const struct record *r)
{
	struct record out = { .type = REC_NO_ROW_IDS,
		.table = r->table,
		.part = r->part,
		.step = r->step,
		.seq = r->seq,
		.offset = r->type };

	batcher_add(&p->data.batcher, p->conn, &out, NULL);
	return ROW_IDS_MISSED;
}

static void cache_ids(struct server_session *p, uint32_t n)
{
	uint8_t name[ROW_IDS_NAME];

	if (!p->data.row_ids_cache)
		p->data.row_ids_cache = row_ids_cache_new();
	row_ids_name(p->data.ids, n, name);
	row_ids_cache_put(p->data.row_ids_cache, name, n, p->data.ids);
	p->data.ids = NULL;
	p->data.ids_cap = 0;
}

struct zip *session_row_ids_zip(struct io_thread *l)
{
	if (!l->zip)
		l->zip = zip_new();
	return l->zip;
}

enum row_ids_found session_row_ids(struct server_session *p, const struct record *r,
    const uint8_t *body, size_t len, size_t most, struct row_ids_block *b, const uint64_t **ids)
{
	bool keeps;

	if (!atomic_load(&p->io_thread->server->limits.takes_row_ids) ||
	    !row_ids_parse(body, len, b) || b->n > most || b->n > ROW_IDS_MAX)
		return ROW_IDS_WRONG;
	if (b->form == ROW_IDS_NAMED)
		return p->data.row_ids_cache &&
		        row_ids_cache_find(p->data.row_ids_cache, b->bytes, b->n, ids)
		    ? ROW_IDS_FOUND
		    : request_whole_ids(p, r);
	keeps = b->keep && b->n <= ROW_IDS_KEEP_MAX;
	if (!reserve_ids(p, b->n, keeps) ||
	    !row_ids_get(session_row_ids_zip(p->io_thread), b, p->data.ids))
		return ROW_IDS_WRONG;
	*ids = p->data.ids;
	if (keeps)
		cache_ids(p, b->n);
	return ROW_IDS_FOUND;
}
