/* SPDX-License-Identifier: ISC */
#include "auth/keys.h"
#include "client/client_state.h"
#include "core/json.h"
#include "core/mem.h"

/* Applying a cluster view: its servers, its relays and its layout. */

static struct link *new_link(struct client *c, size_t i)
{
	struct link *l = mem_alloc(sizeof *l);

	l->client = c;
	l->index = (unsigned)i;
	l->backoff = (struct backoff){ .least = LINK_RETRY_MIN, .most = LINK_RETRY_MAX };
	backoff_reset(&l->backoff);
	snprintf(l->id, sizeof l->id, "server-%zu", i);
	return l;
}

/* Make links until there is one for each of n servers, and after those the relay's. */
static void add_links(struct client *c, size_t n)
{
	struct link *relay = c->nlinks ? client_relay_link(c) : new_link(c, n);

	if (c->nlinks && n <= c->nservers)
		return;
	c->link = mem_regrow(c->link, n + 1, sizeof *c->link);
	for (size_t i = c->nservers; i < n; i++)
		c->link[i] = new_link(c, i);
	relay->index = (unsigned)n;
	c->link[n] = relay;
	c->nservers = (unsigned)n;
	c->nlinks = (unsigned)n + 1;
}

/* A server that has ended or was replaced will not answer a CLOCK or DONE. A new server must get
 * the last CLOCK, to know how far this worker is. */
void client_link_apply_view(struct link *l, bool live, const uint8_t key[static 32])
{
	struct client *c = l->client;
	bool other = memcmp(key, l->key, sizeof l->key) != 0;

	if (l->conn && (!live || other))
		client_link_drop(l, NULL);
	if (!live || other) {
		if (l->clock)
			request_free(l->clock);
		if (l->done)
			request_free(l->done);
		l->down_since = 0;
		backoff_reset(&l->backoff);
		l->refusals = 0;
		l->memory_failed = false;
		l->fault = (struct err){ 0 };
	}
	if (!live)
		l->used = false;
	l->is_done = l->is_done && live && !other;
	if (live && (!l->live || other) && c->clock.begun && c->route.state != ROUTE_RELAYED &&
	    l != client_relay_link(c))
		client_link_put_clock(l);
	l->live = live;
	memcpy(l->key, key, sizeof l->key);
}

static enum err_code apply_servers(struct client *c, const struct view *view, struct err *e)
{
	add_links(c, view->nservers);
	for (size_t i = 0; i < view->nservers; i++) {
		const struct view_server *s = &view->servers[i];
		struct link *l = c->link[i];
		bool live = s->live, moved = strcmp(l->tcp, s->tcp) != 0;
		uint8_t key[KEY_BYTES] = { 0 };

		snprintf(l->tcp, sizeof l->tcp, "%s", s->tcp);
		snprintf(l->unix_path, sizeof l->unix_path, "%s",
		    c->cfg.id->run_dir ? s->unix_path : "");
		if (live && !key_from_text(s->key, key))
			return err_set(e, ERR_PROTO, "the view has no key for %s", l->id);
		/* Another address means another process, even with the same key. */
		if (moved && l->live)
			client_link_apply_view(l, false, key);
		client_link_apply_view(l, live, key);
	}
	return ERR_OK;
}

/* After a restart from a checkpoint the servers count versions again: another update may have the
 * number that a partition or a row had before. */
static void forget_versions(struct client *c)
{
	for (size_t i = 0; i < c->versions.ntables; i++)
		memset(c->versions.of[i], 0xff, c->versions.nparts[i] * sizeof **c->versions.of);
	client_row_cache_free(c);
}

static enum err_code apply_layout(struct client *c, struct layout *fresh, struct err *e)
{
	uint32_t epoch = fresh->epoch, generation = c->layout.generation;

	for (size_t i = 0; i < c->layout.ntables && i < fresh->ntables; i++)
		if (!fresh->table[i].sparse && fresh->table[i].rows > c->layout.table[i].rows)
			client_encode_grow_residual(c, &c->layout.table[i], &fresh->table[i]);
	/* Pulls and pushes point to tables, so tables must not move. */
	if (!layout_update(&c->layout, fresh))
		return err_set(e, ERR_PROTO,
		    "layout epoch %u names other tables than the one before", epoch);
	if (c->layout.generation != generation)
		forget_versions(c);
	return c->ops->layout_changed(c, e);
}

enum err_code client_apply_view(struct client *c, const struct view *view, struct err *e)
{
	enum err_code rc = apply_servers(c, view, e);
	bool fresh_epoch = !c->layout.epoch || layout_json_epoch(view->layout) != c->layout.epoch,
	     changed = false;
	struct layout fresh;

	client_assert_owner(c);
	if (!rc)
		rc = client_relay_apply_view(c, view, &changed, e);
	if (rc || (!fresh_epoch && !changed))
		return rc;
	rc = fresh_epoch ? layout_from_json(view->layout, &fresh, e) : ERR_OK;
	if (!rc && fresh_epoch)
		rc = apply_layout(c, &fresh, e);
	if (rc)
		return rc;
	request_reroute_all(c);
	for (unsigned i = 0; i < c->nlinks; i++)
		c->link[i]->session = ++c->sessions;
	return ERR_OK;
}
