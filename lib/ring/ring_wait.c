#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "ring/ring_state.h"

/* The wheel: whoever waits turns it, looks around every now and then, and says whom it
 * waits for. */

/* Whom we wait for, and what for. */
static void say_of(const struct ring *r, struct buf *out)
{
	char who[NET_TEXT + 32];

	for (uint32_t rank = 0; rank < r->n; rank++) {
		const struct link *l = &r->link[rank];

		if (rank == r->rank)
			continue;
		if (!r->formed && !l->live)
			buf_printf(out, "%s%s: %s", out->len ? "; " : "", ring_who(l, who), l->fault.code ? l->fault.msg : "it does not answer");
		else if (!r->formed && !l->in)
			buf_printf(out, "%s%s: it has not come", out->len ? "; " : "", ring_who(l, who));
		else if (r->running && r->now.next_recv < r->now.plan->nrecv && r->now.plan->recv[r->now.next_recv].peer == rank)
			buf_printf(out, "%s%s: it sends nothing", out->len ? "; " : "", ring_who(l, who));
		else if (r->running && l->out && conn_queued(l->out))
			buf_printf(out, "%s%s: it takes nothing", out->len ? "; " : "", ring_who(l, who));
	}
}

struct wait {
	int64_t begin, moved, say, look;
	uint64_t bytes;
};

static uint64_t bytes_of(const struct ring *r)
{
	uint64_t n = 0;

	for (uint32_t rank = 0; rank < r->n; rank++) {
		n += r->link[rank].out ? conn_bytes_out(r->link[rank].out) : 0;
		n += r->link[rank].in ? conn_bytes_in(r->link[rank].in->conn) : 0;
	}
	return n;
}

static enum err_code overdue(struct ring *r, struct wait *w, int64_t now, struct err *e)
{
	struct buf who = BUF_INIT;

	say_of(r, &who);
	err_set(e, r->formed ? ERR_TIMEOUT : ERR_UNREACH, "waited %lld s in the ring of epoch %u for %s",
	    (long long)((now - w->moved) / NSEC_PER_SEC), r->epoch, who.len ? (char *)who.data : "nobody");
	buf_release(&who);
	return e ? e->code : ERR_TIMEOUT;
}

/* Every now and then: strangers at the door, lines that went silent, the caller's
 * wish, the deadline, a word of what takes so long. */
static enum err_code look(struct ring *r, struct wait *w, struct err *e)
{
	int64_t now = clock_now();
	uint64_t bytes = bytes_of(r);
	enum err_code rc;

	if (now < w->look)
		return ERR_OK;
	w->look = now + RING_LOOK;
	if (r->cfg.cancelled && r->cfg.cancelled(r->cfg.ctx, e))
		return e->code;
	rc = r->formed ? ring_meet(r, e) : ERR_OK;
	for (uint32_t rank = 0; !rc && rank < r->n; rank++)
		if (r->formed && r->link[rank].out) {
			char who[NET_TEXT + 32];

			rc = conn_check(r->link[rank].out, now, e);
			if (rc)
				err_prefix(e, "%s", ring_who(&r->link[rank], who));
		}
	if (rc)
		return rc;
	/* Greetings alone are no progress: who does not come must not be waited for. */
	if (r->formed && bytes != w->bytes)
		w->moved = now;
	w->bytes = bytes;
	if (now - w->moved > r->cfg.deadline)
		return overdue(r, w, now, e);
	if (now >= w->say && now - w->moved >= RING_SAY_FIRST) {
		struct buf who = BUF_INIT;

		say_of(r, &who);
		log_warn(r->cfg.log, "waiting in the ring of epoch %u for %lld s: %s", r->epoch, (long long)((now - w->moved) / NSEC_PER_SEC),
		    who.len ? (char *)who.data : "nobody");
		buf_release(&who);
		w->say = now + RING_SAY_AGAIN;
	}
	return ERR_OK;
}

static void watch(struct ring *r, int fd, short events, struct link *l)
{
	r->poll[r->npoll] = (struct pollfd){ fd, events, 0 };
	r->poll_link[r->npoll++] = l;
}

/* A line that ended: the reduction may have no need of it any more. */
static enum err_code line_ended(struct ring *r, struct link *l, bool incoming, struct err *e)
{
	char who[NET_TEXT + 32];

	if (r->fault.code)
		return err_set(e, r->fault.code, "%s", r->fault.msg);
	if (incoming ? ring_needs_from(r, l) : ring_needs_to(r, l)) {
		e->code = e->code == ERR_PROTO ? ERR_PROTO : e->code ? e->code : ERR_CLOSED;
		return err_prefix(e, "%s", ring_who(l, who));
	}
	return ERR_OK;
}

