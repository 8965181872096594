#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "client/client_state.h"
#include "client/relayed.h"

/* The way through a relay, and the way back from it.  Whoever takes another way sends
 * again what has no receipt, under the same identity. */

/* A relay that is not there for so long is done without. */
#define RELAY_AWAY (1 * NSEC_PER_SEC)
/* Sums are made into records while less than this waits to be written. */
#define QUEUE_MAX (4u << 20)

bool link_hears(const struct link *l)
{
	return l->live && l->client->relayed == (l == relay_link(l->client));
}

/* ---- which way --------------------------------------------------------------------- */

/* The number of this process's relay; -1: none. */
static int64_t own_relay(const struct client *c, const json_t *view)
{
	const struct client_hooks *h = c->cfg.hooks;

	if (h)
		return json_int(json_array_get(json_object_get(view, "relays"), h->self), "upstream", -1);
	return c->cfg.slot == CLIENT_NO_SLOT ? -1 : json_int(json_object_get(view, "worker"), "relay", -1);
}

enum err_code relay_view(struct client *c, const json_t *view, bool *changed, struct err *e)
{
	int64_t n = own_relay(c, view);
	const json_t *r = n < 0 ? NULL : json_array_get(json_object_get(view, "relays"), (size_t)n);
	uint64_t process = json_flag(r, "live") ? json_u64s(r, "incarnation", 0) : 0;
	struct link *l = relay_link(c);
	uint8_t key[KEY_BYTES] = { 0 };
	bool relayed = process && process != c->missed;

	c->shunned = process && process == c->missed;
	*changed = relayed != c->relayed || (relayed && process != c->relay_process);
	if (!*changed)
		return ERR_OK;
	if (relayed && !key_from_text(json_str(r, "key", ""), key))
		return err_set(e, ERR_PROTO, "the view has no key for relay-%lld", (long long)n);
	link_take(l, false, key);
	c->relayed = relayed;
	c->relay_down = 0;
	c->relay_process = process;
	if (relayed) {
		c->relay = (unsigned)n;
		snprintf(l->id, sizeof l->id, "relay-%lld", (long long)n);
		snprintf(l->tcp, sizeof l->tcp, "%s", json_str(r, "tcp", ""));
		snprintf(l->unix_path, sizeof l->unix_path, "%s", c->cfg.id->run_dir ? json_str(r, "unix", "") : "");
		link_take(l, true, key);
	}
	log_info(c->cfg.log, relayed ? "through %s (%s)" : "without a relay", l->id, l->tcp);
	return ERR_OK;
}

void relay_rehear(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];
		bool hears = link_hears(l);

		l->clock_due = hears && c->clocked;
		l->done_due = hears && c->done && !l->done;
		l->used |= l->clock_due || l->done_due;
		if (l->state == LINK_UP && l->clock_due)
			link_send_clock(l);
		if (l->state == LINK_UP && l->done_due)
			link_send_done(l);
	}
}

/* Until the view says otherwise the relay waits for us: what is said may be lost. */
static void report(struct client *c, const char *why)
{
	if (c->cfg.missed)
		c->cfg.missed(c->cfg.ctx, c->relay, c->layout.epoch, why);
	c->relay_down = clock_now();
}

static void leave(struct client *c)
{
	struct link *l = relay_link(c);
	struct err why = l->fault;
	uint8_t none[KEY_BYTES] = { 0 };

	report(c, why.code ? why.msg : "it does not answer");
	/* What a relay has summed may come the other way in the next epoch only. */
	if (c->cfg.hooks)
		return;
	log_warn(c->cfg.log, "on without %s: %s", l->id, why.code ? why.msg : "it does not answer");
	c->missed = c->relay_process;
	c->shunned = true;
	c->relayed = false;
	link_take(l, false, none);
	doubts_move(c);
	asks_move(c);
	relay_rehear(c);
}

void relay_look(struct client *c, int64_t now)
{
	struct link *l = c->relayed ? relay_link(c) : NULL;

	if (c->shunned && !c->cfg.hooks) {
		if (now - c->relay_down > RELAY_AWAY)
			report(c, "it could not be reached before");
		return;
	}
	if (!l || l->state == LINK_UP || !l->used)
		c->relay_down = 0;
	else if (!c->relay_down)
		c->relay_down = now;
	else if (now - c->relay_down > RELAY_AWAY)
		leave(c);
}

void relay_split(struct link *l, struct doubt *d)
{
	struct doubt alone = *d;
	struct link *head;

	d->settled = true;
	d->body = NULL;
	d->bodies = NULL;
	l->open_doubts--;
	alone.alone = true;
	head = link_of_push(l->client, &alone, NULL);
	/* On no server: it stays in doubt until another layout. */
	doubt_add(head ? head : l->client->link[0], &alone);
}

/* ---- a relay's own ------------------------------------------------------------------- */

bool relay_record(struct link *l, const struct record *r, const uint8_t *payload)
{
	const struct client_hooks *h = l->client->cfg.hooks;

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
			link_drop(c->link[i], &e);
	relay_look(c, now);
}

static struct link *link_of_sum(struct client *c, const struct table *t, uint32_t part)
{
	return link_of_push(c, &(struct doubt){ .table = t, .part = part }, NULL);
}

uint64_t client_session(struct client *c, const struct table *t, uint32_t part)
{
	struct link *l = link_of_sum(c, t, part);

	return l && l->state == LINK_UP && conn_queued(l->conn) < QUEUE_MAX ? l->session : 0;
}

void client_send_sum(struct client *c, const struct client_sum *m)
{
	struct link *l = link_of_sum(c, m->table, m->part);
	struct record r = client_head(c, REC_PUSH_SUM, m->step);
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
			memcpy(to + fromhead, m->body + (at + fromhead - m->nhead), r.len - fromhead);
		if (r.len > BATCHER_SMALL)
			conn_commit(l->conn, &r);
		else
			link_send(l, &r, small);
	}
}

unsigned client_links(const struct client *c)
{
	return c->nlinks;
}

bool client_hears(const struct client *c, unsigned link)
{
	return link_hears(c->link[link]);
}

bool client_clocks_to(const struct client *c, unsigned link)
{
	c->link[link]->used |= client_hears(c, link);
	return client_hears(c, link) && c->link[link]->state == LINK_UP;
}

static bool known(const struct client *c, const struct msg_run *run)
{
	const struct table *t = run->table < c->layout.ntables ? &c->layout.table[run->table] : NULL;

	return t && run->first < t->nparts && run->count <= t->nparts - run->first;
}

static bool has_copy(const struct client *c, unsigned link, const struct msg_run *run, uint32_t part)
{
	const struct run *r = table_run(&c->layout.table[run->table], part);

	return link == c->nservers || (r && (run_place(r, link) >= 0 || r->joining == link));
}

void client_claims(const struct client *c, unsigned link, const uint8_t *runs, size_t len, client_alone *alone, void *ctx,
    struct buf *out)
{
	struct msg_run run;

	for (size_t i = 0; msg_get_run(runs, len, i, &run); i++)
		for (uint32_t k = 0; known(c, &run) && k < run.count; k++)
			if (has_copy(c, link, &run, run.first + k))
				msg_put_part(out, run.table, run.first + k,
				    run.alone || (link == c->nservers && alone(ctx, run.table, run.first + k)));
}

void client_send_clocks(struct client *c, unsigned link, uint64_t seq, const struct buf *body)
{
	struct record r = client_head(c, REC_CLOCKS, 0);

	r.seq = seq;
	r.len = (uint32_t)body->len;
	link_send(c->link[link], &r, body->data);
}
