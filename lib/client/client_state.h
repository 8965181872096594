#ifndef CLIENT_CLIENT_STATE_H
#define CLIENT_CLIENT_STATE_H

/* Inside of a client: shared by client*.c. */
#include "base/clock.h"
#include "base/spin.h"
#include "client/client.h"
#include "codec/keycache.h"
#include "shard/rows.h"
#include "wire/conn.h"
#include "wire/msg.h"

/* The seq of a DONE, which its CLOCKED repeats; a CLOCK has 0. */
#define DONE_SEQ 1

/* Of a sparse partition all rows, those that were updated at `since` or later, or the ids of all. */
struct scanned {
	bool changed, told;             /* told: ids alone */
	uint64_t since;
	/* The answer: its body, and what its head says. */
	struct buf body;
	bool last;
	uint64_t step, removed;
};

/* A question to one server, until it is answered whole. */
struct ask {
	struct ask *next;
	uint64_t seq, step;
	enum msg_type type;             /* REC_PULL, REC_PULL_ROWS, REC_SCAN */
	const struct table *table;
	uint32_t part, count;           /* partitions; count 1 for rows and scans */
	uint32_t left;                  /* answers still to come */
	float *dst;                     /* PULL: of the table; PULL_ROWS: of the want */
	const float *base;              /* PULL: the table as it was at these versions, by partition; or NULL */
	uint64_t *since;                /* PULL_ROWS: as of which version each row is known; NULL: none is asked so */
	bool early;                     /* PULL: each partition as soon as it is there */
	bool tell;                      /* PULL: that, and no values; not early: when all are at the step */
	uint64_t vector;                /* PULL: of what the update rule keeps; 0: the parameters */
	struct row_list *list;          /* PULL_ROWS: what the next two are of; NULL of others */
	const uint64_t *ids;
	const uint32_t *pos;            /* where each row goes in dst */
	uint32_t n;
	uint64_t after;                 /* SCAN */
	bool begin;
	struct scanned *scanned;        /* SCAN: what is wanted, and the answer */
};

/* The rows of a want by partition, which its questions share; kept for the next want when
 * the last of them has been answered. */
struct row_list {
	unsigned users;
	size_t cap;
	uint64_t *ids;
	uint32_t *pos;
};

/* The bodies of a push of rows, kept for the next when all have their receipts. */
struct bodies {
	unsigned users;
	size_t cap;
	uint8_t *bytes;
};

/* A push that has no receipt yet. */
struct doubt {
	const struct table *table;
	uint32_t part, examples, n;     /* n: elements, or rows */
	uint64_t step, pulled;
	int64_t sent_at;                /* when it was pushed, whatever was lost since */
	const float *g;                 /* dense and raw: borrowed */
	uint8_t *body;                  /* sparse, or encoded: owned, or.. */
	struct bodies *bodies;          /* ..a part of these; else NULL */
	size_t len;                     /* of the body */
	uint16_t codec;
	bool settled;
	bool moved;                     /* its server was another one before */
	bool alone;                     /* not to the relay: it could not be summed there */
	bool mean;                      /* of all: no CLOCK tells of it */
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
	bool unshared;                  /* a session ended when it was to share memory */
	unsigned denied;                /* handshakes refused one after the other */
	int64_t down_since, next_try, retry;
	bool used;                      /* there is something to do here */
	bool live;                      /* by the view */
	struct batcher batcher;
	uint64_t session;               /* of a relay's client: another one for each session and epoch */

	struct ask *asks, **asks_last;  /* in the order of their sending, which is that of the answers */
	struct doubt *doubt;
	size_t ndoubts, cap_doubts, first_doubt;
	size_t open_doubts;             /* those that are not settled */
	bool clock_due, done_due, done;        /* CLOCK or DONE without an answer */
	struct keycache *kept;          /* row ids that this session's server keeps; NULL: none */
	struct buf claims;              /* runs of what is pushed at this step to partitions it has copies of */
};

