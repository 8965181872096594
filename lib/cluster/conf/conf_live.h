/* SPDX-License-Identifier: ISC */
#ifndef CONF_CONF_LIVE_H
#define CONF_CONF_LIVE_H

#include "conf/conf.h"
#include "msg/setting.h"

/* Settings that change while the job runs: the keys that conf.def marks LIVE, which hold from a
 * step on, or AT_ONCE. Pure: no state, no threads. The coordinator validates a change with these
 * functions before it is put to the vote (coord/coord.h); all roles compute
 * the configuration at a step with conf_at. */

/* Apply {"lr":"0.01", ...}: values as texts, as --set takes them; any key is allowed. After
 * ERR_CONFIG some of them may be set. Rules across keys are not checked. */
enum err_code conf_apply(struct conf *c, const json_t *set, struct err *e);
/* Like conf_apply, but only for keys that have their default value. *taken (may be NULL) gets those
 * keys with their texts, in a fresh object. */
enum err_code conf_apply_unset(struct conf *c, const json_t *set, json_t **taken, struct err *e);
/* May these keys be set while the job runs? ERR_CONFIG names the first that may not. */
enum err_code conf_may_change(const json_t *set, struct err *e);
/* Can all these keys take effect at once, because no computation of a worker or server depends on
 * them? */
bool conf_holds_at_once(const json_t *set);
/* Parse a value of `adapt`, "none" or "backup,codec", to bits of enum tune_key. ERR_CONFIG. */
enum err_code conf_parse_adapt(const char *text, unsigned *keys, struct err *e);
/* Copy the live settings of `from` to c, without the numbers of servers and workers. ERR_CONFIG. */
enum err_code conf_copy_live(struct conf *c, const struct conf *from, struct err *e);
/* Make the configuration of a job that is being trained follow `from`, which is the cluster's at a
 * later step: as conf_copy_live, and the numbers of epochs and steps. The number of epochs of a job
 * for which nobody has set it stays, because each process derives it from the data (conf_epochs).
 * Values that are equal stay where they are. ERR_CONFIG. */
enum err_code conf_follow(struct conf *c, const struct conf *from, struct err *e);
/* Copy the settings of `from` that take effect at once to c. ERR_CONFIG. */
enum err_code conf_copy_at_once(struct conf *c, const struct conf *from, struct err *e);
/* Remove the keys that take effect at once from a set of changed keys. Returns them, in a fresh
 * object. */
json_t *conf_take_at_once(json_t *set);

/* The configuration at a step: a pure function of the configuration that a list of changes is based
 * on, and of the list. Coordinator, servers and workers have the same base and the same list, from
 * the cluster view, so they compute the same configuration for a step. What a role needs of it (the
 * rule of a server, the codec of a worker) it derives from the result. */

/* All changes, whatever their step. */
#define CONF_NEWEST UINT64_MAX

/* Sets *out to the configuration `base`, as conf_from_json reads it, with the changes of the first n
 * changes applied in their order whose step is at most `step`. *out is initialised here, and is
 * zeroes after a failure. ERR_CONFIG: the base or a change has a key or a value that this version
 * does not know; rules across keys are not checked. */
enum err_code conf_at(const json_t *base, const struct setting *change, size_t n, uint64_t step,
    struct conf *out, struct err *e);

#endif
