/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/endian.h"
#include "wire/conn_state.h"

/* Records through memory that both ends of a Unix socket share (socket/shm.h). A record is its
 * header and payload, without tags, because no other process can write there. The socket remains:
 * one byte on it wakes the other end, and end of file means that the other end has closed it. */

/* Reads of wakes in one call. */
#define HEAR_MOST 16
/* Bytes of the place of a payload in lent memory, which follows the header instead of the
 * payload. */
#define LENT_PLACE 8

void conn_close_descriptors(struct descriptors *d)
{
	for (unsigned i = 0; i < d->n; i++)
		close(d->fd[i]);
	*d = (struct descriptors){ .n = 0 };
}

/* Adds a descriptor, unless it is NO_DESCRIPTOR. */
static void add_descriptor(struct descriptors *d, int fd)
{
	if (fd != NO_DESCRIPTOR)
		d->fd[d->n++] = fd;
}

enum err_code conn_share(struct conn *c, struct err *e)
{
	struct record r = { .type = REC_SHARE };
	int fd;
	enum err_code rc = shm_new(&c->mem.shm, &fd, e);

	if (rc)
		return rc;
	add_descriptor(&c->mem.pass, fd);
	if (c->mem.lent)
		add_descriptor(&c->mem.pass, fcntl(lent_fd(c->mem.lent), F_DUPFD_CLOEXEC, 0));
	conn_send(c, &r, NULL);
	/* After this record the server reads only wakes from the socket. */
	c->mem.shares_out = true;
	return ERR_OK;
}

void conn_publish(struct conn *c, const struct published *p)
{
	c->mem.published = p;
}

void conn_lend_from(struct conn *c, const struct lent *l)
{
	c->mem.lent = l;
}

void conn_borrow(struct conn *c)
{
	c->mem.borrows = true;
}

const struct published_view *conn_view(const struct conn *c)
{
	return c->mem.view;
}

void conn_count_published(struct conn *c, uint64_t sent, uint64_t received)
{
	c->bytes_out += sent;
	c->bytes_in += received;
}

/* Map the memory that the client lends, if it has passed its descriptor. Without it the client
 * copies all payloads into the ring. */
static enum err_code map_loan(struct conn *c, struct record *answer, struct err *e)
{
	struct err no_memory;
	enum err_code rc;

	if (!c->mem.borrows || c->mem.passed.n < 2)
		return ERR_OK;
	rc = lent_map(c->mem.passed.fd[1], &c->mem.loan, &no_memory);
	if (!rc)
		answer->flags |= RECORD_LENT;
	return rc == ERR_PROTO ? err_set(e, rc, "%s: %s", c->peer, no_memory.msg) : ERR_OK;
}

/* Join the memory that a client offers, by the descriptors that came with REC_SHARE, and answer.
 * The answer goes with the descriptor of the published memory; without it the client asks for
 * copies. */
static enum err_code accept_offer(struct conn *c, struct err *e)
{
	struct record r = { .type = REC_SHARE };
	enum err_code rc;

	if (!c->mem.may_share)
		return err_set(e, ERR_PROTO,
		    "%s shares memory, although this server has refused it", c->peer);
	if (!c->mem.passed.n || c->mem.shm)
		return err_set(e, ERR_PROTO, "%s shares memory without sending its descriptor",
		    c->peer);
	rc = shm_join(c->mem.passed.fd[0], &c->mem.shm, e);
	if (!rc)
		rc = map_loan(c, &r, e);
	conn_close_descriptors(&c->mem.passed);
	if (rc)
		return rc;
	if (c->mem.published)
		add_descriptor(&c->mem.pass,
		    fcntl(published_fd(c->mem.published), F_DUPFD_CLOEXEC, 0));
	conn_send(c, &r, NULL);
	c->mem.shares_out = true;
	return ERR_OK;
}

