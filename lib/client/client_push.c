#include "base/clock.h"
#include "base/endian.h"
#include "base/fail.h"
#include "base/mem.h"
#include "client/client_state.h"
#include "sync/receipt.h"

/* ---- sending ----------------------------------------------------------------------------- */

void link_send_doubt(struct link *l, const struct doubt *d)
{
	struct record r = client_head(l->client, REC_PUSH, d->step);

	r.table = d->table->id;
	r.part = d->part;
	r.examples = d->examples;
	r.seq = d->pulled;
	r.codec = d->codec;
	if (d->table->sparse) {
		rows_send(l, d, &r);
		return;
	}
	r.len = d->body ? (uint32_t)d->len : d->g ? d->n * 4 : 0;
	if (r.len <= BATCHER_SMALL) {
		link_send(l, &r, d->body ? (const void *)d->body : d->g);
		return;
	}
	batcher_flush(&l->batcher, l->conn);
	conn_lend(l->conn, &r, d->body ? (const void *)d->body : d->g);
}

void link_send_clock(struct link *l)
{
	struct record r = client_head(l->client, REC_CLOCK, l->client->clock_step);

	r.examples = l->client->clock_examples;
	if (l->client->claim_step == l->client->clock_step)
		r.len = (uint32_t)l->claims.len;
	link_send(l, &r, l->claims.data);
}

void link_send_done(struct link *l)
{
	struct record r = client_head(l->client, REC_DONE, 0);

	r.seq = DONE_SEQ;
	link_send(l, &r, NULL);
}

/* ---- doubts -------------------------------------------------------------------------------- */

void doubt_release(struct client *c, struct doubt *d)
{
	if (d->bodies)
		bodies_drop(c, d->bodies);
	else
		free(d->body);
	d->body = NULL;
	d->bodies = NULL;
}

static void clear_doubts(struct link *l)
{
	/* What was sent again for another layout may wait to be written though it is settled. */
	if (l->conn && l->ndoubts)
		conn_keep_lent(l->conn);
	for (size_t i = 0; i < l->ndoubts; i++)
		doubt_release(l->client, &l->doubt[i]);
	l->ndoubts = l->first_doubt = l->open_doubts = 0;
}

/* Every server with a copy is told at the CLOCK what comes, so that none takes
 * the step for complete before it has. */
static void claim(struct client *c, const struct doubt *d)
{
	const struct run *run = table_run(d->table, d->part);

	if (d->mean)
		return;
	if (d->step != c->claim_step)
		for (unsigned i = 0; i < c->nlinks; i++)
			buf_clear(&c->link[i]->claims);
	c->claim_step = d->step;
	if (c->relayed) {
		msg_put_part(&relay_link(c)->claims, d->table->id, d->part, d->alone);
		return;
	}
	for (unsigned i = 0; i < run->nchain; i++)
		if (run->chain[i] < c->nservers)
			msg_put_part(&c->link[run->chain[i]]->claims, d->table->id, d->part, d->alone);
	if (run->joining < c->nservers)
		msg_put_part(&c->link[run->joining]->claims, d->table->id, d->part, d->alone);
}

static void keep_doubt(struct link *l, const struct doubt *d)
{
	if (!l->open_doubts)
		clear_doubts(l);
	if (l->ndoubts == l->cap_doubts) {
		l->cap_doubts = l->cap_doubts ? l->cap_doubts * 2 : 64;
		l->doubt = mem_regrow(l->doubt, l->cap_doubts, sizeof *l->doubt);
	}
	l->doubt[l->ndoubts++] = *d;
	l->open_doubts++;
}

void doubt_add(struct link *l, const struct doubt *d)
{
	keep_doubt(l, d);
	if (l->state == LINK_UP)
		link_send_doubt(l, &l->doubt[l->ndoubts - 1]);
}

/* True also tells that every server knows what was pushed by this layout. */
static bool none_due(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->clock_due)
			return false;
	c->confirmed = c->layout.epoch;
	return true;
}

/* Has this step's CLOCK not been said yet?  Its pushes go behind the CLOCK of the step
 * before: a server holds them until that step is complete, and reads no further. */
static bool is_ahead(const struct client *c, uint64_t step)
{
	return c->clocked && step != CLIENT_NOW && step > c->clock_step;
}

