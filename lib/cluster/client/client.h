/* SPDX-License-Identifier: ISC */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "codec/codec.h"
#include "codec/filter.h"
#include "core/buf.h"
#include "core/err.h"
#include "core/hist.h"
#include "core/json.h"
#include "core/log.h"
#include "layout/layout.h"
#include "msg/view.h"
#include "session/identity.h"
#include "wire/transport.h"

/* The data plane as a worker or a tool sees it: one client has sessions with all servers, over
 * which it pulls, pushes and sends CLOCKs. When a session breaks, the client connects again
 * and repeats every push that has no receipt under the same identity, so that each push counts
 * once. client_state.h draws the states of a link, and request.h the states of an in-flight push.
 *
 * One thread owns a client, and there is no lock; struct client_config names the one member
 * that other threads may read. A function without an `err` argument does not block. The others
 * may block up to the deadline, unless their comment says otherwise, and fail with ERR_TIMEOUT
 * (other workers did not arrive), ERR_UNREACH (a server cannot be reached), ERR_NOTREADY (no
 * server holds a partition), the code of a server's refusal, or the error that the `attend`
 * callback has set. */
struct client;

#define CLIENT_NO_RANK UINT32_MAX

enum client_ids { CLIENT_IDS_RAW, CLIENT_IDS_PACKED, CLIENT_IDS_CACHED };
/* "raw", "packed" or "cached"; any other name gives CLIENT_IDS_RAW. */
enum client_ids client_ids_by_name(const char *name);

/* How gradients and parameters are encoded for the wire. */
struct client_coding {
	/* The codec of gradients (codec NULL: raw). With feedback, the values that the codec
	 * or the filter leaves out are added to the next push. */
	struct codec_spec codec;
	bool feedback;
	/* for codecs whose momentum the sender applies */
	float momentum;
	const struct codec *pull_codec; /* for parameters that are pulled for a step; NULL: raw */
	/* How row ids are sent: raw (8 bytes each), packed (codec/row_ids.h), or cached (packed,
	 * and a list that the server has seen in this session by its hash only). */
	enum client_ids ids;
	struct filter filter; /* which rows to hold back */
	double l1;
};

struct client_relay_hooks; /* client_of_relay.h */
struct client_config {
	const struct identity *id; /* borrowed */
	/* for a relay's own client; NULL: a worker or a tool */
	const struct client_relay_hooks *hooks;
	/* Called when this relay cannot be reached, to tell the coordinator; the worker goes
	 * on without the relay. May be NULL. */
	void (*missed)(void *ctx, unsigned relay, uint32_t epoch, const char *why);
	/* the worker's rank; CLIENT_NO_RANK: a process outside the job */
	uint32_t rank;
	struct client_coding coding;
	/* Is there a session with the coordinator, which could report that a server is dead?
	 * NULL: no. */
	bool (*coordinator_is_up)(void *ctx);
	uint64_t incarnation;
	const struct transport *transport;
	int64_t deadline; /* ns */
	/* ns of polling for answers before it sleeps (core/spin.h) */
	int64_t spin;
	struct log *log;
	/* Append, for the log, which workers this step waits for; may be NULL. */
	void *ctx;
	void (*list_stragglers)(void *ctx, uint64_t step, struct buf *out);
	/* Each wait calls it about every 10 ms, and when attend_fd becomes readable, to attend to
	 * everything else. It may call client_apply_view, which moves requests to other servers.
	 * True: give the wait up (a signal, the job's end); *why: the error to return. May be
	 * NULL. */
	bool (*attend)(void *ctx, struct err *why);
	/* Is the job paused? Then no deadline runs. May be NULL. */
	bool (*paused)(void *ctx);
	int attend_fd; /* becomes readable when `attend` has something to do; -1 */
	/* Time from a push to its receipt, in ns. Other threads may read it at any time. NULL:
	 * not measured. */
	struct hist *latency;
	/* The oldest step with a push that has no receipt: exact while the job is paused, else 0;
	 * CLIENT_NONE_OPEN when every push has one. Other threads may read it at any time. NULL:
	 * not wanted. */
	_Atomic uint64_t *oldest_open;
};

