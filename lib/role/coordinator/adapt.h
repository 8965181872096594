/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_ADAPT_H
#define COORDINATOR_ADAPT_H

#include "coordinator/coordinator.h"

/* The key `adapt`: the coordinator changes settings by itself, by what workers report in their
 * heartbeats. Once a second it compares their figures with earlier ones and asks tune_advise for
 * advice. No threads and no locks: every call is made with the coordinator's lock held. */
struct adapt;

/* No measurements yet. adapt_free(NULL) is fine. */
struct adapt *adapt_new(void);
void adapt_free(struct adapt *a);
/* Called at each tick. set(coordinator, key, value) requests a change; it returns false when the
 * job cannot have it. */
void adapt_tick(struct adapt *a, struct coordinator *coordinator, int64_t now,
    bool (*set)(struct coordinator *coordinator, const char *key, const char *value));

#endif
