/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>

#include "client/client_state.h"
#include "codec/codec.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/mem.h"
#include "math/vec.h"
#include "sync/push_status.h"

/* Pushes, and those of dense tables whole: encoding, announcing, sending, receipts; and the CLOCKs
 * that announce them. */

/* ---- encoding ---- */

/* Encoding of dense gradients. With error feedback, the difference between a gradient and its
 * encoding is kept as the table's residual and added to its next gradient (Seide et al. 2014;
 * Karimireddy et al., "Error Feedback Fixes SignSGD", ICML 2019). */

/* Deep gradient compression starts with a quarter of the values, and reaches the configured
 * fraction after this many steps. */
#define WARM_UP       500
#define WARM_FRACTION 0.25

/* The table's array in a list of residuals or velocities, made of zeroes when there is none. */
static float *table_feedback(float ***kept, size_t *n, const struct table *t)
{
	if (t->id >= *n) {
		*kept = mem_regrow(*kept, (size_t)t->id + 1, sizeof **kept);
		while (*n <= t->id)
			(*kept)[(*n)++] = NULL;
	}
	if (!(*kept)[t->id])
		(*kept)[t->id] = mem_array(table_elements(t), sizeof(float));
	return (*kept)[t->id];
}

float *client_encode_residual(struct client *c, const struct table *t, bool velocity)
{
	client_assert_owner(c);
	return velocity ? table_feedback(&c->feedback.velocity, &c->feedback.nvelocities, t)
	                : table_feedback(&c->feedback.residual, &c->feedback.nresiduals, t);
}

static float *part_residual(struct client *c, const struct request *r)
{
	return table_feedback(&c->feedback.residual, &c->feedback.nresiduals, r->table) +
	    table_part_begin(r->table, r->part);
}

/* Momentum correction: accumulate velocities instead of gradients (Lin et al., "Deep Gradient
 * Compression", ICLR 2018, equation 5). Returns the partition's velocity, updated by this
 * gradient. */
static float *update_velocity(struct client *c, const struct request *r)
{
	float *u = table_feedback(&c->feedback.velocity, &c->feedback.nvelocities, r->table) +
	    table_part_begin(r->table, r->part);

	vec_xpay(r->n, r->push.g, c->cfg.coding.momentum, u);
	return u;
}

/* The codec's argument at this step: for codecs with momentum it falls from WARM_FRACTION to
 * the configured one, exponentially. */
static double warm_up_argument(const struct codec *codec, double arg, uint64_t step)
{
	double part = (double)step / WARM_UP;

	if (!codec->momentum || part >= 1 || arg >= WARM_FRACTION)
		return arg;
	return pow(WARM_FRACTION, 1 - part) * pow(arg, part);
}

/* Encode a push into r->push.body. left: the partition's residual, or NULL. keep: store the values
 * that this encoding leaves out as the new residual; else the old one is used up, and zeroed. */
static void encode_body(struct client *c, struct request *r, const struct codec *codec, float *left,
    bool keep)
{
	double arg = warm_up_argument(codec, c->cfg.coding.codec.arg, r->step);
	const float *x = r->push.g;
	float *u = NULL;

	/* Values that are not finite are sent unencoded, so that the server refuses them. So are
	 * lossless pushes that have no residual to add. */
	if ((!codec->lossy && vec_sumsq(r->n, left) <= 0) || !vec_all_finite(r->n, r->push.g))
		return;
	if (codec->momentum)
		x = u = update_velocity(c, r);
	if (left) {
		vec_add(r->n, x, left);
		x = left;
	}
	r->push.codec = codec->id;
	r->push.body = mem_alloc(codec->bound(arg, r->n));
	r->push.len = codec->encode(arg, &c->rng, x, r->n, r->push.body);
	if (keep)
		codec->add(r->push.body, r->push.len, r->n, -1, left);
	else if (left)
		memset(left, 0, r->n * sizeof *left);
	/* Factor masking: zero the velocity of the values that were sent. */
	if (u && left)
		vec_mask(r->n, left, u);
}

/* The codec of the job, or raw values where it could make more than a record holds: a fraction of more than
 * four ninths of a whole table has more bytes than all its values. */