#define CLIENT_NONE_OPEN UINT64_MAX

/* Make a client without links: client_apply_view brings those. Copies *cfg. Always ERR_OK. */
enum err_code client_new(const struct client_config *cfg, struct client **out, struct err *e);
/* Use another coding from the next push and pull on. Residuals of the present one are sent
 * with the next push of their table. */
void client_set_coding(struct client *c, const struct client_coding *coding);
/* From now on another thread owns the client: the next one that uses it. */
void client_hand_over(struct client *c);
/* Send BYE on all links that are UP, and free everything. NULL is fine. */
void client_free(struct client *c);

/* Take the layout, the servers' addresses and the relay from a cluster view. Pulls and pushes
 * that have no answer are sent again if they now go to another server or relay. Does not
 * block: sessions are made when they are needed. ERR_PROTO: the view is malformed;
 * ERR_NOTFOUND: a table with an open pull or push was dropped. */
enum err_code client_apply_view(struct client *c, const struct view *view, struct err *e);
/* The newest layout epoch in which every server has acknowledged this worker's last CLOCK. */
uint32_t client_confirmed_epoch(const struct client *c);
/* The layout of the last view; it belongs to the client and changes with client_apply_view. */
const struct layout *client_layout(const struct client *c);

/* ---- pull: client_want* asks without waiting, client_wait waits for all answers ----
 *
 * ERR_NOTREADY of client_want*: a partition is on no server. No answer is written to dst
 * afterwards. */

/* Used as a step: the present parameters, without waiting for other workers. */
#define CLIENT_NOW UINT64_MAX
/* Pull a whole dense table: rows * cols floats to dst. base: the table as this client's last
 * client_want of it brought it; it must stay until client_wait returns (it may be dst), and
 * only changes since then are sent. NULL: all values are sent. */
enum err_code client_want(struct client *c, const struct table *t, uint64_t step, const float *base,
    float *dst, struct err *e);
/* Pull partitions first .. first+count-1 alone; base and dst are still the whole table's.
 * early (bsp): the pull may be made before this worker's own push of the step before, and each
 * partition is answered as soon as all workers have pushed to it. */
enum err_code client_want_parts(struct client *c, const struct table *t, uint64_t step, bool early,
    uint32_t first, uint32_t count, const float *base, float *dst, struct err *e);
/* Pull partitions first .. first+count-1 to dst, as they are now; dst has room for their elements
 * alone: for tables that are larger than the memory that the caller wants to use. */
enum err_code client_want_window(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, float *dst, struct err *e);
/* Three pulls of a reduced table (layout/layout.h). client_want_state: vector k (from 1) of
 * the optimizer state, instead of the parameters. client_want_all_at: no values; answered when
 * every worker has completed the steps before this one. client_want_shown: no values; answered
 * when every replica of all partitions has been updated by the mean of the step before. */
enum err_code client_want_state(struct client *c, const struct table *t, uint64_t step, uint64_t k,
    float *dst, struct err *e);
/* One question for each run of the table, since one partition of a run suffices for all servers of
 * its chain. */
enum err_code client_want_all_at(struct client *c, const struct table *t, uint64_t step,
    struct err *e);
/* One question for each partition, answered by the tail of its chain. */
enum err_code client_want_shown(struct client *c, const struct table *t, uint64_t step,
    struct err *e);
/* The version of the partition that the last pull of it brought: the number of its updates. */
uint64_t client_version(struct client *c, const struct table *t, uint32_t part);
/* Pull rows of a sparse table, in the order of ids (n * cols floats to dst). ids must stay
 * until client_wait returns. */
enum err_code client_want_rows(struct client *c, const struct table *t, uint64_t step,
    const uint64_t *ids, size_t n, float *dst, struct err *e);
/* Does what client_want_rows does, but rows that this client has in its cache are sent only if they
 * have changed since. The cache holds up to 64 MiB of rows. */
enum err_code client_want_changed_rows(struct client *c, const struct table *t, uint64_t step,
    const uint64_t *ids, size_t n, float *dst, struct err *e);
