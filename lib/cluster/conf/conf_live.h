/* SPDX-License-Identifier: ISC */
#ifndef CONF_CONF_LIVE_H
#define CONF_CONF_LIVE_H

#include "conf/conf.h"

/* Settings that change while the job runs: the keys that conf.def marks LIVE, which hold from a
 * step on, or AT_ONCE. Pure: no state, no threads. The coordinator validates a change with these
 * functions before it is put to the vote (coord/coord.h); stores and workers apply it with
 * conf_apply. */

/* Apply {"lr":"0.01", ...}: values as texts, as --set takes them; any key is allowed. After
 * ERR_CONFIG some of them may be set. Rules across keys are not checked. */
enum err_code conf_apply(struct conf *c, const json_t *set, struct err *e);
/* Like conf_apply, but only for keys that have their default value. *taken (may be NULL) gets those
 * keys with their texts, in a fresh object. */
enum err_code conf_apply_unset(struct conf *c, const json_t *set, json_t **taken, struct err *e);
/* May these keys be set while the job runs? ERR_CONFIG names the first that may not. */
enum err_code conf_may_change(const json_t *set, struct err *e);
/* Can all these keys take effect at once, because no computation of a worker or server depends on them? */
bool conf_holds_at_once(const json_t *set);
/* Parse a value of `adapt`, "none" or "backup,codec", to bits of enum tune_key. ERR_CONFIG. */
enum err_code conf_parse_adapt(const char *text, unsigned *keys, struct err *e);
/* Copy the live settings of `from` to c, without the numbers of servers and workers. ERR_CONFIG. */
enum err_code conf_copy_live(struct conf *c, const struct conf *from, struct err *e);

#endif
