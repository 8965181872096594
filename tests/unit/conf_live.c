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

/* A worker's configuration follows the cluster's. */
static void follow(void)
{
	json_t *o = json_pack("{s:i, s:{s:s}}", "workers", 2, "job", "model", "softmax");
	json_t *rate = json_pack("{s:s}", "lr", "0.25"),
	       *epochs = json_pack("{s:s, s:s}", "epochs", "3", "steps", "70");
	struct conf mine, its;
	char *codec;

	ok(!conf_from_json(o, &mine, &e) && !conf_from_json(o, &its, &e), "two of them");
	mine.job.epochs = 55;
	codec = mine.codec;
	ok(!conf_apply(&its, rate, &e) && !conf_follow(&mine, &its, &e) && mine.job.lr == 0.25,
	    "a live setting is taken over");
	ok(mine.job.epochs == 55, "epochs that follow from the data stay: %lld",
	    (long long)mine.job.epochs);
	ok(mine.codec == codec, "and values that are equal stay where they are");
	ok(!conf_apply(&its, epochs, &e) && !conf_follow(&mine, &its, &e) && mine.job.epochs == 3 &&
	        mine.job.steps == 70,
	    "epochs and steps that somebody has set are taken over");
	conf_release(&mine);
	conf_release(&its);
	json_decref(o);
	json_decref(rate);
	json_decref(epochs);
}

int main(void)
{
	unset();
	follow();
	return tap_done();
}
