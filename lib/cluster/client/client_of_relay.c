/* SPDX-License-Identifier: ISC */
#include "client/client_of_relay.h"

#include "client/client_state.h"
#include "core/clock.h"
#include "core/json.h"

/* The client that a relay has to its servers, or to another relay. */

/* A link takes another aggregate while less than this is queued, in bytes. */
#define QUEUE_MAX (4u << 20)

/* Hands SUMMED and CLOCKED to the relay. The number of membership entries, which CLOCKED states,
 * is noted here. */
static bool take_relay_record(struct link *l, const struct record *r, const uint8_t *payload)
{
	const struct client_relay_hooks *h = l->client->cfg.hooks;

	if (r->type == REC_SUMMED)
		h->summed(h->ctx, payload, r->len);
	else if (r->type == REC_CLOCKED)
		h->clocked(h->ctx, l->index, r->seq);
	else
		return false;
	if (r->type == REC_CLOCKED && r->examples > l->client->seen.members)
		l->client->seen.members = r->examples;
	return true;
}

/* The relay above this one in the view; -1: this one talks to the servers. */
static int64_t assigned_upstream_relay(const struct client *c, const struct view *view)
{
	unsigned self = c->cfg.hooks->self;

	return self < view->nrelays ? view->relays[self].upstream : -1;
}

/* The workers pull again in each layout epoch. */
static enum err_code forget_pulls(struct client *c, struct err *e)
{
	(void)e;
	request_free_class(c, REQUEST_PULL);
	return ERR_OK;
}

/* A relay must not change its route within an epoch: its aggregates may be on their way through the
 * relay above it. */
static void stay_with_relay(struct client *c, const char *why)
{
	(void)c, (void)why;
}

static void report_link_up(struct link *l)
{
	l->client->cfg.hooks->up(l->client->cfg.hooks->ctx, l->index);
}

/* A relay waits for the next view. */
static bool is_never_final(const struct link *l)
{
	(void)l;
	return false;
}

static void forward_dense(const struct request *r, uint32_t part, const float *w, uint64_t version)
{
	const struct client_relay_hooks *h = r->client->cfg.hooks;

	h->dense(h->ctx, r->table, part, r->step, w, version);
}

static void forward_rows(const struct request *r, const float *w, uint64_t version)
{
	const struct client_relay_hooks *h = r->client->cfg.hooks;

	h->rows(h->ctx, r->table, r->part, r->step, r->pull.ids, r->n, w, version);
}

/* A relay's client is served by client_pump alone. */
static void leave_queued(struct client *c)
{
	(void)c;
}

const struct client_ops client_relay_ops = { .role = ROLE_RELAY,
	.assigned_relay = assigned_upstream_relay,
	.layout_changed = forget_pulls,
	.relay_away = stay_with_relay,
	.link_up = report_link_up,
	.refusal_is_final = is_never_final,
	.take_record = take_relay_record,
	.took_dense = forward_dense,
	.took_rows = forward_rows,
	.relieve = leave_queued };

void client_pump(struct client *c, int ms)
{
	struct err e;
	int64_t now;

	client_assert_owner(c);
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
	struct link *l = request_route(&(struct request){ .ops = &client_push_ops,
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

	client_assert_owner(c);
	return l && l->state == LINK_UP && conn_queued(l->conn) < QUEUE_MAX ? l->session : 0;
}

void client_send_sum(struct client *c, const struct client_sum *m)
{
	struct link *l = link_of_sum(c, m->table, m->part);
	struct record r = client_record_head(c, REC_PUSH_SUM, m->step);

	client_assert_owner(c);
	r.table = m->table->id;
	r.part = m->part;
	r.seq = m->seq;
	batcher_send_parts(&l->batcher, l->conn, &r,
	    &(struct batcher_parts){ m->head, m->body, m->nhead, m->nbody });
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
	return client_is_clock_link(c, link) && c->link[link]->state == LINK_UP &&
	    conn_queued(c->link[link]->conn) < QUEUE_MAX;
}

/* A worker may announce partitions of a layout that this relay does not have yet. */
static bool is_run_in_layout(const struct client *c, const struct payload_run *run)
{
	const struct table *t = run->table < c->layout.ntables ? &c->layout.table[run->table]
	                                                       : NULL;

	return t && run->first < t->nparts && run->count <= t->nparts - run->first;
}

/* Is this link's server in the chain of the partition? The relay's link represents all
 * of them. */
static bool link_has_copy(const struct client *c, unsigned link, const struct payload_run *run,
    uint32_t part)
{
	const struct run *r = table_run(&c->layout.table[run->table], part);

	return link == c->nservers || (r && (run_chain_index(r, link) >= 0 || r->joining == link));
}

void client_select_announcements(const struct client *c, unsigned link, const uint8_t *runs,
    size_t len, client_sends_nothing *sends_nothing, void *ctx, struct buf *out)
{
	struct payload_run run;

	for (size_t i = 0; payload_get_run(runs, len, i, &run); i++)
		for (uint32_t k = 0; is_run_in_layout(c, &run) && k < run.count; k++)
			if (link_has_copy(c, link, &run, run.first + k))
				payload_put_part(out, run.table, run.first + k,
				    run.bypasses_relay ||
				        (link == c->nservers &&
				            sends_nothing(ctx, run.table, run.first + k)));
}

void client_send_clocks(struct client *c, unsigned link, uint64_t seq, const struct buf *body)
{
	struct record r = client_record_head(c, REC_CLOCKS, 0);

	client_assert_owner(c);
	r.seq = seq;
	r.len = (uint32_t)body->len;
	batcher_add(&c->link[link]->batcher, c->link[link]->conn, &r, body->data);
}
