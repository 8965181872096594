/* SPDX-License-Identifier: ISC */
#ifndef CLIENT_CLIENT_STATE_H
#define CLIENT_CLIENT_STATE_H

/* The inside of a client, shared by the files client*.c.  Everything here belongs to the one
 * thread that owns the client: there is no lock.
 *
 * A client has one link to each server, and behind those one link to the relay
 * (client_relay_link), which is unused when the worker has no relay.  Each link holds at most one
 * session, the pulls that have no complete answer (struct ask), the pushes that have no
 * receipt (struct inflight_push), and the announcements for the next CLOCK (claims).
 *
 * States of a link (enum link_state):
 *
 *   state      event                                            next state
 *   DOWN       in use, and next_try has passed:                 DIALLING; DOWN when connect
 *              client_link_dial                                 fails
 *   DIALLING   the handshake has completed: on_client_live      UP
 *   DIALLING   the connection or the handshake fails            DOWN
 *   UP         the connection breaks, the server is silent      DOWN
 *              (conn_check), a record is malformed, or the
 *              server refuses a request (NACK, unless STALE)
 *   any        the view says that the server is gone or is      DOWN
 *              another process: client_link_apply_view
 *   any        client_free                                      freed; BYE is sent when it was UP
 *
 * client_link_drop makes each transition to DOWN.  It keeps the pulls and pushes, and doubles the wait
 * before the next attempt (LINK_RETRY_MIN up to 0.5 s; UP resets it).  When the link is UP again,
 * on_client_live repeats them, and the CLOCK and DONE that have no answer.  A final refusal, by
 * handshake or NACK, sets client.fatal, which ends every wait with that error; a relay's refusal
 * does not, since the worker can go on without the relay.  `live` and `used` are independent of
 * the state: the view sets `live`, and a link without `used` is never dialled.
 *
 * States of an in-flight push (struct inflight_push):
 *
 *   state      event                                            next state
 *   -          client_push_start: encoded, and put on a link  IN FLIGHT; sent now if the link is
 *                                                               UP, else by on_client_live
 *   IN FLIGHT  the link was DOWN and is UP again:               IN FLIGHT, sent again
 *              client_link_resend
 *   IN FLIGHT  the server no longer keeps this list of row      IN FLIGHT, sent again with all ids
 *              ids (NO_KEYS)
 *   IN FLIGHT  the layout or the relay changes:                 IN FLIGHT on the link of the new
 *              client_push_reroute_all                        primary, and sent again; `moved`
 *                                                               when that is another link
 *   IN FLIGHT  the same, but no server holds the partition      IN FLIGHT on link 0 until the next
 *                                                               layout
 *   IN FLIGHT  receipt SPLIT: the relay cannot aggregate it     SETTLED; a copy, marked `alone`, is
 *                                                               IN FLIGHT to the primary
 *   IN FLIGHT  receipt LATE: the step was closed without it     SETTLED; with error feedback its
 *                                                               values join the table's next push
 *   IN FLIGHT  any other receipt                                SETTLED
 *   SETTLED    the link has no open push left and the next      released: the body is freed
 *              one is added, client_push_reroute_all, or
 *              client_link_free_pushes
 *
 * A push is identified by (rank, incarnation, table, partition, step), which stays the same each
 * time it is sent.  Servers count it once, and answer every copy with a receipt; a receipt for a
 * push that is not IN FLIGHT is ignored. */
#include "client/client.h"
#include "codec/keycache.h"
#include "core/clock.h"
#include "core/spin.h"
#include "shard/rows.h"
#include "wire/conn.h"
#include "wire/msg.h"

/* A DONE carries this seq, and the CLOCKED that answers it repeats it. A CLOCK has seq 0. */
#define DONE_SEQ 1

/* A scan of one sparse partition: all of its rows, those that were updated at step `since` or
 * later, or only the ids of all rows. */
