/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <stdlib.h>

#include "allreduce/ring_state.h"
#include "core/buf.h"

/* The two poll loops of a ring, one for forming it and one for a reduction. Both check every
 * 10 ms for broken sessions, cancellation and the deadline, and log whom they wait for. */

/* Append the names of the members that we wait for, each with the reason. */
static void describe_wait(const struct ring *r, struct buf *out)
{
	char who[NET_TEXT + 32];

	for (uint32_t position = 0; position < r->n; position++) {
		const struct link *l = &r->link[position];

		if (position == r->position)
			continue;
		if (!r->formed && !l->live)
			buf_printf(out, "%s%s: %s", out->len ? "; " : "", ring_member_text(l, who),
			    l->fault.code ? l->fault.msg : "it does not answer");
		else if (!r->formed && !l->in)
			buf_printf(out, "%s%s: it has not connected", out->len ? "; " : "",
			    ring_member_text(l, who));
		else if (r->running && r->now.next_recv < r->now.plan->nrecv &&
		    r->now.plan->recv[r->now.next_recv].peer == position)
			buf_printf(out, "%s%s: it sends nothing", out->len ? "; " : "",
			    ring_member_text(l, who));
		else if (r->running && l->out && conn_queued(l->out))
			buf_printf(out, "%s%s: it takes nothing", out->len ? "; " : "",
			    ring_member_text(l, who));
	}
}

/* The times of one wait, by clock_now: its begin, the last progress, the next message to the
 * log, and the next check; and the bytes transferred at the last check. */
struct wait {
	int64_t begin, moved, say, look;
	uint64_t bytes;
};

static uint64_t total_bytes(const struct ring *r)
{
	uint64_t n = 0;

	for (uint32_t position = 0; position < r->n; position++) {
		n += r->link[position].out ? conn_bytes_out(r->link[position].out) : 0;
		n += r->link[position].in ? conn_bytes_in(r->link[position].in->conn) : 0;
	}
	return n;
}

static enum err_code set_ring_overdue(struct ring *r, struct wait *w, int64_t now, struct err *e)
{
	struct buf who = BUF_INIT;

	describe_wait(r, &who);
	err_set(e, r->formed ? ERR_TIMEOUT : ERR_UNREACH, "waited %lld s in ring epoch %u for %s",
	    (long long)((now - w->moved) / NSEC_PER_SEC), r->epoch,
	    who.len ? (char *)who.data : "nobody");
	buf_release(&who);
	return e ? e->code : ERR_TIMEOUT;
}

/* Every RING_LOOK: serve new sessions, check for silent connections, cancellation and the
 * deadline, and log a long wait. */
static enum err_code check_wait(struct ring *r, struct wait *w, struct err *e)
{
	int64_t now = clock_now();
	uint64_t bytes = total_bytes(r);
	enum err_code rc;

	if (now < w->look)
		return ERR_OK;
	w->look = now + RING_LOOK;
	if (r->cfg.attend && r->cfg.attend(r->cfg.ctx, e))
		return e->code;
	rc = r->formed ? ring_serve_meeting(r, e) : ERR_OK;
	for (uint32_t position = 0; !rc && position < r->n; position++)
		if (r->formed && r->link[position].out) {
			char who[NET_TEXT + 32];

			rc = conn_check(r->link[position].out, now, e);
			if (rc)
				err_prefix(e, "%s", ring_member_text(&r->link[position], who));
		}
	if (rc)
		return rc;
	/* Bytes of greetings are not progress: a member that does not come must not be waited
	 * for longer than the deadline. */
	if (r->formed && bytes != w->bytes)
		w->moved = now;
	w->bytes = bytes;
	if (now - w->moved > r->cfg.deadline)
		return set_ring_overdue(r, w, now, e);
	if (now >= w->say && now - w->moved >= RING_SAY_FIRST) {
		struct buf who = BUF_INIT;

		describe_wait(r, &who);
		log_warn(r->cfg.log, "waiting in ring epoch %u for %lld s: %s", r->epoch,
		    (long long)((now - w->moved) / NSEC_PER_SEC),
		    who.len ? (char *)who.data : "nobody");
		buf_release(&who);
		w->say = now + RING_SAY_AGAIN;
	}
	return ERR_OK;
}

static void watch_fd(struct ring *r, int fd, short events, struct link *l)
{
	r->poll[r->npoll] = (struct pollfd){ fd, events, 0 };
	r->poll_link[r->npoll++] = l;
}

/* A connection has ended. That is an error only if the reduction still needs it. */
static enum err_code check_ended_link(struct ring *r, struct link *l, bool incoming, struct err *e)
{
	char who[NET_TEXT + 32];

	if (r->fault.code)
		return err_pass(e, &r->fault);
	if (incoming ? ring_needs_from(r, l) : ring_needs_to(r, l)) {
		e->code = e->code == ERR_PROTO ? ERR_PROTO : e->code ? e->code : ERR_CLOSED;
		return err_prefix(e, "%s", ring_member_text(l, who));
	}
	return ERR_OK;
}

