/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/mem.h"
#include "wire/conn_state.h"

/* The sending half of a conn: a queue of records. */

#define WRITE_RECORDS 16
/* Encrypt about this many bytes, then write them: they are still in the cache when the system
 * copies them, and meanwhile the other end decrypts the bytes before. */
#define SEAL_BYTES (128u << 10)
#define SPARE_MIN  (64u << 10)
#define SPARES     4

/* Large buffers are kept for later records, because fresh pages cost more than the copy into
 * them. */
static struct out *out_new(struct conn *c, size_t room)
{
	struct out *o = c->spare;

	if (o && room >= SPARE_MIN && o->room_size >= room) {
		c->spare = o->next;
		c->nspare--;
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

/* Bytes of the handshake go through the same queue, as a payload without head and tags. */
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

/* Compute the tags of o, and encrypt its payload if the suite does.  Records must be sealed in the
 * order of the queue, because each takes the next nonce. */
static void seal_record(struct conn *c, struct out *o)
{
	uint8_t *room = session_is_sealed(&c->session) ? o->room : NULL;

	/* Sealing fails only when the counters are used up.  conn_write then fails before this
	 * record leaves. */
	c->spent |= !session_seal_header(&c->session, o->head, o->head + RECORD_HEADER);
	if (o->len)
		c->spent |= !session_seal_payload(&c->session, o->payload, o->len, room, o->tag);
	if (o->len && room)
		o->payload = room;
	session_next_tx(&c->session);
	o->sealed = true;
}

static void queue_record(struct conn *c, struct out *o, const struct record *r)
{
	struct record head = *r;

	if (c->server)
		head.flags |= RECORD_TO_CLIENT;
	record_encode(&head, o->head);
	o->len = head.len;
	o->shared = c->shares_out;
	o->total = RECORD_HEADER + head.len;
	if (!o->shared)
		o->total += RECORD_TAG + (head.len ? RECORD_TAG : 0);
	/* Tags alone are quick.  Encryption waits until the record can be written
	 * (seal_next_records). */
	if (!o->shared && !session_is_sealed(&c->session))
		seal_record(c, o);
	out_push(c, o);
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
	if (c->out_last == &o->next)
		c->out_last = &own->next;
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
	if (c->reserved)
		out_free(c, c->reserved);
	c->reserved = NULL;
	c->room = conn_room_shared(c, len);
	if (c->room)
		return c->room;
	c->reserved = out_new(c, len);
	c->reserved->payload = c->reserved->room;
	return c->reserved->room;
}

void conn_commit(struct conn *c, const struct record *r)
{
	struct out *o = c->reserved;
	struct record head = *r;

	if (c->server)
		head.flags |= RECORD_TO_CLIENT;
	c->reserved = NULL;
	if (o)
		queue_record(c, o, r);
	else
		conn_commit_shared(c, c->room, &head);
}

/* The up to three pieces of o that are still to be written. */
static int remaining_pieces(const struct out *o, struct iovec *iov)
{
	const struct {
		const uint8_t *p;
		size_t n;
	} piece[3] = {
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

void conn_written(struct conn *c, size_t n)
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

static void put_descriptor(struct msghdr *mh, union passing *room, int fd)
{
	struct cmsghdr *m;

	memset(room, 0, sizeof *room);
	mh->msg_control = room;
	mh->msg_controllen = sizeof *room;
	m = CMSG_FIRSTHDR(mh);
	*m = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(m), &fd, sizeof fd);
}

/* Seal the next records for the socket, and list what remains to be written of them in iov.
 * Returns the number of entries. */
static size_t seal_next_records(struct conn *c, struct iovec iov[static 3 * WRITE_RECORDS])
{
	struct out **at = &c->out;
	size_t n = 0, sealed = 0;

	for (int i = 0; *at && !(*at)->shared && i < WRITE_RECORDS && sealed < SEAL_BYTES;
	     i++, at = &(*at)->next) {
		struct out *o = *at;

		if (!o->raw && !o->sealed) {
			o = o->len && o->payload != o->room ? give_room(c, at) : o;
			seal_record(c, o);
			sealed += o->total;
		}
		n += (size_t)remaining_pieces(o, iov + n);
	}
	return n;
}

enum err_code conn_write(struct conn *c, struct err *e)
{
	while (c->out && !c->out->shared) {
		struct iovec iov[3 * WRITE_RECORDS];
		struct msghdr mh = { .msg_iov = iov, .msg_iovlen = seal_next_records(c, iov) };
		union passing room;
		ssize_t n;

		if (c->spent)
			return err_set(e, ERR_CLOSED, "session with %s has used up its counters",
			    c->peer);
		if (c->pass >= 0)
			put_descriptor(&mh, &room, c->pass);
		n = sendmsg(c->fd, &mh, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return ERR_OK;
		c->silent |= n < 0 && net_is_line_error(errno);
		if (n < 0)
			return err_sys(e, ERR_CLOSED, "write to %s", c->peer);
		if (c->pass >= 0)
			close(c->pass);
		c->pass = -1;
		conn_written(c, (size_t)n);
	}
	return c->shares_out ? conn_write_shared(c, e) : ERR_OK;
}
