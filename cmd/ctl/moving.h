#ifndef CTL_MOVING_H
#define CTL_MOVING_H

#include <jansson.h>
#include <stdint.h>

#include "ctl.h"

struct moving_options {
	const char *dir;
	int64_t timeout;
};

#define MOVING_OPTS 2
extern const struct opt moving_opts[MOVING_OPTS];
/* As ctl_parse, with 60 s to wait unless told otherwise. */
bool moving_parse(const struct ctl_cmd *self, struct moving_options *o, int argc, char **argv, int *nargs, int *code);

/* Ask the coordinator of the cluster at dir (NULL: the only one here) for a
 * change, and show how the partitions move until all lie where they shall and
 * everybody who is wanted is there.  The exit code; 124 when the time is up. */
int moving(const char *dir, const char *route, json_t *body, int64_t timeout);

#endif