struct client_scan_request {
	bool changed, told; /* changed: only rows since `since`; told: only ids */
	uint64_t since;
	/* The answer's body, and three fields of its record header. */
	struct buf body;
	bool last;
	uint64_t step, removed;
};

/* A pull or scan that was sent to one server or relay, until its last answer has come. */
struct ask {
	struct ask *next;
	uint64_t seq, step;
	enum msg_type type; /* REC_PULL, REC_PULL_ROWS, REC_SCAN */
	const struct table *table;
	uint32_t part, count; /* partitions; 1 for rows and scans */
	uint32_t left;        /* answers that have not come yet */
	float *dst;           /* PULL: the table; PULL_ROWS: all rows of the call */
	/* PULL: the table as of the versions in `since`, one for each partition; NULL: send
	 * everything */
	const float *base;
	/* the versions that `base` has, by partition, or (PULL_ROWS) that are cached, by row;
	 * NULL: none */
	uint64_t *since;
	/* PULL: answer each partition as soon as its own step is complete */
	bool early;
	/* PULL: answer without values. With early: when the partition is updated; else: when
	 * all ranks have reached the step. */
	bool tell;
	/* PULL: which vector of the optimizer state; 0: the parameters */
	uint64_t vector;
	struct client_row_list *list; /* PULL_ROWS: owns ids and pos; else NULL */
	const uint64_t *ids;
	const uint32_t *pos; /* row i goes to row pos[i] of dst */
	uint32_t n;
	/* SCAN: send rows with higher ids; `begin` marks the first request */
	uint64_t after;
	bool begin;
	struct client_scan_request *scanned; /* SCAN: the request and its answer; borrowed */
};

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

/* An in-flight push; see the table above. */
struct inflight_push {
	const struct table *table;
	uint32_t part, examples, n; /* n: elements (dense) or rows (sparse) */
	uint64_t step, pulled;
	int64_t sent_at;       /* when it was first sent, clock_now() */
	const float *g;        /* dense without a codec: borrowed from the caller */
	uint8_t *body;         /* sparse or encoded; owned, unless .. */
	struct bodies *bodies; /* .. it is a part of these; else NULL */
	size_t len;            /* of `body`, in bytes */
	uint16_t codec;
	bool settled;
	bool moved; /* it was on another link before */
	bool alone; /* goes past the relay, which could not aggregate it */
	/* the mean of a reduced table, sent by every worker: not announced */
	bool mean;
};

#define LINK_RETRY_MIN (10 * NSEC_PER_MSEC)
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
	bool unshared;
	unsigned denied; /* handshakes refused in a row */
	int64_t down_since, next_try, retry;
	/* it is worth dialling: there is or was something to send */
	bool used;
	bool live; /* the view says that the process is there */
	struct batcher batcher;
	/* relay's client only: a new number for each session and each epoch */
	uint64_t session;

	/* in the order of sending, which is also the order of the answers */
	struct ask *asks, **asks_last;
	/* pushes in the order of sending, settled ones included; first_inflight: where client_push_find
	 * looks first */
	struct inflight_push *inflight;
	size_t ninflight, cap_inflight, first_inflight;
	size_t open_inflight; /* in-flight pushes that are not settled */
	/* clock_due, done_due: CLOCK or DONE has no answer yet; done: DONE has its answer */
	bool clock_due, done_due, done;
	/* lists of row ids that the server of this session keeps; NULL: none */
	struct keycache *kept;
	/* announcements for the CLOCK of announced_step: partitions pushed at that step which this
	 * server has a copy of, as struct msg_run */
	struct buf claims;
};

