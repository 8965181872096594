#include "base/mem.h"
#include "server/uplink_state.h"

/* Clocks of slots on their way up.  A slot's is answered when every server has answered
 * it: its holder sends no other before, so the last is all there is to keep. */

/* Bytes of entries in one record, but for a larger one. */
#define CLOCKS_FULL (256u << 10)

/* ---- from other threads --------------------------------------------------------------- */

static struct slot_said *slot_at(struct uplink *u, uint32_t slot)
{
	if (slot >= u->nslots) {
		u->slot = mem_regrow(u->slot, (size_t)slot + 1, sizeof *u->slot);
		memset(u->slot + u->nslots, 0, (slot + 1 - u->nslots) * sizeof *u->slot);
		u->nslots = (size_t)slot + 1;
	}
	return &u->slot[slot];
}

uint64_t uplink_clock(struct uplink *u, const struct slot_clock *c)
{
	struct slot_said *s;
	uint64_t token;

	pthread_mutex_lock(&u->lock);
	s = slot_at(u, c->slot);
	if (s->said.incarnation != c->incarnation) {
		free((void *)(uintptr_t)s->said.runs);
		*s = (struct slot_said){ 0 };
	}
	s->said.slot = c->slot;
	s->said.incarnation = c->incarnation;
	s->said.done |= c->done;
	if (c->clocks) {
		uint8_t *runs = mem_alloc(c->len + 1);

		if (c->len)
			memcpy(runs, c->runs, c->len);
		free((void *)(uintptr_t)s->said.runs);
		s->said.clocks = true;
		s->said.step = c->step;
		s->said.examples = c->examples;
		s->said.runs = runs;
		s->said.len = c->len;
	}
	token = s->token = ++u->token;
	pthread_mutex_unlock(&u->lock);
	uplink_ring(u);
	return token;
}

uint64_t uplink_acked(struct uplink *u)
{
	uint64_t acked;

	pthread_mutex_lock(&u->lock);
	acked = u->acked;
	pthread_mutex_unlock(&u->lock);
	return acked;
}

void uplink_forget(struct uplink *u, uint32_t slot)
{
	pthread_mutex_lock(&u->lock);
	if (slot < u->nslots) {
		free((void *)(uintptr_t)u->slot[slot].said.runs);
		u->slot[slot] = (struct slot_said){ 0 };
	}
	pthread_mutex_unlock(&u->lock);
	uplink_ring(u);
}

/* ---- the thread's ------------------------------------------------------------------------ */

static struct heard *heard_at(struct uplink *u, unsigned link)
{
	if (link >= u->nheard) {
		u->heard = mem_regrow(u->heard, (size_t)link + 1, sizeof *u->heard);
		memset(u->heard + u->nheard, 0, (link + 1 - u->nheard) * sizeof *u->heard);
		u->nheard = link + 1;
	}
	return &u->heard[link];
}

/* By slot; the lock is held. */
static struct heard *sized(struct uplink *u, unsigned link)
{
	struct heard *h = heard_at(u, link);

	if (h->n >= u->nslots)
		return h;
	h->told = mem_regrow(h->told, u->nslots, sizeof *h->told);
	h->acked = mem_regrow(h->acked, u->nslots, sizeof *h->acked);
	memset(h->told + h->n, 0, (u->nslots - h->n) * sizeof *h->told);
	memset(h->acked + h->n, 0, (u->nslots - h->n) * sizeof *h->acked);
	h->n = u->nslots;
	return h;
}

void clocks_anew(struct uplink *u, unsigned link)
{
	struct heard *h = heard_at(u, link);

	if (h->n) {
		memset(h->told, 0, h->n * sizeof *h->told);
		memset(h->acked, 0, h->n * sizeof *h->acked);
	}
	h->nopen = 0;
}

/* Below the oldest that somebody has not answered; the lock is held. */
static void count_acked(struct uplink *u)
{
	uint64_t acked = u->token;

	for (unsigned i = 0; i < client_links(u->client); i++) {
		struct heard *h = sized(u, i);

		for (size_t k = 0; client_hears(u->client, i) && k < u->nslots; k++)
			if (u->slot[k].token && h->acked[k] < u->slot[k].token && u->slot[k].token <= acked)
				acked = u->slot[k].token - 1;
	}
	u->acked = acked;
}

struct asked {
	struct uplink *u;
	uint32_t slot;
	uint64_t step;
};

