/* SPDX-License-Identifier: ISC */
#ifndef SYNC_SYNC_OPS_H
#define SYNC_SYNC_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* The interface of a synchronization mode. A mode is one file, sync_NAME.c, which defines
 * sync_NAME, and one line in sync.def. Code outside this folder asks for the properties below and
 * calls the functions of sync.h; it does not ask which mode it has.
 *
 * All functions are pure: they neither allocate, block nor write to anything but their out
 * arguments. The caller of the functions that take a struct sync holds the lock of its owner
 * (sync.h) and has found out that the step waits for no vote and no change of mode. */

struct sync;
struct sync_mode;

struct sync_ops {
	const char *name;    /* as in the setting, before the colon */
	const char *accepts; /* the form of sync.def with its limits, for an error message */
	const char *help;    /* one line */

	/* True: a server adds up the pushes of a step and makes one update of them when the step is
	 * closed (job.rules may say otherwise for some tables, shard/apply.h); partitions count
	 * their steps, and a push of a later step waits. False: a push is an
	 * update of its own when it arrives, and no step is ever closed. */
	bool sums_steps;
	/* True: all workers are at the same step, so a step is one moment for all of them: data is
	 * dealt and settings change by step. False: each worker counts its own steps. */
	bool lockstep;
	/* True: the mode reads sync_mode.staleness, which may be tuned while the job runs. */
	bool bounds_staleness;

	/* Parses the text after the colon (NULL: there is no colon) into *m, whose `ops` is set and
	 * whose other fields are zero. False: the text is wrong. */
	bool (*parse)(const char *argument, struct sync_mode *m);
	/* Writes the mode as sync_parse reads it. */
	void (*format)(const struct sync_mode *m, char out[static 32]);

	/* The number of steps that all other workers must have completed before a worker at this
	 * step is given the parameters. 0: a pull at this step waits for
	 * nobody. */
	uint64_t (*needed)(const struct sync_mode *m, uint64_t step);
	/* May a pull at this step be answered from all partitions now? */
	bool (*may_pull)(const struct sync *s, uint64_t step);
	/* May it be answered from those partitions that are ready, while others are not? */
	bool (*may_prefetch)(const struct sync *s, uint64_t step);
	/* Are all steps before `end` done, so that another mode may begin at `end`? */
	bool (*steps_done)(const struct sync *s, uint64_t end);
	/* The highest clock that an honest rank can have now; SYNC_NEVER when there is no limit. */
	uint64_t (*clock_max)(const struct sync *s);
};

#define MODE(name, form) extern const struct sync_ops sync_##name;
#include "sync/sync.def"
#undef MODE

/* The modes in the order of sync.def; NULL after the last one. */
const struct sync_ops *sync_ops_at(size_t i);

#endif
