/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "client/client_state.h"
#include "core/endian.h"
#include "core/fail.h"
#include "core/mem.h"
#include "sync/receipt.h"

/* ---- sending ---- */

void client_link_send_push(struct link *l, const struct inflight_push *d)
{
	struct record r = client_record_head(l->client, REC_PUSH, d->step);

	r.table = d->table->id;
	r.part = d->part;
	r.examples = d->examples;
	r.seq = d->pulled;
	r.codec = d->codec;
	if (d->table->sparse) {
		client_rows_send_push(l, d, &r);
		return;
	}
	r.len = d->body ? (uint32_t)d->len : d->g ? d->n * 4 : 0;
	if (r.len <= BATCHER_SMALL) {
		client_link_send(l, &r, d->body ? (const void *)d->body : d->g);
		return;
	}
	batcher_flush(&l->batcher, l->conn);
	conn_lend(l->conn, &r, d->body ? (const void *)d->body : d->g);
}

void client_link_send_clock(struct link *l)
{
	struct record r = client_record_head(l->client, REC_CLOCK, l->client->clock_step);

	r.examples = l->client->clock_examples;
	if (l->client->announced_step == l->client->clock_step)
		r.len = (uint32_t)l->claims.len;
	client_link_send(l, &r, l->claims.data);
}

void client_link_send_done(struct link *l)
{
	struct record r = client_record_head(l->client, REC_DONE, 0);

	r.seq = DONE_SEQ;
	client_link_send(l, &r, NULL);
}

/* ---- in-flight pushes ---- */

void client_push_release(struct client *c, struct inflight_push *d)
{
	if (d->bodies)
		client_bodies_drop(c, d->bodies);
	else
		free(d->body);
	d->body = NULL;
	d->bodies = NULL;
}

/* Release every push of a link, settled or not. */
static void clear_inflight_pushes(struct link *l)
{
	/* A settled push that was sent again after a change of layout may still wait to be
	 * written: let the connection copy the bodies that it borrowed. */
	if (l->conn && l->ninflight)
		conn_keep_lent(l->conn);
	for (size_t i = 0; i < l->ninflight; i++)
		client_push_release(l->client, &l->inflight[i]);
	l->ninflight = l->first_inflight = l->open_inflight = 0;
}

/* Announce a push: every server with a copy of the partition learns by the next CLOCK that the
 * push comes, so that none takes the step for complete without it. Announcements of an earlier
 * step are dropped: their CLOCK has been acknowledged (client_push_begin). */
static void announce_push(struct client *c, const struct inflight_push *d)
{
	const struct run *run = table_run(d->table, d->part);

	if (d->mean)
		return;
	if (d->step != c->announced_step)
		for (unsigned i = 0; i < c->nlinks; i++)
			buf_clear(&c->link[i]->claims);
	c->announced_step = d->step;
	if (c->relayed) {
		msg_put_part(&client_relay_link(c)->claims, d->table->id, d->part, d->alone);
		return;
	}
	for (unsigned i = 0; i < run->nchain; i++)
		if (run->chain[i] < c->nservers)
			msg_put_part(&c->link[run->chain[i]]->claims, d->table->id, d->part,
			    d->alone);
	if (run->joining < c->nservers)
		msg_put_part(&c->link[run->joining]->claims, d->table->id, d->part, d->alone);
}

/* Add a push to the link's list. Settled pushes are released only when all are settled, so
 * that the list stays in the order of sending. */
static void keep_inflight_push(struct link *l, const struct inflight_push *d)
{
	if (!l->open_inflight)
		clear_inflight_pushes(l);
	if (l->ninflight == l->cap_inflight) {
		l->cap_inflight = l->cap_inflight ? l->cap_inflight * 2 : 64;
		l->inflight = mem_regrow(l->inflight, l->cap_inflight, sizeof *l->inflight);
	}
	l->inflight[l->ninflight++] = *d;
	l->open_inflight++;
	if (l->client->cfg.oldest_open)
		atomic_store_explicit(l->client->cfg.oldest_open, 0, memory_order_relaxed);
}

void client_push_note_oldest(struct client *c)
{
	bool exact = c->cfg.paused && c->cfg.paused(c->cfg.ctx);
	uint64_t oldest = CLIENT_NONE_OPEN;

	if (!c->cfg.oldest_open)
		return;
	for (unsigned i = 0; i < c->nlinks; i++) {
		const struct link *l = c->link[i];

		if (l->open_inflight && !exact)
			oldest = 0;
		for (size_t k = 0; exact && l->open_inflight && k < l->ninflight; k++)
			if (!l->inflight[k].settled && l->inflight[k].step < oldest)
				oldest = l->inflight[k].step;
	}
	atomic_store_explicit(c->cfg.oldest_open, oldest, memory_order_relaxed);
}

void client_push_add(struct link *l, const struct inflight_push *d)
{
	keep_inflight_push(l, d);
	if (l->state == LINK_UP)
		client_link_send_push(l, &l->inflight[l->ninflight - 1]);
}