/* Does what client_want_changed_rows does, in bsp before this worker's own push of the step before: each
 * partition is answered as soon as all workers have pushed to it. */
enum err_code client_want_changed_rows_early(struct client *c, const struct table *t, uint64_t step,
    const uint64_t *ids, size_t n, float *dst, struct err *e);
/* Wait until every pull is answered and every push has its receipt: then gradients may be
 * overwritten. After an error all open pulls are forgotten. */
enum err_code client_wait(struct client *c, uint64_t step, struct err *e);
/* A mark in the order of requests: the pulls that were requested so far. */
uint64_t client_mark_pulls(const struct client *c);
/* Waits until the pulls before a mark are answered; later ones, and pushes, may still be open. Errors as
 * client_wait. */
enum err_code client_wait_marked(struct client *c, uint64_t mark, uint64_t step, struct err *e);
/* Does client_want_changed_rows find the rows in its cache that it has pulled? Not while a relay answers
 * the pulls of steps, which has rows for one step only. */
bool client_caches_rows(const struct client *c);
/* Would client_wait return at once? */
bool client_has_all(struct client *c);
/* Send and receive as much as is possible without waiting; for use during a computation, or while
 * the worker has nothing to do: servers that join get its last CLOCK and its DONE, and
 * client_confirmed_epoch says when they have the CLOCK. It dials links that are due, too. */
void client_poke(struct client *c);
/* Does what client_poke does, and calls `attend` once: for a computation that may last longer than
 * the job. Returns the error that `attend` has set. */
enum err_code client_attend(struct client *c, struct err *e);
/* When the first answer of the last client_wait came (clock_now): the time before it was spent
 * on waiting for servers, the time after it on data. */
int64_t client_first_answer(const struct client *c);
/* How many membership entries (ps-protocol(7)) are in force at the step of the last answers. */
uint32_t client_members(const struct client *c);
/* The last pulled step for which the servers said that workers train: that they stated examples at
 * the last step that it waited for, or later. CLIENT_NOW: none yet. */
uint64_t client_trained_step(const struct client *c);
/* Steps below this one are closed: a push of one of them came too late. 0: no push was late. */
uint64_t client_open_step(const struct client *c);

/* ---- push ---- */

/* Memory for gradients, n floats that are zero, aligned to 64 bytes. It belongs to the client,
 * which frees it in client_free. Pushes of dense gradients that lie there may need fewer copies
 * than others; call this before the first pull or push, because sessions that are up do not use
 * memory that is new. NULL: there is no memory. */
float *client_gradients(struct client *c, size_t n);

/* Push the gradient (mean over `examples`) of a whole dense table. g must stay unchanged until
 * the next client_wait or client_wait_receipts has returned. The first push of a step waits until
 * every server has acknowledged the CLOCK of the step before. */
enum err_code client_push(struct client *c, const struct table *t, uint64_t step, uint32_t examples,
    const float *g, struct err *e);
/* Push partitions first .. first + count - 1 alone; g is still the whole table's. */
enum err_code client_push_parts(struct client *c, const struct table *t, uint64_t step,
    uint32_t examples, uint32_t first, uint32_t count, const float *g, struct err *e);
/* The gradients of n rows of a sparse table, at a step. */
struct row_push {
	const struct table *table;
	uint64_t step;
	uint32_t examples;
	const uint64_t *ids;
	size_t n;
	const float *g;
	/* The rows as they were pulled, for filters that compare with them; NULL: not known. */
	const float *w;
	/* The number of examples that touch each row, from 1 on; NULL: unknown. */
	const uint32_t *touching;
};
/* Push rows, which are copied. */
enum err_code client_push_rows(struct client *c, const struct row_push *push, struct err *e);
/* Push one partition of a reduced table: the mean of this step's gradients, which all workers have
 * and which must stay as in client_push, and its number of examples; NULL: no worker had any. Every
 * worker may push it; it counts once. Does not block. */
enum err_code client_push_mean(struct client *c, const struct table *t, uint64_t step,
    uint32_t part, uint32_t examples, const float *mean, struct err *e);
/* The worker has completed the step: send a CLOCK, which announces this step's pushes, to
 * every server, and wait until all queued records are written. */
