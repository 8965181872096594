/* SPDX-License-Identifier: ISC */
#ifndef WIRE_CONN_H
#define WIRE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/handshake.h"
#include "auth/secrets.h"
#include "auth/session.h"
#include "core/err.h"
#include "wire/buffers.h"
#include "wire/record.h"

/* One authenticated stream of records over a non-blocking socket, server or client side: handshake,
 * then authenticated records both ways. It owns the descriptor. No locks: a conn belongs to one
 * thread at a time (conn_hand_over), and calls its handler on that thread alone.
 *
 * States (enum conn_state in conn_state.h):
 *
 *   state        side    input                     action                              next
 *   -----------  ------  ------------------------  ----------------------------------  ----------
 *   (new)        server  conn_accept               queue hello                         WAIT_MSG1
 *   (new)        client  conn_dial                                                     WAIT_HELLO
 *   WAIT_HELLO   client  hello                     choose the suite, queue msg1        WAIT_MSG2
 *   WAIT_MSG1    server  msg1, admit() accepts     queue msg2, session keys            WAIT_FIRST
 *   WAIT_MSG1    server  msg1, admit() refuses     queue msg2 with an hs_status        error
 *   WAIT_MSG1    server  msg1 of another secret                                        ERR_AUTH
 *   WAIT_MSG2    client  msg2 that accepts         session keys, queue an empty BATCH,
 *                                                  live()                              LIVE
 *   WAIT_MSG2    client  msg2 that refuses                                             error
 *   WAIT_MSG2    client  end of file                                                   ERR_AUTH
 *   WAIT_FIRST   server  a header with a good tag  live(), record()                    LIVE
 *   LIVE         both    a record                  record()                            LIVE
 *   LIVE         both    BYE                       conn_said_bye                       ERR_CLOSED
 *   any          both    end of file                                                   ERR_CLOSED
 *   any          both    a bad tag                                                     ERR_AUTH
 *   any          both    a malformed record, DROP                                      ERR_PROTO
 *
 * An error is returned by conn_read, conn_retry or conn_write. The conn is then of no more use:
 * its owner may call conn_write once more, so that a queued refusal leaves, and conn_free.
 * conn_check ends a client's handshake that takes longer than 3 s (a server's owner does so
 * itself), and a LIVE conn whose network is silent.
 *
 * Within LIVE, two more things vary independently:
 *
 *   held    record() returned CONN_HOLD. Nothing is read until conn_retry hands the record over
 *           again.
 *   shares  On a Unix socket. Records go by the socket; after the client's REC_SHARE
 *           (conn_share) its records go by shared memory; after the server's REC_SHARE the records of
 *           both sides do. The socket then carries only bytes that wake the other end. With its
 *           REC_SHARE a server may show memory (conn_publish), from which the client then copies
 *           by itself what the answers name. With its REC_SHARE a client may lend memory
 *           (conn_lend_from), from which the server copies payloads instead of from the ring. */
struct conn;
struct lent;
struct published;
struct published_view;

/* A handler's answer to a record. */
enum conn_verdict {
	CONN_TAKEN, /* handled: go on */
	CONN_HOLD,  /* not now: keep the record, and read no further until conn_retry */
	CONN_DROP,  /* close the conn; the handler has said why */
};

struct conn_handler {
	/* Server: msg1 has been read. May the owner of this key have a session? Fills `reply`,
	 * which is all zero before. An error refuses; the client gets only its hs_status. */
	enum err_code (*admit)(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
	    struct hs_server_info *reply, struct err *e);
	/* The session is up: at the client when msg2 has arrived, whose contents are in `server`;
	 * at the server when the first record has been verified, with NULL. */
	void (*live)(void *ctx, const struct hs_server_info *server);
	/* Return where to receive the payload of r (r->len bytes), or NULL for a buffer of the
	 * conn. The bytes are written there before they are verified: after a bad tag they are
	 * garbage, and the conn fails. May be NULL. */
	uint8_t *(*place)(void *ctx, const struct record *r);
	/* Handle one whole, verified record. After CONN_HOLD the same record is handed over again
	 * by conn_retry, with its payload in the same place. After other answers the payload is
	 * gone. */
	enum conn_verdict (*record)(void *ctx, const struct record *r, uint8_t *payload);
};

/* The keys that a side needs before the first byte. Borrowed for the conn's life. */
struct conn_identity {
	struct hs_identity hs;
	uint8_t cluster[HS_CLUSTER_BYTES];
	/* If not NULL, the pre-shared key and the cluster are taken from here, and may change;
	 * those above are the first ones. */
	struct secrets *secrets;
};

/* Server side: queue the hello. suite: the one cipher suite that the server allows on this
 * connection. epoch_hint: sent with the hello. */
struct conn *conn_accept(int fd, const struct conn_identity *id, enum suite suite,
    uint64_t epoch_hint, const struct conn_handler *handler, void *ctx);
/* Client side, on a socket that is connected or connecting. info is copied. */
struct conn *conn_dial(int fd, const struct conn_identity *id, const uint8_t server_key[static 32],
    const struct hs_client_info *info, const struct conn_handler *handler, void *ctx);
/* Closes the socket and shared memory at once, without a BYE, and wipes the keys. What is queued
 * is lost. NULL is fine. */
void conn_free(struct conn *c);

/* Read, and hand records to the handler, up to about 2 MiB a call. Does not block. ERR_CLOSED:
 * the other end has closed (conn_said_bye: after a BYE); other errors say why the conn must be
 * closed. */
enum err_code conn_read(struct conn *c, struct err *e);
/* Continue to receive a half-received payload into the conn's buffer, because the memory that
 * place() returned goes away. ERR_NOMEM. */
