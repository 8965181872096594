/* SPDX-License-Identifier: ISC */
#ifndef CLIENT_CLIENT_STATE_H
#define CLIENT_CLIENT_STATE_H

/* The inside of a client, shared by the files client*.c. Everything here belongs to the one
 * thread that owns the client: there is no lock.
 *
 * A client has one link to each server, and after those one link to the relay
 * (client_relay_link), which is unused when the worker has no relay. Each link holds at most one
 * session, its requests (request.h), and the announcements for CLOCKs (client_clock.c).
 *
 * States of a link (enum link_state):
 *
 *   state      event                                            next state
 *   DOWN       in use, and due (core/backoff.h):                DIALLING; DOWN when connect
 *              dial_link (client.c)                             fails
 *   DIALLING   the handshake has completed: on_client_live      UP
 *   DIALLING   the connection or the handshake fails            DOWN
 *   UP         the connection breaks, the server is silent      DOWN
 *              (conn_check), a record is malformed, or the
 *              server refuses a request (NACK, unless STALE)
 *   any        the view says that the server is gone or is      DOWN
 *              another process: client_link_apply_view
 *   any        client_free                                      freed; BYE is sent when it was UP
 *
 * client_link_drop makes each transition to DOWN. It keeps the requests, and doubles the wait
 * before the next attempt (LINK_RETRY_MIN up to 0.5 s; UP resets it). When the link is UP again,
 * on_client_live repeats them. A final refusal, by handshake or NACK, sets client.fatal, which
 * ends every wait with that error; a relay's refusal does not, since the worker can go on without
 * the relay. `live` and `used` are independent of the state: the view sets `live`, and a link
 * without `used` is never dialled. */
#include <poll.h>

#include "client/client.h"
#include "client/request.h"
#include "codec/row_ids_cache.h"
#include "core/backoff.h"
#include "core/clock.h"
#include "core/spin.h"
#include "core/thread_owner.h"
#include "shard/rows.h"
#include "socket/lent.h"
#include "wire/dial.h"
#include "wire/payload.h"

/* A DONE carries this seq, and the CLOCKED that answers it repeats it. A CLOCK has seq 0. */
#define DONE_SEQ 1

/* The rows of one client_want_rows, sorted by partition. Its questions share the list; after
 * the last of them has been answered it is kept for the next call. */
struct client_row_list {
	unsigned users;
	size_t cap;
	uint64_t *ids;
	uint32_t *pos;
};

/* One buffer for the bodies of all pushes of a client_push_rows. It is kept for the next call
 * after all of them have receipts. */
struct bodies {
	unsigned users;
	size_t cap;
	uint8_t *bytes;
};

#define LINK_RETRY_MIN (10 * NSEC_PER_MSEC)
#define LINK_RETRY_MAX (500 * NSEC_PER_MSEC)
enum link_state { LINK_DOWN, LINK_DIALLING, LINK_UP };

struct link {
	struct client *client;
	unsigned index;
	char tcp[NET_TEXT], unix_path[NET_TEXT], id[32];
	uint8_t key[32];
	enum link_state state;
	struct conn *conn;
	struct err fault;
	/* a session broke after shared memory was offered: use the socket */
	bool memory_failed;
	unsigned refusals; /* handshakes refused in a row */
	int64_t down_since;
	struct backoff backoff;
	/* it is worth dialling: there is or was something to send */
	bool used;
	bool live; /* the view says that the process is there */
	struct batcher batcher;
	/* a new number for each session and each view that changes the layout or the route */
	uint64_t session;

	struct request_list open; /* in the order of sending */
	/* where the search for the next answer begins, by class; NULL: at the first request */
	struct request *expected[REQUEST_CLASSES];
	/* the CLOCK and the DONE without an answer, which are in `open`, too; NULL: none */
	struct request *clock, *done;
	bool is_done; /* DONE has its answer */
	/* lists of row ids that the server of this session keeps; NULL: none */
	struct row_ids_cache *row_ids_cache;
	/* Announcements as struct payload_run: the partitions that are pushed and of which this
	 * server has a replica. One list is for the next CLOCK (step clock.announced), the other is
	 * for the last CLOCK. */
	struct buf announced, clocked;
};

/* The functions that differ between the client of a worker or tool (client_worker.c) and that of a
 * relay (client_of_relay.c). The functions are called on the owner's thread, and none may block. */
