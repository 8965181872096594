#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "http/client.h"
#include "progress.h"

/* What is wrong with a cluster, or would be: findings, the worst first, each with what is to be
 * done.  Each doctor_*.c looks at one thing; all add to one list. */
enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

/* Of findings of one level the causes come before what they bring about. */
enum doctor_weight { DOCTOR_EFFECT, DOCTOR_PLAIN, DOCTOR_CAUSE };

struct doctor_finding {
	enum doctor_level level;
	enum doctor_weight weight;
	const char *check;              /* "keys": a constant */
	char *about, *text, *remedy;    /* about: a process, a path or "" */
};

struct doctor {
	const char *dir;                /* run directory; NULL: none */
	bool alive;                     /* its cluster runs */
	struct http_client *client;     /* NULL: nobody to ask */
	int64_t patience;               /* of a question, ns */
	struct doctor_finding *list;
	size_t n;
};

__attribute__((format(printf, 7, 8))) void doctor_say(struct doctor *d, enum doctor_level level, enum doctor_weight weight,
    const char *check, const char *about, const char *remedy, const char *fmt, ...);
/* Has this check found nothing?  Then say what is well. */
__attribute__((format(printf, 3, 4))) void doctor_well(struct doctor *d, const char *check, const char *fmt, ...);
/* A process's or a job's own words for how it failed: to the check that they belong to. */
void doctor_words(struct doctor *d, enum doctor_level level, enum doctor_weight weight, const char *about, const char *text);
void doctor_release(struct doctor *d);
/* The worst level. */
enum doctor_level doctor_sort(struct doctor *d);

/* doctor_files.c: keys, their modes, the room on the disk */
void doctor_keys(struct doctor *d);
void doctor_disk(struct doctor *d, const char *dir);
/* doctor_past.c: how the last run, or its processes, ended; a failure is of this level */
void doctor_past(struct doctor *d, enum doctor_level level);
/* What the processes of this host that still live have open, seen from outside.  One that was started
 * by hand has no pid file, but the coordinator has the lock. */
void doctor_processes(struct doctor *d);
/* The last words in the log of a process of the run directory; fresh, or NULL. */
char *doctor_last_words(const struct doctor *d, const char *id);
/* doctor_conf.c: a cluster file, before anything runs; what the processes inherit from this one */
void doctor_file(struct doctor *d, const struct conf *c);
void doctor_descriptors(struct doctor *d, const char *id, uint64_t limit, int64_t open, uint64_t others);
/* doctor_live.c: what the coordinator tells of everybody */
void doctor_live(struct doctor *d);
/* doctor_lines.c: every worker tries its lines to the servers */
void doctor_lines(struct doctor *d);
/* doctor_join.c: from a join file's host */
void doctor_join(struct doctor *d, const char *file);

/* For a start that takes long: what fails or warns, a line each; nothing that takes long itself. */
void doctor_glance(const char *dir, struct progress *p);

#endif