static const struct codec *codec_of_push(const struct request *r)
{
	const struct codec_spec *spec = &r->client->cfg.coding.codec;
	bool fits = spec->codec && spec->codec->bound(spec->arg, r->n) <= RECORD_MAX;

	return fits ? spec->codec : codec_by_id(0);
}

void client_encode_push(struct request *r)
{
	struct client *c = r->client;
	const struct client_coding *coding = &c->cfg.coding;
	const struct codec *codec = codec_of_push(r);
	bool keep = coding->feedback && codec->lossy;
	/* A residual that an earlier coding left is sent with the first push, even by a codec
	 * that keeps none. */
	bool before = r->table->id < c->feedback.nresiduals && c->feedback.residual[r->table->id];
	int64_t begin;

	/* Raw values are sent from the caller's memory, without a copy. */
	if (!codec->lossy && !before)
		return;
	begin = clock_now();
	encode_body(c, r, codec, keep || before ? part_residual(c, r) : NULL, keep);
	client_encode_count_time(c, begin);
}

static void grow_feedback(float **kept, size_t n, size_t table, uint64_t had, uint64_t elements)
{
	if (table >= n || !kept[table])
		return;
	kept[table] = mem_regrow(kept[table], elements, sizeof(float));
	memset(kept[table] + had, 0, (elements - had) * sizeof(float));
}

void client_encode_grow_residual(struct client *c, const struct table *had, const struct table *t)
{
	client_assert_owner(c);
	grow_feedback(c->feedback.residual, c->feedback.nresiduals, t->id, table_elements(had),
	    table_elements(t));
	grow_feedback(c->feedback.velocity, c->feedback.nvelocities, t->id, table_elements(had),
	    table_elements(t));
}

void client_encode_free_residuals(struct client *c)
{
	for (size_t i = 0; i < c->feedback.nresiduals; i++)
		free(c->feedback.residual[i]);
	for (size_t i = 0; i < c->feedback.nvelocities; i++)
		free(c->feedback.velocity[i]);
	free(c->feedback.residual);
	free(c->feedback.velocity);
	c->feedback.residual = c->feedback.velocity = NULL;
	c->feedback.nresiduals = c->feedback.nvelocities = 0;
}

/* ---- memory for gradients ---- */

/* Allocates memory that the client can lend. NULL: the transport needs none, or the system has none. */
static float *lend_gradients(struct client *c, size_t n)
{
	struct err e;

	if (!c->cfg.transport->offers_memory(false) || c->gradients.lent ||
	    lent_new(n * sizeof(float), &c->gradients.lent, &e))
		return NULL;
	return lent_bytes(c->gradients.lent);
}

float *client_gradients(struct client *c, size_t n)
{
	struct gradients *g = &c->gradients;
	float *at = n <= SIZE_MAX / sizeof *at ? lend_gradients(c, n) : NULL;

	client_assert_owner(c);
	if (at)
		return at;
	at = mem_try_array(n, sizeof *at);
	if (!at)
		return NULL;
	g->own = mem_regrow((void *)g->own, g->nown + 1, sizeof *g->own);
	g->own[g->nown++] = at;
	return at;
}

void client_free_gradients(struct client *c)
{
	lent_free(c->gradients.lent);
	for (size_t i = 0; i < c->gradients.nown; i++)
		free(c->gradients.own[i]);
	free((void *)c->gradients.own);
	c->gradients = (struct gradients){ 0 };
}

/* A session that ends without an answer for a push may leave its server with a record of it that is
 * still to be read. The push is then repeated, so that its receipt says that the server has
 * it, and the record is a duplicate, whose values do not count. */
bool client_is_lending(const struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->conn && conn_is_lending(c->link[i]->conn))
			return true;
	return false;
}

/* ---- the request ---- */

static void send_push(struct request *r)
{
	struct link *l = r->link;
	struct record head = client_record_head(l->client, REC_PUSH, r->step);
	const void *payload = r->push.body ? (const void *)r->push.body : r->push.g;

	head.table = r->table->id;
	head.part = r->part;
	head.examples = r->push.examples;
	head.seq = r->push.pulled;
	head.codec = r->push.codec;
	head.len = r->push.body ? (uint32_t)r->push.len : r->push.g ? r->n * 4 : 0;
	if (head.len <= BATCHER_SMALL) {
		batcher_add(&l->batcher, l->conn, &head, payload);
		return;
	}
	batcher_flush(&l->batcher, l->conn);
	conn_lend(l->conn, &head, payload);
}

