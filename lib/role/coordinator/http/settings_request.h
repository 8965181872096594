/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_SETTINGS_REQUEST_H
#define COORDINATOR_SETTINGS_REQUEST_H

#include "coordinator/coordinator.h"

/* Requests about settings while the job runs.
 *
 *   parsed (POST /v1/set) --> checked (coordinator/settings.h)
 *       --> planned for a later step (coordinator/settings.h)
 *       --> proposed and voted (coord_request_settings)
 *       --> decided, takes effect at a step (settings_request_answer), or refused
 *
 * All functions take the coordinator's lock. */

/* POST /v1/set: {"set":{"lr":"0.01", ...},"at":STEP,"dry_run":true}; values are texts as for --set.
 * All keys change or none: ERR_CONFIG when one key, or their combination, is wrong; ERR_EXISTS
 * while another change is being decided. On success either *ticket is the ticket of
 * coord_request_settings, for settings_request_answer, or *ticket is 0 and *answer is the
 * answer. */
enum err_code settings_request_change(struct coordinator *coordinator, const json_t *body,
    const char *who, uint64_t *ticket, json_t **answer, struct err *e);
/* The state of a requested change; *answer is set with COORD_AGREED. */
enum coord_answer settings_request_answer(struct coordinator *coordinator, uint64_t ticket,
    json_t **answer, struct err *e);
/* Pause the workers before their next step (pause), or let them continue. */
enum err_code settings_request_pause(struct coordinator *coordinator, bool pause, const char *who,
    struct err *e);

/* Change the number of servers and workers (-1: leave it), and make keys for those that have
 * none. Errors of coord_scale; ERR_IO. Takes the coordinator's lock. */
enum err_code settings_request_scale(struct coordinator *coordinator, int64_t servers,
    int64_t workers, struct err *e);

/* A copy of the effective configuration; or of each key its value, origin and time of change. New
 * references. They take the coordinator's lock. */
json_t *settings_describe_now(struct coordinator *coordinator);
json_t *settings_describe_origin(struct coordinator *coordinator);

#endif
