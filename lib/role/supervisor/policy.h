/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_POLICY_H
#define SUPERVISOR_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The restart policy: what a supervisor does when a process of its run ends, cannot be started, or
 * when nothing happens for too long. It is a pure function of a state and an event, and returns
 * actions: it has no clock, process, file or socket. supervisor.c turns what it observes into
 * events, and executes the actions.
 *
 * THE LIFE OF A RUN (policy_state). Where several rows apply, the order is: signal, failure,
 * "stopped", "done", "failed", ps-ctl stop.
 *
 * state   event                                        actions                        next
 * FORMING the job is "running" or "finishing"          none                           RUNNING
 * FORMING a server or worker is killed                 restart, else fail             same, FAILED
 * FORMING a process exits, a session is cut            fail                           FAILED
 * RUNNING a worker is killed                           report, restart                RUNNING
 * RUNNING a worker exits with code 0                   report that it has left        RUNNING
 * RUNNING a worker exits with another code             report, keep the first cause   RUNNING
 * any     a worker exits with POLICY_GAVE_UP           as if it were killed           see there
 * RUNNING a server has left after a drain              none                           RUNNING
 * RUNNING a server is lost, replicas > 1               report, restart; fail when no  RUNNING,
 *                                                      server is left                 FAILED
 * RUNNING a server is lost, one replica                report, wait POLICY_NOTICE,    FAILED
 *                                                      fail
 * any (1) all own workers are gone, none with code 0   wait POLICY_NOTICE_WORKER      FAILED
 *                                                      (worker_patience when one was
 *                                                      killed), fail
 * any (1) a coordinator on its own is killed           report, restart, else fail     same, FAILED
 * any (1) the coordinator ends in another way, or is   fail                           FAILED
 *         silent for the deadline
 * any (1) a restart fails                              retry until the deadline, then same, FAILED
 *                                                      abandon that process
 * any     the supervisor gives up (POLICY_GIVE_UP)     fail                           FAILED
 * any     the coordinator says "done" or "failed"      none                           DONE, FAILED
 * any     the coordinator says "stopped", or no        none                           STOPPED
 *         server is alive or about to be restarted
 * any     ps-ctl stop (POLICY_STOP)                    none                           STOPPED
 * any     SIGINT, SIGTERM, SIGHUP (POLICY_SIGNAL)      none                           SIGNALLED
 * FAILED  the supervisor has rolled back, because      none                           FORMING
 *         policy_wants_rollback and a checkpoint
 *         exists (POLICY_ROLL_BACK, POLICY_RESET)
 *
 * (1) While the job is not over, the supervisor is not ending the processes, and no signal has
 *     come.  "Fail" keeps the first failure.
 *
 * THE RESTARTS OF ONE PROCESS: at most max_restarts in quick succession, after pauses that double from
 * 0.1 s to 10 s. A process that has lived for POLICY_QUIET, while the job ran, begins to count again; in a
 * POLICY_WINDOW it has at most POLICY_WINDOW_TIMES as many restarts. Roll-backs of the run are counted in the
 * same way, with POLICY_ROLLBACK_QUIET. A failed attempt to start a process does not count.
 *
 *   idle        POLICY_ENDED, and the policy wants it back      scheduled (restart_at != 0)
 *   scheduled   POLICY_CHECK_RESTARTS at restart_at             starting (action POLICY_START)
 *   starting    POLICY_STARTED                                  idle
 *   starting    POLICY_START_FAILED before the deadline         scheduled, in at most 2 s
 *   starting    POLICY_START_FAILED after the deadline          idle, abandoned */

/* How long the coordinator may take to fail the job after the loss of a server, or of all workers.
 * After that the supervisor fails the run itself. */
#define POLICY_NOTICE        (5000000000)
#define POLICY_NOTICE_WORKER (1000000000)
/* A process that lives as long has not failed for the reason of its earlier ends. */
#define POLICY_QUIET (5000000000)
/* A run that goes on as long after a roll-back begins to count its roll-backs again. */
#define POLICY_ROLLBACK_QUIET (600000000000)
/* The window that bounds the restarts of a process that ends again and again after POLICY_QUIET. */
#define POLICY_WINDOW       (3600000000000)
#define POLICY_WINDOW_TIMES 10
/* An answer of the coordinator older than this is not used to explain the end of a worker. */
#define POLICY_FRESH (1000000000)

/* The exit code of a worker that has waited in vain for the coordinator or for a server. Started
 * again, it may find them. */
