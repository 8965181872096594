/* SPDX-License-Identifier: ISC */
#include "client/client_state.h"
#include "core/fail.h"

/* CLOCKs and DONEs. A CLOCK carries the announcements of its step's pushes (client_announce), so
 * that no server with a replica of a partition closes the step without them. Each link has two
 * lists of announcements: one for the next CLOCK (announced), and one for the last one (clocked),
 * which may have to be sent again. */

/* ---- announcements ---- */

void client_announce(const struct request *r)
{
	struct client *c = r->client;
	const struct run *run = table_run(r->table, r->part);

	/* The CLOCKs of earlier steps have been acknowledged. */
	if (r->push.mean || r->step == CLIENT_NOW || (c->clock.begun && r->step < c->clock.step))
		return;
	if (r->step != c->clock.announced)
		for (unsigned i = 0; i < c->nlinks; i++)
			buf_clear(&c->link[i]->announced);
	c->clock.announced = r->step;
	if (c->route.state == ROUTE_RELAYED) {
		payload_put_part(&client_relay_link(c)->announced, r->table->id, r->part,
		    r->past_relay);
		return;
	}
	for (unsigned i = 0; run && i < run->nchain; i++)
		if (run->chain[i] < c->nservers)
			payload_put_part(&c->link[run->chain[i]]->announced, r->table->id, r->part,
			    r->past_relay);
	if (run && run->joining < c->nservers)
		payload_put_part(&c->link[run->joining]->announced, r->table->id, r->part,
		    r->past_relay);
}

/* ---- the requests ---- */

/* The CLOCK carries the announcements that this link keeps in `clocked`, so it can be repeated as
 * it was. */
static void send_clock(struct request *r)
{
	struct record head = client_record_head(r->client, REC_CLOCK, r->step);

	head.examples = r->client->clock.examples;
	head.len = (uint32_t)r->link->clocked.len;
	batcher_add(&r->link->batcher, r->link->conn, &head, r->link->clocked.data);
}

static void send_done(struct request *r)
{
	struct record head = client_record_head(r->client, REC_DONE, 0);

	head.seq = DONE_SEQ;
	batcher_add(&r->link->batcher, r->link->conn, &head, NULL);
}

static enum err_code done_answered(struct request *r, const struct answer *a, struct err *e)
{
	(void)a, (void)e;
	r->link->is_done = true;
	return ERR_OK;
}

/* The link may take the next CLOCK then. */
static void release_clock(struct request *r)
{
	r->link->clock = NULL;
}

static void release_done(struct request *r)
{
	r->link->done = NULL;
}

static const struct request_ops clock_ops = { .class = REQUEST_CLOCK,
	.send = send_clock,
	.release = release_clock };
static const struct request_ops done_ops = { .class = REQUEST_DONE,
	.send = send_done,
	.answered = done_answered,
	.release = release_done };

bool client_follows_clock(const struct request *r)
{
	const struct client *c = r->client;

	return !r->push.mean && c->clock.begun && r->step != CLIENT_NOW && r->step > c->clock.step;
}

void client_link_put_clock(struct link *l)
{
	struct request *after = l->open.last;

	while (after && (after->ops->class != REQUEST_PUSH || client_follows_clock(after)))
		after = after->prev;
	l->clock = request_new(l->client, &clock_ops, NULL, 0, l->client->clock.step);
	request_put(l->clock, l, after);
}

/* Put a DONE on the link, after all other records. */
static void put_done(struct link *l)
{
	l->done = request_new(l->client, &done_ops, NULL, 0, CLIENT_NOW);
	request_put(l->done, l, l->open.last);
}

/* The announcements of the last CLOCK are complete: keep them apart from the next one's. */
static void close_announcements(struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];
		struct buf spare = l->clocked;

		buf_clear(&spare);
		l->clocked = l->announced;
		l->announced = spare;
		if (c->clock.announced != c->clock.step)
			buf_clear(&l->clocked);
	}
}

void client_repeat_clocks(struct client *c)
{
	client_assert_owner(c);
	if (c->clock.begun)
		close_announcements(c);
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		/* A server that has just become a replica must get this step's CLOCK again, with
		 * its announcements. */
		if (c->clock.begun && client_link_takes_clocks(l))
			client_link_put_clock(l);
		if (c->clock.done && !l->is_done && client_link_takes_clocks(l))
			put_done(l);
	}
}

/* ---- the worker's calls ---- */

bool client_clocks_answered(struct client *c)
{
	client_assert_owner(c);
	if (c->nopen[REQUEST_CLOCK])
		return false;
	c->clock.confirmed = c->layout.epoch;
	return true;
}

static bool all_dones_answered(struct client *c)
{
	return !c->nopen[REQUEST_DONE];
}

/* For client_wait_until: is every used link UP, with nothing queued? */
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
	client_assert_owner(c);
	/* Each link has at most one CLOCK without an answer: a server that missed one would wait
	 * for it forever. */
	enum err_code rc = client_wait_until(c, client_clocks_answered, step, e);

	if (rc)
		return rc;
	FAIL_POINT("clock_before");
	c->clock.begun = true;
	c->clock.step = step;
	c->clock.examples = examples;
	close_announcements(c);
	for (unsigned i = 0; i < c->nlinks; i++)
		if (client_link_takes_clocks(c->link[i]))
			client_link_put_clock(c->link[i]);
	return ERR_OK;
}

enum err_code client_clock_end(struct client *c, uint64_t step, struct err *e)
{
	enum err_code rc = client_wait_until(c, all_records_written, step, e);

	client_assert_owner(c);
	FAIL_POINT("clock_after");
	return rc;
}

enum err_code client_clock(struct client *c, uint64_t step, uint32_t examples, struct err *e)
{
	enum err_code rc = client_clock_begin(c, step, examples, e);

	client_assert_owner(c);
	return rc ? rc : client_clock_end(c, step, e);
}

enum err_code client_done(struct client *c, struct err *e)
{
	enum err_code rc = client_wait_receipts(c, e);

	client_assert_owner(c);
	if (!rc)
		rc = client_wait_until(c, client_clocks_answered, CLIENT_NOW, e);
	FAIL_POINT("done_before");
	c->clock.done = true;
	for (unsigned i = 0; !rc && i < c->nlinks; i++)
		if (client_link_takes_clocks(c->link[i]))
			put_done(c->link[i]);
	return rc ? rc : client_wait_until(c, all_dones_answered, CLIENT_NOW, e);
}
