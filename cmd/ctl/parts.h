/* SPDX-License-Identifier: ISC */
#ifndef CTL_PARTS_H
#define CTL_PARTS_H

/* Private functions of the runner (runner.h), shared by its files: runner.c (signals, status,
 * limits, the turn), members.c (how each process is started), far.c (on another host), deaths.c
 * (what the end of a process means), restart.c (when to start it again), rollback.c and finale.c
 * (result, model, end of the processes).  All of them run on the runner's one thread. */
#include "runner.h"

/* Timeout of a request to the coordinator.  It is short, because signals are not handled
 * meanwhile. */
#define RUNNER_ASK NSEC_PER_SEC

/* Start a program on this host.  words: its name and arguments, NULL-ended; a name without "/" is
 * looked up in the directory of this program.  Its output goes to RUN/ID.log. */
enum err_code runner_spawn(struct runner *r, const char *id, const char *const *words,
    size_t *child, struct err *e);
/* Start all servers and workers that are not alive, and clear members_due. */
enum err_code runner_start_members(struct runner *r, struct err *e);
/* Start the processes that the coordinator calls for after a scaling. */
void runner_start_requested(struct runner *r);
/* Start the process of that id ("coordinator", "server-1", "worker-0"), for the first time or
 * again. In a meeting of ranks, write its join file instead. */
enum err_code runner_spawn_member(struct runner *r, const char *id, struct err *e);
/* Wait for the end of a child, a signal, the removal of the run directory or the time `end`
 * (clock_now), and handle what has happened. */
void runner_wait_event(struct runner *r, int64_t end);
/* Read the pending signals without waiting. */
void runner_read_signals(struct runner *r);
/* The number of live children whose id begins with prefix. */
size_t runner_count_alive(const struct runner *r, const char *prefix);
/* Tell the coordinator how the process in r->ended_id ended, and clear that. */
void runner_send_end_report(struct runner *r);
/* Handle the children that have ended since the last call. */
void runner_reap_children(struct runner *r);
/* Fail the run from this side; only the first call counts.  culprit: the process whose log explains
 * it, or "".  The arguments may point to r->culprit and r->reason. */
void runner_give_up(struct runner *r, const char *culprit, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Poll the coordinator for its status.  Without an answer r->status stays as it was. */
void runner_poll_status(struct runner *r);
/* Is the process alive that the coordinator runs in? */
bool runner_is_coordinator_alive(const struct runner *r);
/* Is the coordinator a process of its own, without a store?  It is, with replicas and with other
 * hosts; else it runs in server-0. */
bool runner_has_separate_coordinator(const struct runner *r);

/* Is that the job's state, by the coordinator's last answer? */
bool runner_state_is(const struct runner *r, const char *state);
/* Is the job done, failed or stopped, by the coordinator's last answer? */
bool runner_is_job_over(const struct runner *r);
/* Is the job not yet running, as far as is known? */
bool runner_is_forming(const struct runner *r);

#endif