#define POLICY_GAVE_UP 75

enum policy_role {
	POLICY_TOOL, /* a program that the supervisor runs for itself, as an export */
	POLICY_COORDINATOR,
	POLICY_SERVER,
	POLICY_WORKER,
};

/* How a process ended. */
enum policy_end {
	POLICY_LEFT,   /* exit code 0 */
	POLICY_EXITED, /* another exit code: started again, it would exit again */
	POLICY_KILLED, /* by a signal: started again, it may live */
	/* The session with its host was cut. A new session may work, so that this counts as
	 * killed; while the cluster forms the host was never reached, and it counts as exited. */
	POLICY_CUT,
};

/* The coordinator's word on the job. FORMING also before its first answer. */
enum policy_job {
	POLICY_JOB_FORMING,
	POLICY_JOB_RUNNING,
	POLICY_JOB_FINISHING,
	POLICY_JOB_DONE,
	POLICY_JOB_FAILED,
	POLICY_JOB_STOPPED,
};

enum policy_state {
	POLICY_FORMING,
	POLICY_RUNNING,
	POLICY_DONE,
	POLICY_FAILED,
	POLICY_STOPPED,
	POLICY_SIGNALLED,
};

struct policy_process {
	enum policy_role role;
	bool has_coordinator; /* the coordinator runs in this process */
	bool alive;
	enum policy_end end;   /* of one that is not alive; never POLICY_CUT */
	int code;              /* exit code of a run that fails by this end */
	int64_t started_at;    /* its last start */
	unsigned restarts;     /* in quick succession, including one that is scheduled */
	int64_t window_from;   /* begin of the present POLICY_WINDOW, */
	unsigned in_window;    /* and the restarts in it */
	int64_t restart_at;    /* when to start it; 0: no restart is scheduled */
	unsigned tries;        /* failed attempts to start it since the last success */
	int64_t failing_since; /* time of the first of them; 0: none has failed */
};

#define POLICY_NOBODY SIZE_MAX

/* Times are in ns, on the clock of the events. */
struct policy {
	/* Set by the supervisor before the first event. */
	bool trains;             /* there is a job */
	bool replicated;         /* there are several replicas of each partition */
	bool own_workers;        /* all workers are children: without them the run is over */
	int64_t max_restarts;    /* in quick succession, of each process and of the whole run */
	int64_t deadline;        /* for an answer of the coordinator, and for failing starts */
	int64_t worker_patience; /* how long the run may be without workers after one was killed */
	bool members_due;        /* servers and workers are yet to be started */

	int64_t turned_at; /* the last POLICY_TURN, or policy_init */

	/* The coordinator's last answer. */
	enum policy_job job;
	int64_t answered; /* when */
	int64_t workers;  /* that are in the cluster */
	bool data_lost;
	bool ran; /* the job has run since the processes were started */

	/* Past events that decide how the run ends. */
	unsigned signals; /* of those that end the run */
	int first_signal;
	bool stopping; /* ps-ctl stop has asked for the end */
	bool ending;   /* the supervisor ends all processes: their ends are expected */
	bool failed;
	size_t cause;        /* the process whose end explains a failure, or POLICY_NOBODY */
	int code;            /* exit code of the failed run; 0: 1 */
	int64_t lost_since;  /* since when a partition has no server; 0: all have */
	int64_t alone_since; /* since when no worker is left; 0: some are */
	int64_t rollbacks, rolled_back_at;

	struct policy_process *process;
	size_t n;
};

/* ---- events ---- */

enum policy_event_kind {
	POLICY_STARTED,        /* a process has started: process, role, has_coordinator */
	POLICY_START_FAILED,   /* a process that has run before could not be started: process */
	POLICY_ENDED,          /* a process has ended: process, end, code */
	POLICY_ASKED,          /* after the action POLICY_ASK: process, released */
	POLICY_STATUS,         /* the coordinator has answered: job, workers, data_lost */
	POLICY_CHECK_RESTARTS, /* time has passed: are restarts due? */
	POLICY_CHECK_LIMITS,   /* the coordinator was polled: has anything lasted too long? */
	POLICY_SIGNAL,         /* a signal that ends the run: signal */
	POLICY_STOP,           /* ps-ctl stop */
	POLICY_GIVE_UP,        /* the supervisor found a reason of its own to fail the run */
	POLICY_END_ALL,        /* the supervisor begins to end all processes */
	POLICY_ROLL_BACK,      /* the run is rolled back: count it */
	POLICY_RESET,          /* all processes have ended, and are to be started again */
	/* The supervisor makes a turn of its main loop. If the turn before is long ago, the
	 * supervisor was stopped, and perhaps the whole run with it. */
	POLICY_TURN,
};

