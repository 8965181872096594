#include "auth/keys.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "client/client_state.h"

/* What a view says of servers and layout, taken over. */

static void add_links(struct client *c, size_t n)
{
	if (n <= c->nlinks)
		return;
	c->link = mem_regrow(c->link, n, sizeof *c->link);
	for (size_t i = c->nlinks; i < n; i++) {
		struct link *l = mem_alloc(sizeof *l);

		l->client = c;
		l->index = (unsigned)i;
		l->retry = LINK_RETRY_MIN;
		snprintf(l->id, sizeof l->id, "server-%zu", i);
		c->link[i] = l;
	}
	c->nlinks = (unsigned)n;
}

/* A server that has gone owes no answer; one that has come wants to know how
 * far this slot is. */
static void take_link(struct link *l, bool live, const uint8_t key[static 32])
{
	struct client *c = l->client;
	bool other = memcmp(key, l->key, sizeof l->key) != 0;

	if (l->conn && (!live || other))
		link_drop(l, NULL);
	if (!live || other) {
		l->clock_due = l->done_due = false;
		l->down_since = 0;
		l->retry = LINK_RETRY_MIN;
		l->next_try = 0;
		l->denied = 0;
		l->fault = (struct err){ 0 };
	}
	if (!live)
		l->used = false;
	if (live && (!l->live || other) && c->clocked)
		l->used = l->clock_due = true;
	l->live = live;
	memcpy(l->key, key, sizeof l->key);
}

static enum err_code take_servers(struct client *c, const json_t *servers, struct err *e)
{
	const json_t *s;
	size_t i;

	add_links(c, json_array_size(servers));
	json_array_foreach(servers, i, s) {
		struct link *l = c->link[i];
		bool live = json_flag(s, "live"), moved = strcmp(l->tcp, json_str(s, "tcp", "")) != 0;
		uint8_t key[KEY_BYTES] = { 0 };

		snprintf(l->tcp, sizeof l->tcp, "%s", json_str(s, "tcp", ""));
		snprintf(l->unix_path, sizeof l->unix_path, "%s", c->cfg.id->run_dir ? json_str(s, "unix", "") : "");
		if (live && !key_from_text(json_str(s, "key", ""), key))
			return err_set(e, ERR_PROTO, "the view has no key for %s", l->id);
		/* Another process in its place. */
		if (moved && l->live)
			take_link(l, false, key);
		take_link(l, live, key);
	}
	return ERR_OK;
}

enum err_code client_view(struct client *c, const json_t *view, struct err *e)
{
	const json_t *jl = json_object_get(view, "layout");
	enum err_code rc = take_servers(c, json_object_get(view, "servers"), e);
	struct layout fresh;

	if (rc || (c->layout.epoch && (uint32_t)json_int(jl, "epoch", 0) == c->layout.epoch))
		return rc;
	rc = layout_from_json(jl, &fresh, e);
	if (rc)
		return rc;
	/* Asks and doubts point to tables: these stay where they are. */
	if (!layout_update(&c->layout, &fresh))
		return err_set(e, ERR_PROTO, "the layout of epoch %lld names other tables than the one before",
		    (long long)json_int(jl, "epoch", 0));
	doubts_move(c);
	asks_move(c);
	return ERR_OK;
}