enum err_code client_clock(struct client *c, uint64_t step, uint32_t examples, struct err *e);
/* client_clock in two halves; pulls made between them are written together with the CLOCK. The
 * first half waits until the CLOCK before is acknowledged. */
enum err_code client_clock_begin(struct client *c, uint64_t step, uint32_t examples, struct err *e);
/* Waits until every queued record is written to its socket or to shared memory; the CLOCKs need
 * not be acknowledged then. */
enum err_code client_clock_end(struct client *c, uint64_t step, struct err *e);
/* Send DONE: this worker has no more data, and no server waits for it again. Returns when all
 * servers have acknowledged it. */
enum err_code client_done(struct client *c, struct err *e);
/* Wait until every push has its receipt. */
enum err_code client_wait_receipts(struct client *c, struct err *e);

/* ---- whole tables ---- */

/* Pull all rows of the partitions first .. first+count-1 of a sparse table as they are now, and call fn with
 * them in ascending order of ids, in pieces. It holds about 64 MiB of answers and one piece, however
 * large the table is. Rows that are made or removed meanwhile may be among them or not. The scan ends
 * with the first error of fn, which must not use the client. */
typedef enum err_code (
    *client_rows_fn)(void *ctx, const uint64_t *ids, const float *rows, size_t n, struct err *e);
enum err_code client_scan(struct client *c, const struct table *t, uint32_t first, uint32_t count,
    client_rows_fn fn, void *ctx, struct err *e);

/* The rest of an answer about changed rows. */
struct client_changes {
	/* later changes are of this step or a later one: `since` of the next call */
	uint64_t step;
	/* rows that may have existed at `since` were removed */
	bool gone;
	/* of client_scan_changed, if `gone`: the ids of all rows that are left, ascending, to be
	 * freed; else NULL */
	uint64_t *live;
	size_t nlive;
};
/* Pull the rows that were updated at step `since` or later. ERR_CONFIG: the table's row policy
 * does not record when rows change. */
enum err_code client_scan_changed(struct client *c, const struct table *t, uint64_t since,
    client_rows_fn fn, void *ctx, struct client_changes *out, struct err *e);
/* Does what client_scan_changed does, for partitions first .. first+count-1 alone. since
 * CLIENT_ALL: all of their rows, for a sparse table of any policy. */
#define CLIENT_ALL UINT64_MAX
enum err_code client_scan_parts(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, uint64_t since, client_rows_fn fn, void *ctx, struct client_changes *out,
    struct err *e);
/* Asks for the ids of all rows in the partitions first .. first+count-1, ascending. The caller frees
 * *ids. */
enum err_code client_scan_live(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, uint64_t **ids, size_t *n, struct err *e);
/* Asks for the ids whose rows were removed at step `since` or later and have not been made again,
 * of the partitions first .. first+count-1, ascending. Costs the servers what has changed since. *known
 * false: some server no longer knows that, and only client_scan_live tells. The caller frees *ids. */
enum err_code client_scan_removed(struct client *c, const struct table *t, uint32_t first,
    uint32_t count, uint64_t since, uint64_t **ids, size_t *n, bool *known, struct err *e);

/* ---- figures ---- */

/* Pushes that servers refused because of their values: not finite, or too large to be summed. */
struct client_bad_pushes {
	uint64_t n;
	uint64_t step;  /* of the first one; CLIENT_NOW: a push from outside the job */
	uint16_t table; /* of the first one */
	float worst;    /* its value farthest from zero, or NaN; 0 if the codec does not show it */
};

struct client_stats {
	uint64_t receipts[8]; /* by enum push_status */
	struct client_bad_pushes bad;
	uint64_t staleness_sum;
	uint64_t pushed_bytes, pulled_bytes; /* as on the wire */
	uint64_t reconnects;
	/* rows of sparse gradients; those that the filter held back */
	uint64_t rows_offered, rows_held;
	int64_t encode_ns; /* spent on encoding gradients */
};
/* Counts since client_new, also of ended sessions. */
void client_stats(const struct client *c, struct client_stats *out);

#endif