enum err_code push_begin(struct client *c, uint64_t step, struct err *e)
{
	/* What is claimed from now on is of this step: who has not heard the CLOCK of the one
	 * before would not hear any more what that claims. */
	return is_ahead(c, step) ? client_turn(c, none_due, step, e) : ERR_OK;
}

enum err_code doubt_new(struct client *c, struct doubt *d, struct err *e)
{
	struct link *l = link_of_push(c, d, e);

	if (!l)
		return ERR_NOTREADY;
	d->pulled = *version_at(c, d->table, d->part);
	if (c->cfg.latency)
		d->sent_at = clock_now();
	doubt_add(l, d);
	claim(c, d);
	return ERR_OK;
}

static bool goes_ahead(const struct client *c, const struct doubt *d)
{
	return !d->mean && is_ahead(c, d->step);
}

static void send_open(struct link *l, bool ahead)
{
	for (size_t i = 0; i < l->ndoubts; i++)
		if (!l->doubt[i].settled && goes_ahead(l->client, &l->doubt[i]) == ahead)
			link_send_doubt(l, &l->doubt[i]);
}

void link_resend(struct link *l)
{
	send_open(l, false);
	if (l->clock_due)
		link_send_clock(l);
	send_open(l, true);
}

static void claim_open(struct client *c, const struct doubt *open, size_t n, bool ahead)
{
	for (size_t k = 0; k < n; k++)
		if (goes_ahead(c, &open[k]) == ahead)
			claim(c, &open[k]);
}

void doubts_move(struct client *c)
{
	struct doubt *open = NULL;
	size_t n = 0;

	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		/* Who else takes them may settle them before they have gone from here. */
		if (l->conn)
			conn_keep_lent(l->conn);
		for (size_t k = 0; k < l->ndoubts; k++) {
			if (l->doubt[k].settled) {
				doubt_release(c, &l->doubt[k]);
				continue;
			}
			open = mem_regrow(open, n + 1, sizeof *open);
			open[n] = l->doubt[k];
			open[n].moved |= link_of_push(c, &open[n], NULL) != l;
			n++;
		}
		l->ndoubts = l->first_doubt = l->open_doubts = 0;
		buf_clear(&l->claims);
	}
	for (size_t k = 0; k < n; k++) {
		struct link *l = link_of_push(c, &open[k], NULL);

		/* On no server: it stays in doubt with the first until another layout. */
		keep_doubt(l ? l : c->link[0], &open[k]);
	}
	claim_open(c, open, n, false);
	/* Copies that are new to a server are so to what it knows of the step.  Who is not to
	 * hear of it any more would hear a CLOCK that claims nothing. */
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		l->clock_due = c->clocked && link_hears(l);
		l->used |= l->clock_due;
		if (l->state == LINK_UP)
			link_resend(l);
	}
	claim_open(c, open, n, true);
	free(open);
}

void link_free_doubts(struct link *l)
{
	clear_doubts(l);
	free(l->doubt);
	l->doubt = NULL;
	l->cap_doubts = 0;
}

/* Receipts come mostly in the order of the pushes. */
struct doubt *doubt_find(struct link *l, uint16_t table, uint32_t part, uint64_t step)
{
	for (size_t k = 0; k < l->ndoubts; k++) {
		size_t i = (l->first_doubt + k) % l->ndoubts;
		struct doubt *d = &l->doubt[i];

		if (!d->settled && d->table->id == table && d->part == part && d->step == step) {
			l->first_doubt = i + 1 == l->ndoubts ? 0 : i + 1;
			return d;
		}
	}
	return NULL;
}

/* The first receipt for what was in doubt when a server was lost. */
static void say_mended(struct client *c)
{
	log_info(c->cfg.log, "epoch %u: pushes are acknowledged again, %.3f s after a server was lost", c->layout.epoch,
	    (double)(clock_now() - c->lost_at) / NSEC_PER_SEC);
	c->lost_at = 0;
}