struct client {
	struct client_config cfg;
	struct layout layout;
	struct link **link; /* one to each server, then the one to the relay */
	unsigned nlinks, nservers;
	bool relayed;   /* pulls and pushes of steps go through the relay */
	bool done;      /* client_done was called */
	unsigned relay; /* the relay's number in the view */
	/* incarnations: of the present relay, and of the last one that could not be reached */
	uint64_t relay_process, missed;
	/* the view still assigns us the relay that we could not reach */
	bool shunned;
	/* since when the relay's link is not UP, 0 when it is; if shunned: when that was last
	 * reported to the coordinator */
	int64_t relay_down;
	/* the number of the newest session; see link.session */
	uint64_t sessions;
	uint64_t next_seq;
	/* membership entries, as the last answers say; see client_members */
	uint32_t members;
	/* when the first answer of this wait came; 0: none yet */
	int64_t first_answer;
	/* by dense table: residual of lossy codecs; NULL: nothing yet */
	float **residual;
	/* by dense table: velocity of codecs with momentum; NULL: none yet */
	float **velocity;
	size_t nresiduals, nvelocities;
	/* by sparse table: residuals and held-back gradients of rows; NULL: none */
	struct rows **kept;
	size_t nkept;
	struct client_row_list *spare_list; /* or NULL */
	struct bodies *spare_bodies;        /* or NULL */
	struct known *known; /* by table: cache of pulled rows (client_row_cache.c) */
	size_t nknown;
	/* the layout generation that the cached versions belong to */
	uint32_t known_generation;
	struct zip *zip;
	size_t listed; /* row ids for each server in the present push or pull */
	struct spin spin;
	struct rng rng; /* for randomized codecs and filters */
	/* by table and partition: the version that the last pull brought */
	uint64_t **version;
	uint64_t *nversion;
	size_t nversions;
	/* the newest layout epoch in which all servers have answered the last CLOCK */
	uint32_t confirmed;
	bool clocked;
	/* a session with in-flight pushes broke at this time, and none of those has a receipt
	 * since; 0: none */
	int64_t lost_at;
	/* the last step that a server was checkpointing; see client_checkpoint_step */
	uint64_t saving;
	uint64_t open_step; /* steps below are closed, as receipts of late pushes say */
	/* The last CLOCK, which is sent again to servers that join later; announced_step: the step
	 * of the links' announcements. */
	uint64_t clock_step, announced_step;
	uint32_t clock_examples;
	struct client_stats stats;
	/* bytes of sessions that have ended */
	uint64_t pushed_base, pulled_base;
	struct err fatal; /* a server's final refusal: every wait returns it */
};

/* client.c */
/* client_link_dial: start a session; on failure the link stays DOWN and is tried again later.
 * client_link_drop: end the session, if there is one, and go to DOWN; why: NULL when we ended it
 * ourselves. */
void client_link_dial(struct link *l);
void client_link_drop(struct link *l, const struct err *why);
/* The link that a push goes out on, or a pull: the relay's, else the one to the head or tail
 * of the partition's chain. Marks it as used. NULL and ERR_NOTREADY when no server holds the
 * partition. */
struct link *client_link_of_push(struct client *c, const struct inflight_push *d, struct err *e);
struct link *client_link_of_pull(struct client *c, const struct table *t, uint32_t part,
    uint64_t step, struct err *e);
/* Dial links that are due, flush, poll all links once for at most ms, and handle the records
 * that have come. */
void client_serve(struct client *c, int ms);
/* Serve all links until ready() is true. ERR_TIMEOUT or ERR_UNREACH after the deadline; else
 * client.fatal, or the error of the `cancelled` callback. step: for messages. */
enum err_code client_wait_until(struct client *c, bool (*ready)(struct client *), uint64_t step,
    struct err *e);
/* Send a record on a link that is UP; small records are batched until the next flush. */
void client_link_send(struct link *l, const struct record *r, const void *payload);
/* The header of a record: type, step, epoch and generation. */
struct record client_record_head(const struct client *c, enum msg_type type, uint64_t step);

/* client_relay.c */
static inline struct link *client_relay_link(const struct client *c)
{
	return c->link[c->nservers];
}
/* Do CLOCK and DONE go to this link? With a relay only to the relay, else to every live
 * server. */
bool client_link_takes_clocks(const struct link *l);
/* Take the relay that the view assigns. *changed: pushes and pulls go another way from now on.
 * ERR_PROTO. */