static bool goes_alone(void *ctx, uint16_t table, uint32_t part)
{
	const struct asked *a = ctx;

	return shard_goes_alone(atomic_load(&a->u->server->shard), table, part, a->slot, a->step);
}

/* What was not told yet, as it was told to us: then told is what is waited for. */
static void collect(struct uplink *u, struct heard *h, struct buf *said)
{
	for (size_t k = 0; k < u->nslots && said->len < CLOCKS_FULL; k++)
		if (h->told[k] < u->slot[k].token) {
			clocks_put(said, &u->slot[k].said);
			h->told[k] = u->slot[k].token;
		}
}

static void flush(struct uplink *u, unsigned link, struct buf *body)
{
	client_send_clocks(u->client, link, u->seq, body);
	buf_clear(body);
}

static void put_entry(struct uplink *u, unsigned link, const struct slot_clock *c, struct buf *body)
{
	struct heard *h = &u->heard[link];

	if (!body->len || body->len + clocks_bytes(c) > CLOCKS_FULL) {
		if (body->len)
			flush(u, link, body);
		u->seq++;
	}
	clocks_put(body, c);
	if (h->nopen == h->cap) {
		h->cap = h->cap ? h->cap * 2 : 16;
		h->open = mem_regrow(h->open, h->cap, sizeof *h->open);
	}
	h->open[h->nopen++] = (struct batch_said){ u->seq, c->slot, h->told[c->slot] };
}

/* With the runs that are for this link.  Partitions are looked at: no lock is held. */
static void send_said(struct uplink *u, unsigned link, const struct buf *said)
{
	struct buf claims = BUF_INIT, body = BUF_INIT;
	struct slot_clock c;
	size_t at = 0;
	bool bad;

	while (clocks_next(said->data, said->len, &at, &c, &bad)) {
		buf_clear(&claims);
		client_claims(u->client, link, c.runs, c.len, goes_alone, &(struct asked){ u, c.slot, c.step }, &claims);
		c.runs = claims.data;
		c.len = claims.len;
		put_entry(u, link, &c, &body);
	}
	flush(u, link, &body);
	buf_release(&claims);
	buf_release(&body);
}

/* False when there was nothing more to say. */
static bool send_some(struct uplink *u, unsigned link)
{
	struct buf said = BUF_INIT;
	bool some;

	pthread_mutex_lock(&u->lock);
	collect(u, sized(u, link), &said);
	pthread_mutex_unlock(&u->lock);
	some = said.len > 0;
	if (some)
		send_said(u, link, &said);
	buf_release(&said);
	return some;
}

/* What is to come alone was told to a relay above as coming from here. */
static void tell_alone(struct uplink *u)
{
	uint64_t alone = shard_alone(atomic_load(&u->server->shard));

	if (alone != u->alone && client_hears(u->client, client_links(u->client) - 1))
		clocks_anew(u, client_links(u->client) - 1);
	u->alone = alone;
}

void clocks_send(struct uplink *u)
{
	uint64_t before;

	tell_alone(u);
	for (unsigned i = 0; i < client_links(u->client); i++)
		while (client_clocks_to(u->client, i) && send_some(u, i))
			;
	pthread_mutex_lock(&u->lock);
	before = u->acked;
	count_acked(u);
	u->changed |= u->acked != before;
	pthread_mutex_unlock(&u->lock);
}

void clocks_answer(struct uplink *u, unsigned link, uint64_t seq)
{
	struct heard *h = heard_at(u, link);
	size_t kept = 0;

	for (size_t i = 0; i < h->nopen; i++) {
		struct batch_said *b = &h->open[i];

		if (b->seq != seq)
			h->open[kept++] = *b;
		else if (h->acked[b->slot] < b->token)
			h->acked[b->slot] = b->token;
	}
	h->nopen = kept;
	pthread_mutex_lock(&u->lock);
	count_acked(u);
	pthread_mutex_unlock(&u->lock);
}

void clocks_free(struct uplink *u)
{
	for (size_t i = 0; i < u->nslots; i++)
		free((void *)(uintptr_t)u->slot[i].said.runs);
	free(u->slot);
	for (unsigned i = 0; i < u->nheard; i++) {
		free(u->heard[i].told);
		free(u->heard[i].acked);
		free(u->heard[i].open);
	}
	free(u->heard);
}
