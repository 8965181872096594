/* SPDX-License-Identifier: ISC */
/* Keys that are set and change nothing. */
#include "conf/conf_unused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "tap.h"

static void note_key(void *ctx, const char *key, const char *why)
{
	struct buf *out = ctx;

	buf_printf(out, "%s%s: %s", out->len ? "; " : "", key, why);
}

/* Compares the findings for a job with these settings, which blanks separate, with those that are expected. */
static void check_unused_keys(const char *settings, const char *want)
{
	char *list = mem_strdup(settings), *rest = NULL;
	struct buf out = BUF_INIT;
	struct err e = { 0 };
	bool good = true;
	struct conf c;

	conf_init(&c);
	c.has_job = true;
	for (char *set = strtok_r(list, " ", &rest); set; set = strtok_r(NULL, " ", &rest))
		good = good && conf_set(&c, set, &e) == ERR_OK;
	conf_unused(&c, note_key, &out);
	buf_append(&out, "", 1);
	ok(good && strcmp((const char *)out.data, want) == 0, "%s: %s%s", settings, e.msg,
	    (const char *)out.data);
	buf_release(&out);
	conf_release(&c);
	free(list);
}

int main(void)
{
	static const char none[] = "there are no data to evaluate on: name job.eval, or hold out a "
	                           "share by job.validate";
	char want[300];

	check_unused_keys("model=linear", "");
	check_unused_keys("model=logistic lr=0.1 eps=1e-8 initial_accumulator=0.1 l2=0.1", "");
	check_unused_keys("model=logistic momentum=0.5",
	    "job.momentum: update rule adagrad has no momentum");
	check_unused_keys("model=linear optimizer=momentum momentum=0.5 beta1=0.5",
	    "job.beta1: update rule momentum has no beta1");
	check_unused_keys("codec=dgc:0.01 model=linear optimizer=sgd momentum=0.5", "");
	check_unused_keys("model=linear optimizer=dog rho=0.5 rules=w:optimizer=rmsprop",
	    "job.rho: update rule dog has no rho, and tables with another one have theirs in "
	    "job.rules");
	check_unused_keys("model=logistic factors=8",
	    "job.factors: model logistic has no vectors of features");
	check_unused_keys("model=fm factors=8", "");
	check_unused_keys("model=deepfm factors=8 cross=3",
	    "job.cross: model deepfm has no layers that cross features");
	check_unused_keys("model=dcn factors=8 cross=3", "");
	check_unused_keys("model=dcn bottom=[8]",
	    "job.bottom: model dcn has no layers for the numbers alone");
	check_unused_keys("model=dlrm factors=8 bottom=[8]", "");
	snprintf(want, sizeof want, "job.eval_every: %s; keep_best: %s", none, none);
	check_unused_keys("keep_best=2 model=linear eval_every=10", want);
	check_unused_keys("keep_best=2 model=linear eval_every=10 validate=10%", "");
	check_unused_keys("keep_best=2 model=linear eval_every=10 eval=e.csv", "");
	check_unused_keys("feedback=false model=linear", "feedback: codec raw drops nothing");
	check_unused_keys("feedback=false codec=int8 model=linear", "");
	check_unused_keys("workers=2 adapt=backup sync=asp model=linear",
	    "adapt: there are no backup workers unless sync is bsp");
	check_unused_keys("workers=2 adapt=staleness model=linear",
	    "adapt: there is no bound of staleness unless sync is ssp");
	check_unused_keys("adapt=backup model=linear", "adapt: a single worker waits for no other");
	check_unused_keys("workers=2 adapt=backup,codec model=linear", "");
	check_unused_keys("replicas=2 model=linear",
	    "replicas: each replica of a partition is on another server, and servers is 1: set "
	    "servers=2");
	check_unused_keys("replicas=2 servers=2 model=linear", "");
	return tap_done();
}
