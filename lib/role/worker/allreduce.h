/* SPDX-License-Identifier: ISC */
#ifndef WORKER_ALLREDUCE_H
#define WORKER_ALLREDUCE_H

#include "allreduce/ring.h"
#include "core/json.h"
#include "msg/view.h"
#include "worker/params.h"

/* A worker's dense tables with `via: allreduce`. The workers sum the gradients among themselves
 * (allreduce/ring.h), and each makes the update by the servers' rule: all have the same parameters,
 * in the same bits. The servers get the mean of each step, one push a partition, and make the same
 * update: their parameters are checkpointed, evaluated at the end, and given to workers that join.
 *
 * Each step: allreduce_await_members (all members have completed the step before) ->
 * allreduce_hand_over (send the mean of the step before to the servers) -> allreduce_update (reduce
 * the gradient, update the parameters). A mean goes through two places: `last` (not all workers are
 * known to have it) -> `going` (not all servers are known to have it) -> dropped. It is sent only
 * when every worker has it, and kept until every partition has it: when the worker that was to send
 * it dies, another one does.
 *
 * Training thread only. The callbacks of the config are called on it, and allreduce_view and
 * allreduce_answer_peers are called from within them. */
struct allreduce;

struct allreduce_config {
	const struct job *job;
	const struct identity *id;
	uint64_t incarnation;
	/* where to listen: "host:port", or patterns of interfaces; NULL: chosen */
	const char *listen, *iface;
	int rank; /* position that is asked for; -1: any */
	struct log *log;
	/* As in ring_config: called now and then while other workers are waited for. It must pass
	 * new views to allreduce_view. */
	bool (*attend)(void *ctx, struct err *why);
	/* Waits for news of the other workers, for a moment at most; then does what `attend`
	 * does. */
	enum err_code (*pause)(void *ctx, struct err *e);
	void *ctx;
	int attend_fd;
};

/* Does the job have dense tables that workers reduce? */
bool allreduce_is_used(const struct job *job);
/* Listens: other workers can connect from now on. */
enum err_code allreduce_new(const struct allreduce_config *cfg, struct allreduce **out,
    struct err *e);
void allreduce_free(struct allreduce *a);
/* The addresses to send with the request to join. A new object. */
json_t *allreduce_address(const struct allreduce *a);
/* After the join, with the position that was given. The client and the parameters are borrowed.
 * ERR_NOMEM. */
enum err_code allreduce_begin(struct allreduce *a, uint32_t rank, struct client *client,
    struct params *p, struct err *e);
/* Takes the members of the ring from a view. When a member has left, its part of a mean that is
 * going to the servers is sent by the member that takes its place. */
void allreduce_view(struct allreduce *a, const struct view *view);

/* Call it now and then while allreduce_await_members waits: another worker may have missed the mean
 * of the last step, and needs a new ring of the members to get it from this one. */
void allreduce_answer_peers(struct allreduce *a);

/* First part of a step: waits until all workers have completed the steps before. After that the
 * members of this step cannot change. */
enum err_code allreduce_await_members(struct allreduce *a, uint64_t step, struct err *e);
/* Second part: sends the mean of the step before to the servers. *first: this is the first step,
 * and the parameters must be pulled; their optimizer state has been requested, and client_wait, or
 * params_pull with dense tables, brings it. */
enum err_code allreduce_hand_over(struct allreduce *a, uint64_t step, bool *first, struct err *e);
/* Third part: turns the gradient in p->g, of this many examples, into all workers' mean, and updates
 * p->w with it. Repeated with the remaining members when one dies. */
enum err_code allreduce_update(struct allreduce *a, uint64_t step, uint32_t examples,
    struct err *e);

/* At the end, after the last hand-over: compares the servers' parameters with the parameters of
 * this worker. ERR_FAILED names the first table that differs; p->g is overwritten. *compared: false
 * when this worker has taken no step, and so has none. */
enum err_code allreduce_verify(struct allreduce *a, bool *compared, struct err *e);

/* Bytes sent to other workers so far. */
uint64_t allreduce_bytes(const struct allreduce *a);

#endif
