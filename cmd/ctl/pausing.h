/* SPDX-License-Identifier: ISC */
#ifndef CTL_PAUSING_H
#define CTL_PAUSING_H

#include "ctl.h"

/* The common part of ps-ctl pause and resume. */
struct pausing_options {
	const char *dir;
	int64_t timeout;
	bool json;
};

#define PAUSING_OPTS 3
extern const struct opt pausing_opts[PAUSING_OPTS];

/* Pause or resume all workers, and wait until all of them do so.  Returns the exit code. */
int pausing(const struct ctl_cmd *self, bool pause, int argc, char **argv);

#endif
