/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_SUPERVISOR_H
#define SUPERVISOR_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "conf/conf.h"
#include "conf/hosts.h"
#include "core/err.h"
#include "core/json.h"
#include "core/launch.h"
#include "data/source/data_log.h"
#include "http/client.h"
#include "msg/cluster_status.h"
#include "rundir/rundir.h"
#include "supervisor/end_reports.h"
#include "supervisor/policy.h"
#include "supervisor/progress.h"

/* A supervisor starts the processes of one run, watches them, restarts them and ends them. It runs
 * in ps-ctl run, in rank 0 of ps-ctl launch, and in the process that ps-ctl start leaves behind;
 * run_loop.h has the main loops of both kinds. All processes are children of this one; a server
 * or worker on another host is represented by a child that runs a remote shell (remote.h).
 *
 * policy.h decides: it has the life of a run, and what follows each event. This file observes
 * (children, signals, the coordinator's status, the run directory) and executes the policy's
 * actions. members.h has the command lines of the processes, run_end.h the end of a run:
 *
 *   supervisor_init -> supervisor_open -> supervisor_start -> supervisor_wait_state ...
 *     -> run_end_*: checkpoint, model, result, processes -> supervisor_close
 *
 * THREADS. A supervisor has one thread and no locks. It must be the thread that lives longest,
 * because children get a signal when the thread that started them ends. A call to the coordinator
 * blocks for at most SUPERVISOR_ASK; signals wait in the signalfd meanwhile. */

/* Timeout of a request to the coordinator. */
#define SUPERVISOR_ASK    NSEC_PER_SEC
#define SUPERVISOR_REASON 400
#define SUPERVISOR_BEGAN  24

struct supervisor {
	/* Options, set between supervisor_init and supervisor_open. */
	const char *iface,
	    *advertise;   /* options of ps-serve and ps-work (listen_address_choose), or NULL */
	char *rendezvous; /* the ranks' directory (rendezvous.h), owned by the caller; or NULL */
	char *resume;     /* what to resume from (ps-serve --resume), or NULL; owned */
	json_t *damaged;  /* newer, damaged checkpoints: an object of reasons by path, or NULL */
	int64_t max_restarts;         /* of each process; -1: the default */
	progress_explain_fn *explain; /* explains a start that takes long, or NULL */

	const struct conf *conf;
	const char *dir;    /* the run directory, absolute */
	struct hosts hosts; /* hosts for servers and workers; empty: all run here */
	char *bin;          /* directory of the other programs */
	struct policy policy;
	struct launch_set *set;     /* the child processes; their indices are the policy's */
	struct http_client *client; /* of the coordinator's control socket */
	struct progress progress;
	int signals;               /* a signalfd */
	struct rundir_watch watch; /* of dir */

	struct cluster_status *status; /* the coordinator's last answer, or NULL */
	int64_t next_ask;              /* when to ask again */
	int64_t slow_from;             /* from this time on the status is polled less often */
	bool warned_endless;           /* the job was seen running, and examined for an end */
	bool warned_full;              /* the user has been informed that no host has a free slot */
	char began[SUPERVISOR_BEGAN];  /* "began" of the saved state before this start, or "" */
	struct stat psk;               /* of the pre-shared key that other hosts were given */
	struct data_log_hold *pipe;    /* the named pipe that the job follows, or NULL */

	/* The process of the action at hand: how it ended, or why it cannot be started. */
	struct launch_event ended;
	/* How many processes the kernel has killed for lack of memory in our control group, and
	 * whether the child of `ended` is probably one of them. */
	uint64_t memory_kills;
	bool ended_for_memory;
	char ended_how[320];
	struct err start_error;
	struct rundir_retry failing; /* the last failed start of a process; id "": none */
	struct end_reports reports;  /* ends that the coordinator has yet to hear of */

	/* For the result. */
	char reason[SUPERVISOR_REASON];            /* of a failure that was seen here, or "" */
	enum err_cause cause;                      /* of that failure */
	int64_t failed_checkpoints, failed_before; /* of the run; of this coordinator */
	char checkpoint_error[SUPERVISOR_REASON];  /* the error of the last failed checkpoint */
	bool saved;                                /* a checkpoint was taken after a signal */
	char unsaved[SUPERVISOR_REASON];           /* why the model is not saved, or "" */
	enum err_cause unsaved_cause;
	char unstored[SUPERVISOR_REASON]; /* why checkpoints were not uploaded, or "" */
};

/* Zeroes s, blocks SIGUSR1, SIGUSR2, SIGINT, SIGTERM and (unless it is ignored) SIGHUP, and opens
 * the descriptor that they are read from. Call it before anything is created that a signal would
 * leave behind. ERR_IO. */
enum err_code supervisor_init(struct supervisor *s, struct err *e);
/* The exit code for e, with which the run could not even be opened: 128+N when a signal was the
 * cause (ERR_STOPPED). */
int supervisor_init_exit_code(const struct supervisor *s, const struct err *e);
/* Prepare for supervisor_start. conf and dir are borrowed. log: where a supervisor in the
 * background reports, or NULL for standard error. */
enum err_code supervisor_open(struct supervisor *s, const struct conf *conf, const char *dir,
    struct log *log, struct err *e);
/* Start the coordinator and, unless they need an invitation from it first, all servers and
 * workers. */
enum err_code supervisor_start(struct supervisor *s, struct err *e);
/* Ask the coordinator for its status and handle what has changed. Waits SUPERVISOR_ASK at most. */
void supervisor_poll_status(struct supervisor *s);
/* Wait for an event or for the next poll of the coordinator, handle it, and return the state. */
enum policy_state supervisor_wait_state(struct supervisor *s);
/* Roll back a job that has failed because a server died with the only replica of a partition: end all
 * processes, and start them again from the newest checkpoint, in the next generation. Blocks
 * until they are started or the deadline is over; the run has failed in the latter case. False:
 * not rolled back. Nothing has changed when the policy does not want it, or there is no
 * checkpoint. */
bool supervisor_roll_back(struct supervisor *s);
/* Kill processes that are still alive, and release all resources but s->rendezvous. */
void supervisor_close(struct supervisor *s);

/* Are all servers there, and do others start the workers? Then a start in the background is
 * complete. */
bool supervisor_waits_for_others(const struct supervisor *s);
/* Was the cluster stopped by a request to the coordinator, as the dashboard sends it? After ps-ctl
 * stop, which asks the supervisor, it is false: ps-ctl stop saves the model itself. */
bool supervisor_was_stopped_remotely(const struct supervisor *s, enum policy_state state);
/* Is the coordinator a process of its own, without a store? It is, with replicas and with other
 * hosts; else it runs in server-0. */
bool supervisor_has_separate_coordinator(const struct supervisor *s);
/* Is the process alive that the coordinator runs in? */
bool supervisor_is_coordinator_alive(const struct supervisor *s);

/* Wait for the end of a child, a signal, the removal of the run directory or the time `end`
 * (clock_now), and handle what has happened. */
void supervisor_wait_event(struct supervisor *s, int64_t end);
/* Read the pending signals without waiting. */
void supervisor_read_signals(struct supervisor *s);
/* Start the processes whose restart is due. */
void supervisor_start_due(struct supervisor *s);
/* Start the coordinator of a run that has failed once more, so that a checkpoint can be taken, and wait up to
 * `limit` ns until it answers that the job runs. A signal ends the wait. */
bool supervisor_revive_coordinator(struct supervisor *s, int64_t limit);
/* Begin to end all processes: from now on their ends are expected. */
void supervisor_expect_ends(struct supervisor *s);

#endif
