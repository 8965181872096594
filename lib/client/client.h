#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/log.h"
#include "client/identity.h"
#include "codec/codec.h"
#include "codec/filter.h"
#include "coord/layout.h"

/* The data plane as a worker or a tool sees it: sessions with all servers,
 * pulls, pushes, clocks.  A broken session is made again, and what was in
 * doubt is sent again under the same identity, so that each push counts once.
 *
 * One thread owns a client; every call may block up to the deadline. */
struct client;

#define CLIENT_NO_SLOT UINT32_MAX

enum client_ids { CLIENT_IDS_RAW, CLIENT_IDS_PACKED, CLIENT_IDS_CACHED };
/* "raw", "packed", "cached"; of others raw. */
enum client_ids client_ids_by_name(const char *name);

/* What travels of gradients and parameters, and how. */
struct client_coding {
	/* How gradients are encoded (codec NULL: raw), and whether what that or the filter
	 * leaves out is added to the next push. */
	struct codec_spec codec;
	bool feedback;
	float momentum;                 /* of codecs that apply it at the sender */
	const struct codec *pull_codec; /* of parameters that are pulled for a step; NULL: raw */
	/* How row ids travel: as they are; in blocks (codec/keys.h); those that come again
	 * named only. */
	enum client_ids ids;
	struct filter filter;           /* of rows; by l1, if that is what it goes by */
	double l1;
};

struct client_hooks;                    /* relayed.h */
struct client_config {
	const struct identity *id;      /* borrowed */
	const struct client_hooks *hooks;       /* of a relay's own client; NULL: a worker's, or a tool's */
	/* The relay of this number cannot be reached: a worker goes on without it, and the
	 * coordinator is to know.  NULL: nobody is told. */
	void (*missed)(void *ctx, unsigned relay, uint32_t epoch, const char *why);
	uint32_t slot;                  /* CLIENT_NO_SLOT: a peer outside the job */
	struct client_coding coding;
	/* Is there a coordinator that could tell of a server's death?  NULL: no. */
	bool (*informed)(void *ctx);
	uint64_t incarnation;
	const char *transport;          /* auto, shm, unix, tcp */
	int64_t deadline;               /* ns */
	int64_t spin;                   /* ns that it looks for answers before it sleeps (base/spin.h) */
	struct log *log;
	/* Who is being waited for at this step, for the log; may be NULL. */
	void *ctx;
	void (*who)(void *ctx, uint64_t step, struct buf *out);
	/* Shall a wait be given up (a signal, the job's end)?  May be NULL. */
	bool (*cancelled)(void *ctx, struct err *why);
	/* Do the others rest, as they were told to?  Then no deadline runs.  May be NULL. */
	bool (*paused)(void *ctx);
	int cancel_fd;                  /* becomes readable when `cancelled` may say yes; -1 */
	/* How long pushes were on their way until their receipt was read, in ns; NULL: nobody
	 * asks.  Others may read it at any time. */
	struct hist *latency;
};

enum err_code client_new(const struct client_config *cfg, struct client **out, struct err *e);
/* From the next push and pull on.  What was left out before goes with it. */
void client_recode(struct client *c, const struct client_coding *coding);
/* Says goodbye. */
void client_free(struct client *c);

/* Take the layout and the servers' addresses from a view; connections are made
 * when they are needed. */
enum err_code client_view(struct client *c, const json_t *view, struct err *e);
/* The newest epoch by which every server knows how far this slot is. */
uint32_t client_confirmed(const struct client *c);
const struct layout *client_layout(const struct client *c);

/* ---- pull: want what is needed, then wait for all of it ------------------- */

/* step: the worker's; CLIENT_NOW: what is there, without waiting. */
#define CLIENT_NOW UINT64_MAX
/* A whole dense table: rows * cols floats to dst.  base: the table as this client's last
 * client_want of it has brought it, which stays until client_wait returns (it may be dst):
 * then only what has changed since need come.  NULL: all of it. */
enum err_code client_want(struct client *c, const struct table *t, uint64_t step, const float *base, float *dst,
    struct err *e);
/* Of partitions first .. first+count-1 alone; base and dst are the table's.  early (bsp): it
 * may be asked before this worker's own push of the step before, and each partition
 * comes as soon as all have pushed to it, while others are still on their way. */
enum err_code client_want_parts(struct client *c, const struct table *t, uint64_t step, bool early, uint32_t first,
    uint32_t count, const float *base, float *dst, struct err *e);
/* Of a reduced table (coord/layout.h).  What the update rule keeps, vector k (from 1), as
 * the parameters; until every worker has completed the steps before this one; until all
 * partitions have been updated by the mean of the step before, in every copy. */
enum err_code client_want_state(struct client *c, const struct table *t, uint64_t step, uint64_t k, float *dst, struct err *e);
enum err_code client_want_all_at(struct client *c, const struct table *t, uint64_t step, struct err *e);
enum err_code client_want_shown(struct client *c, const struct table *t, uint64_t step, struct err *e);
/* Updates of the partition that the last pull of it has brought. */
uint64_t client_version(struct client *c, const struct table *t, uint32_t part);
/* Rows of a sparse table, in the order of ids (n * cols floats to dst).  ids
 * must stay until client_wait returns. */
