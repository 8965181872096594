#ifndef CTL_PAUSING_H
#define CTL_PAUSING_H

#include "ctl.h"

struct pausing_options {
	const char *dir;
	int64_t timeout;
	bool json;
};

#define PAUSING_OPTS 3
extern const struct opt pausing_opts[PAUSING_OPTS];

/* Have the workers rest, or go on, and wait until all do.  The exit code. */
int pausing(const struct ctl_cmd *self, bool pause, int argc, char **argv);

#endif
