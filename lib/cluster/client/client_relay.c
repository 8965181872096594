/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "client/client_state.h"
#include "client/relayed.h"
#include "core/json.h"
#include "core/mem.h"

/* Routing through a relay. A worker whose view assigns it a relay sends pulls, pushes and
 * CLOCKs of steps there; when the relay cannot be reached it goes on directly with the
 * servers. With each change of route it sends everything without a receipt again, under the
 * same identity. The second half is used by a relay's own client (relayed.h). */

/* A worker goes on without a relay that has been unreachable for this long. */
#define RELAY_AWAY (1 * NSEC_PER_SEC)
/* A link takes another aggregate while less than this is queued, in bytes. */
#define QUEUE_MAX (4u << 20)

bool client_link_takes_clocks(const struct link *l)
{
	return l->live && l->client->relayed == (l == client_relay_link(l->client));
}

/* ---- routes ---- */

/* The number of the relay that the view assigns to this worker or relay; -1: none. */
static int64_t assigned_relay(const struct client *c, const json_t *view)
{
	const struct client_relay_hooks *h = c->cfg.hooks;

	if (h)
		return json_int(json_array_get(json_object_get(view, "relays"), h->self),
		    "upstream", -1);
	return c->cfg.slot == CLIENT_NO_SLOT
	    ? -1
	    : json_int(json_object_get(view, "worker"), "relay", -1);
}

enum err_code client_relay_apply_view(struct client *c, const json_t *view, bool *changed,
    struct err *e)
{
	int64_t n = assigned_relay(c, view);
	const json_t *r = n < 0 ? NULL : json_array_get(json_object_get(view, "relays"), (size_t)n);
	uint64_t process = json_flag(r, "live") ? json_u64s(r, "incarnation", 0) : 0;
	struct link *l = client_relay_link(c);
	uint8_t key[KEY_BYTES] = { 0 };
	bool relayed = process && process != c->missed;

	c->shunned = process && process == c->missed;
	*changed = relayed != c->relayed || (relayed && process != c->relay_process);
	if (!*changed)
		return ERR_OK;
	if (relayed && !key_from_text(json_str(r, "key", ""), key))
		return err_set(e, ERR_PROTO, "the view has no key for relay-%lld", (long long)n);
	client_link_apply_view(l, false, key);
	c->relayed = relayed;
	c->relay_down = 0;
	c->relay_process = process;
	if (relayed) {
		c->relay = (unsigned)n;
		snprintf(l->id, sizeof l->id, "relay-%lld", (long long)n);
		snprintf(l->tcp, sizeof l->tcp, "%s", json_str(r, "tcp", ""));
		snprintf(l->unix_path, sizeof l->unix_path, "%s",
		    c->cfg.id->run_dir ? json_str(r, "unix", "") : "");
		client_link_apply_view(l, true, key);
	}
	log_info(c->cfg.log, relayed ? "through %s (%s)" : "without a relay", l->id, l->tcp);
	return ERR_OK;
}

struct link *client_route(const struct request *r, struct err *e)
{
	struct client *c = r->client;
	uint16_t server;

	/* A relay has only steps, and gives back what it cannot aggregate. */
	if (c->relayed && !r->alone && r->step != CLIENT_NOW)
		return client_relay_link(c);
	server = r->ops->server(r->table, r->part);
	if (server < c->nservers)
		return c->link[server];
	err_set(e, ERR_NOTREADY, "table \"%s\" partition %u is on no server", r->table->name,
	    r->part);
	return NULL;
}

/* Tell the coordinator that the relay cannot be reached. The message may be lost with its
 * session, and the relay waits for us until a view says otherwise, so client_relay_check repeats it. */
static void report_missed_relay(struct client *c, const char *why)
{
	if (c->cfg.missed)
		c->cfg.missed(c->cfg.ctx, c->relay, c->layout.epoch, why);
	c->relay_down = clock_now();
}

/* The relay has been unreachable for RELAY_AWAY: report it, and move everything to the
 * servers. */
static void leave_relay(struct client *c)
{
	struct link *l = client_relay_link(c);
	struct err why = l->fault;
	uint8_t none[KEY_BYTES] = { 0 };

	report_missed_relay(c, why.code ? why.msg : "it does not answer");
	/* A relay must not change its route within an epoch: its aggregates may be on their
	 * way through the relay above it. */
	if (c->cfg.hooks)
		return;
	log_warn(c->cfg.log, "on without %s: %s", l->id, why.code ? why.msg : "it does not answer");
	c->missed = c->relay_process;
	c->shunned = true;
	c->relayed = false;
	client_link_apply_view(l, false, none);
	request_reroute_all(c);
}

void client_relay_check(struct client *c, int64_t now)
{
	struct link *l = c->relayed ? client_relay_link(c) : NULL;

	if (c->shunned && !c->cfg.hooks) {
		if (now - c->relay_down > RELAY_AWAY)
			report_missed_relay(c, "it could not be reached before");
		return;
	}
	if (!l || l->state == LINK_UP || !l->used)
		c->relay_down = 0;
	else if (!c->relay_down)
		c->relay_down = now;
	else if (now - c->relay_down > RELAY_AWAY)
		leave_relay(c);
}

