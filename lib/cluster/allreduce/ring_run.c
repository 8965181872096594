/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "allreduce/ring_state.h"
#include "math/vec.h"

/* One reduction, record by record: each received slice is added to the vector or copied into
 * it, and then the slices that depend on it are sent. */

static const struct ring_op *next_receive(const struct ring *r)
{
	return r->running && r->now.next_recv < r->now.plan->nrecv
	    ? &r->now.plan->recv[r->now.next_recv]
	    : NULL;
}

bool ring_needs_from(const struct ring *r, const struct link *l)
{
	for (size_t i = r->now.plan->nrecv; i-- > r->now.next_recv;)
		if (r->now.plan->recv[i].peer == l->position)
			return true;
	return false;
}

bool ring_needs_to(const struct ring *r, const struct link *l)
{
	if (l->out && conn_queued(l->out))
		return true;
	for (size_t i = r->now.plan->nsend; i-- > r->now.next_send;)
		if (r->now.plan->send[i].peer == l->position)
			return true;
	return false;
}

bool ring_is_reduction_done(const struct ring *r)
{
	if (r->now.next_recv < r->now.plan->nrecv || r->now.next_send < r->now.plan->nsend)
		return false;
	for (uint32_t position = 0; position < r->n; position++)
		if (r->link[position].out && conn_queued(r->link[position].out))
			return false;
	return true;
}

/* ---- sending ---- */

/* Our own values of a slice, multiplied by our examples; returns where they are. One example
 * needs no copy. */
static const float *weighted_own_slice(struct reduction *d, const struct ring_op *op)
{
	if (d->examples == 1)
		return d->in + op->begin;
	if (d->examples)
		vec_copy_scaled(op->count, (float)d->examples, d->in + op->begin,
		    d->out + op->begin);
	else
		memset(d->out + op->begin, 0, op->count * sizeof *d->out);
	return d->out + op->begin;
}

static void send_slice(struct ring *r, const struct ring_op *op)
{
	struct reduction *d = &r->now;
	const float *payload = op->flags & RING_OP_FRESH ? weighted_own_slice(d, op)
	                                                 : d->out + op->begin;
	struct record rec = { .type = op->flags & RING_OP_COPY ? REC_RING_COPY : REC_RING_SUM,
		.epoch = r->epoch,
		.step = d->step,
		.seq = d->n,
		.offset = op->begin * sizeof *d->out,
		.len = op->count * (uint32_t)sizeof *d->out,
		.total = op->need ? d->joined[op->need - 1] : d->total };

	conn_lend(r->link[op->peer].out, &rec, payload);
}

/* Each slice is written before the next is queued, so that a new sum leaves while it is in the
 * cache. */
enum err_code ring_send_ready_slices(struct ring *r, struct err *e)
{
	struct reduction *d = &r->now;

	while (d->next_send < d->plan->nsend) {
		const struct ring_op *op = &d->plan->send[d->next_send];
		struct link *l = &r->link[op->peer];
		enum err_code rc;

		if (op->need > d->next_recv || (l->out && conn_queued(l->out)))
			return ERR_OK;
		if (!l->out)
			return err_set(e, ERR_CLOSED, "worker-%u has left the ring", l->who.rank);
		send_slice(r, op);
		d->next_send++;
		rc = conn_write(l->out, e);
		if (rc) {
			char who[NET_TEXT + 32];

			return err_prefix(e, "%s", ring_member_text(l, who));
		}
	}
	return ERR_OK;
}

/* ---- receiving ---- */

/* Has the record the type, place and length that the operation expects? */
static bool op_fits_record(const struct ring *r, const struct ring_op *op, const struct record *rec)
{
	return rec->type == (op->flags & RING_OP_COPY ? REC_RING_COPY : REC_RING_SUM) &&
	    rec->offset == op->begin * sizeof(float) && rec->len == op->count * sizeof(float) &&
	    rec->seq == r->now.n;
}

/* The operation that this record is for: the next receive, if the step and the sender are
 * right; else NULL. */
static const struct ring_op *op_of_record(const struct inlet *i, const struct record *rec)
{
	const struct ring_op *op = i->met ? next_receive(i->ring) : NULL;

	return op && op->peer == i->position && rec->step == i->ring->now.step ? op : NULL;
}

/* Results are received in place. */
uint8_t *ring_place(void *ctx, const struct record *rec)
{
	struct inlet *i = ctx;
	const struct ring_op *op = op_of_record(i, rec);

	if (!op || !(op->flags & RING_OP_COPY) || rec->epoch != i->ring->epoch ||
	    !op_fits_record(i->ring, op, rec))
		return NULL;
	return (uint8_t *)(i->ring->now.out + op->begin);
}

/* Add a received slice, and our own values if they are not in it yet; after the last one
 * divide by all examples. */
static void add_slice(struct reduction *d, const struct ring_op *op, const float *theirs,
    uint64_t examples)
{
	bool ours = op->flags & RING_OP_FRESH && d->examples;
	float *out = d->out + op->begin, scale = 1;
	uint64_t all = examples +
	    (op->flags & RING_OP_FRESH ? d->examples : d->joined[op->need - 1]);

	if (op->flags & RING_OP_LAST && all)
		scale = (float)(1.0 / (double)all);
	if (ours)
		vec_join(op->count, (float)d->examples, d->in + op->begin, theirs, scale, out);
	else if (op->flags & RING_OP_FRESH)
		vec_copy_scaled(op->count, scale, theirs, out);
	else
		vec_add_scaled(op->count, theirs, scale, out);
	d->joined[d->next_recv] = all;
}

static enum conn_verdict reject_record(struct inlet *i, const struct record *rec, const char *what)
{
	char who[NET_TEXT + 32];

	err_set(&i->ring->fault, ERR_PROTO, "%s sends %s of step %llu with %llu values, %s",
	    ring_member_text(&i->ring->link[i->position], who), record_type_name(rec->type),
	    (unsigned long long)rec->step, (unsigned long long)rec->seq, what);
	return CONN_DROP;
}

enum conn_verdict ring_take_record(struct inlet *i, const struct record *rec,
    const uint8_t *payload)
{
	struct ring *r = i->ring;
	struct reduction *d = &r->now;
	const struct ring_op *op = op_of_record(i, rec);
	char text[96];

	if ((rec->type != REC_RING_SUM && rec->type != REC_RING_COPY) || rec->epoch != r->epoch)
		return reject_record(i, rec, "which is not a record of this ring");
	/* A member may be ahead of us by a hop or by a step: hold its record until its turn. */
	if (!op &&
	    (!r->running || rec->step > d->step ||
	        (rec->step == d->step && ring_needs_from(r, &r->link[i->position]))))
		return CONN_HOLD;
	if (!op || !op_fits_record(r, op, rec)) {
		snprintf(text, sizeof text, "where step %llu with %zu is reduced",
		    (unsigned long long)d->step, d->n);
		return reject_record(i, rec, text);
	}
	if (!(op->flags & RING_OP_COPY)) {
		add_slice(d, op, (const float *)(const void *)payload, rec->total);
	} else {
		if (payload != (const uint8_t *)(d->out + op->begin))
			memcpy(d->out + op->begin, payload, rec->len);
		d->joined[d->next_recv] = rec->total;
	}
	d->next_recv++;
	return ring_send_ready_slices(r, &r->fault) ? CONN_DROP : CONN_TAKEN;
}