enum err_code client_relay_apply_view(struct client *c, const json_t *view, bool *changed,
    struct err *e);
/* After a change of route, and of the layout if both change: send the last CLOCK, and DONE, to
 * every link that must have them now. */
void client_relay_resend_clocks(struct client *c);
/* Go on without the relay when it has been unreachable for too long. */
void client_relay_check(struct client *c, int64_t now);
/* The relay could not aggregate this push: settle it there, and push it to the primary. */
void client_relay_split_push(struct link *l, struct inflight_push *d);
/* Handle an answer that only a relay's client gets; false: handle it as any client does. */
bool client_relay_take_record(struct link *l, const struct record *r, const uint8_t *payload);

/* client_pull.c */
/* Send a question, or send it again, on a link that is UP. */
void client_link_send_pull(struct link *l, struct ask *a);
/* conn_handler's `place`: where to receive this record's payload, or NULL. */
uint8_t *client_pull_answer_place(struct link *l, const struct record *r);
/* Take an answer; the question is freed with its last one. ERR_PROTO: it does not fit the
 * question. */
enum err_code client_pull_take_answer(struct link *l, const struct record *r,
    const uint8_t *payload, struct err *e);
void client_link_free_pulls(struct link *l);
/* client_pull_reroute_all: after a change of layout or route, ask all open questions again on the link that
 * answers now. client_pull_drop_all: forget them; in a relay, the workers ask again. */
void client_pull_reroute_all(struct client *c);
void client_pull_drop_all(struct client *c);
/* The version that the last pull of this partition has brought; 0: none yet. */
uint64_t *client_version_at(struct client *c, const struct table *t, uint32_t part);

/* Add a question to this link without sending it. */
struct ask *client_pull_add(struct client *c, struct link *l, enum msg_type type,
    const struct table *t, uint64_t step);
/* The open question of this seq; NULL: none. */
struct ask *client_pull_find(struct link *l, uint64_t seq);

/* client_pull_rows.c */
/* The partition of each row, an array to be freed. start, of nparts + 1 zeroes, becomes the
 * first position of each partition when rows are sorted by partition. */
uint16_t *client_rows_parts(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start);
/* Sort row numbers 0..n-1 by partition: those of partition p are order[start[p]] ..
 * order[start[p + 1] - 1]. Their ids are at the same places of `sorted`, unless that is NULL. */
void client_rows_sort_by_part(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start,
    uint32_t *order, uint64_t *sorted);
/* How many partitions to prepare at a time: with many rows the first ones are sent while
 * others are prepared. */
uint32_t client_rows_group_size(const struct table *t, size_t n);
/* Which of n rows (at most ROWS_PICKED) are in partitions first .. first+count-1: their
 * numbers in `some`; returns how many. */
#define ROWS_PICKED 1024u
uint32_t client_rows_pick(const uint16_t *part, uint32_t n, uint32_t first, uint32_t count,
    uint16_t some[static ROWS_PICKED]);
/* Serve the links once if much is queued, so that it leaves while more is prepared. */
void client_rows_flush_if_many(struct client *c);
/* Give up one use of a list. Its memory stays with the client for the next. */
void client_row_list_drop(struct client *c, struct client_row_list *list);
void client_row_list_free(struct client_row_list *list);
/* Take the answer to a PULL_ROWS. ERR_PROTO. */
enum err_code client_rows_take_answer(struct link *l, const struct ask *a, const struct record *r,
    const uint8_t *payload, struct err *e);

/* client_row_cache.c: the last value and version of each pulled row. */
/* Copy cached rows to a->dst, and set a->since to their versions. */
void client_row_cache_lookup(struct client *c, struct ask *a);
/* All rows of the question are in a->dst as of this version: cache them. */
void client_row_cache_store(struct client *c, const struct ask *a, uint64_t version);
void client_row_cache_free(struct client *c);