/* The receipt of a push: when it was too late, its values join the table's next push. */
static enum err_code push_answered(struct request *r, const struct answer *a, struct err *e)
{
	(void)e;
	if (a->receipt->status == PUSH_LATE && r->push.body && r->client->cfg.coding.feedback)
		codec_by_id(r->push.codec)
		    ->add(r->push.body, r->push.len, r->n, 1, part_residual(r->client, r));
	return ERR_OK;
}

static void release_push(struct request *r)
{
	free(r->push.body);
}

const struct request_ops client_push_ops = { .class = REQUEST_PUSH,
	.server = table_head,
	.send = send_push,
	.answered = push_answered,
	.release = release_push };

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

enum err_code client_submit_push(struct request *r, struct err *e)
{
	struct client *c = r->client;
	enum err_code rc;

	r->push.pulled = client_version(c, r->table, r->part);
	if (c->cfg.latency)
		r->push.sent_at = clock_now();
	if (c->cfg.oldest_open)
		atomic_store_explicit(c->cfg.oldest_open, 0, memory_order_relaxed);
	rc = request_submit(r, e);
	if (rc)
		request_free(r);
	else
		client_announce(r);
	return rc;
}

void client_push_note_oldest(struct client *c)
{
	bool exact = c->cfg.paused && c->cfg.paused(c->cfg.ctx);
	uint64_t oldest = c->nopen[REQUEST_PUSH] && !exact ? 0 : CLIENT_NONE_OPEN;

	client_assert_owner(c);
	if (!c->cfg.oldest_open)
		return;
	for (struct request *r = NULL; exact && (r = request_next(c, r));)
		if (r->ops->class == REQUEST_PUSH && r->step < oldest)
			oldest = r->step;
	atomic_store_explicit(c->cfg.oldest_open, oldest, memory_order_relaxed);
}

/* The encoded values of a push, which the client has until its receipt comes. *n: how many floats. */
static const uint8_t *encoded_values(const struct request *r, size_t *len, size_t *n)
{
	size_t head = PAYLOAD_ROWS_HEAD + (size_t)r->n * 8,
	       counts = r->push.has_touching ? (size_t)r->n * PAYLOAD_COUNT_BYTES : 0;

	*n = r->table->sparse ? (size_t)r->n * r->table->cols : r->n;
	if (r->table->sparse) {
		*len = r->push.len - head - counts;
		return r->push.body + head;
	}
	*len = r->push.body ? r->push.len : *n * sizeof(float);
	return r->push.body ? r->push.body : (const uint8_t *)r->push.g;
}

/* The value that is farthest from zero, or the first one that is NaN. */
static float find_worst(const float *x, size_t n)
{
	float worst = 0;

	for (size_t i = 0; i < n && !isnan(worst); i++)
		if (isnan(x[i]) || fabsf(x[i]) > fabsf(worst))
			worst = x[i];
	return worst;
}

/* A receipt says that a push was refused, but not why: checks its values as the server did. Memory that a
 * server lacks for new rows is no fault of the push. */
static void note_refused_push(struct client *c, const struct request *r)
{
	const struct codec *codec = codec_by_id(r->push.codec);
	struct client_bad_pushes *bad = &c->stats.bad;
	size_t len, n;
	const uint8_t *at = r->push.body || r->push.g ? encoded_values(r, &len, &n) : NULL;
	const float *x;

	if (!at || codec->check(at, len, n) != CODEC_BAD_VALUE || bad->n++)
		return;
	x = codec->raw_values ? codec->raw_values(at, n) : NULL;
	bad->step = r->step;
	bad->table = r->table->id;
	bad->worst = x ? find_worst(x, n) : 0;
}

