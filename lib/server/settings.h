#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include "server/host.h"

/* Settings that change while the job runs.  All take the host's lock, but where it says. */

/* POST /v1/set: {"set":{"lr":"0.01", ...},"at":STEP,"dry_run":true}; texts as --set takes
 * them.  All or none: ERR_CONFIG, and nothing is changed, when one key or what they make
 * together is wrong; ERR_EXISTS while another change is being decided.  *ticket: of
 * coord_set, to be asked for; or 0, and *answer is the answer. */
enum err_code settings_change(struct host *h, const json_t *body, const char *who, uint64_t *ticket, json_t **answer,
    struct err *e);
/* What became of it; COORD_AGREED: *answer. */
enum coord_answer settings_answer(struct host *h, uint64_t ticket, json_t **answer, struct err *e);
/* The effective configuration: a copy; with where each key is from, and when it was set. */
json_t *settings_now(struct host *h);
json_t *settings_origin(struct host *h);
/* Have the workers rest before their next step, or go on. */
enum err_code settings_pause(struct host *h, bool pause, const char *who, struct err *e);

/* The configuration to begin with: c, and, of a run that goes on from a checkpoint of its own,
 * what had been set by then (its manifest, or NULL).  A new reference; no lock. */
json_t *settings_first(const struct conf *c, const json_t *manifest);
/* on_worker_loss, as the coordinator has it. */
enum coord_policy settings_policy(const struct conf *c);
/* With the lock held: ERR_CONFIG for what a job of this kind cannot change to.  `set` may name keys without "job.". */
enum err_code settings_fit(const struct host *h, const struct conf *c, const json_t *set, struct err *e);
/* "codec=topk:0.01 feedback=off", of strings; fresh. */
char *settings_sentence(const json_t *set);
/* What the coordinator goes by of it: batch and what follows in struct coord_setting. */
void settings_describe(const struct conf *c, struct coord_setting *out);
/* Now and then, with the lock held: what was planned for a step that is near; what was decided
 * and is for this process. */
void settings_tick(struct host *h, int64_t now);

#endif
