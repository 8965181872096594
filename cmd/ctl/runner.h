#ifndef CTL_RUNNER_H
#define CTL_RUNNER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/hosts.h"
#include "conf/conf.h"
#include "http/client.h"
#include "launch/launch.h"
#include "progress.h"

/* The processes of one cluster on this host, and those it has on others, from their start to the end of
 * the last: what ps-ctl run and the supervisor of ps-ctl start have in common.
 * One thread, and it must be the one that lives longest, because the children
 * die with it. */
#define RUNNER_CHILDREN 8192
#define RUNNER_WHY 400
struct runner {
	const struct conf *conf;
	const char *dir;                /* absolute */
	struct hosts hosts;             /* where servers and workers are to run; none: all here */
	const char *iface, *advertise;  /* options of ps-serve and ps-work (choose_listen), or NULL */
	char *meeting;                  /* where ranks of others find their join files (meeting.h), or NULL */
	bool members_due;               /* servers and workers are yet to be started */
	struct stat psk;                /* the cluster's secret as it was told to other hosts */
	char *bin;                      /* where the other programs lie */
	struct launch_set *set;
	struct http_client *client;
	struct progress progress;
	int signals;                    /* descriptor */
	int first_signal, nsignals;
	bool asked;                     /* by ps-ctl stop, to end */
	json_t *status;                 /* the coordinator's last answer, or NULL */
	int64_t next_ask, answered;     /* when to ask again; when it answered last */
	int64_t alone_since;            /* since when no worker is left; 0 */
	int64_t broken_since;           /* since when a server is missing; 0 */
	int64_t max_restarts;           /* of each process; -1 until runner_open: 3 with copies, else 0 */
	unsigned restarts[RUNNER_CHILDREN];     /* by child of the set */
	int64_t restart_at[RUNNER_CHILDREN];    /* 0: it is not to be started */
	int64_t rollbacks;              /* how often all was begun again from a checkpoint */
	char *resume;                   /* what the coordinator goes on from (ps-serve --resume), or NULL */
	int64_t settled;                /* when it was up for some time: ask less often */
	bool saved;                     /* a checkpoint was taken when a signal came */
	bool stopping;                  /* ends are expected from now on */
	bool crashed;                   /* this side has given up, for this reason: */
	char reason[400];
	char culprit[48];               /* the process whose log tells more, or "" */
	int code;                       /* of who could not even begin; 0 */
	char unsaved[RUNNER_WHY];       /* why the model is not saved, or "" */
	char unstored[RUNNER_WHY];      /* why checkpoints are not where checkpoint_to says, or "" */
};

/* What a turn of the loop can end with. */
enum runner_state {
	RUNNER_FORMING,
	RUNNER_RUNNING,
	RUNNER_DONE,
	RUNNER_FAILED,
	RUNNER_STOPPED,         /* by ps-ctl stop, by word to the coordinator, or the servers have left */
	RUNNER_SIGNALLED,
};

/* SIGUSR2, SIGINT and SIGTERM (and SIGHUP, unless it is ignored) are for the runner
 * from here on: call it first, before anything is left that would have to be
 * cleaned up after a signal. */
enum err_code runner_signals(struct runner *r, struct err *e);
/* It could not even be opened: says e; the exit code, which tells of a signal that came meanwhile. */
int runner_not_begun(const struct runner *r, const struct err *e);
/* conf and dir are borrowed.  log: where a supervisor talks, else NULL. */
enum err_code runner_open(struct runner *r, const struct conf *conf, const char *dir,
                          struct log *log, struct err *e);
/* Start all servers, and the workers when there is a job. */
enum err_code runner_start(struct runner *r, struct err *e);
/* All children have ended, and what they were blamed for is past. */
void runner_forget(struct runner *r);
/* Wait for something to happen, see to it, and say how things stand. */
enum runner_state runner_turn(struct runner *r);

/* Are the workers started from here?  Of model custom without a program they come from elsewhere (torchrun, srun, a shell). */
bool runner_has_own_workers(const struct runner *r);
/* All that it has started is there, and the workers come from elsewhere. */
bool runner_waits_for_others(const struct runner *r);
/* The run's result as it stands: the coordinator's, or one made of what was
 * seen last.  A new reference. */
json_t *runner_result(struct runner *r);
/* The job is running, and is to be ended by a signal: have a checkpoint taken.
 * True when it is there. */
bool runner_checkpoint(struct runner *r);
/* Are all servers there?  Else no model can be had from them. */
bool runner_is_whole(const struct runner *r);
/* The model to RUN/model.safetensors, unless there is one.  A failure is a
 * warning, in r->unsaved and in the result; so is what is wrong with the model
 * of a job that failed. */
void runner_export(struct runner *r, json_t *result);
/* End all processes, and copy to the store what it lacks (r->unstored); a further signal ends them at
 * once.  why: for the log. */
void runner_stop(struct runner *r, const char *why);
/* Ends what still runs. */
void runner_close(struct runner *r);

#endif
