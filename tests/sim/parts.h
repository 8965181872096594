/* SPDX-License-Identifier: ISC */
#ifndef SIM_PARTS_H
#define SIM_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/sim.h"

/* The members of a scenario's cluster, for the parts of the simulation that do something with them
 * (scenario.c has the cluster, its faults and the judge). */

#define SERVERS_MAX 5
#define WORKERS_MAX 4

enum kind { COORDINATOR, SERVER, WORKER };

struct member {
	enum kind kind;
	unsigned slot;
	char name[16], rank[16];
	char join[24]; /* the join file that it uses, or "" */
	struct proc *proc;
	bool started_before, down, finished;
	bool leaving; /* an order lets this server end by itself */
	bool removed; /* ... and it is not started again */
};

/* The judge's verdict; the first one counts. */
void scenario_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Is the war over, or has the judge decided already? */
bool scenario_is_peace(void);
/* The number of servers that the cluster is to have; each has a member, from server-0 on, and there are
 * members up to SERVERS_MAX. */
unsigned scenario_servers(void);
void scenario_set_servers(unsigned n);
unsigned scenario_replicas(void);
struct member *scenario_server(unsigned i);
struct member *scenario_coordinator(void);
void scenario_start(struct member *m);

/* Runs a comparison of the ledger as a process of the world, and judges what it prints. Returns the number of
 * pushes that were acknowledged. */
uint64_t scenario_compare(const char *verb, const char *book, const char *cells);

/* ---- orders.c ---- */

/* Orders to the coordinator during the war. */
/* Choose which of them this seed gives. */
void orders_draw(void);
/* The war begins. */
void orders_begin(void);
/* Peace: a job that an order has paused goes on. */
void orders_end(void);
bool orders_change_secret(void);
bool orders_scale(void);
/* Does it drain servers, or change their number? */
bool orders_move_servers(void);

/* ---- outside.c ---- */

/* A program outside of the job, whose pushes count, too. */
void outside_draw(void);
void outside_begin(void);
/* Peace: it ends after its push. */
void outside_end(void);
bool outside_is_over(void);
void outside_check(void);

/* ---- disk_faults.c ---- */

/* Disks that are full or broken for a while. */
void disk_faults_draw(void);
void disk_faults_begin(void);

/* ---- reader.c ---- */

/* A read replica, and a program that reads from it. */
void reader_draw(void);
void reader_begin(void);
/* Peace: the program writes what it has seen. */
void reader_end(void);
bool reader_is_over(void);
void reader_check(void);

#endif
