/* SPDX-License-Identifier: ISC */
#ifndef FLEET_H
#define FLEET_H

/* Workers of scale_fleet.c: many in one process. */
#include <pthread.h>
#include <stdatomic.h>

#include "socket/loop.h"
#include "wire/payload.h"
#include "tool/tool.h"

#define FLEET_TABLE "fleet"

struct fleet;

/* A session of a worker: with the coordinator (server -1), or with a server. */
struct line {
	struct worker *worker;
	int server;
	struct conn *conn;
	struct loop_fd h;
	struct batcher batcher;
};

struct worker {
	struct fleet *fleet;
	struct thread *thread;
	uint32_t rank;
	uint64_t incarnation, step;
	int64_t next_beat;
	struct line control, *data; /* data: to each server */
	unsigned live;              /* of data */
	uint32_t left;              /* answers and receipts that this step still wants */
	_Atomic uint64_t bytes, steps;
};

struct thread {
	pthread_t id;
	struct loop *loop;
	struct fleet *fleet;
	struct worker *worker; /* those from here on.. */
	uint32_t n;            /* ..so many */
	uint32_t dialled,
	    under_way; /* of these those that have been; sessions that are not up yet */
	bool data;     /* to the servers; else to the coordinator */
};

/* What a server holds of the table, and where it is. */
struct server {
	char address[NET_TEXT + 8];
	uint8_t key[32];
	struct buf runs;
	uint32_t *part, nparts;
};

struct fleet {
	struct admin_client tool;
	struct identity admin, id; /* id: the workers' */
	const struct table *table;
	struct server *server;
	unsigned nservers, nthreads;
	uint32_t epoch, generation;
	uint64_t bytes;
	const char *transport;
	float *gradient;
	struct thread *thread;
	struct worker *worker;
	uint32_t n;
	_Atomic uint32_t joined, begun; /* workers that have a rank; that have taken a step */
};

/* Nothing goes on without it. */
void fleet_die(const char *what, const struct err *e);

/* A thread's: to be called on its loop.  Its workers join; they begin their steps; every
 * FLEET_TICK: heartbeats. */
#define FLEET_TICK (20 * NSEC_PER_MSEC)
void fleet_enlist(void *thread);
void fleet_begin(void *thread);
void fleet_beat(void *thread);

#endif
