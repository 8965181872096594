#ifndef CTL_MOVING_H
#define CTL_MOVING_H

#include <jansson.h>
#include <stdint.h>

#include "ctl.h"

/* Ask the coordinator of the cluster at dir (NULL: the only one here) for a
 * change, and show how the partitions move until all lie where they shall and
 * everybody who is wanted is there.  The exit code; 124 when the time is up. */
int moving(const char *dir, const char *route, json_t *body, int64_t timeout);

#endif
