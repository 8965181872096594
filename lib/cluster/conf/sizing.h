/* SPDX-License-Identifier: ISC */
#ifndef CONF_SIZING_H
#define CONF_SIZING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers of workers and servers of a cluster whose file says "auto": a rule of thumb, and a
 * search by trials for the fastest numbers. Pure: no clock, thread or I/O; the caller runs the
 * trials.
 *
 * A search has these stages. A smaller cluster is accepted if it is at most SIZING_MARGIN slower
 * than the fastest trial, and a larger one only if it is faster by more than that, so that noise
 * does not choose more processes:
 *
 *   stage            next trial                         when it is not accepted, or there is none
 *   SIZING_FIRST     the rule of thumb                  the search ends: the trial has failed
 *   SIZING_WORKERS   half the workers of the best one   SIZING_SERVERS
 *   SIZING_SERVERS   twice the servers of the best one  SIZING_END */
#define SIZING_MARGIN 0.05
#define SIZING_TRIALS 16

struct sizing {
	int64_t workers, servers;
};

/* One trial; rate is 0 if it has failed. */
struct sizing_trial {
	struct sizing size;
	double rate; /* examples per second */
};

enum sizing_stage { SIZING_FIRST, SIZING_WORKERS, SIZING_SERVERS, SIZING_END };

struct sizing_search {
	enum sizing_stage stage;
	bool workers, servers; /* the numbers that may be chosen */
	struct sizing_trial tried[SIZING_TRIALS];
	size_t n, best; /* index of the best trial so far */
	double peak;    /* rate of the fastest trial */
};

/* The rule of thumb for a host with this many usable processors: a worker for each, at most 64, and
 * a server for every eight workers. */
struct sizing sizing_rule(unsigned processors);

/* Begin a search with a first size; workers, servers: which of its numbers may be chosen. */
void sizing_begin(struct sizing_search *s, struct sizing first, bool workers, bool servers);
/* The size to try next. False: the search is over. */
bool sizing_next(struct sizing_search *s, struct sizing *out);
/* Take the result of the trial of this size: examples per second, or 0 if it has failed. */
void sizing_take(struct sizing_search *s, struct sizing size, double rate);

#endif