enum err_code conn_unplace(struct conn *c, struct err *e);
/* Hand a held record over again, then read on. Errors as conn_read. */
enum err_code conn_retry(struct conn *c, struct err *e);
/* Write what the socket takes. Does not block. ERR_CLOSED. */
enum err_code conn_write(struct conn *c, struct err *e);

/* Offer shared memory: a client on a Unix socket may call this once the conn is live, if the
 * server's hs_server_info has `shares`. Records then go by memory that both ends share, without
 * tags, because no other process can write there. ERR_IO, ERR_NOMEM: there is no such memory, and
 * the conn is as it was. */
enum err_code conn_share(struct conn *c, struct err *e);
/* Server: show this memory to the other end when it shares memory. Call it before conn_read; the
 * memory must outlive the conn. */
void conn_publish(struct conn *c, const struct published *p);
/* Client: lend this memory to the server when the conn shares memory. If the server accepts it,
 * payloads of conn_lend that lie there are not copied: the server reads them there, and they must
 * not change while conn_is_lending. Call it before conn_share; the memory must outlive the conn. */
void conn_lend_from(struct conn *c, const struct lent *l);
/* Client: are there records whose payload the server has yet to read from lent memory? */
bool conn_is_lending(const struct conn *c);
/* Server: accept the memory that the client lends. Call it before conn_read. */
void conn_borrow(struct conn *c);
/* Client: the memory that the server shows, until the conn is freed; NULL: none. */
const struct published_view *conn_view(const struct conn *c);
/* Payload that went by published memory: count n bytes as sent, or as received. */
void conn_count_published(struct conn *c, uint64_t sent, uint64_t received);
/* The owner polls shared memory itself (conn_ready) from now on, and calls conn_doze before it
 * sleeps on conn_fd: true: it may sleep and will be woken; false: there are records already.
 * Without conn_watch the owner may sleep at any time. */
void conn_watch(struct conn *c);
/* Only after conn_watch. Without shared memory the answer is yes. */
bool conn_doze(struct conn *c);
/* The events to poll conn_fd for (POLLIN, POLLOUT). When conn_ready is true, shared memory has
 * records: call conn_read, whatever poll says. */
short conn_events(const struct conn *c);
/* Looks at memory only and makes no system call. */
bool conn_ready(const struct conn *c);
/* Would conn_write write anything? False also when it waits for room in shared memory. */
bool conn_can_write(const struct conn *c);
/* Client: has it offered shared memory and not been answered? */
bool conn_has_offered(const struct conn *c);

/* Is the other end still there? To be called now and then; now: clock_now(). ERR_UNREACH: our
 * handshake has had no answer for 3 s, or the other host acknowledges nothing (net_is_silent). */
enum err_code conn_check(struct conn *c, int64_t now, struct err *e);
/* Has conn_check or the system found the network silent? The other process may be well. */
bool conn_is_silent(const struct conn *c);

/* Receive payloads into buffers of this list from now on, which other conns of the thread use, too.
 * It must live until the conn is freed or handed over. Without a list a conn has a buffer of its
 * own. */
void conn_use_buffers(struct conn *c, struct buffers *b);
/* Give the conn to another thread and handler. A held record goes to the new handler at its next
 * conn_retry. */
void conn_hand_over(struct conn *c, const struct conn_handler *handler, void *ctx);
/* Block, reading and writing, until ready() is true; it is asked after each turn and every 50 ms.
 * ERR_TIMEOUT: no byte has been sent or received for `patience` ns; errors of conn_read, conn_write
 * and conn_check. */
enum err_code conn_until(struct conn *c, bool (*ready)(void *ctx), void *ctx, int64_t patience,
    struct err *e);

/* Has the handshake ended, and at the server also the first record been verified? */
bool conn_is_live(const struct conn *c);
/* Does a record wait for conn_retry? Nothing is read meanwhile. */
bool conn_is_held(const struct conn *c);
/* Has the other end sent BYE, so that its end of file is not a failure? */
bool conn_said_bye(const struct conn *c);
size_t conn_queued(const struct conn *c); /* bytes that wait to be written */
/* Should the owner queue a record now that it could also make later? The queue of a socket may grow
 * to `most` bytes, so that the socket does not wait for the owner. The memory that two processes
 * share is a queue already, and what is queued before it would be copied once more. */
bool conn_wants_record(const struct conn *c, size_t most);
int conn_fd(const struct conn *c);
/* The cipher suite of payloads, which the server has chosen; at a client valid once it has the
 * hello. */
enum suite conn_suite(const struct conn *c);
/* Bytes received since the conn was made, the handshake included. */
uint64_t conn_bytes_in(const struct conn *c);
/* Bytes that were written, not those that are only queued. */
uint64_t conn_bytes_out(const struct conn *c);

/* Queue one record. The conn adds the direction flag and the tags. conn_send copies the payload.
 * conn_lend borrows it: it must not change until conn_queued is 0 (and in lent memory until the
 * conn is not conn_is_lending), or the conn is freed. */
void conn_send(struct conn *c, const struct record *r, const void *payload);
/* The payload is copied when it is sealed by a suite that encrypts, so the caller's bytes never
 * change. */
void conn_lend(struct conn *c, const struct record *r, const void *payload);
/* Copy all borrowed payloads that are still queued, so that their owner may change them. */
void conn_keep_lent(struct conn *c);
/* Queue a record without a copy: reserve room for len bytes of payload inside the queue, fill it,
 * and commit it before anything else is queued. */
uint8_t *conn_reserve(struct conn *c, uint32_t len);
void conn_commit(struct conn *c, const struct record *r); /* r->len at most what was reserved */

#endif