static enum err_code serve_link(struct ring *r, struct link *l, short revents, bool incoming, struct err *e)
{
	struct conn *c = incoming ? l->in->conn : l->out;
	enum err_code rc = ERR_OK;

	if (revents & POLLOUT)
		rc = conn_write(c, e);
	if (!rc && revents & (POLLIN | POLLHUP | POLLERR))
		rc = conn_read(c, e);
	if (!rc)
		return ring_pump(r, e);
	rc = line_ended(r, l, incoming, e);
	if (rc)
		return rc;
	if (incoming)
		ring_shut(l);
	else
		ring_hang_up(l);
	return ERR_OK;
}

/* The sender whose turn it is may have been kept waiting with a record. */
static enum err_code take_held(struct ring *r, struct err *e)
{
	while (r->now.next_recv < r->now.plan->nrecv) {
		size_t turn = r->now.next_recv;
		struct link *l;
		enum err_code rc;

		l = &r->link[r->now.plan->recv[r->now.next_recv].peer];
		if (!l->in)
			return err_set(e, ERR_CLOSED, "worker-%u has left the ring", l->who.slot);
		if (!conn_is_held(l->in->conn))
			return ERR_OK;
		rc = conn_retry(l->in->conn, e);
		if (rc)
			return line_ended(r, l, true, e);
		if (r->now.next_recv == turn)
			return ERR_OK;
	}
	return ERR_OK;
}

static enum err_code run_turn(struct ring *r, struct err *e)
{
	r->npoll = 0;
	for (uint32_t rank = 0; rank < r->n; rank++) {
		struct link *l = &r->link[rank];

		if (l->in && !conn_is_held(l->in->conn))
			watch(r, conn_fd(l->in->conn), (short)(POLLIN | (conn_queued(l->in->conn) ? POLLOUT : 0)), l);
		if (l->out)
			watch(r, conn_fd(l->out), (short)(POLLIN | (conn_queued(l->out) ? POLLOUT : 0)), l);
	}
	watch(r, r->cfg.cancel_fd, POLLIN, NULL);
	if (poll(r->poll, r->npoll, (int)(RING_LOOK / NSEC_PER_MSEC)) < 0 && errno != EINTR)
		abort();
	for (size_t i = 0; i < r->npoll; i++) {
		struct link *l = r->poll_link[i];
		enum err_code rc;

		if (!l || !r->poll[i].revents)
			continue;
		rc = serve_link(r, l, r->poll[i].revents, l->in && r->poll[i].fd == conn_fd(l->in->conn), e);
		if (rc)
			return rc;
	}
	return take_held(r, e);
}

static struct wait wait_begin(const struct ring *r)
{
	int64_t now = clock_now();

	return (struct wait){ .begin = now, .moved = now, .say = now + RING_SAY_FIRST, .look = now + RING_LOOK, .bytes = bytes_of(r) };
}

/* By the plan, to the end. */
enum err_code ring_run(struct ring *r, struct err *e)
{
	struct wait w = wait_begin(r);
	enum err_code rc;

	r->running = true;
	rc = ring_pump(r, e);
	if (!rc)
		rc = take_held(r, e);
	while (!rc && !ring_run_done(r)) {
		rc = run_turn(r, e);
		if (!rc)
			rc = look(r, &w, e);
	}
	r->running = false;
	return rc;
}

/* ---- forming -------------------------------------------------------------------------- */

enum err_code ring_meet_all(struct ring *r, struct err *e)
{
	struct wait w = wait_begin(r);
	enum err_code rc = ring_meet(r, e);

	while (!rc && !ring_all_met(r)) {
		r->npoll = 0;
		watch(r, r->listener[0], POLLIN, NULL);
		watch(r, r->listener[1], POLLIN, NULL);
		watch(r, r->cfg.cancel_fd, POLLIN, NULL);
		for (uint32_t rank = 0; rank < r->n; rank++) {
			struct link *l = &r->link[rank];

			if (l->out)
				watch(r, conn_fd(l->out), (short)(POLLIN | (conn_queued(l->out) ? POLLOUT : 0)), l);
		}
		for (struct inlet *i = r->guests; i && r->npoll < r->most_poll; i = i->next)
			watch(r, conn_fd(i->conn), POLLIN, NULL);
		if (poll(r->poll, r->npoll, (int)(RING_LOOK / NSEC_PER_MSEC)) < 0 && errno != EINTR)
			abort();
		rc = ring_meet(r, e);
		if (!rc)
			rc = look(r, &w, e);
	}
	return rc;
}
