/* SPDX-License-Identifier: ISC */
/* Settings that are given beside the cluster file. */
#include <string.h>

#include "core/json.h"
#include "conf/conf_live.h"
#include "tap.h"

static struct err e;

static void unset(void)
{
	json_t *o = json_pack("{s:i, s:{s:s, s:f}}", "workers", 2, "job", "model", "custom", "lr",
	           0.5),
	       *taken = NULL;
	json_t *set = json_pack("{s:s, s:s, s:s}", "lr", "0.25", "epochs", "3", "sync", "ssp:1");
	json_t *wrong = json_pack("{s:s}", "epoch", "3"), *bad = json_pack("{s:s}", "steps", "few");
	struct conf c;

	ok(conf_from_json(o, &c, &e) == ERR_OK && conf_apply_unset(&c, set, &taken, &e) == ERR_OK &&
	        c.job.lr == 0.5 && c.job.epochs == 3 && c.sync.ops == &sync_ssp,
	    "what is at its default is set, and nothing else");
	ok(json_object_size(taken) == 2 && json_object_get(taken, "job.epochs") &&
	        json_object_get(taken, "sync"),
	    "which is told");
	ok(conf_apply_unset(&c, wrong, NULL, &e) == ERR_CONFIG &&
	        strstr(e.msg, "did you mean \"epochs\""),
	    "a key that is none: %s", e.msg);
	ok(conf_apply_unset(&c, bad, NULL, &e) == ERR_CONFIG && strstr(e.msg, "job.steps"),
	    "a value that is none: %s", e.msg);
	conf_release(&c);
	json_decref(taken);
	json_decref(set);
	json_decref(wrong);
	json_decref(bad);
	json_decref(o);
}

int main(void)
{
	unset();
	return tap_done();
}
