/* SPDX-License-Identifier: ISC */
#ifndef CONF_UNUSED_H
#define CONF_UNUSED_H

#include "conf/conf.h"

/* Finds keys that somebody has set and that change nothing as the other keys are now: constants
 * that the update rule does not have, sizes that the model does not have, replicas without servers
 * for them. They are not errors, because another key may give them a meaning while the job runs, or
 * in the next run. Keys whose meaning depends on the data are not among them. Pure. */

/* Takes one of them: why is a sentence's rest, as "update rule dog has no momentum". */
typedef void conf_unused_fn(void *ctx, const char *key, const char *why);
void conf_unused(const struct conf *c, conf_unused_fn *fn, void *ctx);

#endif
