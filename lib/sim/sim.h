#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sync/sync.h"

/* What a cluster would do: a discrete-event simulation of its steps.  Pure: no
 * clock, no files, no threads; equal specs give equal results on every machine.
 *
 * A worker asks all servers for their part of the parameters, computes when all
 * of it has come, encodes, pushes to all of them, and asks again.  Servers sum,
 * update and answer by the rules of ps-consistency(7).  What passes between two
 * of them goes in up to `pieces` pieces, so that what one does overlaps with what
 * the next does: first the sender's thread, then its line and the receiver's, then
 * the receiver's thread.
 *
 * Lines: each node has one to the network, with a rate each way.  A sender's line
 * takes pieces for different receivers in turn, as TCP shares a line between
 * streams; a receiver's takes them as they come, and a piece passes both at the
 * same time (it need not be whole before it goes on).  Pieces rather than a fluid:
 * the same queue carries what CPUs hand over one after the other, and a flow's
 * share need not be computed anew for all when one begins or ends.
 *
 * CPUs: each thread does one thing after the other; the threads that have
 * something to do on a host share its cores equally. */

struct sim_line {
	double up, down;                /* bytes a second from and to the node; 0: without limit */
	double delay;                   /* seconds one way, to the middle of the network */
};

struct sim_compute {
	double seconds;                 /* of a step on an idle core */
	double chance, times;           /* with this probability `times` as long */
	unsigned slow;                  /* the first so many workers are always */
	double slowness;                /* so many times as long */
};

struct sim_spec {
	unsigned workers, servers, replicas;
	struct sync_mode sync;
	/* Of one worker's step, over all servers: bytes on the wire.  copy: of what a
	 * chain's next server gets, of a whole step in bsp, else of one push. */
	double push_bytes, pull_bytes, ask_bytes, copy_bytes;
	/* CPU seconds on an idle core, of one worker's step over all servers. */
	double ask;                     /* at either end */
	/* encode and seal, before anything of it goes; write; receive and sum (ssp, asp: apply) */
	double make_push, send_push, take_push;
	/* copy and seal, before anything of the next `ahead` bytes goes; write; receive and decode */
	double make_pull, send_pull, take_pull, ahead;
	double update;                  /* bsp: of a whole step, once */
	double send_copy, take_copy;    /* of copy_bytes */
	struct sim_compute compute;
	struct sim_line worker, server;
	unsigned cores;                 /* of the one host that all share; 0: each has its own */
	unsigned lanes;                 /* threads of a server; where hosts are their own, as many cores */
	/* How much longer a thread takes when all cores are busy than when it is
	 * alone; 1: no longer. */
	double crowded;
	/* CPU seconds a byte of a proxy or tunnel on that host through which all
	 * lines go, one thread; 0: there is none. */
	double carried;
	/* bsp: a worker asks for the next parameters before it pushes, and each piece is
	 * answered as soon as it has its update. */
	bool prefetch;
	/* A worker computes the next step while the answer to its push is on its way, and
	 * pushes that when the answer is here (fragments). */
	bool overlap;
	unsigned pieces;                /* records, at most, of a push to one server; 0: 16 */
	unsigned steps, warm_up;        /* to be measured; before that; 0: as it thinks fit */
	uint64_t seed;
};

struct sim_result {
	double step_seconds;            /* a step of all workers; in ssp and asp, of one on the mean */
	double gradients_per_second;    /* that became part of the model */
	/* Of a worker's step, on the mean; together the time from step to step. */
	double compute_seconds;         /* other threads on its core included */
	double push_seconds;            /* until the servers have all of its gradient */
	double wait_seconds;            /* for the others, and the update; to the first answer */
	double pull_seconds;            /* to the last */
	double late_share;              /* gradients that came too late (backup) */
	/* Shares of the time that these were busy, on the mean over all of a kind. */
	double worker_up, worker_down, server_up, server_down;
	double worker_cpu, server_cpu;  /* a thread of a worker; of a server, over its lanes */
	double host_cpu;                /* cores of the one host; 0: there is none */
	uint64_t events;
};

/* ERR_CONFIG: more workers times servers than it can do, or a spec that makes no
 * sense.  ERR_NOMEM never: memory that is lacking ends the program. */
enum err_code sim_run(const struct sim_spec *spec, struct sim_result *out, struct err *e);

/* "50ms", "50ms,5%x7": constant, or with a probability so many times as long.
 * "2x3": the first 2 workers take 3 times as long.  ERR_CONFIG. */
enum err_code sim_parse_compute(const char *text, struct sim_compute *out, struct err *e);
enum err_code sim_parse_slow(const char *text, struct sim_compute *out, struct err *e);

#endif
