#ifndef WORK_CLUSTER_H
#define WORK_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/log.h"
#include "client/agent.h"
#include "client/identity.h"

/* A process's picture of the cluster: the latest view, kept by an agent. */
struct cluster;

struct cluster_config {
	const struct identity *id;      /* borrowed */
	uint64_t incarnation;
	enum role role;
	int64_t heartbeat, deadline;
	bool eager;                     /* a coordinator that cannot be reached at first is not waited for */
	const struct interrupt *interrupt;      /* gives up what waits for views; NULL, or borrowed */
	struct log *log;
	json_t *(*stats)(void *ctx);    /* on the agent's thread; may be NULL */
	void *ctx;
};

/* Connects, and returns with the first view. */
enum err_code cluster_open(const struct cluster_config *cfg, struct cluster **out, struct err *e);
void cluster_close(struct cluster *c);
struct agent *cluster_agent(struct cluster *c);
/* What this process does, when a trace is taken. */
struct tracer;
struct tracer *cluster_tracer(struct cluster *c);

/* The latest view, a new reference. */
json_t *cluster_view(struct cluster *c);
/* Has it changed since cluster_view was called last? */
bool cluster_changed(const struct cluster *c);
/* Readable when the view has changed since cluster_view was called last, or
 * the coordinator is lost. */
int cluster_fd(const struct cluster *c);
/* Wait until ready(ctx, view) is true; the view counts as changed then, whoever has seen it
 * here.  Says on stderr after 2 s, then every
 * 10 s, what for: the view's waiting_for.  ERR_TIMEOUT after the deadline (0:
 * none); ERR_STOPPED when it is interrupted. */
enum err_code cluster_await(struct cluster *c, bool (*ready)(void *ctx, const json_t *view), void *ctx,
    int64_t timeout, json_t **view, struct err *e);
/* Wait for a change of the view, at most so long.  An error when the
 * coordinator is lost. */
enum err_code cluster_pause(struct cluster *c, int64_t ns, struct err *e);
/* Tell the coordinator that this worker goes by the layout of the epoch, which is
 * above any that was told: servers that join wait for it. */
void cluster_confirm(struct cluster *c, uint32_t epoch);
/* Tell the coordinator that this relay cannot be reached. */
void cluster_missed(struct cluster *c, unsigned relay, uint32_t epoch, const char *why);
/* This worker ends by the error: the others need not wait for its lease to end.
 * Returns when the coordinator knows, after a second at most. */
void cluster_give_up(struct cluster *c, const struct err *why);
/* It will join as soon as it has its data; slot: the one it is to take, or -1. */
void cluster_coming(struct cluster *c, int slot);
/* It cannot even join: for who wonders why it does not come.  slot: the one it was to take, or -1. */
void cluster_unfit(struct cluster *c, int slot, const struct err *why);
/* Who keeps this worker waiting at the step, and why, as the coordinator sees it; nothing when no
 * worker does. */
void cluster_who(struct cluster *c, uint64_t step, struct buf *out);
/* The coordinator is lost for good: the reason, else false. */
bool cluster_lost(struct cluster *c, struct err *why);

/* Is the job over by this view?  ERR_OK: no.  ERR_FAILED: it failed;
 * ERR_STOPPED: it was stopped or put away. */
enum err_code view_over(const json_t *view, struct err *e);

#endif