struct client {
	struct client_config cfg;
	struct layout layout;
	struct link **link;             /* to each server; then to the relay */
	unsigned nlinks, nservers;
	bool relayed;                   /* all of steps goes through the relay */
	bool done;                      /* client_done was called */
	unsigned relay;                 /* its number */
	uint64_t relay_process, missed; /* its incarnation; that of one that could not be reached */
	bool shunned;                   /* that one is still to be ours, by the view */
	int64_t relay_down;             /* since when its line is not up; 0: it is.  Of one that is shunned: said then */
	uint64_t sessions;
	uint64_t next_seq;
	uint32_t members;
	int64_t first_answer;
	float **residual;               /* by dense table: what lossy pushes have left out; NULL: nothing yet */
	float **velocity;               /* the same, for codecs with momentum */
	size_t nresiduals, nvelocities;
	struct rows **kept;             /* by sparse table: what is still to be pushed of its rows */
	size_t nkept;
	struct row_list *spare_list;    /* or NULL */
	struct bodies *spare_bodies;    /* or NULL */
	struct known *known;            /* by table: rows as they were pulled last */
	size_t nknown;
	uint32_t known_generation;      /* of the layout, that their versions are of */
	struct zip *zip;
	size_t listed;                  /* ids for each server of the push or want that is being sent */
	struct spin spin;
	struct rng rng;                 /* of codecs that are random */
	uint64_t **version;             /* by table and partition: as pulled last */
	uint64_t *nversion;
	size_t nversions;
	/* The slot's last CLOCK, for servers that come later. */
	uint32_t confirmed;             /* epoch under which all servers have answered the last CLOCK */
	bool clocked;
	int64_t lost_at;                /* a session broke then, and what it held is not acknowledged; 0: none */
	uint64_t saving;                /* see client_saving */
	uint64_t open_step;             /* as receipts of late pushes tell */
	uint64_t clock_step, claim_step;        /* claim_step: that the links' claims are of */
	uint32_t clock_examples;
	struct client_stats stats;
	uint64_t pushed_base, pulled_base;
	struct err fatal;               /* a server refused: no use in going on */
};

/* client.c */
/* Its session has ended (why: NULL when that was our wish), and is tried again later. */
void link_dial(struct link *l);
void link_drop(struct link *l, const struct err *why);
/* Of the server that takes a partition's pushes, and of the one that answers
 * its pulls. */
struct link *link_of_push(struct client *c, const struct doubt *d, struct err *e);
struct link *link_of_pull(struct client *c, const struct table *t, uint32_t part, uint64_t step, struct err *e);
/* Poll all links once, for at most ms, and do what there is to do. */
void client_serve(struct client *c, int ms);
/* Turn the wheel until ready() or an error. */
enum err_code client_turn(struct client *c, bool (*ready)(struct client *), uint64_t step, struct err *e);
/* Stage a small record, or send a large one, on a link that is up. */
void link_send(struct link *l, const struct record *r, const void *payload);
struct record client_head(const struct client *c, enum msg_type type, uint64_t step);

/* client_say.c: to the log, who is waited for at this step, and since when. */
void client_say_waiting(struct client *c, uint64_t step, int64_t since);

/* client_relay.c */
static inline struct link *relay_link(const struct client *c)
{
	return c->link[c->nservers];
}
/* Is it one of those that CLOCKs and DONEs go to? */
bool link_hears(const struct link *l);
/* The relay of the view; *changed: it is another way from now on, or none. */
enum err_code relay_view(struct client *c, const json_t *view, bool *changed, struct err *e);
/* After the layout was taken: everybody who is to hear hears. */
void relay_rehear(struct client *c);
/* Has it been away for too long?  Then on without it. */
void relay_look(struct client *c, int64_t now);
/* A push that the relay could not sum: to the server. */
void relay_split(struct link *l, struct doubt *d);
/* What a relay's own client makes of an answer; false: it is not for it. */
bool relay_record(struct link *l, const struct record *r, const uint8_t *payload);

/* client_pull.c */
void link_send_ask(struct link *l, struct ask *a);
uint8_t *ask_place(struct link *l, const struct record *r);
enum err_code ask_answer(struct link *l, const struct record *r, const uint8_t *payload, struct err *e);
void link_free_asks(struct link *l);
/* The layout has changed: ask those who answer now.  Or, of a relay, none: whoever asked it
 * asks again. */
void asks_move(struct client *c);
void asks_drop(struct client *c);
uint64_t *version_at(struct client *c, const struct table *t, uint32_t part);

/* Another question to this link, not sent yet. */
struct ask *ask_add(struct client *c, struct link *l, enum msg_type type, const struct table *t, uint64_t step);
struct ask *ask_find(struct link *l, uint64_t seq);

