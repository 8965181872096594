/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_RESUMED_H
#define COORDINATOR_RESUMED_H

/* The checkpoint that the job resumes from. The coordinator chooses it by the manifest, and by the
 * sizes and shapes of the files; the servers compare their bytes with the digests
 * (coord/coord_resume.c). If one finds damage, the coordinator takes the newest checkpoint that is
 * older, unless the user has named this one: then the job fails, and its process ends with the
 * error a little later: a supervisor learns the reason from the job's status, and without one
 * nobody else would end the process. */
#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"
#include "core/read_retry.h"
#include "msg/state.h"

struct coordinator;
struct coord_config;

struct resumed {
	bool named;                /* by the user: no other one may be taken */
	bool newest;               /* the newest one is wanted */
	char *path;                /* NULL: the job begins afresh */
	struct manifest *manifest; /* NULL without a path, and for a coordinator that recovers */
	/* the part of the manifest that the coord reads; made from the source of parameters, where a
	 * read-only server begins with one (server_config.source) */
	struct state_head head;
	struct large_description *description; /* if it has a large one */
	json_t *facts; /* owns head.data->facts, where there is no manifest */
	/* The checkpoints that were found to be damaged, with the reason; in the order in which
	 * they were found. */
	struct damaged_checkpoint {
		char *path, *why;
	} * damaged;
	size_t ndamaged, ntold;  /* ntold: those that an event has reported */
	struct read_retry retry; /* of the newest checkpoint, if it cannot be read */
	/* There is no other one: the job has failed, and the process ends at this time (clock_now).
	 * 0: no. */
	int64_t ends_at;
	struct err failure;
};

/* Chooses and reads the checkpoint, or the source of parameters, before there is a coord. ERR_FORMAT:
 * it, or all of them, are damaged; ERR_CONFIG, ERR_UNSUPPORTED: the job cannot go on with it. */
enum err_code resumed_find(struct coordinator *coordinator, struct err *e);
/* Sets the members of the configuration that depend on the checkpoint. */
void resumed_configure(const struct coordinator *coordinator, struct coord_config *cfg);
/* The configuration that the job begins with, a new reference. If this run has made the checkpoint,
 * settings in it that differ from the cluster file were changed while the job ran, and hold. */
json_t *resumed_settings(const struct coordinator *coordinator);
/* Reports each damaged checkpoint in an event, once. With the lock held; the history is open. */
void resumed_tell_damage(struct coordinator *coordinator);
/* Takes an older checkpoint if the servers have found damage in this one. The ticker's thread, with
 * the coordinator's lock. Reads manifests under it: nobody trains yet. */
void resumed_replace_damaged(struct coordinator *coordinator);
/* Adds the damaged checkpoints to a status. With the lock held. */
void resumed_report(const struct coordinator *coordinator, json_t *status);
void resumed_release(struct resumed *r);

#endif
