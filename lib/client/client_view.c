#include "auth/keys.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "client/client_state.h"

/* What a view says of servers and layout, taken over. */

static struct link *new_link(struct client *c, size_t i)
{
	struct link *l = mem_alloc(sizeof *l);

	l->client = c;
	l->index = (unsigned)i;
	l->retry = LINK_RETRY_MIN;
	l->asks_last = &l->asks;
	snprintf(l->id, sizeof l->id, "server-%zu", i);
	return l;
}

/* Of n servers, and behind them the relay's. */
static void add_links(struct client *c, size_t n)
{
	struct link *relay = c->nlinks ? relay_link(c) : new_link(c, n);

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

/* A server that has gone owes no answer; one that has come wants to know how
 * far this slot is. */
void link_take(struct link *l, bool live, const uint8_t key[static 32])
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
		l->unshared = false;
		l->fault = (struct err){ 0 };
	}
	if (!live)
		l->used = false;
	l->done = l->done && live && !other;
	if (live && (!l->live || other) && c->clocked && !c->relayed && l != relay_link(c))
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
			link_take(l, false, key);
		link_take(l, live, key);
	}
	return ERR_OK;
}

/* Is anything open of a table that is no more? */
static enum err_code check_open(const struct client *c, struct err *e)
{
	const struct table *gone = NULL;

	for (unsigned i = 0; i < c->nlinks; i++) {
		for (const struct ask *a = c->link[i]->asks; a; a = a->next)
			gone = a->table->dropped ? a->table : gone;
		for (size_t k = 0; k < c->link[i]->ndoubts; k++)
			if (!c->link[i]->doubt[k].settled && c->link[i]->doubt[k].table->dropped)
				gone = c->link[i]->doubt[k].table;
	}
	return gone ? err_set(e, ERR_NOTFOUND, "table \"%s\" was dropped meanwhile", gone->name) : ERR_OK;
}

static enum err_code take_layout(struct client *c, struct layout *fresh, struct err *e)
{
	uint32_t epoch = fresh->epoch;

	for (size_t i = 0; i < c->layout.ntables && i < fresh->ntables; i++)
		if (!fresh->table[i].sparse && fresh->table[i].rows > c->layout.table[i].rows)
			encode_grown(c, &c->layout.table[i], &fresh->table[i]);
	/* Asks and doubts point to tables: these stay where they are. */
	if (!layout_update(&c->layout, fresh))
		return err_set(e, ERR_PROTO, "the layout of epoch %u names other tables than the one before", epoch);
	/* Who has hooks asks anew in each epoch. */
	return c->cfg.hooks ? ERR_OK : check_open(c, e);
}

enum err_code client_view(struct client *c, const json_t *view, struct err *e)
{
	const json_t *jl = json_object_get(view, "layout");
	enum err_code rc = take_servers(c, json_object_get(view, "servers"), e);
	bool fresh_epoch = !c->layout.epoch || (uint32_t)json_int(jl, "epoch", 0) != c->layout.epoch, changed = false;
	struct layout fresh;

	if (!rc)
		rc = relay_view(c, view, &changed, e);
	if (rc || (!fresh_epoch && !changed))
		return rc;
	rc = fresh_epoch ? layout_from_json(jl, &fresh, e) : ERR_OK;
	if (!rc && fresh_epoch)
		rc = take_layout(c, &fresh, e);
	if (rc)
		return rc;
	doubts_move(c);
	if (fresh_epoch && c->cfg.hooks)
		asks_drop(c);
	else
		asks_move(c);
	if (changed)
		relay_rehear(c);
	for (unsigned i = 0; c->cfg.hooks && i < c->nlinks; i++)
		c->link[i]->session = ++c->sessions;
	return ERR_OK;
}
