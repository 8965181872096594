/* SPDX-License-Identifier: ISC */
#ifndef CONF_TUNE_H
#define CONF_TUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "sync/sync.h"

/* Which change of a setting would make a job faster, judged by measurements of its workers. Pure:
 * no clock, thread or I/O. One key at a time; a change is advised when two consecutive calls of
 * tune_advise find the same one. */

enum tune_key { TUNE_BACKUP = 1, TUNE_STALENESS = 2, TUNE_CODEC = 4, TUNE_BATCH = 8 };

/* Mean seconds of one worker's step. */
struct tune_worker {
	double alone; /* reading data, computing the gradient */
	double wire;  /* pushing and pulling */
	double wait;  /* waiting for other workers */
};

/* The settings in force. codec is borrowed for the time of the call. */
struct tune_settings {
	unsigned keys; /* keys that may be adapted, of enum tune_key */
	unsigned backup;
	struct sync_mode sync;
	const char *codec;
	int64_t batch, first_batch; /* first_batch: at the job's begin */
};

/* A change in the form in which a person would make it, and the reason as a clause for the
 * log. */
struct tune_advice {
	enum tune_key key;
	char set[48], value[32]; /* "backup", "1" */
	char why[240];
};

/* The change found last, and how many times in a row. Zeroes to begin with. */
struct tune {
	char last[96];
	unsigned times;
};

/* Judge the measurements of n active workers. True: the change *out is to be made now. */
bool tune_advise(struct tune *t, const struct tune_settings *now, const struct tune_worker *w,
    unsigned n, struct tune_advice *out);

#endif