/* client_push.c */
/* Before the first push of a step: wait until every server has answered the CLOCK of the step
 * before. */
enum err_code client_push_begin(struct client *c, uint64_t step, struct err *e);
/* Announce and send a new push, and keep it until its receipt. Takes the body, unless it fails
 * (ERR_NOTREADY: no server holds the partition). */
enum err_code client_push_start(struct client *c, struct inflight_push *d, struct err *e);
/* Release the body. */
void client_push_release(struct client *c, struct inflight_push *d);
/* The in-flight push that a receipt means; NULL: none. Receipts come mostly in the order of
 * the pushes, so the search goes on from the last one found. */
struct inflight_push *client_push_find(struct link *l, uint16_t table, uint32_t part,
    uint64_t step);
/* Put a push on this link; it is sent at once when the link is UP, else by on_client_live. */
void client_push_add(struct link *l, const struct inflight_push *d);
/* Writes client_config.oldest_open. */
void client_push_note_oldest(struct client *c);
/* Send one push, the last CLOCK with its announcements, or a DONE, on a link that is UP. */
void client_link_send_push(struct link *l, const struct inflight_push *d);
void client_link_send_clock(struct link *l);
/* Send all in-flight pushes and the last CLOCK again, in the order that servers need: first
 * the pushes up to the CLOCK's step, then the CLOCK, then those of the next step. */
void client_link_resend(struct link *l);
void client_link_send_done(struct link *l);
/* Take the receipts in a RECEIPT record. */
void client_push_take_receipts(struct link *l, const uint8_t *payload, size_t len);
void client_link_free_pushes(struct link *l);

/* client_rows.c, client_push_rows.c */
/* Note how many rows each server gets in this push or pull, for the choice of how to send ids. */
static inline void client_rows_begin(struct client *c, size_t n)
{
	c->listed = c->relayed || !c->nservers ? n : n / c->nservers;
}
/* Send a pull of rows, or a push of rows, whose header `r` is begun. */
void client_rows_send_pull(struct link *l, const struct ask *a, struct record *r);
void client_rows_send_push(struct link *l, const struct inflight_push *d, struct record *r);
/* The server no longer keeps the id list that a request named: send the request with all ids. */
void client_rows_resend_ids(struct link *l, const struct record *r);
/* Give up one use of the bodies. Their memory stays with the client for the next push. */
void client_bodies_drop(struct client *c, struct bodies *b);
void client_bodies_free(struct bodies *b);
/* A push of rows was LATE: add its values to the rows' residuals, for the next push. */
void client_rows_restore_residual(struct client *c, const struct inflight_push *d);
/* The residual of a row, which is made of zeroes when there is none. */
float *client_rows_residual(struct client *c, const struct table *t, uint64_t id);
void client_rows_free_residuals(struct client *c);

/* Count the time since `begin` as spent on encoding gradients. */
static inline void client_encode_count_time(struct client *c, int64_t begin)
{
	c->stats.encode_ns += clock_now() - begin;
}
/* client_encode.c. client_encode_push: encode a dense push by the client's codec. client_encode_restore_residual: the
 * push was LATE, so add its values to the residual, for the next push. */
void client_encode_push(struct client *c, struct inflight_push *d);
void client_encode_restore_residual(struct client *c, const struct inflight_push *d);
/* The residual or velocity of a dense table, which is made of zeroes when there is none. */
float *client_encode_residual(struct client *c, const struct table *t, bool velocity);
/* A dense table has grown: extend its residual and velocity by zeroes. */
void client_encode_grow_residual(struct client *c, const struct table *had, const struct table *t);
void client_encode_free_residuals(struct client *c);

/* After a change of layout or route: move every in-flight push to the link of its present
 * primary, and send it again. */
void client_push_reroute_all(struct client *c);

/* client_view.c: take from the view whether a server or relay is there, and its key. Ends the
 * session with a process that is gone or has been replaced. */
void client_link_apply_view(struct link *l, bool live, const uint8_t key[static 32]);

#endif
