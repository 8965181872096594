#include "base/mem.h"
#include "server/uplink_state.h"

/* Clocks of slots on their way up.  A slot's is answered when every server has answered
 * it: its holder sends no other before, so the last is all there is to keep. */

/* Of entries in one record. */
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

static void put_slot(struct uplink *u, unsigned link, struct heard *h, size_t k, struct buf *body)
{
	struct slot_clock c = u->slot[k].said;
	struct buf claims = BUF_INIT;

	client_claims(u->client, link, c.runs, c.len, &claims);
	c.runs = claims.data;
	c.len = claims.len;
	clocks_put(body, &c);
	buf_release(&claims);
	if (h->nopen == h->cap) {
		h->cap = h->cap ? h->cap * 2 : 16;
		h->open = mem_regrow(h->open, h->cap, sizeof *h->open);
	}
	h->open[h->nopen++] = (struct batch_said){ u->seq, (uint32_t)k, u->slot[k].token };
	h->told[k] = u->slot[k].token;
}

/* One record; false when there was nothing more to say. */
static bool send_one(struct uplink *u, unsigned link)
{
	struct buf body = BUF_INIT;
	struct heard *h;
	bool some;

	u->seq++;
	pthread_mutex_lock(&u->lock);
	h = sized(u, link);
	for (size_t k = 0; k < u->nslots && body.len < CLOCKS_FULL; k++)
		if (h->told[k] < u->slot[k].token)
			put_slot(u, link, h, k, &body);
	pthread_mutex_unlock(&u->lock);
	some = body.len > 0;
	if (some)
		client_send_clocks(u->client, link, u->seq, &body);
	buf_release(&body);
	return some;
}

void clocks_send(struct uplink *u)
{
	uint64_t before;

	for (unsigned i = 0; i < client_links(u->client); i++)
		while (client_clocks_to(u->client, i) && send_one(u, i))
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
