#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include "server/host.h"

/* Change what may change while the job runs: set is {"codec":"topk:0.01", ...}, texts as
 * --set takes them.  All or none: ERR_CONFIG, and nothing is changed, when one key or
 * what they make together is wrong.  *number: coord_set's. */
enum err_code settings_change(struct host *h, const json_t *set, const char *who, int64_t *number, struct err *e);
/* The effective configuration: a copy.  Takes the lock. */
json_t *settings_now(struct host *h);
/* Have the workers rest before their next step, or go on. */
enum err_code settings_pause(struct host *h, bool pause, const char *who, struct err *e);
/* The configuration with what an earlier coordinator was told: a new reference. */
json_t *settings_of(const struct conf *c, const json_t *state);

#endif
