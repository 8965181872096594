/* SPDX-License-Identifier: ISC */
#include "wire/conn.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "wire/conn_state.h"

#define WRITE_RECORDS 16
/* Encrypt about this many bytes, then write them: they are still in the cache when the system
 * copies them, and meanwhile the other end decrypts the bytes before. */
#define SEAL_BYTES (128u << 10)
#define SPARE_MIN  (64u << 10)
#define SPARES     4
/* How often conn_until asks whether it may end, in ms. */
#define LOOK_EVERY 50

/* ---- receiving ---- */

static struct buffers *buffers_of(struct conn *c)
{
	return c->in.buffers ? c->in.buffers : &c->in.own;
}

static void give_stage_back(struct conn *c)
{
	buffers_give(buffers_of(c), c->in.stage, c->in.stage_cap);
	c->in.stage = NULL;
}

/* A buffer of at least n bytes for the payload of the record that begins. NULL: no memory. */
static uint8_t *take_stage(struct conn *c, size_t n)
{
	give_stage_back(c);
	c->in.stage = buffers_take(buffers_of(c), n, &c->in.stage_cap);
	return c->in.stage;
}

void conn_use_buffers(struct conn *c, struct buffers *b)
{
	c->in.buffers = b;
}

enum err_code conn_unplace(struct conn *c, struct err *e)
{
	uint8_t *stage;

	if (!c->in.in_payload || !c->in.cur.len || c->in.dst == c->in.stage)
		return ERR_OK;
	stage = take_stage(c, c->in.cur.len);
	if (!stage)
		return err_set(e, ERR_NOMEM, "no memory for a record of %u bytes", c->in.cur.len);
	memcpy(stage, c->in.dst, c->in.got);
	c->in.dst = stage;
	return ERR_OK;
}

/* Check the header and the direction of a record, and choose the place of its payload. */
enum err_code conn_begin(struct conn *c, const uint8_t head[static RECORD_HEADER], struct err *e)
{
	enum err_code rc = record_decode(head, &c->in.cur, e);

	if (rc)
		return rc;
	if (!(c->in.cur.flags & RECORD_TO_CLIENT) != c->server)
		return err_set(e, ERR_PROTO, "record in the wrong direction from %s", c->peer);
	c->in.dst = NULL;
	if (c->in.cur.len) {
		if (c->handler->place)
			c->in.dst = c->handler->place(c->ctx, &c->in.cur);
		if (!c->in.dst)
			c->in.dst = take_stage(c, c->in.cur.len);
		if (!c->in.dst)
			return err_set(e, ERR_NOMEM, "no memory for a record of %u bytes",
			    c->in.cur.len);
	}
	return ERR_OK;
}

/* Moves bytes of the look-ahead to dst, until *got is `want` or the look-ahead is used up. */
static void take_from_look(struct conn *c, uint8_t *dst, size_t want, size_t *got)
{
	size_t n = c->in.look_len - c->in.look_at;

	if (n > want - *got)
		n = want - *got;
	memcpy(dst + *got, c->look + c->in.look_at, n);
	c->in.look_at += n;
	*got += n;
}

/* The file descriptors that have arrived with the bytes. */
static struct descriptors get_descriptors(struct msghdr *mh)
{
	struct cmsghdr *m = CMSG_FIRSTHDR(mh);
	struct descriptors d = { .n = 0 };

	if (m && m->cmsg_level == SOL_SOCKET && m->cmsg_type == SCM_RIGHTS)
		while (d.n < PASSED_MOST && m->cmsg_len >= CMSG_LEN((d.n + 1) * sizeof *d.fd))
			d.n++;
	if (d.n)
		memcpy(d.fd, CMSG_DATA(m), d.n * sizeof *d.fd);
	return d;
}

/* Keep the descriptors of one message, which may come before the session shares memory; close
 * others. A client passes none before its msg1 is accepted: one without a key must not make the
 * server keep more descriptors than its connection has. */
static void keep_descriptors(struct conn *c, struct descriptors d)
{
	bool expected = c->server ? c->state != CONN_WAIT_MSG1 && !c->mem.shm : conn_has_offered(c);

	if (c->mem.passed.n || !expected)
		conn_close_descriptors(&d);
	else if (d.n)
		c->mem.passed = d;
}

/* Read once, into payload, tag and look-ahead. Returns the bytes; 0 at end of file; -1 with
 * errno. */