struct policy_event {
	enum policy_event_kind kind;
	int64_t now;
	size_t process; /* an index that the supervisor chooses, from 0 on */
	enum policy_role role;
	bool has_coordinator;
	enum policy_end end;
	int code;
	bool
	    released; /* the coordinator has released this server, and others hold its partitions */
	enum policy_job job;
	int64_t workers;
	bool data_lost;
	int signal;
};

/* ---- actions ---- */

enum policy_action_kind {
	/* tell the coordinator how the process ended; n: 1 when it is not started again */
	POLICY_NOTIFY,
	POLICY_ASK,            /* ask the coordinator for its status, then send POLICY_ASKED */
	POLICY_REPORT_END,     /* tell the user how it ended */
	POLICY_REPORT_LEFT,    /* tell the user that the worker has left, and the others go on */
	POLICY_SET_CAUSE,      /* keep how it ended as the reason of a later failure */
	POLICY_REPORT_RESTART, /* tell the user that it is started for the nth time again */
	POLICY_START,          /* start it now; then send POLICY_STARTED or POLICY_START_FAILED */
	POLICY_REPORT_RETRY,   /* tell the user why the first attempt to start it failed */
	POLICY_PUBLISH_RETRY,  /* write to the lock file that attempts fail */
	POLICY_REPORT_STARTED, /* tell the user that it started after n failed attempts */
	POLICY_ABANDON,        /* tell the user that no further attempt is made */
	POLICY_FAIL,           /* the run has failed: keep the reason */
};

/* Why the run fails. */
enum policy_failure {
	POLICY_BY_CAUSE,       /* the end that POLICY_SET_CAUSE has kept */
	POLICY_BY_FORMING_END, /* likewise, of a process that was killed while the cluster formed */
	POLICY_BY_LAST_SERVER, /* likewise, and no server is left */
	POLICY_BY_WORKER_EXIT, /* a worker was ended while the cluster was forming */
	POLICY_BY_SILENCE,     /* the coordinator has not answered for the deadline */
	POLICY_BY_START,       /* the process could not be started again */
	POLICY_BY_SUPERVISOR,  /* the reason of POLICY_GIVE_UP */
};

struct policy_action {
	enum policy_action_kind kind;
	size_t process; /* or POLICY_NOBODY */
	unsigned n;
	enum policy_failure failure;
};

struct policy_actions {
	struct policy_action *item;
	size_t n;
};

/* Make p zeroes but for `answered` and `turned_at`, and the cause POLICY_NOBODY. */
void policy_init(struct policy *p, int64_t now);
void policy_release(struct policy *p);
/* Take an event: change p, and append what is to be done, in this order, to actions. */
void policy_on_event(struct policy *p, const struct policy_event *event,
    struct policy_actions *actions);
void policy_actions_release(struct policy_actions *a);

/* The state of the run, by the table above. */
enum policy_state policy_state(const struct policy *p);
/* Has the coordinator said that the job is done, failed or stopped? */
bool policy_job_is_over(const struct policy *p);
/* Is the restart of any process scheduled? */
bool policy_restart_is_pending(const struct policy *p);
/* Is the process alive, or is its restart scheduled? */
bool policy_has_process(const struct policy *p, size_t process);
/* The number of live processes of that role. */
size_t policy_count_alive(const struct policy *p, enum policy_role role);
/* Has the job failed because a server was lost with the only replica of a partition, or because of
 * the end of a server, so that a checkpoint can mend it? Not after a signal, ps-ctl stop or
 * max_restarts roll-backs. */
bool policy_wants_rollback(const struct policy *p);
/* May a run that wants a roll-back, and has written no checkpoint, begin again? Only if the job has
 * run: the reason why a process ended before that would come again. */
bool policy_may_begin_again(const struct policy *p);
/* Has the run failed because the coordinator, a process of its own, has used up its restarts? The
 * servers still hold the model then. */
bool policy_gave_up_coordinator(const struct policy *p);
/* The exit code of a run in the foreground that ended in this state. saved: a checkpoint was taken
 * after the signal, from which --resume auto continues (75, by which schedulers requeue). complete:
 * the model and its checkpoints are where they should be. */
int policy_exit_code(const struct policy *p, enum policy_state state, bool saved, bool complete);

#endif
