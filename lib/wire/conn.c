#include "wire/conn.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"
#include "wire/conn_state.h"

/* A call reads about this much, so that one fast peer cannot keep a loop to
 * itself. */
#define READ_BUDGET (2u << 20)
#define WRITE_RECORDS 16
#define SPARE_MIN (64u << 10)
#define SPARES 4

/* ---- sending ---------------------------------------------------------- */

/* Large buffers are kept for the next record: fresh pages cost more than the
 * copy into them. */
static struct out *out_new(struct conn *c, size_t room)
{
	struct out *o = c->spare;

	if (o && room >= SPARE_MIN && o->room_size >= room) {
		c->spare = o->next;
		c->nspare--;
	} else {
		o = malloc(sizeof *o + room);
		if (!o)
			abort();        /* the callers bound what they queue */
		o->room_size = room;
	}
	o->next = NULL;
	o->sent = 0;
	o->raw = false;
	return o;
}

static void out_free(struct conn *c, struct out *o)
{
	if (o->room_size < SPARE_MIN || c->nspare >= SPARES) {
		free(o);
		return;
	}
	o->next = c->spare;
	c->spare = o;
	c->nspare++;
}

static void out_push(struct conn *c, struct out *o)
{
	o->next = NULL;
	*c->out_last = o;
	c->out_last = &o->next;
	c->queued += o->total;
}

/* Raw handshake bytes travel in the same queue, as a head without payload. */
void conn_queue_raw(struct conn *c, const void *p, size_t n)
{
	struct out *o = out_new(c, n);

	memcpy(o->room, p, n);
	o->payload = o->room;
	o->len = n;
	o->raw = true;
	o->total = n;
	out_push(c, o);
}

static void seal(struct conn *c, struct out *o, const struct record *r)
{
	struct record head = *r;

	if (c->server)
		head.flags |= RECORD_TO_CLIENT;
	record_encode(&head, o->head);
	/* Only a session at the end of its counters cannot seal: it is closed
	 * before, and what is queued then never leaves. */
	c->spent |= !session_seal_header(&c->session, o->head, o->head + RECORD_HEADER);
	if (head.len) {
		uint8_t *room = session_is_sealed(&c->session) ? o->room : NULL;

		c->spent |= !session_seal_payload(&c->session, o->payload, head.len, room, o->tag);
		if (room)
			o->payload = room;
	}
	session_next_tx(&c->session);
	o->len = head.len;
	o->total = RECORD_HEAD + (head.len ? head.len + RECORD_TAG : 0);
	out_push(c, o);
}

void conn_send(struct conn *c, const struct record *r, const void *payload)
{
	struct out *o = out_new(c, r->len);

	if (r->len)
		memcpy(o->room, payload, r->len);
	o->payload = o->room;
	seal(c, o, r);
}

void conn_lend(struct conn *c, const struct record *r, const void *payload)
{
	struct out *o = out_new(c, session_is_sealed(&c->session) ? r->len : 0);

	o->payload = payload;
	seal(c, o, r);
}

uint8_t *conn_reserve(struct conn *c, uint32_t len)
{
	if (c->reserved)
		out_free(c, c->reserved);
	c->reserved = out_new(c, len);
	c->reserved->payload = c->reserved->room;
	return c->reserved->room;
}

void conn_commit(struct conn *c, const struct record *r)
{
	struct out *o = c->reserved;

	c->reserved = NULL;
	seal(c, o, r);
}

/* The up to three pieces of o that are still to be written. */
static int out_pieces(const struct out *o, struct iovec *iov)
{
	const struct { const uint8_t *p; size_t n; } piece[3] = {
		{ o->head, o->raw ? 0 : RECORD_HEAD },
		{ o->payload, o->len },
		{ o->tag, !o->raw && o->len ? RECORD_TAG : 0 },
	};
	size_t skip = o->sent;
	int n = 0;

	for (int i = 0; i < 3; i++) {
		if (skip >= piece[i].n) {
			skip -= piece[i].n;
			continue;
		}
		iov[n].iov_base = (void *)(uintptr_t)(piece[i].p + skip);
		iov[n++].iov_len = piece[i].n - skip;
		skip = 0;
	}
	return n;
}

static void out_written(struct conn *c, size_t n)
{
	c->bytes_out += n;
	c->queued -= n;
	while (c->out && n >= c->out->total - c->out->sent) {
		struct out *o = c->out;

		n -= o->total - o->sent;
		c->out = o->next;
		if (!c->out)
			c->out_last = &c->out;
		out_free(c, o);
	}
	if (c->out)
		c->out->sent += n;
}

