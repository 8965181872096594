/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "relay/uplink_state.h"

/* Clocks of workers on their way up. A clock is acknowledged when every server has acknowledged
 * it. The worker sends no other clock before that, so only the last one of each worker is kept. */

/* Bytes of entries in one CLOCKS record; a larger single entry is a record of its own. */
#define CLOCKS_FULL (256u << 10)

/* ---- from other threads ---- */

static struct uplink_clock_state *rank_at(struct uplink *u, uint32_t rank)
{
	if (rank >= u->nranks) {
		u->rank = mem_regrow(u->rank, (size_t)rank + 1, sizeof *u->rank);
		memset(u->rank + u->nranks, 0, (rank + 1 - u->nranks) * sizeof *u->rank);
		u->nranks = (size_t)rank + 1;
	}
	return &u->rank[rank];
}

uint64_t uplink_clock(struct uplink *u, const struct rank_clock *c)
{
	struct uplink_clock_state *s;
	uint64_t token;

	mutex_lock(&u->lock);
	s = rank_at(u, c->rank);
	if (s->last_sent.incarnation != c->incarnation) {
		free((void *)(uintptr_t)s->last_sent.runs);
		*s = (struct uplink_clock_state){ 0 };
	}
	s->last_sent.rank = c->rank;
	s->last_sent.incarnation = c->incarnation;
	s->last_sent.done |= c->done;
	if (c->clocks) {
		uint8_t *runs = mem_alloc(c->len + 1);

		if (c->len)
			memcpy(runs, c->runs, c->len);
		free((void *)(uintptr_t)s->last_sent.runs);
		s->last_sent.clocks = true;
		s->last_sent.step = c->step;
		s->last_sent.examples = c->examples;
		s->last_sent.runs = runs;
		s->last_sent.len = c->len;
	}
	token = s->token = ++u->token;
	mutex_unlock(&u->lock);
	uplink_wake(u);
	return token;
}

uint64_t uplink_acked(struct uplink *u)
{
	uint64_t acked;

	mutex_lock(&u->lock);
	acked = u->acked;
	mutex_unlock(&u->lock);
	return acked;
}

void uplink_forget(struct uplink *u, uint32_t rank)
{
	mutex_lock(&u->lock);
	if (rank < u->nranks) {
		free((void *)(uintptr_t)u->rank[rank].last_sent.runs);
		u->rank[rank] = (struct uplink_clock_state){ 0 };
	}
	mutex_unlock(&u->lock);
	uplink_wake(u);
}

/* ---- the uplink's thread ---- */

static struct heard *heard_at(struct uplink *u, unsigned link)
{
	if (link >= u->nheard) {
		u->heard = mem_regrow(u->heard, (size_t)link + 1, sizeof *u->heard);
		memset(u->heard + u->nheard, 0, (link + 1 - u->nheard) * sizeof *u->heard);
		u->nheard = link + 1;
	}
	return &u->heard[link];
}

/* The state of a link, with room for all ranks. uplink.lock is held. */
static struct heard *heard_with_ranks(struct uplink *u, unsigned link)
{
	struct heard *h = heard_at(u, link);

	mutex_assert_held(&u->lock);
	if (h->n >= u->nranks)
		return h;
	h->sent = mem_regrow(h->sent, u->nranks, sizeof *h->sent);
	h->acked = mem_regrow(h->acked, u->nranks, sizeof *h->acked);
	memset(h->sent + h->n, 0, (u->nranks - h->n) * sizeof *h->sent);
	memset(h->acked + h->n, 0, (u->nranks - h->n) * sizeof *h->acked);
	h->n = u->nranks;
	return h;
}

void uplink_clocks_reset(struct uplink *u, unsigned link)
{
	struct heard *h = heard_at(u, link);

	if (h->n) {
		memset(h->sent, 0, h->n * sizeof *h->sent);
		memset(h->acked, 0, h->n * sizeof *h->acked);
	}
	h->nopen = 0;
}

/* u->acked: the token before the oldest one that some link has not acknowledged. uplink.lock is
 * held. */
static void count_acked(struct uplink *u)
{
	uint64_t acked = u->token;

	mutex_assert_held(&u->lock);
	for (unsigned i = 0; i < client_links(u->client); i++) {
		struct heard *h = heard_with_ranks(u, i);

		for (size_t k = 0; client_is_clock_link(u->client, i) && k < u->nranks; k++)
			if (u->rank[k].token && h->acked[k] < u->rank[k].token &&
			    u->rank[k].token <= acked)
				acked = u->rank[k].token - 1;
	}
	u->acked = acked;
}

/* The clock that is_pushed_alone is asked about. */
struct asked {
	struct uplink *u;
	uint32_t rank;
	uint64_t step;
};