/* client_pull_rows.c */
/* The partition of each row, to be freed; start[p]: how many rows lie in those before p.
 * start: nparts + 1 zeroes. */
uint16_t *rows_parts(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start);
/* Places 0..n-1 by partition: those of p are order[start[p]] ..
 * order[start[p+1]-1], and their ids are at the same places of `sorted`, or that is NULL. */
void rows_by_part(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start, uint32_t *order, uint64_t *sorted);
/* Partitions whose rows are got ready at a time: of many rows the first are on their way
 * while others are got ready. */
uint32_t rows_group(const struct table *t, size_t n);
/* Of n rows, at most ROWS_PICKED, the numbers of those in partitions first .. first+count-1;
 * how many. */
#define ROWS_PICKED 1024u
uint32_t rows_pick(const uint16_t *part, uint32_t n, uint32_t first, uint32_t count, uint16_t some[static ROWS_PICKED]);
/* What is queued for the servers goes to them when it is much, while more is made. */
void rows_on_their_way(struct client *c);
void list_drop(struct client *c, struct row_list *list);
void list_free(struct row_list *list);
enum err_code rows_take(struct link *l, const struct ask *a, const struct record *r, const uint8_t *payload, struct err *e);

/* client_known.c: sparse rows as they came last. */
/* Put what is known of the rows in their places, and make a->since. */
void known_ask(struct client *c, struct ask *a);
/* All rows are in their places, as of this version. */
void known_take(struct client *c, const struct ask *a, uint64_t version);
void known_forget(struct client *c);

/* client_push.c */
/* Before the first push of a step: waits until the servers know that the one before is over. */
enum err_code push_begin(struct client *c, uint64_t step, struct err *e);
/* Push it, and keep it until its receipt; takes its body, unless it fails. */
enum err_code doubt_new(struct client *c, struct doubt *d, struct err *e);
/* Its body is not wanted any more. */
void doubt_release(struct client *c, struct doubt *d);
struct doubt *doubt_find(struct link *l, uint16_t table, uint32_t part, uint64_t step);
/* Onto this link, sent when it is up. */
void doubt_add(struct link *l, const struct doubt *d);
void link_send_doubt(struct link *l, const struct doubt *d);
void link_send_clock(struct link *l);
/* All that is open once more, each push behind the CLOCKs that it builds on. */
void link_resend(struct link *l);
void link_send_done(struct link *l);
void doubt_receipts(struct link *l, const uint8_t *payload, size_t len);
void link_free_doubts(struct link *l);

/* client_rows.c, client_push_rows.c */
/* n rows are about to be pushed or asked for. */
static inline void rows_begin(struct client *c, size_t n)
{
	c->listed = c->relayed || !c->nservers ? n : n / c->nservers;
}
/* Send the question of this head. */
void rows_ask(struct link *l, const struct ask *a, struct record *r);
void rows_send(struct link *l, const struct doubt *d, struct record *r);
/* The server does not know the ids that this names. */
void rows_unknown(struct link *l, const struct record *r);
void bodies_drop(struct client *c, struct bodies *b);
void bodies_free(struct bodies *b);
/* It came too late: once more, with the next. */
void rows_again(struct client *c, const struct doubt *d);
/* What is kept of a row: zeroes when it is new. */
float *rows_kept(struct client *c, const struct table *t, uint64_t id);
void rows_forget(struct client *c);

/* What travels of a gradient has been made since then. */
static inline void encoded_since(struct client *c, int64_t begin)
{
	c->stats.encode_ns += clock_now() - begin;
}
/* client_encode.c: a dense push by the client's codec; its contents once more, for the
 * next push, when it came too late. */
void encode_push(struct client *c, struct doubt *d);
void encode_again(struct client *c, const struct doubt *d);
/* What is kept of a dense table: residual or velocity; zeroes when it is new. */
float *encode_kept(struct client *c, const struct table *t, bool velocity);
/* A dense table has more rows now. */
void encode_grown(struct client *c, const struct table *had, const struct table *t);
void encode_forget(struct client *c);

/* The layout has changed: push to those who take it now. */
void doubts_move(struct client *c);

/* client_view.c: the server's, or the relay's, is another one or has gone. */
void link_take(struct link *l, bool live, const uint8_t key[static 32]);

#endif
