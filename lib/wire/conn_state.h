#ifndef WIRE_CONN_STATE_H
#define WIRE_CONN_STATE_H

/* Inside of a conn: shared by conn.c and conn_send.c (records), conn_hello.c (handshake) and
 * conn_shm.c (shared memory). */
#include <sys/socket.h>

#include "wire/conn.h"
#include "wire/net.h"
#include "wire/shm.h"

/* Look-ahead: what is read beyond the current record, so that small records
 * come many to a system call while large payloads go straight to their place. */
#define LOOK 4096
/* A call reads about this much, so that one fast peer cannot keep a loop to
 * itself. */
#define READ_BUDGET (2u << 20)

/* WAIT_FIRST: the server has the session's keys, but only a record under them
 * proves that the client has them too: msg1 alone could be made by who has
 * stolen the server's key. */
enum conn_state { CONN_WAIT_MSG1, CONN_WAIT_HELLO, CONN_WAIT_MSG2, CONN_WAIT_FIRST, CONN_LIVE };

/* One descriptor beside the bytes: cmsg(3), unix(7). */
union passing {
	char room[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

/* One queued record: head and tags inside, the payload in `room` or borrowed. */
struct out {
	struct out *next;
	const uint8_t *payload;
	size_t len, total, sent, room_size;
	bool raw, shared, sealed;       /* shared: by shared memory; sealed: its tags are there */
	uint8_t head[RECORD_HEAD];
	uint8_t tag[RECORD_TAG];
	_Alignas(16) uint8_t room[];
};

struct conn {
	struct session session;         /* first: the AES state wants alignment */
	int fd;
	bool server, local, held, bye, spent, silent;  /* local: a Unix socket */
	int64_t began;
	enum conn_state state;
	enum suite suite;
	const struct conn_identity *id;
	const struct conn_handler *handler;
	void *ctx;
	struct hs_server *hs_server;    /* NULL once there is a session */
	struct hs_client *hs_client;
	struct hs_client_info info;
	uint8_t server_key[32];

	/* reading */
	struct record cur;
	bool in_payload;
	uint8_t *dst, *stage;
	size_t stage_cap, got, tag_got;
	uint8_t tag[RECORD_TAG];
	size_t look_at, look_len;
	uint64_t bytes_in, bytes_out;

	/* writing */
	struct out *out, **out_last, *reserved, *spare;
	unsigned nspare;
	size_t queued;

	/* Shared memory, NULL: none; a descriptor to go with REC_SHARE, and one that has come.
	 * What is queued from now on goes there; what is read comes from there. */
	struct shm *shm;
	int pass, passed;
	bool may_share, shares_out, shares_in, must_wake, watched;
	bool starved;                   /* there is no room until we are woken */
	uint8_t *room;                  /* reserved there; NULL: not there */

	char peer[NET_TEXT];
	_Alignas(16) uint8_t look[LOOK];
};

/* Eat one handshake message from the look-ahead when it is whole. */
enum err_code conn_handshake(struct conn *c, struct err *e);
void conn_queue_raw(struct conn *c, const void *p, size_t n);
void conn_forget_keys(struct conn *c);

/* conn.c: a head that is verified; c->cur and the place of its payload.  A record that is
 * whole.  n bytes of the queue have been written. */
enum err_code conn_begin(struct conn *c, const uint8_t head[static RECORD_HEADER], struct err *e);
enum err_code conn_deliver(struct conn *c, struct err *e);
void conn_written(struct conn *c, size_t n);

/* conn_shm.c.  A REC_SHARE has come. */
enum err_code conn_shared(struct conn *c, struct err *e);
void conn_unshare(struct conn *c);
enum err_code conn_read_shared(struct conn *c, struct err *e);
enum err_code conn_write_shared(struct conn *c, struct err *e);
/* Room for a payload, NULL: not there, or not now; and the record that it belongs to. */
uint8_t *conn_room_shared(struct conn *c, uint32_t len);
void conn_commit_shared(struct conn *c, uint8_t *room, const struct record *r);

#endif
