#ifndef SIM_SIM_STATE_H
#define SIM_SIM_STATE_H

/* Inside of a simulation: shared by sim*.c. */
#include <stdbool.h>

#include "base/rng.h"
#include "sim/sim.h"

/* One thing on its way: some work of a thread, then perhaps a line, then some
 * work of a thread at the other end.  Then it has arrived: steps_arrived. */
enum job_kind { JOB_ASK, JOB_ANSWER, JOB_COMPUTE, JOB_PUSH, JOB_UPDATE, JOB_COPY, JOB_ACK, JOB_MAKE };

struct job {
	struct job *next;
	enum job_kind kind;
	enum { AT_SENDER, AT_CARRIER, AT_LINE, AT_RECEIVER } stage;
	bool travels;                   /* else it is the sender's work alone */
	bool last;                      /* of its pieces */
	double before, after, bytes;    /* CPU seconds at sender and receiver */
	unsigned from, to;              /* nodes */
	unsigned thread, thread_to;
	unsigned group, worker, piece;  /* which part of the parameters, and whose step */
	uint64_t step;
};

struct queue {
	struct job *first, **last;
};

/* Parameters lie in as many groups as there are servers: group g is pushed to
 * server g, copied from there to the next ones, and pulled from the last. */
struct group {
	uint64_t closed, shown;         /* bsp: steps with an update; those that the last copy has */
	uint64_t floor;                 /* ssp: steps that all workers have completed */
	unsigned *in;                   /* bsp: gradients of the open step, by piece */
	uint64_t *ready;                /* the same: steps that the last copy has */
	unsigned updated, copied;       /* bsp: pieces with the open step's update; those that the last copy has */
	uint64_t *clock;                /* by worker */
	uint64_t *waits;                /* by worker: the step whose parameters it waits for, plus 1 */
};

struct worker_state {
	uint64_t step, open;            /* open: as late pushes were told */
	unsigned got, acked, summed;    /* pieces of the answer; groups that have the push */
	bool owed;                      /* acknowledgements are waited for */
	bool held;                      /* overlap: computed, and to be pushed when the answer is here */
	double asked, first, pushed, began, computed;
	struct rng rng;
};

struct thread {
	unsigned host;
	struct queue queue;             /* the first is being done */
	double ends;                    /* on the host's own clock */
	double busy;
};

/* A host's own clock goes as fast as each of its running threads does. */
struct host {
	unsigned cores, running, crew;  /* crew: places in `run` */
	unsigned *run;                  /* threads with something to do, a heap by their ends */
	double clock, at, busy;
	uint64_t turn;                  /* of the event that is under way */
};

/* A flow is what goes from a node to one other. */
struct wire {
	struct sim_line line;
	struct queue *flow;             /* by receiver: workers, then servers */
	unsigned nflows, next, waiting; /* whose turn; flows with something */
	double in_free;                 /* what comes is through then */
	bool busy;
	double sent, received;          /* seconds of being busy */
};

struct event {
	double at;
	uint64_t seq, turn;
	enum { EVENT_HOST, EVENT_WIRE, EVENT_ARRIVE } kind;
	unsigned which;
	struct job *job;
};

/* Seconds, of all of a kind together. */
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
	struct wire *wire;              /* workers, then servers */
	unsigned nhosts, nthreads, nnodes, carrier;
	struct group *group;
	struct worker_state *worker;
	unsigned pieces;

	/* Gradients of all groups that have become part of the model; when enough are. */
	uint64_t taken, late, warm_at, end_at, counted;
	double warm, end, compute, push, wait, pull;
	struct sim_busy before;
	uint64_t warm_taken;
	bool warmed, over;
};

/* sim_queue.c */
void sim_post(struct sim *s, double at, int kind, unsigned which, struct job *job, uint64_t turn);
bool sim_next(struct sim *s, struct event *out);
struct job *job_new(struct sim *s, enum job_kind kind);
void job_free(struct sim *s, struct job *j);
void queue_put(struct queue *q, struct job *j);
struct job *queue_take(struct queue *q);

/* sim_cpu.c: the job's thread does it for so long. */
void cpu_do(struct sim *s, struct job *j, unsigned thread);
void cpu_event(struct sim *s, unsigned host, uint64_t turn);

/* sim_wire.c */
void wire_send(struct sim *s, struct job *j);
void wire_event(struct sim *s, unsigned node);

/* Begin, at its sender's thread; a stage of it is over: on to the next. */
void job_start(struct sim *s, struct job *j);
void job_go(struct sim *s, struct job *j);

/* sim_steps.c: it has come to its end. */
void steps_begin(struct sim *s);
void steps_arrived(struct sim *s, struct job *j);

/* sim.c: the gradients of so many groups are part of the model now. */
void sim_count(struct sim *s, uint64_t taken);
unsigned sim_lane(const struct sim *s, unsigned server, unsigned peer);

#endif
