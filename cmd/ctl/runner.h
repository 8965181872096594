/* SPDX-License-Identifier: ISC */
#ifndef CTL_RUNNER_H
#define CTL_RUNNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "conf/conf.h"
#include "conf/hosts.h"
#include "core/err.h"
#include "core/json.h"
#include "core/launch.h"
#include "http/client.h"
#include "progress.h"
#include "rundir/rundir.h"

/* A runner starts the processes of one cluster, watches them, restarts them and ends them.  It is
 * the common part of ps-ctl run (foreground.c), rank 0 of ps-ctl launch, and the supervisor that
 * ps-ctl start leaves behind (supervisor.c).  All processes are children of this one; a server or
 * worker on another host is represented by a child that runs a remote shell (far.h).
 *
 * THE LIFE OF A RUN.  runner_wait_state() computes the state anew in each turn from the coordinator's
 * last status, the ends of child processes, the signals received and the run directory.  Where
 * several events apply, the order is: signal, give-up, "stopped", "done", "failed", ps-ctl stop.
 * "Give up" means runner_give_up(): the first reason is kept, and the run has failed whatever the
 * coordinator says.  "Restart" means restart_schedule(): after a pause that doubles, at most
 * max_restarts times for each process.
 *
 * state   event                                        action                         next
 * FORMING the coordinator answers                      start servers, workers (1)     FORMING
 * FORMING the job is "running" or "finishing"          warn if the job never ends     RUNNING
 * FORMING a server or worker is killed                 restart, else give up          same, FAILED
 * FORMING a worker exits, a server with an error code  give up                        FAILED
 * RUNNING scaling calls for a process                  start it                       RUNNING
 * RUNNING a worker is killed                           report its end, restart        RUNNING
 * RUNNING a worker exits with code 0                   say that it has left           RUNNING
 * RUNNING a worker exits with another code             keep the first reason          RUNNING
 * RUNNING a server has left after a drain              none                           RUNNING
 * RUNNING a server is lost, replicas > 1               report its end, restart; give  RUNNING,
 *                                                      up when no server is left      FAILED
 * RUNNING a server is lost, one copy                   wait NOTICE, then give up      FAILED
 * any (2) all own workers are gone, none with code 0   wait NOTICE_WORKER (after a    FAILED
 *                                                      signal: on_worker_loss), then
 *                                                      give up
 * any (2) a coordinator on its own is killed           restart, else give up          same, FAILED
 * any (2) the coordinator ends in another way, or is   give up                        FAILED
 *         silent for the deadline
 * any (2) a restart fails                              retry until the deadline, then same, FAILED
 *                                                      give up that process
 * any     the run directory is deleted                 give up                        FAILED
 * any     the coordinator says "done" or "failed"      none                           DONE, FAILED
 * any     the coordinator says "stopped", or no        none                           STOPPED
 *         server is alive or about to be restarted
 * any     SIGUSR2 (ps-ctl stop)                        set asked                      STOPPED
 * any     SIGINT, SIGTERM, SIGHUP                      count it                       SIGNALLED
 * FAILED  data was lost with a server, a checkpoint    rollback(): end all processes, FORMING
 *         exists                                       start the next generation
 * DONE    ps-ctl start                                 keep serving the model         DONE
 * FAILED  ps-ctl start, and the runner did not give up keep answering                 FAILED
 *
 * (1) Where members_due is set: with other hosts or in a meeting, members need a join file first.
 *     Elsewhere runner_start() has started them.
 * (2) While the run is not over, not stopping, and no signal has come.
 *
 * The end of a run is a sequence of calls, made by foreground.c and supervisor.c:
 * runner_take_checkpoint() after a signal, runner_export_newest_checkpoint() or runner_export_model(),
 * runner_result(), then runner_end_processes(), which ends all processes and uploads missing checkpoints,
 * and runner_close().
 *
 * THREADS.  A runner has one thread and no locks.  It must be the thread that lives longest,
 * because children get a signal when the thread that started them ends.  A call to the coordinator
 * blocks for at most RUNNER_ASK; signals wait in the signalfd meanwhile. */
#define RUNNER_CHILDREN 8192
#define RUNNER_WHY      400
#define RUNNER_BEGAN    24

/* The restarts of one child. */
struct runner_restart {
	unsigned n;            /* restarts so far, including one that is scheduled */
	int64_t at;            /* when to start it; 0: no restart is scheduled */
	unsigned tries;        /* failed attempts to start it since the last success */
	int64_t failing_since; /* time of the first of them; 0: none has failed */
};