/* Has every server acknowledged the last CLOCK? Then each of them has all announcements of the
 * present layout too, and its epoch is confirmed. */
static bool all_clocks_answered(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->clock_due)
			return false;
	c->confirmed = c->layout.epoch;
	return true;
}

/* Does a push of this step belong after the last CLOCK? It must be sent behind that CLOCK: a
 * server that gets it earlier holds it until the step before is complete, and reads nothing
 * more from this session, not even the CLOCK. */
static bool is_after_clock(const struct client *c, uint64_t step)
{
	return c->clocked && step != CLIENT_NOW && step > c->clock_step;
}

enum err_code client_push_begin(struct client *c, uint64_t step, struct err *e)
{
	/* Finish announcing step N-1 to every server before announcing step N, because both
	 * use the same buffer: a CLOCK of step N-1 that had to be sent again would announce
	 * nothing. */
	return is_after_clock(c, step) ? client_wait_until(c, all_clocks_answered, step, e)
	                               : ERR_OK;
}

enum err_code client_push_start(struct client *c, struct inflight_push *d, struct err *e)
{
	struct link *l = client_link_of_push(c, d, e);

	if (!l)
		return ERR_NOTREADY;
	d->pulled = *client_version_at(c, d->table, d->part);
	if (c->cfg.latency)
		d->sent_at = clock_now();
	client_push_add(l, d);
	announce_push(c, d);
	return ERR_OK;
}

/* A mean is not announced, so it need not wait for the CLOCK before it. */
static bool is_sent_after_clock(const struct client *c, const struct inflight_push *d)
{
	return !d->mean && is_after_clock(c, d->step);
}

/* Send the link's in-flight pushes again: those before the last CLOCK, or those after it. */
static void resend_pushes(struct link *l, bool ahead)
{
	for (size_t i = 0; i < l->ninflight; i++)
		if (!l->inflight[i].settled &&
		    is_sent_after_clock(l->client, &l->inflight[i]) == ahead)
			client_link_send_push(l, &l->inflight[i]);
}

void client_link_resend(struct link *l)
{
	resend_pushes(l, false);
	if (l->clock_due)
		client_link_send_clock(l);
	resend_pushes(l, true);
}

/* Announce those of n pushes that belong before the last CLOCK, or after it. */
static void announce_pushes(struct client *c, const struct inflight_push *open, size_t n,
    bool ahead)
{
	for (size_t k = 0; k < n; k++)
		if (is_sent_after_clock(c, &open[k]) == ahead)
			announce_push(c, &open[k]);
}

/* Rebuild the queue of every link for the present layout:
 * 1. Collect all in-flight pushes, and clear queues and announcements.
 * 2. Put each push on the link of its present primary.
 * 3. Announce the pushes up to the last CLOCK's step, since step 4 sends that CLOCK again.
 * 4. On each link send those pushes, the CLOCK, and the pushes of the next step.
 * 5. Announce the pushes of the next step, for the next CLOCK.  That discards the announcements
 *    of 3, which have been sent: both use the same buffer. */
void client_push_reroute_all(struct client *c)
{
	struct inflight_push *open = NULL;
	size_t n = 0;

	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		/* Another link may settle these pushes before this connection has written the
		 * bodies that it borrowed. */
		if (l->conn)
			conn_keep_lent(l->conn);
		for (size_t k = 0; k < l->ninflight; k++) {
			if (l->inflight[k].settled) {
				client_push_release(c, &l->inflight[k]);
				continue;
			}
			open = mem_regrow(open, n + 1, sizeof *open);
			open[n] = l->inflight[k];
			open[n].moved |= client_link_of_push(c, &open[n], NULL) != l;
			n++;
		}
		l->ninflight = l->first_inflight = l->open_inflight = 0;
		buf_clear(&l->claims);
	}
	for (size_t k = 0; k < n; k++) {
		struct link *l = client_link_of_push(c, &open[k], NULL);

		/* No server holds the partition: the push stays on link 0 until another
		 * layout. */
		keep_inflight_push(l ? l : c->link[0], &open[k]);
	}
	announce_pushes(c, open, n, false);
	/* A server that just became a replica must get this step's CLOCK again, with its
	 * announcements. A link that CLOCKs no longer go to must not send one: it would
	 * announce nothing. */
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		l->clock_due = c->clocked && client_link_takes_clocks(l);
		l->used |= l->clock_due;
		if (l->state == LINK_UP)
			client_link_resend(l);
	}
	announce_pushes(c, open, n, true);
	free(open);
}

void client_link_free_pushes(struct link *l)
{
	clear_inflight_pushes(l);
	free(l->inflight);
	l->inflight = NULL;
	l->cap_inflight = 0;
}

struct inflight_push *client_push_find(struct link *l, uint16_t table, uint32_t part, uint64_t step)
{
	for (size_t k = 0; k < l->ninflight; k++) {
		size_t i = (l->first_inflight + k) % l->ninflight;
		struct inflight_push *d = &l->inflight[i];

		if (!d->settled && d->table->id == table && d->part == part && d->step == step) {
			l->first_inflight = i + 1 == l->ninflight ? 0 : i + 1;
			return d;
		}
	}
	return NULL;
}