/* The server has answered. Map the memory that it shows; without it the client asks for copies. */
static void take_answer(struct conn *c)
{
	struct err e;

	c->mem.lends = c->mem.lent && c->in.cur.flags & RECORD_LENT;
	if (!c->mem.passed.n)
		return;
	if (published_map(c->mem.passed.fd[0], &c->mem.view, &e))
		c->mem.view = NULL;
	conn_close_descriptors(&c->mem.passed);
}

enum err_code conn_shared(struct conn *c, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (c->server)
		rc = accept_offer(c, e);
	else if (!c->mem.shares_out || c->mem.shares_in)
		rc = err_set(e, ERR_PROTO, "%s shares memory that was not offered", c->peer);
	if (rc)
		return rc;
	if (!c->server)
		take_answer(c);
	c->mem.shares_in = true;
	/* Any further bytes that were read from the socket are wakes. */
	c->in.look_at = c->in.look_len = 0;
	return ERR_OK;
}

void conn_unshare(struct conn *c)
{
	shm_free(c->mem.shm);
	published_unmap(c->mem.view);
	lent_unmap(c->mem.loan);
	conn_close_descriptors(&c->mem.pass);
	conn_close_descriptors(&c->mem.passed);
}

static enum err_code wake_peer(struct conn *c, struct err *e)
{
	/* EAGAIN: the other end has not read earlier wakes, and will be woken by them. */
	if (send(c->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN)
		return ERR_OK;
	return err_sys(e, ERR_CLOSED, "write to %s", c->peer);
}

/* ---- sending ---- */

uint8_t *conn_room_shared(struct conn *c, uint32_t len)
{
	uint8_t *at = c->mem.shares_out && !c->to_write.out
	    ? shm_reserve(c->mem.shm, RECORD_HEADER + len)
	    : NULL;

	return at ? at + RECORD_HEADER : NULL;
}

void conn_commit_shared(struct conn *c, uint8_t *room, const struct record *r)
{
	record_encode(r, room - RECORD_HEADER);
	c->bytes_out += RECORD_HEADER + r->len;
	c->mem.must_wake |= shm_commit(c->mem.shm, RECORD_HEADER + r->len);
}

/* Writes a queued record whose payload is in lent memory, where the other end reads it. False:
 * there is no room. */
static bool put_lent(struct conn *c, const struct out *o, uint64_t offset)
{
	uint8_t *at = shm_reserve(c->mem.shm, RECORD_HEADER + LENT_PLACE);

	if (!at)
		return false;
	memcpy(at, o->head, RECORD_HEADER);
	record_add_flags(at, RECORD_LENT);
	put_le64(at + RECORD_HEADER, offset);
	c->mem.must_wake |= shm_commit(c->mem.shm, RECORD_HEADER + LENT_PLACE);
	c->mem.lent_until = shm_written(c->mem.shm);
	return true;
}

/* Writes a queued record with its payload. False: there is no room. */
static bool put_whole(struct conn *c, const struct out *o)
{
	uint8_t *at = shm_reserve(c->mem.shm, o->total);

	if (!at)
		return false;
	memcpy(at, o->head, RECORD_HEADER);
	if (o->len)
		memcpy(at + RECORD_HEADER, o->payload, o->len);
	c->mem.must_wake |= shm_commit(c->mem.shm, o->total);
	return true;
}

enum err_code conn_write_shared(struct conn *c, struct err *e)
{
	struct out *o;

	for (c->mem.starved = false; (o = c->to_write.out); conn_written(c, o->total)) {
		uint64_t offset;
		bool done = c->mem.lends && o->len &&
		        lent_find(c->mem.lent, o->payload, o->len, &offset)
		    ? put_lent(c, o, offset)
		    : put_whole(c, o);

		c->mem.starved = !done;
		if (!done)
			break;
	}
	if (!c->mem.must_wake)
		return ERR_OK;
	c->mem.must_wake = false;
	return wake_peer(c, e);
}

/* ---- receiving ---- */

/* Read and discard the wakes that have arrived. *end: end of file. */
static enum err_code drain_wakes(struct conn *c, bool *end, struct err *e)
{
	int left = HEAR_MOST;
	ssize_t n;

