/* SPDX-License-Identifier: ISC */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "core/json.h"
#include "http/client.h"
#include "supervisor/progress.h"

/* ps-ctl doctor: finds what is wrong with a cluster, or would be wrong with one that is to be
 * started, and says what to do about it. Each doctor_*.c examines one subject, and adds its
 * findings to one list, which is printed with the worst first. One thread. */
enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

/* Order of findings of one level: causes are printed before their effects. */
enum doctor_weight { DOCTOR_EFFECT, DOCTOR_PLAIN, DOCTOR_CAUSE };

struct doctor_finding {
	enum doctor_level level;
	enum doctor_weight weight;
	const char *check;           /* "keys": a constant */
	char *about, *text, *remedy; /* about: a process, a path or "" */
	/* A finding of which there are often many: "the start" waits for a process, about, for this time.
	 * In text, those with the same reason share a line. together: the reason in the plural; NULL: the
	 * finding has a line of its own. */
	char *who, *together;
	double seconds;
};

struct doctor {
	const char *dir;            /* run directory; NULL if none */
	bool alive;                 /* its cluster is running */
	struct http_client *client; /* of the coordinator; NULL if it cannot be asked */
	int64_t patience;           /* timeout of a request, ns */
	struct doctor_finding *list;
	size_t n;
};

/* Adds a finding. check must be a constant; `about` is a process, a path or ""; remedy may be "". In
 * it, DIR is the run directory, CLUSTER_FILE the cluster file, and ID is `about`. */
__attribute__((format(printf, 7, 8))) void doctor_add_finding(struct doctor *d,
    enum doctor_level level, enum doctor_weight weight, const char *check, const char *about,
    const char *remedy, const char *fmt, ...);
/* Lets the finding that was added last share a line. */
void doctor_share_line(struct doctor *d, const char *who, const char *together, double seconds);
/* Adds a finding of level DOCTOR_OK, unless this check has found something before. */
__attribute__((format(printf, 3, 4))) void doctor_add_ok(struct doctor *d, const char *check,
    const char *fmt, ...);
/* Adds the message with which a process or a job failed; doctor_causes.def tells the check and the
 * remedy of its cause. */
void doctor_add_message(struct doctor *d, enum doctor_level level, enum doctor_weight weight,
    const char *about, enum err_cause cause, const char *text);

/* Has the run directory a checkpoint to go on from? */
bool doctor_has_checkpoint(const struct doctor *d);

/* doctor_files.c: keys and the modes of their files, free space on the disk of dir. */
void doctor_keys(struct doctor *d);
void doctor_disk(struct doctor *d, const char *dir);
/* doctor_past.c: how the last run, or its processes, ended. A failure is reported with this
 * level. */
void doctor_past(struct doctor *d, enum doctor_level level);
/* Checks the open descriptors of the run's processes on this host by /proc. They are found by
 * their pid files; a coordinator that was started by hand has none, and is found by its lock. */
void doctor_processes(struct doctor *d);
/* Returns the last error message in the log of a process, to be freed, or NULL; *cause is its cause. */
char *doctor_last_words(const struct doctor *d, const char *id, enum err_cause *cause);
/* doctor_conf.c: checks a cluster file before anything runs, and the limits that its processes
 * would inherit from this one. doctor_descriptors() checks one process: limit is its
 * RLIMIT_NOFILE; open is the number of descriptors it has open, or -1 if unknown; others is the
 * number of peers that may be connected to it. */
void doctor_file(struct doctor *d, const struct conf *c);
void doctor_descriptors(struct doctor *d, const char *id, uint64_t limit, int64_t open,
    uint64_t others);
/* doctor_learning.c: `about`, a server or "the last run", has refused n pushes. */
void doctor_refused_pushes(struct doctor *d, const char *about, int64_t n);
/* Reports a job that has learned nothing. figures: a status or a result. */
void doctor_learning(struct doctor *d, const json_t *figures);
/* doctor_live.c: what the coordinator reports about all processes. */
void doctor_live(struct doctor *d);
/* doctor_links.c: every worker measures its links to the servers. */
void doctor_links(struct doctor *d);
/* doctor_state.c: the store of the coordinator's state, if that is an etcd; doctor_state_of_run: of the
 * run directory's cluster. */
void doctor_state(struct doctor *d, const struct conf *c);
void doctor_state_of_run(struct doctor *d);
/* doctor_join.c: whether this host can join the cluster with this join file. */
void doctor_join(struct doctor *d, const char *file);

/* Explains a start that takes long: prints each warning and failure as a line. Skips the slow
 * checks. */
void doctor_glance(const char *dir, struct progress *p);

#endif