struct runner {
	const struct conf *conf;
	const char *dir;    /* the run directory, absolute */
	struct hosts hosts; /* hosts for servers and workers; empty: all run here */
	const char *iface,
	    *advertise;   /* options of ps-serve and ps-work (listen_address_choose), or NULL */
	char *meeting;    /* the ranks' directory (meeting.h), or NULL */
	bool members_due; /* servers and workers are yet to be started */
	int64_t unmade, unmade_seen; /* failed checkpoints: of the run, of this coordinator */
	char unmade_why[RUNNER_WHY]; /* the error of the last failed checkpoint */
	struct stat psk;             /* of the pre-shared key that other hosts were given */
	char *bin;                   /* directory of the other programs */
	struct launch_set *set;      /* the child processes */
	struct http_client *client;  /* of the coordinator's control socket */
	struct progress progress;
	int signals;                /* a signalfd */
	struct rundir_watch watch;  /* of dir */
	int first_signal, nsignals; /* of those that end the run */
	bool full;                  /* the user was told that no host has a free slot */
	bool begun;                 /* the job was seen running */
	bool asked;                 /* ps-ctl stop has asked for the end (SIGUSR2) */
	json_t *status;             /* the coordinator's last answer, or NULL */
	int64_t next_ask, answered; /* when to ask again; when it last answered */
	int64_t alone_since;        /* since when no worker is left; 0: some are */
	int64_t broken_since;       /* since when a partition has no server; 0: all have */
	int64_t max_restarts;       /* of each process; -1 until runner_open sets the default */
	struct runner_restart restart[RUNNER_CHILDREN]; /* by child of the set */
	struct rundir_retry failing; /* the last failed start of a process; id "": none */
	int64_t rollbacks;           /* roll-backs to a checkpoint so far */
	char began[RUNNER_BEGAN];    /* "began" of RUN/state.json before this start, or "" */
	char *passed_over;           /* newer, damaged checkpoints and why; or NULL */
	char *resume;                /* what to resume from (ps-serve --resume), or NULL */
	int64_t settled;             /* from this time on the status is polled less often */
	bool saved;                  /* a checkpoint was taken after a signal */
	bool stopping; /* runner_end_processes was called: ends of processes are expected */
	bool crashed;  /* runner_give_up was called, with this reason: */
	char reason[400];
	char ended_id[48], ended_how[320]; /* an end to be reported; id "": none */
	char culprit[48];                  /* the process whose log explains the failure, or "" */
	int code;                          /* exit code of a failure while forming; 0: none */
	char unsaved[RUNNER_WHY];          /* why the model is not saved, or "" */
	char unstored[RUNNER_WHY];         /* why checkpoints were not uploaded, or "" */
};

/* The state of the run; the table above has the transitions. */
enum runner_state {
	RUNNER_FORMING,
	RUNNER_RUNNING,
	RUNNER_DONE,
	RUNNER_FAILED,
	RUNNER_STOPPED, /* by ps-ctl stop or the coordinator, or no server is left */
	RUNNER_SIGNALLED,
};

/* Zeroes r, blocks SIGUSR1, SIGUSR2, SIGINT, SIGTERM and (unless it is ignored) SIGHUP, and opens
 * the descriptor that they are read from.  Call it before anything is created that a signal would
 * leave behind.  ERR_IO. */
enum err_code runner_signals(struct runner *r, struct err *e);
/* Report e, with which the run could not even be opened.  Returns the exit code: 128+N when a
 * signal was the cause (ERR_STOPPED). */
int runner_report_not_begun(const struct runner *r, const struct err *e);
/* Prepare for runner_start.  conf and dir are borrowed.  log: where a supervisor reports, or NULL
 * for standard error. */
enum err_code runner_open(struct runner *r, const struct conf *conf, const char *dir,
    struct log *log, struct err *e);
/* Start the coordinator and, unless they need an invitation from it first, all servers and
 * workers. */
enum err_code runner_start(struct runner *r, struct err *e);
/* Reset what is known of the children, all of which have ended, before runner_start is called
 * again. */
void runner_reset(struct runner *r);
/* Wait for an event or for the next poll of the coordinator, handle it, and return the state. */
enum runner_state runner_wait_state(struct runner *r);

/* Are the workers started from here?  Workers of model custom without a program are started by
 * others (torchrun, srun, a shell). */
bool runner_has_own_workers(const struct runner *r);
/* Are all servers there, and do others start the workers?  Then a start in the background is
 * complete. */
bool runner_waits_for_others(const struct runner *r);
/* The run's result so far: the coordinator's, or one made of its last status.  A new reference. */
json_t *runner_result(struct runner *r);
/* Take a checkpoint of a running job before a signal ends it.  Blocks for up to 12 s; a further
 * signal ends the wait.  True when the checkpoint exists. */
bool runner_take_checkpoint(struct runner *r);
/* Is every partition still held by a server?  Otherwise the servers cannot export the model. */
bool runner_has_all_partitions(const struct runner *r);
/* Export the model from the servers to RUN/model.safetensors, unless that file exists.  A failure
 * is a warning, stored in r->unsaved and in the result.  For a failed job the result also says
 * when the model has values that are not finite. */
void runner_export_model(struct runner *r, json_t *result);
/* Was the cluster stopped by a request to the coordinator, as the dashboard sends it?  After ps-ctl
 * stop, which asks the runner, it is false: ps-ctl stop saves the model itself. */
bool runner_was_stopped_remotely(const struct runner *r, enum runner_state state);
/* Export the model of the newest checkpoint, if there is one, to RUN/model.safetensors.  A failure
 * is a warning, because the checkpoint still has the model. */
void runner_export_newest_checkpoint(struct runner *r);
/* End all processes, and upload the checkpoints that the store lacks (r->unstored on failure).  A
 * further signal ends all processes at once.  why: for the coordinator's log. */
void runner_end_processes(struct runner *r, const char *why);
/* Kill processes that are still alive, and release all resources but r->meeting. */
void runner_close(struct runner *r);

#endif