static bool is_pushed_alone(void *ctx, uint16_t table, uint32_t part)
{
	const struct asked *a = ctx;

	return relay_shard_goes_alone(atomic_load(&a->u->server->shard), table, part, a->rank,
	    a->step);
}

/* Copy the clocks that this link has not been sent, and mark them as sent. uplink.lock is held. */
static void collect_unsent_clocks(struct uplink *u, struct heard *h, struct buf *said)
{
	mutex_assert_held(&u->lock);
	for (size_t k = 0; k < u->nranks && said->len < CLOCKS_FULL; k++)
		if (h->sent[k] < u->rank[k].token) {
			sum_body_clocks_put(said, &u->rank[k].last_sent);
			h->sent[k] = u->rank[k].token;
		}
}

static void flush_clocks(struct uplink *u, unsigned link, struct buf *body)
{
	client_send_clocks(u->client, link, u->seq, body);
	buf_clear(body);
}

static void add_clock_entry(struct uplink *u, unsigned link, const struct rank_clock *c,
    struct buf *body)
{
	struct heard *h = &u->heard[link];

	if (!body->len || body->len + sum_body_clocks_bytes(c) > CLOCKS_FULL) {
		if (body->len)
			flush_clocks(u, link, body);
		u->seq++;
	}
	sum_body_clocks_put(body, c);
	h->open = mem_grow(h->open, &h->cap, h->nopen + 1, sizeof *h->open);
	h->open[h->nopen++] = (struct sent_clock){ u->seq, c->rank, h->sent[c->rank] };
}

/* Send the collected clocks, each with the runs that this link must receive. uplink.lock is not
 * held, because is_pushed_alone takes a partition's lock. */
static void send_collected_clocks(struct uplink *u, unsigned link, const struct buf *said)
{
	struct buf claims = BUF_INIT, body = BUF_INIT;
	struct rank_clock c;
	size_t at = 0;
	bool bad;

	while (sum_body_clocks_next(said->data, said->len, &at, &c, &bad)) {
		buf_clear(&claims);
		client_select_announcements(u->client, link, c.runs, c.len, is_pushed_alone,
		    &(struct asked){ u, c.rank, c.step }, &claims);
		c.runs = claims.data;
		c.len = claims.len;
		add_clock_entry(u, link, &c, &body);
	}
	flush_clocks(u, link, &body);
	buf_release(&claims);
	buf_release(&body);
}

/* Send a link at most CLOCKS_FULL bytes of clocks. False: there was nothing to send. */
static bool send_clocks_to_link(struct uplink *u, unsigned link)
{
	struct buf said = BUF_INIT;
	bool some;

	mutex_lock(&u->lock);
	collect_unsent_clocks(u, heard_with_ranks(u, link), &said);
	mutex_unlock(&u->lock);
	some = said.len > 0;
	if (some)
		send_collected_clocks(u, link, &said);
	buf_release(&said);
	return some;
}

/* A push that was announced to the relay above as part of our sums now goes to the servers
 * directly: send that relay all clocks again, with the runs marked `bypasses_relay`. */
static void reannounce_alone(struct uplink *u)
{
	uint64_t alone = relay_shard_alone_count(atomic_load(&u->server->shard));

	if (alone != u->alone && client_is_clock_link(u->client, client_links(u->client) - 1))
		uplink_clocks_reset(u, client_links(u->client) - 1);
	u->alone = alone;
}

void uplink_clocks_send(struct uplink *u)
{
	uint64_t before;

	reannounce_alone(u);
	for (unsigned i = 0; i < client_links(u->client); i++)
		while (client_can_send_clocks(u->client, i) && send_clocks_to_link(u, i))
			;
	mutex_lock(&u->lock);
	before = u->acked;
	count_acked(u);
	u->changed |= u->acked != before;
	mutex_unlock(&u->lock);
}

void uplink_clocks_acknowledge(struct uplink *u, unsigned link, uint64_t seq)
{
	struct heard *h = heard_at(u, link);
	size_t kept = 0;

	for (size_t i = 0; i < h->nopen; i++) {
		struct sent_clock *b = &h->open[i];

		if (b->seq != seq)
			h->open[kept++] = *b;
		else if (h->acked[b->rank] < b->token)
			h->acked[b->rank] = b->token;
	}
	h->nopen = kept;
	mutex_lock(&u->lock);
	count_acked(u);
	mutex_unlock(&u->lock);
}

void uplink_clocks_free(struct uplink *u)
{
	for (size_t i = 0; i < u->nranks; i++)
		free((void *)(uintptr_t)u->rank[i].last_sent.runs);
	free(u->rank);
	for (unsigned i = 0; i < u->nheard; i++) {
		free(u->heard[i].sent);
		free(u->heard[i].acked);
		free(u->heard[i].open);
	}
	free(u->heard);
}