static ssize_t read_socket(struct conn *c)
{
	struct iovec iov[3];
	struct msghdr mh = { .msg_iov = iov };
	union passing room;
	size_t want_payload = c->in.in_payload ? c->in.cur.len - c->in.got : 0;
	size_t want_tag = c->in.in_payload && c->in.cur.len ? RECORD_TAG - c->in.tag_got : 0;
	ssize_t n, left;

	if (c->in.look_at == c->in.look_len)
		c->in.look_at = c->in.look_len = 0;
	if (c->in.look_at) {
		memmove(c->look, c->look + c->in.look_at, c->in.look_len - c->in.look_at);
		c->in.look_len -= c->in.look_at;
		c->in.look_at = 0;
	}
	if (want_payload)
		iov[mh.msg_iovlen++] = (struct iovec){ c->in.dst + c->in.got, want_payload };
	if (want_tag)
		iov[mh.msg_iovlen++] = (struct iovec){ c->in.tag + c->in.tag_got, want_tag };
	iov[mh.msg_iovlen++] = (struct iovec){ c->look + c->in.look_len,
		sizeof c->look - c->in.look_len };
	if (c->local) {
		mh.msg_control = &room;
		/* There is room for PASSED_MOST descriptors; the system closes any others. */
		mh.msg_controllen = CMSG_LEN(PASSED_MOST * sizeof(int));
	}
	do
		n = recvmsg(c->fd, &mh, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n;
	if (mh.msg_controllen && c->local)
		keep_descriptors(c, get_descriptors(&mh));
	c->bytes_in += (uint64_t)n;
	left = n;
	if (want_payload) {
		size_t k = (size_t)left < want_payload ? (size_t)left : want_payload;

		c->in.got += k;
		left -= (ssize_t)k;
	}
	if (want_tag) {
		size_t k = (size_t)left < want_tag ? (size_t)left : want_tag;

		c->in.tag_got += k;
		left -= (ssize_t)k;
	}
	c->in.look_len += (size_t)left;
	return n;
}

enum err_code conn_deliver(struct conn *c, struct err *e)
{
	enum conn_verdict v;

	c->in.in_payload = false;
	if (c->in.cur.type == REC_BYE) {
		c->bye = true;
		return err_set(e, ERR_CLOSED, "%s has ended the session", c->peer);
	}
	if (c->in.cur.type == REC_SHARE)
		return conn_shared(c, e);
	v = c->handler->record(c->ctx, &c->in.cur, c->in.dst);
	c->held = v == CONN_HOLD;
	if (!c->held)
		give_stage_back(c);
	if (v == CONN_DROP)
		return err_set(e, ERR_PROTO, "connection of %s dropped", c->peer);
	return ERR_OK;
}

/* Handle every message and record that is complete in memory. ERR_OK: read the socket for more,
 * unless the conn is held or has begun to share memory. A session that has used up its counters
 * ends here with ERR_CLOSED. */
static enum err_code handle_buffered_input(struct conn *c, struct err *e)
{
	while (!c->held && !c->mem.shares_in) {
		const uint8_t *head = c->look + c->in.look_at;
		enum err_code rc;

		if (c->state < CONN_WAIT_FIRST) {
			size_t before = c->in.look_at;

			rc = conn_handshake(c, e);
			if (rc || c->in.look_at == before)
				return rc;
			continue;
		}
		if (!c->in.in_payload) {
			if (c->in.look_len - c->in.look_at < RECORD_HEAD)
				return ERR_OK;
			/* Verify the header before anything in it is used. At the server the first
			 * good one proves that the client has the keys. */
			if (!session_open_header(&c->session, head, head + RECORD_HEADER))
				return err_set(e, ERR_AUTH, "record header with a bad tag from %s",
				    c->peer);
			if (c->state == CONN_WAIT_FIRST) {
				c->state = CONN_LIVE;
				c->handler->live(c->ctx, NULL);
			}
			rc = conn_begin(c, head, e);
			if (rc)
				return rc;
			c->in.look_at += RECORD_HEAD;
			c->in.got = c->in.tag_got = 0;
			c->in.in_payload = true;
		}
		if (c->in.cur.len) {
			take_from_look(c, c->in.dst, c->in.cur.len, &c->in.got);
			if (c->in.got == c->in.cur.len)
				take_from_look(c, c->in.tag, RECORD_TAG, &c->in.tag_got);
			if (c->in.tag_got < RECORD_TAG)
				return ERR_OK;
			/* Verify the payload, and in a sealed session decrypt it in its place. */
			if (!session_open_payload(&c->session, c->in.dst, c->in.cur.len, c->in.tag))
				return err_set(e, ERR_AUTH, "record payload with a bad tag from %s",
				    c->peer);
		}
		session_next_rx(&c->session);
		if (session_exhausted(&c->session))
			return err_set(e, ERR_CLOSED,
			    "the session with %s has used up its counters", c->peer);
		rc = conn_deliver(c, e);
		if (rc)
			return rc;
	}
	return ERR_OK;
}

enum err_code conn_read(struct conn *c, struct err *e)
{
	size_t budget = READ_BUDGET;
	enum err_code rc = handle_buffered_input(c, e);

	while (!rc && !c->held && !c->mem.shares_in) {
		ssize_t n = read_socket(c);

		/* A server closes without a word if it cannot verify msg1. */
		if (n == 0 && c->state == CONN_WAIT_MSG2)
			return err_set(e, ERR_AUTH,
			    "%s refused the handshake: the cluster's secret (psk), the server's "
			    "public key or this process's key differs from the expected one",
			    c->peer);
		if (n == 0)
			return err_set(e, ERR_CLOSED, "%s closed the connection", c->peer);
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return ERR_OK;
		c->silent |= n < 0 && net_is_line_error(errno);
		if (n < 0)
			return err_sys(e, ERR_CLOSED, "read from %s", c->peer);
		rc = handle_buffered_input(c, e);
		if ((size_t)n >= budget)
			break;
		budget -= (size_t)n;
	}
	return rc || !c->mem.shares_in ? rc : conn_read_shared(c, e);
}

enum err_code conn_retry(struct conn *c, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (c->held) {
		c->held = false;
		rc = conn_deliver(c, e);
	}
	return rc || c->held ? rc : conn_read(c, e);
}

/* ---- sending: a queue of records ---- */

/* Large buffers are kept for later records, because fresh pages cost more than the copy into
 * them. */
static struct out *out_new(struct conn *c, size_t room)
{
	struct out *o = c->to_write.spare;

	if (o && room >= SPARE_MIN && o->room_size >= room) {
		c->to_write.spare = o->next;
		c->to_write.nspare--;
	} else {
		o = malloc(sizeof *o + room);
		if (!o)
			abort(); /* the callers bound what they queue */
		o->room_size = room;
	}
	o->next = NULL;
	o->sent = 0;
	o->raw = o->shared = o->sealed = false;
	return o;
}

/* Frees the record, or keeps its buffer for the next large one. */
static void out_free(struct conn *c, struct out *o)
{
	if (o->room_size < SPARE_MIN || c->to_write.nspare >= SPARES) {
		free(o);
		return;
	}
	o->next = c->to_write.spare;
	c->to_write.spare = o;
	c->to_write.nspare++;
}

/* Compute the tags of o, and encrypt its payload if the suite does. Records must be sealed in the
 * order of the queue, because each takes the next nonce. */
static void seal_record(struct conn *c, struct out *o)
{
	uint8_t *room = c->session.sealed ? o->room : NULL;

	/* Sealing fails only when the counters are used up. conn_write then fails before this
	 * record leaves. */
	c->spent |= !session_seal_header(&c->session, o->head, o->head + RECORD_HEADER);
	if (o->len)
		c->spent |= !session_seal_payload(&c->session, o->payload, o->len, room, o->tag);
	if (o->len && room)
		o->payload = room;
	session_next_tx(&c->session);
	o->sealed = true;
}

/* Append o to the queue. r: its header, or NULL for bytes of the handshake, which go without head
 * and tags. */
static void queue_record(struct conn *c, struct out *o, const struct record *r)
{
	if (r) {
		struct record head = *r;

		if (c->server)
			head.flags |= RECORD_TO_CLIENT;
		record_encode(&head, o->head);
		o->len = head.len;
		o->shared = c->mem.shares_out;
		o->total = RECORD_HEADER + head.len;
		if (!o->shared)
			o->total += RECORD_TAG + (head.len ? RECORD_TAG : 0);
		/* Tags alone are quick. Encryption waits until the record can be written
		 * (seal_next_records). */
		if (!o->shared && !c->session.sealed)
			seal_record(c, o);
	}
	o->next = NULL;
	*c->to_write.out_last = o;
	c->to_write.out_last = &o->next;
	c->to_write.queued += o->total;
}

void conn_queue_raw(struct conn *c, const void *p, size_t n)
{
	struct out *o = out_new(c, n);

	memcpy(o->room, p, n);
	o->payload = o->room;
	o->len = n;
	o->raw = true;
	o->total = n;
	queue_record(c, o, NULL);
}

/* Encrypting must not change a borrowed payload: replace the record at *at by one with room for the
 * encrypted payload. */
static struct out *give_room(struct conn *c, struct out **at)
{
	struct out *o = *at, *own = out_new(c, o->len);

	memcpy(own->head, o->head, sizeof own->head);
	own->payload = o->payload;
	own->len = o->len;
	own->total = o->total;
	own->next = o->next;
	*at = own;
	if (c->to_write.out_last == &o->next)
		c->to_write.out_last = &own->next;
	out_free(c, o);
	return own;
}

void conn_send(struct conn *c, const struct record *r, const void *payload)
{
	struct out *o = out_new(c, r->len);

	if (r->len)
		memcpy(o->room, payload, r->len);
	o->payload = o->room;
	queue_record(c, o, r);
}

void conn_lend(struct conn *c, const struct record *r, const void *payload)
{
	struct out *o = out_new(c, 0);

	o->payload = payload;
	queue_record(c, o, r);
}

uint8_t *conn_reserve(struct conn *c, uint32_t len)
{
	if (c->to_write.reserved)
		out_free(c, c->to_write.reserved);
	c->to_write.reserved = NULL;
	c->mem.room = conn_room_shared(c, len);
	if (c->mem.room)
		return c->mem.room;
	c->to_write.reserved = out_new(c, len);
	c->to_write.reserved->payload = c->to_write.reserved->room;
	return c->to_write.reserved->room;
}

void conn_commit(struct conn *c, const struct record *r)
{
	struct out *o = c->to_write.reserved;
	struct record head = *r;

	if (c->server)
		head.flags |= RECORD_TO_CLIENT;
	c->to_write.reserved = NULL;
	if (o)
		queue_record(c, o, r);
	else
		conn_commit_shared(c, c->mem.room, &head);
}

void conn_keep_lent(struct conn *c)
{
	for (struct out **at = &c->to_write.out; *at; at = &(*at)->next) {
		struct out *o = *at, *own;

		if (!o->len || o->payload == o->room)
			continue;
		own = malloc(sizeof *own + o->len);
		if (!own)
			abort(); /* the callers bound what they queue */
		*own = *o;
		own->room_size = o->len;
		memcpy(own->room, o->payload, o->len);
		own->payload = own->room;
		*at = own;
		if (c->to_write.out_last == &o->next)
			c->to_write.out_last = &own->next;
		free(o);
	}
}

void conn_written(struct conn *c, size_t n)
{
	c->bytes_out += n;
	c->to_write.queued -= n;
	while (c->to_write.out && n >= c->to_write.out->total - c->to_write.out->sent) {
		struct out *o = c->to_write.out;

		n -= o->total - o->sent;
		c->to_write.out = o->next;
		if (!c->to_write.out)
			c->to_write.out_last = &c->to_write.out;
		out_free(c, o);
	}
	if (c->to_write.out)
		c->to_write.out->sent += n;
}

/* Adds the descriptors to the message as ancillary data; `room` must live until sendmsg returns. */
static void put_descriptors(struct msghdr *mh, union passing *room, const struct descriptors *d)
{
	size_t bytes = d->n * sizeof *d->fd;
	struct cmsghdr *m;

	if (!d->n)
		return;
	memset(room, 0, sizeof *room);
	mh->msg_control = room;
	mh->msg_controllen = CMSG_SPACE(bytes);
	m = CMSG_FIRSTHDR(mh);
	*m = (struct cmsghdr){ .cmsg_len = CMSG_LEN(bytes),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(m), d->fd, bytes);
}

/* Seal the next records for the socket, and list what remains to be written of them in iov: of each
 * its head, payload and tag. Returns the number of entries. */
static size_t seal_next_records(struct conn *c, struct iovec iov[static 3 * WRITE_RECORDS])
{
	struct out **at = &c->to_write.out;
	size_t n = 0, sealed = 0;

	for (int i = 0; *at && !(*at)->shared && i < WRITE_RECORDS && sealed < SEAL_BYTES;
	     i++, at = &(*at)->next) {
		struct out *o = *at;
		size_t skip = o->sent;

		if (!o->raw && !o->sealed) {
			o = o->len && o->payload != o->room ? give_room(c, at) : o;
			seal_record(c, o);
			sealed += o->total;
		}
		const struct iovec piece[3] = {
			{ o->head, o->raw ? 0 : RECORD_HEAD },
			{ (void *)(uintptr_t)o->payload, o->len },
			{ o->tag, !o->raw && o->len ? RECORD_TAG : 0 },
		};

		for (int k = 0; k < 3; k++) {
			if (skip < piece[k].iov_len)
				iov[n++] = (struct iovec){ (uint8_t *)piece[k].iov_base + skip,
					piece[k].iov_len - skip };
			skip -= skip < piece[k].iov_len ? skip : piece[k].iov_len;
		}
	}
	return n;
}

/* Has the write failed only because this user has too many descriptors on their way? A server can
 * do without: its client then asks for copies. */
static bool can_omit_descriptor(const struct conn *c, int error)
{
	return error == ETOOMANYREFS && c->server && c->mem.pass.n;
}

enum err_code conn_write(struct conn *c, struct err *e)
{
	while (c->to_write.out && !c->to_write.out->shared) {
		struct iovec iov[3 * WRITE_RECORDS];
		struct msghdr mh = { .msg_iov = iov, .msg_iovlen = seal_next_records(c, iov) };
		union passing room;
		ssize_t n;

		if (c->spent)
			return err_set(e, ERR_CLOSED,
			    "the session with %s has used up its counters", c->peer);
		put_descriptors(&mh, &room, &c->mem.pass);
		n = sendmsg(c->fd, &mh, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return ERR_OK;
		c->silent |= n < 0 && net_is_line_error(errno);
		if (n < 0 && !can_omit_descriptor(c, errno))
			return err_sys(e, ERR_CLOSED, "write to %s", c->peer);
		conn_close_descriptors(&c->mem.pass);
		if (n < 0)
			continue;
		conn_written(c, (size_t)n);
	}
	return c->mem.shares_out ? conn_write_shared(c, e) : ERR_OK;
}

/* ---- waiting ---- */

/* One turn of conn_until: waits at most LOOK_EVERY ms, then reads and writes what is possible. */
static enum err_code poll_once(struct conn *c, struct err *e)
{
	struct pollfd p = { c->fd, conn_events(c), 0 };
	enum err_code rc = ERR_OK;

	if (poll(&p, 1, LOOK_EVERY) < 0 && errno != EINTR)
		abort();
	/* Read first: if the other end has refused and closed, read the refusal before a write
	 * fails. */
	if (p.revents & (POLLIN | POLLHUP | POLLERR) || conn_ready(c))
		rc = conn_read(c, e);
	if (!rc && (p.revents & POLLOUT || c->mem.shares_out))
		rc = conn_write(c, e);
	return rc ? rc : conn_check(c, clock_now(), e);
}

enum err_code conn_until(struct conn *c, bool (*ready)(void *ctx), void *ctx, int64_t patience,
    struct err *e)
{
	int64_t moved = clock_now();

	while (!ready(ctx)) {
		uint64_t before = c->bytes_in + c->bytes_out;
		enum err_code rc = poll_once(c, e);

		if (rc)
			return rc;
		if (c->bytes_in + c->bytes_out != before)
			moved = clock_now();
		else if (clock_now() - moved > patience)
			return err_set(e, ERR_TIMEOUT, "no data for %d s",
			    (int)(patience / NSEC_PER_SEC));
	}
	return ERR_OK;
}

/* ---- the rest ---- */

void conn_hand_over(struct conn *c, const struct conn_handler *handler, void *ctx)
{
	c->handler = handler;
	c->ctx = ctx;
	c->in.buffers = NULL;
}

void conn_free(struct conn *c)
{
	struct out *o;

	if (!c)
		return;
	while ((o = c->to_write.out)) {
		c->to_write.out = o->next;
		free(o);
	}
	while ((o = c->to_write.spare)) {
		c->to_write.spare = o->next;
		free(o);
	}
	free(c->to_write.reserved);
	free(c->in.stage);
	buffers_release(&c->in.own);
	conn_unshare(c);
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

short conn_events(const struct conn *c)
{
	short in = c->held && !c->mem.shares_in ? 0 : POLLIN;

	/* A socket that carries only wakes is always writable: with POLLOUT, poll returns at
	 * once. */
	return in | (conn_can_write(c) || conn_ready(c) ? POLLOUT : 0);
}

bool conn_ready(const struct conn *c)
{
	return c->mem.shares_in && !c->held && !shm_is_empty(c->mem.shm);
}

bool conn_doze(struct conn *c)
{
	return !c->mem.shares_in || c->held || shm_doze(c->mem.shm);
}

bool conn_can_write(const struct conn *c)
{
	return (c->to_write.out && !c->mem.starved) || c->mem.must_wake;
}

size_t conn_queued(const struct conn *c)
{
	return c->to_write.queued + c->mem.must_wake;
}

bool conn_wants_record(const struct conn *c, size_t most)
{
	return c->mem.shares_out ? !c->to_write.out : conn_queued(c) < most;
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