struct client_ops {
	uint8_t role; /* what the client says in the handshake */
	/* The number of the relay that the view assigns to this process; -1: none. */
	int64_t (*assigned_relay)(const struct client *c, const struct view *view);
	/* c->layout has another layout epoch; requests have not been moved yet. ERR_NOTFOUND: a
	 * table with open requests was dropped. */
	enum err_code (*layout_changed)(struct client *c, struct err *e);
	/* The relay has not been reachable for RELAY_AWAY, which the coordinator knows by now. */
	void (*relay_away)(struct client *c, const char *why);
	/* The link is UP, and its requests have been sent. NULL: nothing to do. */
	void (*link_up)(struct link *l);
	/* Does a refusal by this link's process end all waits? */
	bool (*refusal_is_final)(const struct link *l);
	/* Handle a record that only this kind of client gets; false: it is another record. NULL:
	 * there are none. */
	bool (*take_record)(struct link *l, const struct record *r, const uint8_t *payload);
	/* The values of a partition are at w, its place in r->pull.dst. NULL: nothing to do. */
	void (
	    *took_dense)(const struct request *r, uint32_t part, const float *w, uint64_t version);
	/* The values of all rows of a pull have arrived, in the order of r->pull.ids. Borrowed. */
	void (*took_rows)(const struct request *r, const float *w, uint64_t version);
	/* A call goes on preparing records, and much is queued: write some of it. */
	void (*relieve)(struct client *c);
};
extern const struct client_ops client_worker_ops, client_relay_ops;

/* The way that pulls, pushes and CLOCKs of steps take (client_route.c): to the servers, or to the
 * relay that the cluster view assigns. Requests outside of steps always go to the servers.
 *
 *   state    event                                                        next state
 *   DIRECT   the view assigns a relay that lives                          RELAYED
 *   RELAYED  the view assigns none, or one that is dead                   DIRECT
 *   RELAYED  the view assigns another process                             RELAYED, by that one
 *   RELAYED  its link has not been UP for RELAY_AWAY (workers only)       SHUNNED
 *   SHUNNED  the view assigns none, or one that is dead                   DIRECT
 *   SHUNNED  the view assigns another process                             RELAYED
 *
 * Each change to or from RELAYED, and each other process, moves all requests (request_reroute_all).
 * While SHUNNED the client reports to the coordinator every RELAY_AWAY that the relay cannot be
 * reached, because the message may be lost with its session, and the relay waits for us until a
 * view says otherwise. */
struct route {
	enum { ROUTE_DIRECT, ROUTE_RELAYED, ROUTE_SHUNNED } state;
	unsigned relay;   /* the relay's number in the view */
	uint64_t process; /* the incarnation of the present or last relay */
	uint64_t missed;  /* the incarnation of the last one that could not be reached */
	/* RELAYED: since when its link is not UP, 0 when it is; SHUNNED: when that was last
	 * reported */
	int64_t down_since;
};

/* Memory of client_gradients. `lent` has the first of it, and servers of this host read it there;
 * NULL: no memory is lent. */
struct gradients {
	struct lent *lent;
	float **own;
	size_t nown;
};

/* Values that lossy codecs and filters have left for later pushes. */
struct client_feedback {
	/* by dense table: what codecs left out, and the velocity of codecs with momentum; NULL:
	 * nothing yet */
	float **residual, **velocity;
	size_t nresiduals, nvelocities;
	/* by sparse table: residuals and held-back gradients of rows; NULL: none */
	struct rows **rows;
	size_t nrows;
};

/* The last CLOCK, which is sent again to servers that join later. */
struct client_clock {
	bool begun;         /* there was one */
	bool done;          /* client_done was called */
	uint64_t step;      /* of the last CLOCK */
	uint32_t examples;  /* that it states */
	uint64_t announced; /* the step of link.announced */
	/* the newest layout epoch in which all servers have answered the last CLOCK */
	uint32_t confirmed;
};

/* News that answers have brought beside their values. */
struct client_seen {
	uint32_t members; /* membership entries; see client_members */
	/* when the first answer of this wait came, but to a pull of an earlier step; 0: none yet */
	int64_t first_answer;
	uint64_t awaited;    /* the step of the last client_wait */
	uint64_t checkpoint; /* the last step that a server was checkpointing */
	uint64_t trained; /* the last step whose answers said that workers train (RECORD_TRAINED) */
	uint64_t open_step; /* steps below are closed, as receipts of late pushes say */
	/* a session with open pushes broke at this time, and none of those has a receipt since;
	 * 0: none */
	int64_t lost_at;
};

struct client {
	struct thread_owner owner;
	struct client_config cfg;
	const struct client_ops *ops;
	struct layout layout;

	/* sessions */
	struct link **link; /* one to each server, then the one to the relay */
	unsigned nlinks, nservers;
	struct pollfd *polled; /* for client_serve */
	unsigned npolled;
	bool attend_ready;      /* cfg.attend_fd was readable in the last turn of client_serve */
	int64_t attend_poll_at; /* it is not polled before this time */
	struct route route;
	uint64_t sessions; /* the number of the newest session; see link.session */
	struct spin spin;
	struct err fatal; /* a server's final refusal: every wait returns it */

