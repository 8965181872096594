/* SPDX-License-Identifier: ISC */
#ifndef CTL_MOVING_H
#define CTL_MOVING_H

#include <stdint.h>

#include "core/json.h"
#include "ctl.h"

/* Requests to the coordinator that move partitions or change the members (ps-ctl scale, drain,
 * rebalance), with a progress bar. */

struct moving_options {
	const char *dir;
	int64_t timeout;
};

#define MOVING_OPTS 2
extern const struct opt moving_opts[MOVING_OPTS];
/* Like ctl_parse; the timeout is 60 s unless it is given. */
bool moving_parse(const struct ctl_cmd *self, struct moving_options *o, int argc, char **argv,
    int *nargs, int *code);

/* POST body (released here) to route of the cluster at dir (NULL: the only one here), and show how
 * the partitions move until all are in place and all requested members are there.  Returns the
 * exit code; 124 after timeout ns. */
int moving(const char *dir, const char *route, json_t *body, int64_t timeout);

#endif
