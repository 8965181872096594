/* SPDX-License-Identifier: ISC */
#ifndef LAB_SIM_H
#define LAB_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "sync/sync.h"
#include "worker/delay.h"

/* Predicts the speed of a cluster with a discrete-event simulation of its steps. Pure: no clock, no
 * files, no threads; equal specifications give equal results on every machine.
 *
 * A worker requests its parameters from all servers, computes when all have arrived, encodes,
 * pushes to all servers, and requests again. Servers sum, update and answer by the rules of
 * ps-consistency(7). A transfer between two nodes is split into up to `pieces` pieces, so that its
 * stages overlap: the sender's thread, then the sender's and the receiver's interface, then the
 * receiver's thread.
 *
 * Network: each node has one interface, with a rate each way. A sender's interface serves the
 * receivers in turn, as TCP connections share a link; a receiver's interface takes pieces in order
 * of arrival. A piece passes both at the same time, without being complete at the first. Pieces are
 * used instead of a fluid model because the same queue serves CPUs and links, and rates need not be
 * computed again for all flows when one begins or ends.
 *
 * CPUs: each thread does one thing after the other; the threads of a host that have work share its
 * cores equally. */

/* The link of a node to the network. */
struct sim_link {
	double up, down; /* bytes a second from and to the node; 0: without limit */
	double delay;    /* seconds one way, to the middle of the network */
};

/* Workers that are always slow. */
struct sim_slow {
	unsigned workers; /* the first this many */
	double times;     /* how many times as long they compute */
};

/* The cluster and the costs of its work. */
struct sim_spec {
	unsigned workers, servers, replicas;
	struct sync_mode sync;
	/* Bytes on the wire of one worker's step, over all servers. copy_bytes: the bytes that the
	 * next server of a chain gets, in bsp for a whole step, else for one push. */
	double push_bytes, pull_bytes, ask_bytes, copy_bytes;
	/* CPU seconds on an idle core for one worker's step, over all servers. */
	double ask; /* at either end */
	/* make: encode and seal, before the first byte goes; send: write; take: receive and sum
	 * (ssp, asp: apply) */
	double make_push, send_push, take_push;
	/* make: copy and seal the next `ahead` bytes, before they go; send: write; take: receive
	 * and decode */
	double make_pull, send_pull, take_pull, ahead;
	double update;               /* bsp: the update of a whole step */
	double send_copy, take_copy; /* of copy_bytes */
	struct compute_time compute;
	struct sim_slow slow;
	struct sim_link worker, server;
	/* cores of the one host that all share; 0: each node has a host of its own */
	unsigned cores;
	/* I/O threads of a server; its number of cores where it has its own host */
	unsigned lanes;
	/* How much longer a thread takes when all cores are busy than when it is
	 * alone; 1: no longer. */
	double crowded;
	/* CPU seconds a byte of a proxy or tunnel, one thread on that host, through which all
	 * traffic goes; 0: there is none. */
	double carried;
	/* bsp: a worker requests the next parameters before it pushes, and each piece is answered
	 * as soon as it is updated. */
	bool prefetch;
	unsigned pieces; /* most records of a push to one server; 0: 16 */
	/* steps to measure; steps before; 0: chosen automatically */
	unsigned steps, warm_up;
	uint64_t seed;
};

/* Measurements of the simulation, after the warm-up. */
struct sim_result {
	/* a step of all workers; in ssp and asp the mean step of one */
	double step_seconds;
	double gradients_per_second; /* gradients that became part of the model */
	/* Parts of a worker's mean step; their sum is the time from step to step. */
	double compute_seconds; /* including delays by other threads on its core */
	/* from the end of computing until the servers have the whole gradient */
	double push_seconds;
	/* then until the first answer: waiting for other workers and the update */
	double wait_seconds;
	double pull_seconds; /* from the first to the last answer */
	double late_share;   /* share of the gradients that came too late (backup) */
	/* Share of the time that these were busy, as the mean over all of a kind. */
	double worker_up, worker_down, server_up, server_down;
	double worker_cpu, server_cpu; /* a worker's thread; a server's I/O threads, mean */
	double host_cpu;               /* the cores of the shared host; 0: none */
	uint64_t events;
};

/* Runs the simulation. ERR_CONFIG: too many workers times servers, or a meaningless specification.
 * Running out of memory ends the program. */
enum err_code sim_run(const struct sim_spec *spec, struct sim_result *out, struct err *e);

/* Parses "2x3": the first 2 workers take 3 times as long. ERR_CONFIG. */
enum err_code sim_parse_slow(const char *text, struct sim_slow *out, struct err *e);

#endif
