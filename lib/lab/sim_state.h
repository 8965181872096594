/* SPDX-License-Identifier: ISC */
#ifndef LAB_SIM_STATE_H
#define LAB_SIM_STATE_H

/* The state of a simulation, shared by sim*.c: sim.c (specification, main loop, results),
 * sim_queue.c (event heap, job queues), sim_cpu.c (threads sharing cores), sim_wire.c (network),
 * sim_steps.c (the protocol of workers and servers). No threads, no locks, no clock.
 *
 * States of a job: AT_SENDER (CPU of its thread) -> AT_CARRIER (only with a proxy) -> AT_LINE
 * (network) -> AT_RECEIVER (CPU of the other thread) -> sim_steps_arrived. A job that does not travel
 * goes from AT_SENDER to sim_steps_arrived. */
#include <stdbool.h>

#include "core/rng.h"
#include "lab/sim.h"

/* One thing on its way: work of the sender's thread, then perhaps a network link and work of the
 * receiver's thread. Then it has arrived: sim_steps_arrived. */
enum job_kind {
	JOB_ASK,
	JOB_ANSWER,
	JOB_COMPUTE,
	JOB_PUSH,
	JOB_UPDATE,
	JOB_COPY,
	JOB_ACK,
	JOB_MAKE
};

struct job {
	struct job *next;
	enum job_kind kind;
	enum { AT_SENDER, AT_CARRIER, AT_LINE, AT_RECEIVER } stage;
	bool travels;                  /* false: it is work of the sender alone */
	bool last;                     /* the last of the pieces of a push */
	double before, after, bytes;   /* CPU seconds at sender and receiver */
	unsigned from, to;             /* nodes */
	unsigned thread, thread_to;    /* of the sender and of the receiver */
	unsigned group, worker, piece; /* group of parameters; whose step; which piece of it */
	uint64_t step;
};

/* Jobs in order of arrival; `last` points to the link that the next one goes to. */
struct queue {
	struct job *first, **last;
};

/* The parameters form as many groups as there are servers: group g is pushed to server g, copied
 * along the chain to the next servers, and pulled from the last. */
struct group {
	/* bsp: steps updated; steps that the chain's last server has */
	uint64_t closed, shown;
	uint64_t floor;  /* ssp: steps that all workers have completed */
	unsigned *in;    /* bsp: gradients received for the open step, by piece */
	uint64_t *ready; /* bsp: steps that the chain's last server has, by piece */
	/* bsp: pieces updated in the open step; pieces that the last server has */
	unsigned updated, copied;
	uint64_t *clock; /* by worker */
	uint64_t *waits; /* by worker: the step whose parameters it waits for, plus 1 */
};

/* The progress of a worker. Steps count from 0. Times are of the simulation, in seconds:
 * asked, when it requested its parameters; first, when the first answer came (-1: not yet); began
 * and computed, around the gradient; pushed, when the servers had all of the gradient. */
struct coord_worker_state {
	uint64_t step, open; /* open: newest open step named in an acknowledgement */
	/* pieces of the answer; groups that acknowledged the push; groups that have all of it */
	unsigned got, acked, summed;
	bool awaits_acks; /* it waits for acknowledgements before it computes */
	double asked, first, pushed, began, computed;
	struct rng rng;
};

struct thread {
	unsigned host;
	struct queue queue; /* the first job is running */
	double ends;        /* end of the first job, on the host's own clock */
	double busy;        /* CPU seconds so far */
};

/* A host with processor sharing. Its own clock advances by the CPU time that each of its running
 * threads gets. */
struct host {
	unsigned cores, running, crew; /* crew: threads of this host, the size of `run` */
	unsigned *run;                 /* threads with work, a heap ordered by `ends` */
	double clock, at, busy;
	uint64_t turn; /* number of its valid event; older events are ignored */
};

/* The network interface of a node. A flow is the traffic to one other node. */
struct wire {
	struct sim_link link;
	struct queue *flow;             /* by receiver: workers, then servers */
	unsigned nflows, next, waiting; /* next: flow to serve next; waiting: flows with jobs */
	double in_free;                 /* time when the receiving direction is free again */
	bool busy;
	double sent, received; /* seconds of being busy */
};

/* `at` is in seconds; seq breaks ties in order of posting. `which` is a host or a node, by kind;
 * `turn` is of EVENT_HOST, `job` of EVENT_ARRIVE. */
struct event {
	double at;
	uint64_t seq, turn;
	enum { EVENT_HOST, EVENT_WIRE, EVENT_ARRIVE } kind;
	unsigned which;
	struct job *job;
};

/* Busy seconds, summed over all of a kind. */
struct sim_busy {
	double worker_up, worker_down, server_up, server_down, worker_cpu, server_cpu, host;
};

struct sim {
	const struct sim_spec *spec;
	double now;
	struct event *heap;
	size_t nheap, cap_heap;
	uint64_t seq;
	struct job *spare;

	struct host *host;
	struct thread *thread;
	struct wire *wire; /* workers, then servers */
	unsigned nhosts, nthreads, nnodes, carrier;
	struct group *group;
	struct coord_worker_state *worker;
	unsigned pieces;

	/* Gradients that have become part of the model, counted per group, and the counts at which
	 * measuring begins and ends. */
	uint64_t taken, late, warm_at, end_at, counted;
	double warm, end, compute, push, wait, pull;
	struct sim_busy before;
	uint64_t warm_taken;
	bool warmed, over;
};

/* sim_queue.c: the event heap, ordered by time and then by order of posting; jobs are recycled. */
void sim_post(struct sim *s, double at, int kind, unsigned which, struct job *job, uint64_t turn);
bool sim_next(struct sim *s, struct event *out);
struct job *sim_job_new(struct sim *s, enum job_kind kind);
void sim_job_free(struct sim *s, struct job *j);
void sim_queue_put(struct queue *q, struct job *j);
struct job *sim_queue_take(struct queue *q);

/* sim_cpu.c: queues the job at a thread; handles the end of a host's first job. */
void sim_cpu_run(struct sim *s, struct job *j, unsigned thread);
void sim_cpu_event(struct sim *s, unsigned host, uint64_t turn);

/* sim_wire.c: queues the job at its sender's interface; handles an interface that becomes free. */
void sim_wire_send(struct sim *s, struct job *j);
void sim_wire_event(struct sim *s, unsigned node);

/* Starts a job at its sender's thread; moves it to its next stage when one is over. */
void sim_job_start(struct sim *s, struct job *j);
void sim_job_advance(struct sim *s, struct job *j);

/* sim_steps.c: starts all workers; handles a job that has arrived. */
void sim_steps_begin(struct sim *s);
void sim_steps_arrived(struct sim *s, struct job *j);

/* sim.c: counts gradients that became part of the model. sim_lane: the thread of a server that owns
 * the session with this peer. */
void sim_count(struct sim *s, uint64_t taken);
unsigned sim_lane(const struct sim *s, unsigned server, unsigned peer);

#endif
