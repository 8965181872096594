/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_CHECKPOINT_SCHEDULE_H
#define COORDINATOR_CHECKPOINT_SCHEDULE_H

#include "coordinator/coordinator.h"

/* The checkpoint scheduler: makes checkpoints by time, by steps and on request, and prunes old
 * ones.
 *
 *   state   event                                              next state
 *   idle    one is due or requested                            making (coord/checkpoint.h)
 *   making  all files are there                                idle; it is committed, older ones
 *                                                              are pruned
 *   making  it is dropped                                      idle; event checkpoint_failed
 *   making  the scheduler or its order ends                    idle; it is given up
 *   making  by the schedule, and it waits for its step: one    idle; it is given up
 *           is requested, or the best evaluation waits for
 *           its own
 *
 * The job goes on after each of them, and the next one is made when it is due.
 *
 * The files are written by the servers at the ends of the chains (role/store/checkpoint_writer.h).
 *
 * It runs a thread of its own. All functions but checkpoint_schedule_start,
 * checkpoint_schedule_stop and checkpoint_schedule_free are called with the coordinator's lock
 * held; the scheduler releases that lock while it touches files. */
struct checkpoint_schedule;

/* Result of the last requested checkpoint. */
struct checkpoint_schedule_last {
	uint64_t request; /* number that checkpoint_schedule_request gave to the request */
	enum err_code rc;
	struct err why;
	uint64_t step;
	char *path; /* path of the newest checkpoint made by this coordinator, or NULL */
};

/* Use a new checkpoint_every from now on (k may be NULL). */
void checkpoint_schedule_set_every(struct checkpoint_schedule *k, const struct conf_every *every);
/* made and failed count checkpoints of this coordinator. step and at (Unix time in ns, 0: none)
 * belong to the newest checkpoint in the run directory, whichever coordinator made it. */
struct checkpoint_schedule_figures {
	uint64_t made, failed, step;
	/* ns: took, to write it; every, 0 when the schedule is not by time */
	int64_t at, took, every;
};

/* Start the scheduler's thread; nothing without a run directory. ERR_IO. */
enum err_code checkpoint_schedule_start(struct coordinator *coordinator, const struct conf *c,
    struct err *e);
/* Stop and join the thread. Call without the coordinator's lock. */
void checkpoint_schedule_stop(struct coordinator *coordinator);
/* Call after checkpoint_schedule_stop. k may be NULL. */
void checkpoint_schedule_free(struct checkpoint_schedule *k);

/* Request a checkpoint; returns the number of the request, which is done when
 * checkpoint_schedule_last(k)->request is at least that number. */
uint64_t checkpoint_schedule_request(struct checkpoint_schedule *k);
/* An order to stop the job with a last checkpoint, which has the step at which the job ends:
 *
 *   none      --checkpoint_schedule_stop_job-->  held (the workers come to rest)
 *   held      --all rest-->                      the checkpoint is made
 *   held      --they cannot, or do not in an     the checkpoint is made all the same, and later pushes
 *               asynchronous mode within 10 s      are lost
 *             or a quarter of the time limit-->
 *   made      -->                                the job is stopped
 *   failed, called off, resumed or late -->      the job continues, unless a user had paused it
 *
 * The coordinator carries it out by itself, so it survives the process that gave it. It is not
 * saved: a coordinator that is started again knows no order, and the job continues. */
struct checkpoint_schedule_stop {
	uint64_t number; /* of the order that ended last */
	struct err why;  /* its error: the job was not stopped */
	uint64_t step;   /* of its checkpoint, which is the newest one */
	bool rested;     /* nothing was pushed after that checkpoint */
};

/* Order a stop, for the reason `why`, in at most `timeout` ns; returns its number. An order that is
 * under way stays, and gets the new time limit. */
uint64_t checkpoint_schedule_stop_job(struct checkpoint_schedule *k, const char *why,
    int64_t timeout);
/* Calls the order off that is under way. Returns its number, 0: there is none. */
uint64_t checkpoint_schedule_call_off(struct checkpoint_schedule *k);
/* Valid while the lock is held. */
const struct checkpoint_schedule_stop *checkpoint_schedule_last_stop(
    const struct checkpoint_schedule *k);
/* Valid while the lock is held. */
const struct checkpoint_schedule_last *checkpoint_schedule_last(
    const struct checkpoint_schedule *k);
/* The directory of the checkpoints. It never changes, so the lock is not needed. */
const char *checkpoint_schedule_dir(const struct checkpoint_schedule *k);
/* Counters for metrics and for the uploader. */
struct checkpoint_schedule_figures checkpoint_schedule_figures(const struct checkpoint_schedule *k);
/* Why the last failed checkpoint failed; without an error when none has. */
const struct err *checkpoint_schedule_failure(const struct checkpoint_schedule *k);
/* The directory that receives files of the snapshot `id`, a fresh string; NULL when that
 * snapshot is not being written (k may be NULL). */
char *checkpoint_schedule_receive_dir(const struct checkpoint_schedule *k, uint64_t id);

#endif