enum err_code conn_write(struct conn *c, struct err *e)
{
	if (c->spent)
		return err_set(e, ERR_CLOSED, "session with %s has used up its counters", c->peer);
	while (c->out) {
		struct iovec iov[3 * WRITE_RECORDS];
		struct msghdr mh = { .msg_iov = iov };
		struct out *o = c->out;
		ssize_t n;

		for (int i = 0; o && i < WRITE_RECORDS; i++, o = o->next)
			mh.msg_iovlen += (size_t)out_pieces(o, iov + mh.msg_iovlen);
		n = sendmsg(c->fd, &mh, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return ERR_OK;
		c->silent |= n < 0 && net_is_line_error(errno);
		if (n < 0)
			return err_sys(e, ERR_CLOSED, "write to %s", c->peer);
		out_written(c, (size_t)n);
	}
	return ERR_OK;
}

/* ---- receiving -------------------------------------------------------- */

static uint8_t *staging(struct conn *c, size_t n)
{
	if (n > c->stage_cap) {
		free(c->stage);
		c->stage = mem_try_array(1, n);
		c->stage_cap = c->stage ? n : 0;
	}
	return c->stage;
}

enum err_code conn_unplace(struct conn *c, struct err *e)
{
	uint8_t *stage;

	if (!c->in_payload || !c->cur.len || c->dst == c->stage)
		return ERR_OK;
	stage = staging(c, c->cur.len);
	if (!stage)
		return err_set(e, ERR_NOMEM, "no memory for a record of %u bytes", c->cur.len);
	memcpy(stage, c->dst, c->got);
	c->dst = stage;
	return ERR_OK;
}

/* A verified header: check what may not pass, and choose the payload's place. */
static enum err_code begin_record(struct conn *c, struct err *e)
{
	const uint8_t *head = c->look + c->look_at;
	enum err_code rc;

