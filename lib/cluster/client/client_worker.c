/* SPDX-License-Identifier: ISC */
#include "client/client_state.h"
#include "math/copy.h"

/* The client of a worker or a tool: it pulls to its caller's memory, can go on without its relay,
 * and fails when a server refuses it. */

/* How many rows ahead the destination is prefetched. */
#define AHEAD 16u

static int64_t assigned_worker_relay(const struct client *c, const struct view *view)
{
	return c->cfg.rank == CLIENT_NO_RANK || !view->worker ? -1 : view->worker->relay;
}

/* Fail when a table with an open request was dropped. */
static enum err_code check_dropped_tables(struct client *c, struct err *e)
{
	for (const struct request *r = NULL; (r = request_next(c, r));)
		if (r->table && r->table->dropped)
			return err_set(e, ERR_NOTFOUND, "table \"%s\" was dropped", r->table->name);
	return ERR_OK;
}

static void leave_relay(struct client *c, const char *why)
{
	uint8_t none[KEY_BYTES] = { 0 };

	log_warn(c->cfg.log, "on without %s: %s", client_relay_link(c)->id, why);
	c->route.missed = c->route.process;
	c->route.state = ROUTE_SHUNNED;
	client_link_apply_view(client_relay_link(c), false, none);
	request_reroute_all(c);
}

/* A worker can go past its relay. */
static bool is_server_link(const struct link *l)
{
	return l != client_relay_link(l->client);
}

static void copy_pulled_rows(const struct request *r, const float *w, uint64_t version)
{
	const struct pull_request *p = &r->pull;
	size_t cols = r->table->cols;

	(void)version;
	for (uint32_t i = 0; i < r->n; i++) {
		if (i + AHEAD < r->n)
			__builtin_prefetch(p->dst + p->pos[i + AHEAD] * cols, 1);
		copy_floats(p->dst + p->pos[i] * cols, w + i * cols, cols);
	}
}

static void serve_once(struct client *c)
{
	client_serve(c, 0);
}

const struct client_ops client_worker_ops = { .role = ROLE_WORKER,
	.assigned_relay = assigned_worker_relay,
	.layout_changed = check_dropped_tables,
	.relay_away = leave_relay,
	.refusal_is_final = is_server_link,
	.took_rows = copy_pulled_rows,
	.relieve = serve_once };