static enum err_code serve_ring_link(struct ring *r, struct link *l, short revents, bool incoming,
    struct err *e)
{
	struct conn *c = incoming ? l->in->conn : l->out;
	enum err_code rc = ERR_OK;

	if (revents & POLLOUT)
		rc = conn_write(c, e);
	if (!rc && revents & (POLLIN | POLLHUP | POLLERR))
		rc = conn_read(c, e);
	if (!rc)
		return ring_send_ready_slices(r, e);
	rc = check_ended_link(r, l, incoming, e);
	if (rc)
		return rc;
	if (incoming)
		ring_close_in(l);
	else
		ring_close_out(l);
	return ERR_OK;
}

/* Take the records that were held until their turn, as long as the next sender has one. */
static enum err_code take_held_records(struct ring *r, struct err *e)
{
	while (r->now.next_recv < r->now.plan->nrecv) {
		size_t turn = r->now.next_recv;
		struct link *l;
		enum err_code rc;

		l = &r->link[r->now.plan->recv[r->now.next_recv].peer];
		if (!l->in)
			return err_set(e, ERR_CLOSED, "worker-%u has left the ring", l->who.rank);
		if (!conn_is_held(l->in->conn))
			return ERR_OK;
		rc = conn_retry(l->in->conn, e);
		if (rc)
			return check_ended_link(r, l, true, e);
		if (r->now.next_recv == turn)
			return ERR_OK;
	}
	return ERR_OK;
}

/* Poll the sessions of a reduction once, serve them, and take records that were held. */
static enum err_code poll_reduction(struct ring *r, struct err *e)
{
	r->npoll = 0;
	for (uint32_t position = 0; position < r->n; position++) {
		struct link *l = &r->link[position];

		if (l->in && !conn_is_held(l->in->conn))
			watch_fd(r, conn_fd(l->in->conn),
			    (short)(POLLIN | (conn_queued(l->in->conn) ? POLLOUT : 0)), l);
		if (l->out)
			watch_fd(r, conn_fd(l->out),
			    (short)(POLLIN | (conn_queued(l->out) ? POLLOUT : 0)), l);
	}
	watch_fd(r, r->cfg.attend_fd, POLLIN, NULL);
	if (poll(r->poll, r->npoll, (int)(RING_LOOK / NSEC_PER_MSEC)) < 0 && errno != EINTR)
		abort();
	for (size_t i = 0; i < r->npoll; i++) {
		struct link *l = r->poll_link[i];
		enum err_code rc;

		if (!l || !r->poll[i].revents)
			continue;
		rc = serve_ring_link(r, l, r->poll[i].revents,
		    l->in && r->poll[i].fd == conn_fd(l->in->conn), e);
		if (rc)
			return rc;
	}
	return take_held_records(r, e);
}

static struct wait begin_wait(const struct ring *r)
{
	int64_t now = clock_now();

	return (struct wait){ .begin = now,
		.moved = now,
		.say = now + RING_SAY_FIRST,
		.look = now + RING_LOOK,
		.bytes = total_bytes(r) };
}

enum err_code ring_run_reduction(struct ring *r, struct err *e)
{
	struct wait w = begin_wait(r);
	enum err_code rc;

	r->running = true;
	rc = ring_send_ready_slices(r, e);
	if (!rc)
		rc = take_held_records(r, e);
	while (!rc && !ring_is_reduction_done(r)) {
		rc = poll_reduction(r, e);
		if (!rc)
			rc = check_wait(r, &w, e);
	}
	r->running = false;
	return rc;
}

/* ---- forming ---- */

enum err_code ring_wait_for_members(struct ring *r, struct err *e)
{
	struct wait w = begin_wait(r);
	enum err_code rc = ring_serve_meeting(r, e);

	while (!rc && !ring_all_met(r)) {
		r->npoll = 0;
		watch_fd(r, r->listener[0], POLLIN, NULL);
		watch_fd(r, r->listener[1], POLLIN, NULL);
		watch_fd(r, r->cfg.attend_fd, POLLIN, NULL);
		for (uint32_t position = 0; position < r->n; position++) {
			struct link *l = &r->link[position];

			if (l->out)
				watch_fd(r, conn_fd(l->out),
				    (short)(POLLIN | (conn_queued(l->out) ? POLLOUT : 0)), l);
		}
		for (struct inlet *i = r->guests; i && r->npoll < r->most_poll; i = i->next)
			watch_fd(r, conn_fd(i->conn), POLLIN, NULL);
		if (poll(r->poll, r->npoll, (int)(RING_LOOK / NSEC_PER_MSEC)) < 0 && errno != EINTR)
			abort();
		rc = ring_serve_meeting(r, e);
		if (!rc)
			rc = check_wait(r, &w, e);
	}
	return rc;
}