	if (!session_open_header(&c->session, head, head + RECORD_HEADER))
		return err_set(e, ERR_AUTH, "record header with a bad tag from %s", c->peer);
	if (c->state == CONN_WAIT_FIRST) {
		c->state = CONN_LIVE;
		c->handler->live(c->ctx, NULL);
	}
	rc = record_decode(head, &c->cur, e);
	if (rc)
		return rc;
	if (!(c->cur.flags & RECORD_TO_CLIENT) != c->server)
		return err_set(e, ERR_PROTO, "record in the wrong direction from %s", c->peer);
	c->look_at += RECORD_HEAD;
	c->got = c->tag_got = 0;
	c->in_payload = true;
	c->dst = NULL;
	if (c->cur.len) {
		if (c->handler->place)
			c->dst = c->handler->place(c->ctx, &c->cur);
		if (!c->dst)
			c->dst = staging(c, c->cur.len);
		if (!c->dst)
			return err_set(e, ERR_NOMEM, "no memory for a record of %u bytes", c->cur.len);
	}
	return ERR_OK;
}

static void take_from_look(struct conn *c, uint8_t *dst, size_t want, size_t *got)
{
	size_t n = c->look_len - c->look_at;

	if (n > want - *got)
		n = want - *got;
	memcpy(dst + *got, c->look + c->look_at, n);
	c->look_at += n;
	*got += n;
}

/* One read into payload, tag and look-ahead at once.  0 at end of file, -1
 * with errno. */
static ssize_t fill(struct conn *c)
{
	struct iovec iov[3];
	struct msghdr mh = { .msg_iov = iov };
	size_t want_payload = c->in_payload ? c->cur.len - c->got : 0;
	size_t want_tag = c->in_payload && c->cur.len ? RECORD_TAG - c->tag_got : 0;
	ssize_t n, left;

	if (c->look_at == c->look_len)
		c->look_at = c->look_len = 0;
	if (c->look_at) {
		memmove(c->look, c->look + c->look_at, c->look_len - c->look_at);
		c->look_len -= c->look_at;
		c->look_at = 0;
	}
	if (want_payload)
		iov[mh.msg_iovlen++] = (struct iovec){ c->dst + c->got, want_payload };
	if (want_tag)
		iov[mh.msg_iovlen++] = (struct iovec){ c->tag + c->tag_got, want_tag };
	iov[mh.msg_iovlen++] = (struct iovec){ c->look + c->look_len, sizeof c->look - c->look_len };
	do
		n = recvmsg(c->fd, &mh, 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n;
	c->bytes_in += (uint64_t)n;
	left = n;
	if (want_payload) {
		size_t k = (size_t)left < want_payload ? (size_t)left : want_payload;

		c->got += k;
		left -= (ssize_t)k;
	}
	if (want_tag) {
		size_t k = (size_t)left < want_tag ? (size_t)left : want_tag;

		c->tag_got += k;
		left -= (ssize_t)k;
	}
	c->look_len += (size_t)left;
	return n;
}

static bool payload_whole(struct conn *c)
{
	if (!c->cur.len)
		return true;
	take_from_look(c, c->dst, c->cur.len, &c->got);
	if (c->got == c->cur.len)
		take_from_look(c, c->tag, RECORD_TAG, &c->tag_got);
	return c->tag_got == RECORD_TAG;
}

static enum err_code deliver(struct conn *c, struct err *e)
{
	enum conn_verdict v;

	c->in_payload = false;
	if (c->cur.type == REC_BYE) {
		c->bye = true;
		return err_set(e, ERR_CLOSED, "%s said goodbye", c->peer);
	}
	v = c->handler->record(c->ctx, &c->cur, c->dst);
	c->held = v == CONN_HOLD;
	if (v == CONN_DROP)
		return err_set(e, ERR_PROTO, "connection of %s dropped", c->peer);
	return ERR_OK;
}

static enum err_code finish_record(struct conn *c, struct err *e)
{
	if (c->cur.len && !session_open_payload(&c->session, c->dst, c->cur.len, c->tag))
		return err_set(e, ERR_AUTH, "record payload with a bad tag from %s", c->peer);
	session_next_rx(&c->session);
	if (session_exhausted(&c->session))
		return err_set(e, ERR_CLOSED, "session with %s has used up its counters", c->peer);
	return deliver(c, e);
}

/* Everything that is complete in memory already; ERR_OK with *more when the
 * socket must be read. */
static enum err_code drain(struct conn *c, struct err *e)
{
	enum err_code rc;

	while (!c->held) {
		if (c->state < CONN_WAIT_FIRST) {
			size_t before = c->look_at;

			rc = conn_handshake(c, e);
			if (rc || c->look_at == before)
				return rc;
		} else if (c->in_payload) {
			if (!payload_whole(c))
				return ERR_OK;
			rc = finish_record(c, e);
			if (rc)
				return rc;
		} else {
			if (c->look_len - c->look_at < RECORD_HEAD)
				return ERR_OK;
			rc = begin_record(c, e);
			if (rc)
				return rc;
		}
	}
	return ERR_OK;
}

enum err_code conn_read(struct conn *c, struct err *e)
{
	size_t budget = READ_BUDGET;
	enum err_code rc = drain(c, e);

	while (!rc && !c->held) {
		ssize_t n = fill(c);

		/* A server answers a handshake that it does not believe by silence. */
		if (n == 0 && c->state == CONN_WAIT_MSG2)
			return err_set(e, ERR_AUTH, "%s refused the handshake: the cluster's secret (psk), the server's "
			    "public key or this process's key is not the one that it knows", c->peer);
		if (n == 0)
			return err_set(e, ERR_CLOSED, "%s closed the connection", c->peer);
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return ERR_OK;
		c->silent |= n < 0 && net_is_line_error(errno);
		if (n < 0)
			return err_sys(e, ERR_CLOSED, "read from %s", c->peer);
		rc = drain(c, e);
		if ((size_t)n >= budget)
			break;
		budget -= (size_t)n;
	}
	return rc;
}

enum err_code conn_retry(struct conn *c, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (c->held) {
		c->held = false;
		rc = deliver(c, e);
	}
	return rc || c->held ? rc : conn_read(c, e);
}

/* ---- the rest --------------------------------------------------------- */

void conn_free(struct conn *c)
{
	struct out *o;

	if (!c)
		return;
	while ((o = c->out)) {
		c->out = o->next;
		free(o);
	}
	while ((o = c->spare)) {
		c->spare = o->next;
		free(o);
	}
	free(c->reserved);
	free(c->stage);
	close(c->fd);
	conn_forget_keys(c);
	free(c);
}

bool conn_is_live(const struct conn *c)
{
	return c->state == CONN_LIVE;
}

bool conn_is_silent(const struct conn *c)
{
	return c->silent;
}

bool conn_is_held(const struct conn *c)
{
	return c->held;
}

bool conn_said_bye(const struct conn *c)
{
	return c->bye;
}

size_t conn_queued(const struct conn *c)
{
	return c->queued;
}

int conn_fd(const struct conn *c)
{
	return c->fd;
}

enum suite conn_suite(const struct conn *c)
{
	return c->suite;
}

uint64_t conn_bytes_in(const struct conn *c)
{
	return c->bytes_in;
}

uint64_t conn_bytes_out(const struct conn *c)
{
	return c->bytes_out;
}