	/* requests */
	uint64_t next_seq;
	uint64_t awaited_mark;         /* of client_wait_marked */
	size_t nopen[REQUEST_CLASSES]; /* those without an answer, by class */
	struct request_list stray;     /* those that no server can take */
	struct client_clock clock;
	struct client_seen seen;
	/* memory for the next request, pull of rows, and push of rows; or NULL */
	struct {
		struct request *requests;
		struct client_row_list *list;
		struct bodies *bodies;
	} spare;

	/* parameters and gradients */
	struct {
		/* by table and partition: the version that the last pull brought;
		 * CLIENT_NO_VERSION: none of the present generation */
		uint64_t **of;
		uint64_t *nparts;
		size_t ntables;
	} versions;
	struct {
		struct known *tables; /* pulled rows by table (client_row_cache.c) */
		size_t ntables;
	} cache;
	struct client_feedback feedback;
	struct gradients gradients;
	struct zip *zip;
	size_t ids_per_server; /* row ids for each server in the present push or pull */
	struct rng rng;        /* for randomized codecs and filters */

	struct client_stats stats;
	struct {
		uint64_t pushed, pulled; /* bytes */
	} ended;                         /* of sessions that have ended */
};

/* The first line of a function that only the owner's thread may call (thread_owner.h). */
static inline void client_assert_owner(struct client *c)
{
	thread_owner_assert(&c->owner, "a client");
}

/* client.c */
/* Keeps the requests, counts the bytes of the session, and decides whether a refused handshake is
 * final (client.fatal). The conn is freed. */
void client_link_drop(struct link *l, const struct err *why);
/* Dial links that are due, flush, poll all links once for at most ms, and handle the records
 * that have arrived. */
void client_serve(struct client *c, int ms);
/* Serve all links until ready() is true. ERR_TIMEOUT or ERR_UNREACH after the deadline; else
 * client.fatal, or the error of the `attend` callback. step: for messages. */
enum err_code client_wait_until(struct client *c, bool (*ready)(struct client *), uint64_t step,
    struct err *e);

/* client_route.c */
static inline struct link *client_relay_link(const struct client *c)
{
	return c->link[c->nservers];
}
/* request.c: do CLOCK and DONE go to this link? With a relay only to the relay, else to every live
 * server. */
bool client_link_takes_clocks(const struct link *l);
/* Take the relay that the view assigns. *changed: pushes and pulls go another way from now on.
 * ERR_PROTO. */
enum err_code client_relay_apply_view(struct client *c, const struct view *view, bool *changed,
    struct err *e);
/* Go on without the relay when it has been unreachable for too long. */
void client_relay_check(struct client *c, int64_t now);
/* client_pull.c */
extern const struct request_ops client_pull_ops;
/* conn_handler's `place` of a link: where to receive this record's payload, or NULL. */
uint8_t *client_pull_answer_place(void *link, const struct record *head);

/* client_pull_rows.c */
extern const struct request_ops client_row_pull_ops;
/* The partition of each row, an array to be freed. start, of nparts + 1 zeroes, becomes the
 * first position of each partition when rows are sorted by partition. */
uint16_t *client_rows_parts(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start);
/* Sort row numbers 0..n-1 by partition: the rows of partition p are order[start[p]] ..
 * order[start[p + 1] - 1]. Their ids are at the same places of `sorted`, unless that is NULL. */
void client_rows_sort_by_part(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start,
    uint32_t *order, uint64_t *sorted);
/* How many partitions to prepare at a time: with many rows the first ones are sent while
 * others are prepared. */
uint32_t client_rows_group_size(const struct table *t, size_t n);
/* Which of n rows (at most ROWS_PICKED) are in partitions first .. first+count-1: their
 * numbers in `some`; returns how many. */
#define ROWS_PICKED 1024u
/* Partitions are numbered by `part`, one for each row; the order of rows stays. */
uint32_t client_rows_pick(const uint16_t *part, uint32_t n, uint32_t first, uint32_t count,
    uint16_t some[static ROWS_PICKED]);
/* Serve the links once if much is queued, so that it leaves while more is prepared. */
void client_rows_flush_if_many(struct client *c);
/* Frees a list without pending requests. NULL is fine. */
void client_row_list_free(struct client_row_list *list);

/* client_row_cache.c: the last value and version of each pulled row. */
/* Copy cached rows to their places, and note their versions in r->pull.since. */
void client_row_cache_lookup(struct request *r);
/* All rows of the request are in their places as of this version: cache them. */
void client_row_cache_store(const struct request *r, uint64_t version);
/* Frees the cached rows of all tables: the client ends, or the layout has another generation. */
void client_row_cache_free(struct client *c);

