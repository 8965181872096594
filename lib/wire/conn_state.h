#ifndef WIRE_CONN_STATE_H
#define WIRE_CONN_STATE_H

/* Inside of a conn: shared by conn.c (records) and conn_hello.c (handshake). */
#include "wire/conn.h"
#include "wire/net.h"

/* Look-ahead: what is read beyond the current record, so that small records
 * come many to a system call while large payloads go straight to their place. */
#define LOOK 4096

/* WAIT_FIRST: the server has the session's keys, but only a record under them
 * proves that the client has them too: msg1 alone could be made by who has
 * stolen the server's key. */
enum conn_state { CONN_WAIT_MSG1, CONN_WAIT_HELLO, CONN_WAIT_MSG2, CONN_WAIT_FIRST, CONN_LIVE };

/* One queued record: head and tags inside, the payload in `room` or borrowed. */
struct out {
	struct out *next;
	const uint8_t *payload;
	size_t len, total, sent, room_size;
	bool raw;
	uint8_t head[RECORD_HEAD];
	uint8_t tag[RECORD_TAG];
	_Alignas(16) uint8_t room[];
};

struct conn {
	struct session session;         /* first: the AES state wants alignment */
	int fd;
	bool server, held, bye, spent, silent;
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

	char peer[NET_TEXT];
	_Alignas(16) uint8_t look[LOOK];
};

/* Eat one handshake message from the look-ahead when it is whole. */
enum err_code conn_handshake(struct conn *c, struct err *e);
void conn_queue_raw(struct conn *c, const void *p, size_t n);
void conn_forget_keys(struct conn *c);

#endif