/* Log the first receipt of a push that was moved after a server was lost. */
static void log_recovery(struct client *c)
{
	log_info(c->cfg.log,
	    "epoch %u: pushes are acknowledged again, %.3f s after a server was lost",
	    c->layout.epoch, (double)(clock_now() - c->lost_at) / NSEC_PER_SEC);
	c->lost_at = 0;
}

void client_push_take_receipts(struct link *l, const uint8_t *payload, size_t len)
{
	struct client_stats *s = &l->client->stats;
	struct hist *latency = l->client->cfg.latency;
	int64_t now = latency ? clock_now() : 0;
	struct msg_receipt m;

	for (size_t i = 0; msg_get_receipt(payload, len, i, &m); i++) {
		struct inflight_push *d = client_push_find(l, m.table, m.part, m.step);

		if (!d)
			/* settled before: a push that was sent twice gets two receipts */
			continue;
		if (m.status == PUSH_SPLIT) {
			s->receipts[m.status]++;
			client_relay_split_push(l, d);
			continue;
		}
		d->settled = true;
		l->open_inflight--;
		if (latency)
			hist_add(latency, (uint64_t)(now - d->sent_at));
		if (d->moved && l->client->lost_at)
			log_recovery(l->client);
		if (m.status < sizeof s->receipts / sizeof *s->receipts)
			s->receipts[m.status]++;
		if (m.status != PUSH_LATE)
			s->staleness_sum += m.staleness;
		else if (m.step + m.staleness > l->client->open_step)
			l->client->open_step = m.step + m.staleness;
		if (m.status == PUSH_LATE && d->table->sparse)
			client_rows_restore_residual(l->client, d);
		else if (m.status == PUSH_LATE)
			client_encode_restore_residual(l->client, d);
	}
}

/* ---- pushing ---- */

enum err_code client_push(struct client *c, const struct table *t, uint64_t step, uint32_t examples,
    const float *g, struct err *e)
{
	return client_push_parts(c, t, step, examples, 0, t->nparts, g, e);
}

enum err_code client_push_parts(struct client *c, const struct table *t, uint64_t step,
    uint32_t examples, uint32_t first, uint32_t count, const float *g, struct err *e)
{
	enum err_code rc = client_push_begin(c, step, e);

	for (uint32_t p = first; !rc && p < first + count; p++) {
		struct inflight_push d = { .table = t,
			.part = p,
			.examples = examples,
			.step = step };

		d.n = table_part_elements(t, p);
		d.g = g + table_part_begin(t, p);
		client_encode_push(c, &d);
		rc = client_push_start(c, &d, e);
		if (rc)
			client_push_release(c, &d);
	}
	FAIL_POINT("push_sent");
	return rc;
}

enum err_code client_push_mean(struct client *c, const struct table *t, uint64_t step,
    uint32_t part, const float *mean, struct err *e)
{
	struct inflight_push d = { .table = t,
		.part = part,
		.examples = mean ? 1 : 0,
		.step = step,
		.mean = true };

	d.n = table_part_elements(t, part);
	d.g = mean ? mean + table_part_begin(t, part) : NULL;
	return client_push_start(c, &d, e);
}

/* ---- clocks ---- */

static bool all_records_written(struct client *c)
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
	/* Each link has at most one CLOCK without an answer: a server that missed one would
	 * wait for it forever. */
	enum err_code rc = client_wait_until(c, all_clocks_answered, step, e);

	if (rc)
		return rc;
	FAIL_POINT("clock_before");
	c->clocked = true;
	c->clock_step = step;
	c->clock_examples = examples;
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (!client_link_takes_clocks(l))
			continue;
		l->used = true;
		l->clock_due = true;
		if (l->state == LINK_UP)
			client_link_send_clock(l);
	}
	return ERR_OK;
}

enum err_code client_clock_end(struct client *c, uint64_t step, struct err *e)
{
	enum err_code rc = client_wait_until(c, all_records_written, step, e);

	FAIL_POINT("clock_after");
	return rc;
}

enum err_code client_clock(struct client *c, uint64_t step, uint32_t examples, struct err *e)
{
	enum err_code rc = client_clock_begin(c, step, examples, e);

	return rc ? rc : client_clock_end(c, step, e);
}

static bool all_dones_answered(struct client *c)
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
		rc = client_wait_until(c, all_clocks_answered, CLIENT_NOW, e);
	FAIL_POINT("done_before");
	c->done = true;
	for (unsigned i = 0; !rc && i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (!client_link_takes_clocks(l))
			continue;
		l->used = true;
		l->done_due = true;
		if (l->state == LINK_UP)
			client_link_send_done(l);
	}
	return rc ? rc : client_wait_until(c, all_dones_answered, CLIENT_NOW, e);
}

static bool all_pushes_settled(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->open_inflight)
			return false;
	return true;
}

enum err_code client_settle(struct client *c, struct err *e)
{
	return client_wait_until(c, all_pushes_settled, CLIENT_NOW, e);
}