/* request.c (see request.h for the rest) */
/* The version that the last pull of this partition has brought in the present generation. A pull
 * that names CLIENT_NO_VERSION is answered by whole values. */
#define CLIENT_NO_VERSION UINT64_MAX
uint64_t *client_version_at(struct client *c, const struct table *t, uint32_t part);
/* The header of a record: type, step, layout epoch and generation. */
struct record client_record_head(const struct client *c, enum record_type type, uint64_t step);

/* client_push.c */
extern const struct request_ops client_push_ops;
/* Submit and announce a new push. After an error (ERR_NOTREADY: no server holds the partition) it
 * is freed. */
enum err_code client_submit_push(struct request *r, struct err *e);
/* Before the first push of a step: wait until every server has answered the CLOCK of the step
 * before. */
enum err_code client_begin_pushes(struct client *c, uint64_t step, struct err *e);
/* Writes client_config.oldest_open. */
void client_push_note_oldest(struct client *c);
/* Take the receipts in a RECEIPT record. */
void client_push_take_receipts(struct link *l, const struct record *head, const uint8_t *payload);

/* client_encode.c */
/* Encode a dense push by the client's codec. */
void client_encode_push(struct request *r);
/* A push was too late: with error feedback, its values join the table's next push. */
void client_encode_give_back(struct request *r);
/* The residual or velocity of a dense table, which is made of zeroes when there is none. */
float *client_encode_residual(struct client *c, const struct table *t, bool velocity);
/* A dense table has grown: extend its residual and velocity by zeroes. */
void client_encode_grow_residual(struct client *c, const struct table *had, const struct table *t);
/* Frees the residuals and velocities of all dense tables. What they held is lost. */
void client_encode_free_residuals(struct client *c);

/* client_gradients.c */
/* Has a server yet to read gradients from the memory that this client lends? */
bool client_is_lending(const struct client *c);
/* Frees the memory of client_gradients. */
void client_free_gradients(struct client *c);

/* client_clock.c */
/* Announce a push to every server that has a replica of the partition, or to the relay. */
void client_announce(const struct request *r);
/* Has every server acknowledged the last CLOCK? Then each of them has all announcements of the
 * present layout too, and its layout epoch is confirmed. */
bool client_clocks_answered(struct client *c);
/* Must this push be sent after the last CLOCK, because it is of a later step? A mean is not
 * announced, so it need not. */
bool client_follows_clock(const struct request *r);
/* Put the last CLOCK on the link: after its pushes up to that step, before the pushes of the
 * next. */
void client_link_put_clock(struct link *l);
/* After a change of layout or route, when all pushes up to the last CLOCK have been announced: send
 * that CLOCK, and DONE, to every link that must have them now. */
void client_repeat_clocks(struct client *c);

/* client_row_ids.c */
/* Do these ids travel in a block (codec/row_ids.h)? Only ascending ones can. */
bool client_row_ids_in_block(const struct client *c, const uint64_t *ids, size_t n);
/* Write a block: only the name of the list when the server of this session keeps it already, else
 * all ids, which the server keeps from now on. Returns the length. */
size_t client_row_ids_put(struct link *l, const uint64_t *ids, size_t n, uint8_t *out);
/* The server no longer keeps the id list that a request named: send the request with all ids. */
void client_row_ids_resend(struct link *l, const struct record *head);
/* The ids in the body of a push of rows. */
static inline const uint64_t *client_row_ids_pushed(const struct request *r)
{
	return (const uint64_t *)(const void *)(r->push.body + PAYLOAD_ROWS_HEAD);
}
/* The client's compressor, which is made when it is first wanted. */
struct zip *client_zip(struct client *c);

/* client_push_rows.c */
extern const struct request_ops client_row_push_ops;
/* Note how many rows each server gets in this push or pull, for the choice of how to send ids. */
static inline void client_rows_begin(struct client *c, size_t n)
{
	c->ids_per_server = c->route.state == ROUTE_RELAYED || !c->nservers ? n : n / c->nservers;
}
/* Frees a buffer that no push uses any more. NULL is fine. */
void client_bodies_free(struct bodies *b);
/* The residual of a row, which is made of zeroes when there is none. */
float *client_rows_residual(struct client *c, const struct table *t, uint64_t id);
/* Frees the residuals of all sparse tables. What they held is lost. */
void client_rows_free_residuals(struct client *c);

/* Count the time since `begin` as spent on encoding gradients. */
static inline void client_encode_count_time(struct client *c, int64_t begin)
{
	c->stats.encode_ns += clock_now() - begin;
}
/* client_view.c: take from the view whether a server or relay is alive, and its key. Ends the
 * session with a process that has ended or has been replaced. */
void client_link_apply_view(struct link *l, bool live, const uint8_t key[static 32]);

#endif