enum err_code client_want_rows(struct client *c, const struct table *t, uint64_t step, const uint64_t *ids, size_t n,
    float *dst, struct err *e);
/* The same; but rows that this client has pulled so before, and which have not changed
 * since, need not travel again.  Up to 64 MiB of rows are remembered for that. */
enum err_code client_want_changed_rows(struct client *c, const struct table *t, uint64_t step, const uint64_t *ids, size_t n,
    float *dst, struct err *e);
/* Until everything wanted is there, and every push of earlier steps has its
 * receipt: then gradients may be written over. */
enum err_code client_wait(struct client *c, uint64_t step, struct err *e);
/* Would it return at once? */
bool client_has_all(struct client *c);
/* Send and take what goes without waiting, amid a computation. */
void client_poke(struct client *c);
/* When the first answer of the last client_wait came (clock_now): before it,
 * servers made us wait; after it, data came. */
int64_t client_first_answer(const struct client *c);
/* Membership entries that hold at the step of the last wait. */
uint32_t client_members(const struct client *c);
/* Steps below this were closed without a push that came too late for one of them. */
uint64_t client_open_step(const struct client *c);

/* ---- push ------------------------------------------------------------------- */

/* The gradient (mean over `examples`) of a whole dense table.  g must stay
 * unchanged until the next client_wait or client_settle has returned. */
enum err_code client_push(struct client *c, const struct table *t, uint64_t step, uint32_t examples, const float *g,
    struct err *e);
/* Of partitions first .. first+count-1 alone; g is the table's. */
enum err_code client_push_parts(struct client *c, const struct table *t, uint64_t step, uint32_t examples, uint32_t first,
    uint32_t count, const float *g, struct err *e);
/* w: the rows as they were pulled, for filters that look at them; NULL: not known. */
enum err_code client_push_rows(struct client *c, const struct table *t, uint64_t step, uint32_t examples,
    const uint64_t *ids, size_t n, const float *g, const float *w, struct err *e);
/* Of a reduced table: the mean of this step's gradients, which all workers have (the table's,
 * and stays as above); NULL: nobody had examples.  Whoever else pushes it, too: it counts once. */
enum err_code client_push_mean(struct client *c, const struct table *t, uint64_t step, uint32_t part, const float *mean,
    struct err *e);
/* The step is complete: tell every server, and write all that is queued. */
enum err_code client_clock(struct client *c, uint64_t step, uint32_t examples, struct err *e);
/* The same in two: what is asked for between them goes with it. */
enum err_code client_clock_begin(struct client *c, uint64_t step, uint32_t examples, struct err *e);
enum err_code client_clock_end(struct client *c, uint64_t step, struct err *e);
/* No more data: never wait for this slot again.  Returns when all servers
 * have said yes. */
enum err_code client_done(struct client *c, struct err *e);
/* Until every push has its receipt. */
enum err_code client_settle(struct client *c, struct err *e);

/* ---- whole tables -------------------------------------------------------------- */

/* All rows of a sparse table in ascending order of id, piece by piece. */
typedef enum err_code (*client_rows_fn)(void *ctx, const uint64_t *ids, const float *rows, size_t n, struct err *e);
enum err_code client_scan(struct client *c, const struct table *t, client_rows_fn fn, void *ctx, struct err *e);

/* The same of those that were updated at step `since` or later, of a table whose policy notes it (else ERR_CONFIG). */
struct client_changes {
	uint64_t step;                  /* what has not come yet is of this step or later */
	bool gone;                      /* some rows are there no more that may have been at `since`: those are left */
	uint64_t *live;                 /* their ids, ascending, to be freed; else NULL */
	size_t nlive;
};
enum err_code client_scan_changed(struct client *c, const struct table *t, uint64_t since, client_rows_fn fn, void *ctx,
    struct client_changes *out, struct err *e);
/* Of partitions first .. first+count-1 alone; with since CLIENT_ALL all of their rows, of any sparse table: out->step is
 * then what to ask for next. */
#define CLIENT_ALL UINT64_MAX
enum err_code client_scan_parts(struct client *c, const struct table *t, uint32_t first, uint32_t count, uint64_t since,
    client_rows_fn fn, void *ctx, struct client_changes *out, struct err *e);

/* ---- figures --------------------------------------------------------------------- */

struct client_stats {
	uint64_t receipts[8];           /* by enum push_status */
	uint64_t staleness_sum;
	uint64_t pushed_bytes, pulled_bytes;    /* as on the wire */
	uint64_t reconnects;
	uint64_t rows_offered, rows_held;       /* of sparse gradients; held back by the filter */
	int64_t encode_ns;              /* spent on making what travels of gradients */
};
void client_stats(const struct client *c, struct client_stats *out);

#endif
