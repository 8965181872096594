#ifndef WORK_ALLREDUCE_H
#define WORK_ALLREDUCE_H

#include <jansson.h>

#include "ring/ring.h"
#include "work/params.h"

/* A worker's dense tables with `via: allreduce`.  Workers sum the gradients among
 * themselves (ring/ring.h), and each makes the update by the servers' rule: all have the
 * same parameters, in the same bits.  The servers get the mean of each step, one push a
 * partition, and make the update, too: theirs are what is checkpointed, evaluated at the
 * end, and what a worker that joins begins with.
 *
 * A mean is sent when every worker has it, that is, has completed its step; and it is kept
 * until every partition has it: when the worker dies that was to send it, another does. */
struct allreduce;

struct allreduce_config {
	const struct job *job;
	const struct identity *id;
	uint64_t incarnation;
	const char *listen, *iface;     /* "host:port", or patterns of interfaces; NULL: as suits */
	int slot;                       /* that is asked for; -1: any */
	struct log *log;
	/* As of ring_config; called every now and then while others are waited for, and must
	 * hand on what allreduce_view is to know. */
	bool (*cancelled)(void *ctx, struct err *why);
	/* Until there is news of the others, for a moment at most; then the same. */
	enum err_code (*pause)(void *ctx, struct err *e);
	void *ctx;
	int cancel_fd;
};

/* Does the job have dense tables of that kind? */
bool allreduce_wanted(const struct job *job);
/* Others can reach us from now on. */
enum err_code allreduce_new(const struct allreduce_config *cfg, struct allreduce **out, struct err *e);
void allreduce_free(struct allreduce *a);
/* Where: what goes with the request to join.  A new object. */
json_t *allreduce_address(const struct allreduce *a);
/* The slot that was given.  The client and the parameters, borrowed. */
enum err_code allreduce_begin(struct allreduce *a, uint32_t slot, struct client *client, struct params *p, struct err *e);
/* Who is in the ring.  What one that has gone was to send is sent by who has its place. */
void allreduce_view(struct allreduce *a, const json_t *view);

/* To be called every now and then while allreduce_meet waits: another may not have the mean
 * of our last step yet, and want the ring anew to be given it. */
void allreduce_tend(struct allreduce *a);

/* A step, in this order.  Until all have completed the steps before: then it is settled
 * who takes part. */
enum err_code allreduce_meet(struct allreduce *a, uint64_t step, struct err *e);
/* The servers are to have the mean of the step before; the first time, what they have is
 * asked for: client_wait, or params_pull with dense tables, brings it.  *first: it is. */
enum err_code allreduce_hand_over(struct allreduce *a, uint64_t step, bool *first, struct err *e);
/* The gradient in p->g, of so many examples, becomes all workers' mean, and that an update
 * of p->w.  Repeated with whom is left when somebody dies. */
enum err_code allreduce_update(struct allreduce *a, uint64_t step, uint32_t examples, struct err *e);

/* At the end, when all is handed over: are the servers' parameters those of the workers?
 * ERR_FAILED, with the first table that differs; p->g is written over.  *compared: false
 * when this worker has taken no step, and so has none. */
enum err_code allreduce_verify(struct allreduce *a, bool *compared, struct err *e);

/* Sent to other workers so far. */
uint64_t allreduce_bytes(const struct allreduce *a);

#endif