void doubt_receipts(struct link *l, const uint8_t *payload, size_t len)
{
	struct client_stats *s = &l->client->stats;
	struct hist *latency = l->client->cfg.latency;
	int64_t now = latency ? clock_now() : 0;
	struct msg_receipt m;

	for (size_t i = 0; msg_get_receipt(payload, len, i, &m); i++) {
		struct doubt *d = doubt_find(l, m.table, m.part, m.step);

		if (!d)
			continue;       /* of a session before; its re-sent twin is answered too */
		if (m.status == PUSH_SPLIT) {
			s->receipts[m.status]++;
			relay_split(l, d);
			continue;
		}
		d->settled = true;
		l->open_doubts--;
		if (latency)
			hist_add(latency, (uint64_t)(now - d->sent_at));
		if (d->moved && l->client->lost_at)
			say_mended(l->client);
		if (m.status < sizeof s->receipts / sizeof *s->receipts)
			s->receipts[m.status]++;
		if (m.status != PUSH_LATE)
			s->staleness_sum += m.staleness;
		else if (m.step + m.staleness > l->client->open_step)
			l->client->open_step = m.step + m.staleness;
		if (m.status == PUSH_LATE && d->table->sparse)
			rows_again(l->client, d);
		else if (m.status == PUSH_LATE)
			encode_again(l->client, d);
	}
}

/* ---- pushing -------------------------------------------------------------------------------- */

enum err_code client_push(struct client *c, const struct table *t, uint64_t step, uint32_t examples, const float *g,
    struct err *e)
{
	return client_push_parts(c, t, step, examples, 0, t->nparts, g, e);
}

enum err_code client_push_parts(struct client *c, const struct table *t, uint64_t step, uint32_t examples, uint32_t first,
    uint32_t count, const float *g, struct err *e)
{
	enum err_code rc = push_begin(c, step, e);

	for (uint32_t p = first; !rc && p < first + count; p++) {
		struct doubt d = { .table = t, .part = p, .examples = examples, .step = step };

		d.n = table_part_elements(t, p);
		d.g = g + table_part_begin(t, p);
		encode_push(c, &d);
		rc = doubt_new(c, &d, e);
		if (rc)
			doubt_release(c, &d);
	}
	FAIL_POINT("push_sent");
	return rc;
}

enum err_code client_push_mean(struct client *c, const struct table *t, uint64_t step, uint32_t part, const float *mean,
    struct err *e)
{
	struct doubt d = { .table = t, .part = part, .examples = mean ? 1 : 0, .step = step, .mean = true };

	d.n = table_part_elements(t, part);
	d.g = mean ? mean + table_part_begin(t, part) : NULL;
	return doubt_new(c, &d, e);
}

/* ---- clocks --------------------------------------------------------------------------------- */

static bool all_written(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (l->used && (l->state != LINK_UP || l->batcher.n || conn_queued(l->conn)))
			return false;
	}
	return true;
}

enum err_code client_clock_begin(struct client *c, uint64_t step, uint32_t examples, struct err *e)
{
	/* One CLOCK in doubt a link: a server that missed one would wait for ever. */
	enum err_code rc = client_turn(c, none_due, step, e);

	if (rc)
		return rc;
	FAIL_POINT("clock_before");
	c->clocked = true;
	c->clock_step = step;
	c->clock_examples = examples;
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (!link_hears(l))
			continue;
		l->used = true;
		l->clock_due = true;
		if (l->state == LINK_UP)
			link_send_clock(l);
	}
	return ERR_OK;
}

enum err_code client_clock_end(struct client *c, uint64_t step, struct err *e)
{
	enum err_code rc = client_turn(c, all_written, step, e);

	FAIL_POINT("clock_after");
	return rc;
}

enum err_code client_clock(struct client *c, uint64_t step, uint32_t examples, struct err *e)
{
	enum err_code rc = client_clock_begin(c, step, examples, e);

	return rc ? rc : client_clock_end(c, step, e);
}

static bool all_done(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->done_due)
			return false;
	return true;
}

enum err_code client_done(struct client *c, struct err *e)
{
	enum err_code rc = client_settle(c, e);

	if (!rc)
		rc = client_turn(c, none_due, CLIENT_NOW, e);
	FAIL_POINT("done_before");
	c->done = true;
	for (unsigned i = 0; !rc && i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (!link_hears(l))
			continue;
		l->used = true;
		l->done_due = true;
		if (l->state == LINK_UP)
			link_send_done(l);
	}
	return rc ? rc : client_turn(c, all_done, CLIENT_NOW, e);
}

static bool none_in_doubt(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->open_doubts)
			return false;
	return true;
}

enum err_code client_settle(struct client *c, struct err *e)
{
	return client_turn(c, none_in_doubt, CLIENT_NOW, e);
}