void client_push_take_receipts(struct link *l, const struct record *head, const uint8_t *payload)
{
	struct client *c = l->client;
	struct client_stats *s = &c->stats;
	int64_t now = c->cfg.latency ? clock_now() : 0;
	struct payload_receipt m;

	for (size_t i = 0; payload_get_receipt(payload, head->len, i, &m); i++) {
		struct request *r = request_of_receipt(l, m.table, m.part, m.step);

		if (!r)
			/* A duplicate of a push gets a receipt, too, and the push has ended. */
			continue;
		if (m.status < sizeof s->receipts / sizeof *s->receipts)
			s->receipts[m.status]++;
		if (m.status == PUSH_REFUSED)
			note_refused_push(c, r);
		if (m.status == PUSH_SPLIT) {
			/* The relay could not aggregate it: push it to the primary. */
			r->past_relay = true;
			request_reroute(r);
			continue;
		}
		if (c->cfg.latency)
			hist_add(c->cfg.latency, (uint64_t)(now - r->push.sent_at));
		if (r->push.was_rerouted && c->seen.lost_at) {
			log_info(c->cfg.log,
			    "layout epoch %u: pushes are acknowledged again, %.3f s after a server was lost",
			    c->layout.epoch,
			    (double)(clock_now() - c->seen.lost_at) / NSEC_PER_SEC);
			c->seen.lost_at = 0;
		}
		if (m.status != PUSH_LATE)
			s->staleness_sum += m.staleness;
		else if (m.step + m.staleness > c->seen.open_step)
			c->seen.open_step = m.step + m.staleness;
		request_answer(r, &(struct answer){ head, payload, &m }, NULL);
	}
}

/* ---- CLOCK and DONE ---- */

/* CLOCKs and DONEs. A CLOCK carries the announcements of its step's pushes (client_announce), so that
 * no server with a replica of a partition closes the step without them. Each link has two
 * lists of announcements: those of the next CLOCK (announced), and those of the last one (clocked),
 * which may have to be sent again. */

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

static enum err_code clock_answered(struct request *r, const struct answer *a, struct err *e)
{
	(void)r, (void)a, (void)e;
	return ERR_OK;
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
	.answered = clock_answered,
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

/* Put a DONE on the link, behind everything else. */
static void put_done(struct link *l)
{
	l->done = request_new(l->client, &done_ops, NULL, 0, CLIENT_NOW);
	request_put(l->done, l, l->open.last);
}

/* The announcements of the last CLOCK are complete: keep them apart from those of the next one. */
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

/* ---- the worker's calls: pushes ---- */

enum err_code client_begin_pushes(struct client *c, uint64_t step, struct err *e)
{
	client_assert_owner(c);
	/* A server that gets a push before the CLOCK of the step before holds it until that step is
	 * complete, and reads nothing more from this session, not even the CLOCK. */
	if (!c->nopen[REQUEST_CLOCK] || step == CLIENT_NOW || step <= c->clock.step)
		return ERR_OK;
	return client_wait_until(c, client_clocks_answered, step, e);
}

enum err_code client_push(struct client *c, const struct table *t, uint64_t step, uint32_t examples,
    const float *g, struct err *e)
{
	client_assert_owner(c);
	return client_push_parts(c, t, step, examples, 0, t->nparts, g, e);
}

enum err_code client_push_parts(struct client *c, const struct table *t, uint64_t step,
    uint32_t examples, uint32_t first, uint32_t count, const float *g, struct err *e)
{
	enum err_code rc = client_begin_pushes(c, step, e);

	client_assert_owner(c);
	for (uint32_t i = first; !rc && i < first + count; i++) {
		struct request *r = request_new(c, &client_push_ops, t, i, step);

		r->n = table_part_elements(t, i);
		r->push.examples = examples;
		r->push.g = g + table_part_begin(t, i);
		client_encode_push(r);
		rc = client_submit_push(r, e);
	}
	FAIL_POINT("push_sent");
	return rc;
}

enum err_code client_push_mean(struct client *c, const struct table *t, uint64_t step,
    uint32_t part, uint32_t examples, const float *mean, struct err *e)
{
	struct request *r = request_new(c, &client_push_ops, t, part, step);

	client_assert_owner(c);
	r->n = table_part_elements(t, part);
	r->push.examples = mean ? examples : 0;
	r->push.g = mean ? mean + table_part_begin(t, part) : NULL;
	r->push.mean = true;
	return client_submit_push(r, e);
}

/* ---- the worker's calls: clocks ---- */

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

static bool all_pushes_answered(struct client *c)
{
	return !c->nopen[REQUEST_PUSH] && !client_is_lending(c);
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

enum err_code client_wait_receipts(struct client *c, struct err *e)
{
	client_assert_owner(c);
	return client_wait_until(c, all_pushes_answered, CLIENT_NOW, e);
}