/* ---- a relay's own ---- */

bool client_relay_take_record(struct link *l, const struct record *r, const uint8_t *payload)
{
	const struct client_relay_hooks *h = l->client->cfg.hooks;

	if (r->type == REC_SUMMED)
		h->summed(h->ctx, payload, r->len);
	else if (r->type == REC_CLOCKED)
		h->clocked(h->ctx, l->index, r->seq);
	else
		return false;
	if (r->type == REC_CLOCKED && r->examples > l->client->members)
		l->client->members = r->examples;
	return true;
}

void client_pump(struct client *c, int ms)
{
	struct err e;
	int64_t now;

	client_serve(c, ms);
	now = clock_now();
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->state != LINK_DOWN && conn_check(c->link[i]->conn, now, &e))
			client_link_drop(c->link[i], &e);
	client_relay_check(c, now);
}

/* The link that aggregates of this partition go out on; NULL: no server holds it. */
static struct link *link_of_sum(struct client *c, const struct table *t, uint32_t part)
{
	struct link *l = client_route(&(struct request){ .ops = &client_push_ops,
	                                  .client = c,
	                                  .table = t,
	                                  .part = part },
	    NULL);

	if (l)
		l->used = true;
	return l;
}

uint64_t client_session(struct client *c, const struct table *t, uint32_t part)
{
	struct link *l = link_of_sum(c, t, part);

	return l && l->state == LINK_UP && conn_queued(l->conn) < QUEUE_MAX ? l->session : 0;
}

void client_send_sum(struct client *c, const struct client_sum *m)
{
	struct link *l = link_of_sum(c, m->table, m->part);
	struct record r = client_record_head(c, REC_PUSH_SUM, m->step);
	uint8_t *to, small[BATCHER_SMALL];

	r.table = m->table->id;
	r.part = m->part;
	r.seq = m->seq;
	r.total = m->nhead + m->nbody;
	for (uint64_t at = 0; at < r.total; at += r.len) {
		uint64_t left = r.total - at;
		size_t fromhead;

		r.offset = at;
		r.len = (uint32_t)(left < RECORD_MAX ? left : RECORD_MAX);
		fromhead = at < m->nhead ? m->nhead - at < r.len ? m->nhead - at : r.len : 0;
		if (r.len > BATCHER_SMALL)
			batcher_flush(&l->batcher, l->conn);
		to = r.len > BATCHER_SMALL ? conn_reserve(l->conn, r.len) : small;
		if (fromhead)
			memcpy(to, m->head + at, fromhead);
		if (r.len > fromhead)
			memcpy(to + fromhead, m->body + (at + fromhead - m->nhead),
			    r.len - fromhead);
		if (r.len > BATCHER_SMALL)
			conn_commit(l->conn, &r);
		else
			batcher_add(&l->batcher, l->conn, &r, small);
	}
}

unsigned client_links(const struct client *c)
{
	return c->nlinks;
}

bool client_is_clock_link(const struct client *c, unsigned link)
{
	return client_link_takes_clocks(c->link[link]);
}

bool client_can_send_clocks(const struct client *c, unsigned link)
{
	c->link[link]->used |= client_is_clock_link(c, link);
	return client_is_clock_link(c, link) && c->link[link]->state == LINK_UP;
}

static bool is_run_in_layout(const struct client *c, const struct msg_run *run)
{
	const struct table *t = run->table < c->layout.ntables ? &c->layout.table[run->table]
	                                                       : NULL;

	return t && run->first < t->nparts && run->count <= t->nparts - run->first;
}

/* Is this link's server in the chain of the partition? The relay's link stands for all of
 * them. */
static bool link_has_copy(const struct client *c, unsigned link, const struct msg_run *run,
    uint32_t part)
{
	const struct run *r = table_run(&c->layout.table[run->table], part);

	return link == c->nservers || (r && (run_chain_index(r, link) >= 0 || r->joining == link));
}

void client_select_announcements(const struct client *c, unsigned link, const uint8_t *runs,
    size_t len, client_alone *alone, void *ctx, struct buf *out)
{
	struct msg_run run;

	for (size_t i = 0; msg_get_run(runs, len, i, &run); i++)
		for (uint32_t k = 0; is_run_in_layout(c, &run) && k < run.count; k++)
			if (link_has_copy(c, link, &run, run.first + k))
				msg_put_part(out, run.table, run.first + k,
				    run.alone ||
				        (link == c->nservers &&
				            alone(ctx, run.table, run.first + k)));
}

void client_send_clocks(struct client *c, unsigned link, uint64_t seq, const struct buf *body)
{
	struct record r = client_record_head(c, REC_CLOCKS, 0);

	r.seq = seq;
	r.len = (uint32_t)body->len;
	batcher_add(&c->link[link]->batcher, c->link[link]->conn, &r, body->data);
}
