/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_SETTINGS_H
#define COORDINATOR_SETTINGS_H

#include "coordinator/coordinator.h"

/* Changes of settings: which are possible, and those that no request makes, which are planned for a
 * step or made by adapt.
 *
 *   planned for step N --the fastest worker comes near N--> requested (coord_request_settings)
 *   adapt (adapt.h) --> requested
 *
 * And the settings that concern the coordinator's own process. The coordinator's lock is held. */

/* The one validation of a change: sets *out to the present configuration with the keys of `set`. On
 * success the caller releases *out. ERR_CONFIG. */
enum err_code settings_check_change(const struct coordinator *coordinator, const json_t *set,
    struct conf *out, struct err *e);
/* ERR_CONFIG when a job of this kind cannot change to c. `set` may name keys without "job.". */
enum err_code settings_check_job(const struct coordinator *coordinator, const struct conf *c,
    const json_t *set, struct err *e);

/* Plan a valid change for its step. ERR_LIMIT: too many are planned. ERR_USAGE: its keys take
 * effect at once, not at a step. */
enum err_code settings_plan_add(struct coordinator *coordinator, const struct setting *change,
    struct err *e);
/* Apply the present settings that concern this process: its log level, and the interval of
 * checkpoints. */
void settings_plan_follow(struct coordinator *coordinator);
/* At each tick: request planned changes whose step is near and changes of adapt, and apply decided
 * changes that concern this process. */
void settings_plan_tick(struct coordinator *coordinator, int64_t now);

#endif
