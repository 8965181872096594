/* SPDX-License-Identifier: ISC */
#ifndef WIRE_CONN_STATE_H
#define WIRE_CONN_STATE_H

/* The inside of a conn, shared by conn.c (receiving, sending, waiting), conn_hello.c (creation and
 * handshake) and conn_shm.c (shared memory). */
#include <sys/socket.h>

#include "socket/lent.h"
#include "socket/net.h"
#include "socket/published.h"
#include "socket/shm.h"
#include "wire/conn.h"

/* Bytes of look-ahead: a read goes this far beyond the current record, so that one system call
 * brings many small records, while large payloads are received in their place. */
#define LOOK 4096
/* Bytes that one call of conn_read reads, about, so that one fast client cannot keep an I/O thread
 * to itself. */
#define READ_BUDGET (2u << 20)

/* The states are drawn in conn.h. In CONN_WAIT_FIRST the server has the session's keys, but only a
 * record under them proves that the client has them, too: an attacker who has stolen the server's
 * key could make a msg1 in another's name. */
enum conn_state { CONN_WAIT_MSG1, CONN_WAIT_HELLO, CONN_WAIT_MSG2, CONN_WAIT_FIRST, CONN_LIVE };

/* Descriptors that one record passes, in this order: a client passes the rings and, if it lends
 * any, its lent memory; a server passes its published memory. */
#define PASSED_MOST 2
/* In place of a descriptor: there is none. */
#define NO_DESCRIPTOR (-1)

/* Room for file descriptors as ancillary data: cmsg(3), unix(7). */
union passing {
	char room[CMSG_SPACE(PASSED_MOST * sizeof(int))];
	struct cmsghdr align;
};

/* Descriptors that are owned until they have been passed or used: the first n of fd. All zero:
 * none. */
struct descriptors {
	int fd[PASSED_MOST];
	unsigned n;
};

/* One queued record: head and tags inside, the payload in `room` or borrowed. */
struct out {
	struct out *next;
	const uint8_t *payload;
	size_t len, total, sent, room_size;
	/* raw: bytes of the handshake, without head and tags. shared: to be sent by shared memory.
	 * sealed: its tags have been computed. */
	bool raw, shared, sealed;
	uint8_t head[RECORD_HEAD];
	uint8_t tag[RECORD_TAG];
	_Alignas(16) uint8_t room[];
};

/* The record that is received, or held. */
struct conn_reading {
	struct record cur;
	/* The head of `cur` has been verified, its payload has not. */
	bool in_payload;
	/* dst: the place of its payload. stage: the buffer that was taken for it, or NULL. */
	uint8_t *dst, *stage;
	size_t stage_cap, got, tag_got; /* got, tag_got: bytes of payload and tag received */
	/* The list of conn_use_buffers, from which the connection takes buffers; NULL: it uses
	 * `own`. */
	struct buffers *buffers, own;
	uint8_t tag[RECORD_TAG];
	size_t look_at, look_len; /* look[look_at .. look_len - 1] has not been used */
};

/* The queue; the record of conn_reserve; buffers that are kept for later records. */
struct conn_writing {
	struct out *out, **out_last, *reserved, *spare;
	unsigned nspare;
	size_t queued; /* bytes in the queue */
};

/* Shared memory (conn_shm.c). pass: the descriptors to send with REC_SHARE; passed: those that were
 * received. published: the memory that a server shows; view: that which a client sees; lent: the
 * memory that a client lends; loan: that which a server sees; NULL: none. shares_out: new records
 * are sent through shared memory; shares_in: records are read from there. must_wake: the other end
 * sleeps and there is news for it. */
struct conn_sharing {
	struct shm *shm; /* NULL: none */
	const struct published *published;
	struct published_view *view;
	const struct lent *lent;
	struct lent_view *loan;
	/* Client: the server reads `lent`; and the last record whose payload is there ends at this
	 * position of the ring. */
	bool lends;
	uint64_t lent_until;
	bool borrows; /* server: it accepts lent memory */
	struct descriptors pass, passed;
	bool may_share, shares_out, shares_in, must_wake, watched;
	bool starved; /* there is no room in it until the other end wakes us */
	/* Reserved in it by conn_reserve; NULL: `reserved` is used. */
	uint8_t *room;
};

struct conn {
	struct session session; /* first: the AES state wants alignment */
	int fd;
	/* local: on a Unix socket. held: the record is received and waits for conn_retry. bye: BYE
	 * has arrived. spent: the session's counters are used up. silent: the network is. */
	bool server, local, held, bye, spent, silent;
	int64_t in_flight; /* for net_is_silent */
	int64_t began;     /* clock_now() of its creation */
	enum conn_state state;
	enum suite suite;
	const struct conn_identity *id;
	const struct conn_handler *handler;
	void *ctx;
	struct hs_server *hs_server; /* NULL once there is a session */
	struct hs_client *hs_client;
	struct hs_client_info info;
	uint8_t server_key[32];
	uint64_t bytes_in, bytes_out;

	struct conn_reading in;
	struct conn_writing to_write;
	struct conn_sharing mem;

	char peer[NET_TEXT];
	_Alignas(16) uint8_t look[LOOK];
};

/* conn_hello.c: handle the next message of the handshake, if the look-ahead has all of it. */
enum err_code conn_handshake(struct conn *c, struct err *e);
/* conn_hello.c: wipe and free the keys. */
void conn_forget_keys(struct conn *c);
/* conn.c: queue n bytes of the handshake. */
void conn_queue_raw(struct conn *c, const void *p, size_t n);
/* conn.c: n bytes of the queue have been written. */
void conn_written(struct conn *c, size_t n);

/* conn.c: set c->in.cur from a verified header, and c->in.dst, the place of its payload. */
enum err_code conn_begin(struct conn *c, const uint8_t head[static RECORD_HEADER], struct err *e);
/* conn.c: c->in.cur is whole and verified: hand it over. */
enum err_code conn_deliver(struct conn *c, struct err *e);

/* ---- conn_shm.c ---- */

/* A REC_SHARE has arrived: an offer at the server, an answer at the client. */
enum err_code conn_shared(struct conn *c, struct err *e);
/* Close the descriptors, and forget them. */
void conn_close_descriptors(struct descriptors *d);
/* Gives the shared memory back and closes descriptors that have not been passed on. Fine without
 * any. */
void conn_unshare(struct conn *c);
/* conn_read and conn_write through shared memory. */
enum err_code conn_read_shared(struct conn *c, struct err *e);
/* Errors as conn_write. When the memory is full it sets mem.starved and returns ERR_OK. */
enum err_code conn_write_shared(struct conn *c, struct err *e);
/* Room for a payload in shared memory; NULL: there is none now, or the conn does not use it.
 * conn_commit_shared sends the record r with the payload in `room`. */
uint8_t *conn_room_shared(struct conn *c, uint32_t len);
/* `room` is what conn_room_shared returned last; nothing else may have been sent in between. */
void conn_commit_shared(struct conn *c, uint8_t *room, const struct record *r);

#endif
