/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_SETTINGS_REQUEST_H
#define COORDINATOR_SETTINGS_REQUEST_H

#include "coordinator/coordinator.h"

/* Requests to change settings while the job runs: validation, changes planned for a later step,
 * and the settings that concern the coordinator's own process.
 *
 *   requested (POST /v1/set, a plan, adapt) --> validated
 *       --> proposed and voted (coord_request_settings)
 *       --> decided, takes effect at a step (settings_request_answer), or refused
 *   planned for step N --> requested when the fastest worker comes near N
 *
 * All functions take the coordinator's lock, except where a comment says otherwise. */

/* POST /v1/set: {"set":{"lr":"0.01", ...},"at":STEP,"dry_run":true}; values are texts as for
 * --set. All keys change or none: ERR_CONFIG when one key, or their combination, is wrong;
 * ERR_EXISTS while another change is being decided. On success either *ticket is the one of
 * coord_request_settings, for settings_request_answer, or *ticket is 0 and *answer is the answer. */
enum err_code settings_request_change(struct coordinator *coordinator, const json_t *body,
    const char *who, uint64_t *ticket, json_t **answer, struct err *e);
/* The state of a requested change; *answer is set with COORD_AGREED. */
enum coord_answer settings_request_answer(struct coordinator *coordinator, uint64_t ticket,
    json_t **answer, struct err *e);
/* A copy of the effective configuration; or of each key its value, origin and time of change. */
json_t *settings_request_now(struct coordinator *coordinator);
json_t *settings_request_origin(struct coordinator *coordinator);
/* Pause the workers before their next step (pause), or let them continue. */
enum err_code settings_request_pause(struct coordinator *coordinator, bool pause, const char *who,
    struct err *e);

/* The configuration to start with: c and, for a run that resumes from its own checkpoint, the
 * settings that had been changed by then (from its manifest, or NULL). A new reference; needs no
 * lock. */
struct manifest;
json_t *settings_initial(const struct conf *c, const struct manifest *manifest);
/* The coordinator's name for on_worker_loss. Needs no lock. */
enum coord_policy settings_request_policy(const struct conf *c);
/* With the lock held: ERR_CONFIG when a job of this kind cannot change to c. `set` may name keys
 * without "job.". */
enum err_code settings_check_job(const struct coordinator *coordinator, const struct conf *c,
    const json_t *set, struct err *e);
/* "codec=topk:0.01 feedback=off" from an object of strings; a fresh string. Needs no lock. */
char *settings_request_sentence(const json_t *set);
/* Fill in the members of struct coord_setting that follow from c: batch and those after it. */
void settings_request_describe(const struct conf *c, struct coord_setting *out);
/* At each tick, with the lock held: request planned changes whose step is near, and apply
 * decided changes that concern this process. */
void settings_request_tick(struct coordinator *coordinator, int64_t now);

/* Change the number of servers and workers (-1: leave it), and make keys for those that have
 * none. Errors of coord_scale; ERR_IO. Takes the coordinator's lock. */
enum err_code settings_request_scale(struct coordinator *coordinator, int64_t servers,
    int64_t workers, struct err *e);

#endif