	/* Stop after HEAR_MOST reads, so that a client that floods the socket holds nobody up. The
	 * socket is still readable then. */
	do
		n = recv(c->fd, c->look, sizeof c->look, MSG_DONTWAIT);
	while ((n == (ssize_t)sizeof c->look && --left) || (n < 0 && errno == EINTR));
	*end = n == 0;
	c->mem.starved = false;
	return n >= 0 || errno == EAGAIN ? ERR_OK : err_sys(e, ERR_CLOSED, "read from %s", c->peer);
}

/* Take the record at `at`. The other end can change the memory at any time, so header, place and
 * payload are copied before they are checked and used. *taken: bytes of the record, wherever its
 * payload was. */
static enum err_code take_shared_record(struct conn *c, const uint8_t *at, size_t there,
    size_t *taken, struct err *e)
{
	uint8_t head[RECORD_HEADER];
	size_t entry = RECORD_HEADER;
	enum err_code rc;
	bool lent;

	memcpy(head, at, sizeof head);
	rc = conn_begin(c, head, e);
	if (rc)
		return rc;
	lent = c->in.cur.flags & RECORD_LENT;
	entry += lent ? LENT_PLACE : c->in.cur.len;
	if (entry > there)
		return err_set(e, ERR_PROTO, "an incomplete record of %u bytes from %s",
		    c->in.cur.len, c->peer);
	if (lent && !lent_copy(c->mem.loan, get_le64(at + RECORD_HEADER), c->in.dst, c->in.cur.len))
		return err_set(e, ERR_PROTO, "%s names a payload that it has not lent", c->peer);
	if (!lent && c->in.cur.len)
		memcpy(c->in.dst, at + RECORD_HEADER, c->in.cur.len);
	c->in.cur.flags &= (uint16_t)~RECORD_LENT;
	*taken = RECORD_HEADER + c->in.cur.len;
	c->bytes_in += *taken;
	c->mem.must_wake |= shm_take(c->mem.shm, entry);
	return conn_deliver(c, e);
}

enum err_code conn_read_shared(struct conn *c, struct err *e)
{
	size_t budget = READ_BUDGET, there, taken = 0;
	bool broken, end = false;
	enum err_code rc = c->held || shm_is_empty(c->mem.shm) ? drain_wakes(c, &end, e) : ERR_OK;

	while (!rc && !c->held && taken < budget) {
		const uint8_t *at = shm_peek(c->mem.shm, &there, &broken);

		budget -= taken;
		taken = 0;
		if (broken)
			rc = err_set(e, ERR_PROTO, "%s has corrupted the shared memory", c->peer);
		else if (at)
			rc = take_shared_record(c, at, there, &taken, e);
		else if (end)
			rc = err_set(e, ERR_CLOSED, "%s closed the connection", c->peer);
		else if (c->mem.watched || shm_doze(c->mem.shm))
			break;
	}
	/* Nothing is left, perhaps because the budget ended with the last record: have the next
	 * record wake us. */
	if (!rc && !c->held && !c->mem.watched && shm_is_empty(c->mem.shm))
		shm_doze(c->mem.shm);
	/* Until our answer REC_SHARE has been written, the client would read a wake as a part of
	 * it. */
	if (rc || !c->mem.must_wake || (c->to_write.out && !c->to_write.out->shared))
		return rc;
	c->mem.must_wake = false;
	return wake_peer(c, e);
}

bool conn_is_lending(const struct conn *c)
{
	return c->mem.lends && !shm_is_read(c->mem.shm, c->mem.lent_until);
}

bool conn_has_offered(const struct conn *c)
{
	return !c->server && c->mem.shares_out && !c->mem.shares_in;
}

void conn_watch(struct conn *c)
{
	c->mem.watched = true;
}
