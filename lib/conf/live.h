#ifndef CONF_LIVE_H
#define CONF_LIVE_H

#include "conf/conf.h"

/* Settings that change while the job runs: of conf.def those that are LIVE. */

/* {"lr":"0.01", ...}: texts, as --set takes them; any key.  ERR_CONFIG leaves some of them
 * set.  Nothing across keys is checked. */
enum err_code conf_apply(struct conf *c, const json_t *set, struct err *e);
/* As conf_apply, of the keys alone that are as they are by default.  *taken (may be NULL): those, with their
 * texts, a fresh object. */
enum err_code conf_apply_unset(struct conf *c, const json_t *set, json_t **taken, struct err *e);
/* May these, together, be set while the job runs?  ERR_CONFIG names the key that may not. */
enum err_code conf_may_change(const json_t *set, struct err *e);
/* Are they for no step: does nothing that a worker or server reckons go by them? */
bool conf_holds_at_once(const json_t *set);
/* The keys of enum tune_key that a value of `adapt` names: "none", or "backup,codec".  ERR_CONFIG. */
enum err_code conf_adapts(const char *text, unsigned *keys, struct err *e);
/* What of `from` may change while the job runs, but for how many take part. */
enum err_code conf_take_live(struct conf *c, const struct conf *from, struct err *e);

#endif
