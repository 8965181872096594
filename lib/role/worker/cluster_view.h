/* SPDX-License-Identifier: ISC */
#ifndef WORKER_CLUSTER_VIEW_H
#define WORKER_CLUSTER_VIEW_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/log.h"
#include "session/agent.h"
#include "session/identity.h"

/* The cluster as one process sees it: the latest view from the coordinator, kept up to date by an
 * agent (cluster/session/agent.h) with a thread of its own, and short messages to the coordinator.
 *
 * All functions are called by one thread, the owner's. The agent's thread delivers views into the
 * struct under its lock and calls cfg.stats for heartbeats. Once the coordinator is lost for good
 * (cluster_view_is_lost), that state does not change any more. */
struct cluster_view;

struct cluster_view_config {
	const struct identity *id; /* borrowed */
	uint64_t incarnation;
	enum role role;
	int64_t heartbeat, deadline;
	/* fail at once when the coordinator cannot be reached at first */
	bool eager;
	const struct interrupt *interrupt; /* ends waits for views; NULL, or borrowed */
	struct log *log;
	/* figures of a heartbeat; called on the agent's thread; may be NULL */
	json_t *(*stats)(void *ctx);
	void *ctx;
};

/* Connects and waits for the first view. ERR_TIMEOUT, ERR_STOPPED, or the reason for which the
 * coordinator is lost. */
enum err_code cluster_view_open(const struct cluster_view_config *cfg, struct cluster_view **out,
    struct err *e);
void cluster_view_close(struct cluster_view *c);
struct agent *cluster_view_agent(struct cluster_view *c);
/* Records of what this process does while a trace is taken. */
struct tracer;
struct tracer *cluster_view_tracer(struct cluster_view *c);

/* The latest view, to be released with view_release; NULL before the first. Clears cluster_view_changed. */
const struct view *cluster_view_current(struct cluster_view *c);
/* Has it changed since cluster_view_current was called last? */
bool cluster_view_changed(const struct cluster_view *c);
/* Readable when the view has changed since cluster_view_current was called last, or
 * the coordinator is lost. */
int cluster_view_fd(const struct cluster_view *c);
/* Waits until ready(ctx, view) is true, and returns that view in *view. The view counts as changed
 * afterwards, so that the caller's usual refresh takes it over. Logs what it waits for (the view's
 * waiting_for) after 2 s, then every 10 s. ERR_TIMEOUT after the deadline (0: none); ERR_STOPPED
 * when interrupted. */
enum err_code cluster_view_await(struct cluster_view *c,
    bool (*ready)(void *ctx, const struct view *view), void *ctx, int64_t timeout,
    const struct view **view, struct err *e);
/* Waits for a change of the view, at most `ns`. An error when the coordinator is lost. */
enum err_code cluster_view_await_change(struct cluster_view *c, int64_t ns, struct err *e);
/* Tells the coordinator that this worker uses the layout of this epoch; epochs not above the last
 * reported one are ignored. Servers that join wait for it. */
void cluster_view_confirm_layout(struct cluster_view *c, uint32_t epoch);
/* Tells the coordinator that this worker cannot reach the relay. */
void cluster_view_report_relay(struct cluster_view *c, unsigned relay, uint32_t epoch,
    const char *why);
/* Tells the coordinator that this worker ends by the error, so that the others need not wait until
 * its lease expires. Returns when the coordinator knows, after a second at most. */
void cluster_view_give_up(struct cluster_view *c, const struct err *why, bool returns);
/* Tells the coordinator that this worker will join when it has loaded its data. rank: the rank it
 * wants, or -1. */
void cluster_view_announce_join(struct cluster_view *c, int rank);
/* Tells the coordinator why this worker cannot join, for users who wonder. rank: the rank it
 * wanted, or -1. */
void cluster_view_report_unfit(struct cluster_view *c, int rank, const struct err *why);
/* Appends which workers delay this one at the step, and why, as the coordinator sees it; nothing
 * when no worker does. Blocks for a second at most. */
void cluster_view_stragglers(struct cluster_view *c, uint64_t step, struct buf *out);
/* Is the coordinator lost for good? Then *why (unless NULL) is the reason. */
bool cluster_view_is_lost(struct cluster_view *c, struct err *why);

/* Does this view say that the job is over? ERR_OK: no. ERR_FAILED: it failed. ERR_STOPPED: it was
 * stopped or ended. */
enum err_code cluster_view_is_over(const struct view *view, struct err *e);

#endif
