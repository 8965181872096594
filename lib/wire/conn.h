#ifndef WIRE_CONN_H
#define WIRE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/handshake.h"
#include "auth/secrets.h"
#include "auth/session.h"
#include "base/err.h"
#include "wire/record.h"

/* One authenticated stream of records over a non-blocking socket, server or
 * client side: handshake, then sealed records both ways.  It owns the
 * descriptor.  No locks: a conn belongs to one thread at a time, and calls its
 * handler on that thread only. */
struct conn;

enum conn_verdict {
	CONN_TAKEN,             /* go on */
	CONN_HOLD,              /* not now: keep the record, read no further until conn_retry */
	CONN_DROP,              /* close; the handler has said why */
};

struct conn_handler {
	/* Server: msg1 has been read; is this key welcome?  Fills `reply`.  Any
	 * error refuses; the peer hears no more of it than hs_status has words for.
	 * `reply` is all zero at first. */
	enum err_code (*admit)(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
	    struct hs_server_info *reply, struct err *e);
	/* The session is up: on the client's side with msg2, of which `server` is
	 * the contents; on the server's with the first record that opens. */
	void (*live)(void *ctx, const struct hs_server_info *server);
	/* Where the payload of r shall lie (r->len bytes), so that it is received
	 * into its place; NULL for the conn's own staging.  The bytes are not yet
	 * verified: on a bad tag they are garbage and the conn closes.  Optional. */
	uint8_t *(*place)(void *ctx, const struct record *r);
	/* One whole, verified record.  After CONN_HOLD the same record is handed
	 * over again at conn_retry, its payload in the same place. */
	enum conn_verdict (*record)(void *ctx, const struct record *r, uint8_t *payload);
};

/* What both sides must know before the first byte.  Borrowed for the conn's
 * life.  With `secrets` the secret of hs, and the cluster, are those of then alone. */
struct conn_identity {
	struct hs_identity hs;
	uint8_t cluster[HS_CLUSTER_BYTES];
	struct secrets *secrets;        /* NULL: they stay as they are */
};

/* Server side; the hello is queued at once.  suite is the one that the server
 * allows on this connection. */
struct conn *conn_accept(int fd, const struct conn_identity *id, enum suite suite, uint64_t epoch_hint,
    const struct conn_handler *handler, void *ctx);
/* Client side, on a connected (or connecting) socket. */
struct conn *conn_dial(int fd, const struct conn_identity *id, const uint8_t server_key[static 32],
    const struct hs_client_info *info, const struct conn_handler *handler, void *ctx);
void conn_free(struct conn *c);

/* Read and deliver what is there, up to about 2 MiB a call.  ERR_CLOSED: the
 * peer has gone (conn_said_bye tells whether politely); other errors say why the
 * connection must be closed. */
enum err_code conn_read(struct conn *c, struct err *e);
/* What is half received does not go to its place any more, but to the conn's staging. */
enum err_code conn_unplace(struct conn *c, struct err *e);
/* Hand a held record over again, then read on. */
enum err_code conn_retry(struct conn *c, struct err *e);
/* Write what the socket takes. */
enum err_code conn_write(struct conn *c, struct err *e);

/* Client, as soon as it is live, on a Unix socket, and the server takes part: from now on records go by memory that both
 * ends share, without tags: who else could write there?  ERR_IO, ERR_NOMEM: no such
 * memory; the conn is as it was. */
enum err_code conn_share(struct conn *c, struct err *e);
/* Its owner looks by itself whether shared memory has records (conn_ready), and calls
 * conn_doze before it sleeps on conn_fd; false: there are some already.  Without conn_watch it
 * may sleep at any time. */
void conn_watch(struct conn *c);
bool conn_doze(struct conn *c);
/* What to poll conn_fd for (POLLIN, POLLOUT); whatever comes, conn_read is to be called
 * when conn_ready is true, too: shared memory has records then. */
short conn_events(const struct conn *c);
bool conn_ready(const struct conn *c);
/* Would conn_write get on?  False, too, when it waits for room in shared memory. */
bool conn_can_write(const struct conn *c);
/* Client: has it offered to share memory, and had no answer? */
bool conn_has_offered(const struct conn *c);

/* Is there still somebody?  ERR_UNREACH: our handshake has had no answer for 3 s, or the
 * other host acknowledges nothing (net_is_silent).  For every now and then. */
enum err_code conn_check(struct conn *c, int64_t now, struct err *e);
/* conn_check has said so, or the system: the peer may be well, and only the line broken. */
bool conn_is_silent(const struct conn *c);

/* From now on another thread's: records go to this handler, the one that is held
 * first, at its next conn_retry. */
void conn_hand_over(struct conn *c, const struct conn_handler *handler, void *ctx);
/* For a thread that has nothing else to do: read and write until ready(), which is
 * asked after each turn and every 50 ms.  ERR_TIMEOUT when nothing has moved for so
 * long; errors of conn_read, conn_write and conn_check. */
enum err_code conn_until(struct conn *c, bool (*ready)(void *ctx), void *ctx, int64_t patience, struct err *e);

bool conn_is_live(const struct conn *c);
bool conn_is_held(const struct conn *c);
bool conn_said_bye(const struct conn *c);
size_t conn_queued(const struct conn *c);         /* bytes waiting to be written */
int conn_fd(const struct conn *c);
enum suite conn_suite(const struct conn *c);
uint64_t conn_bytes_in(const struct conn *c);
uint64_t conn_bytes_out(const struct conn *c);

/* Queue one record; direction flag and tags are put on for it.  conn_send copies the
 * payload.  conn_lend borrows it: it must stay as it is until conn_queued is 0 (or the conn
 * is freed). */
void conn_send(struct conn *c, const struct record *r, const void *payload);
void conn_lend(struct conn *c, const struct record *r, const void *payload);
/* What has been lent and is still queued is copied: its owner may do with it as it likes. */
void conn_keep_lent(struct conn *c);
/* Reserve, fill, commit: room for len bytes of payload inside the queue. */
uint8_t *conn_reserve(struct conn *c, uint32_t len);
void conn_commit(struct conn *c, const struct record *r);   /* r->len at most what was reserved */

#endif
