/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <unistd.h>

#include "ctl.h"
#include "core/mem.h"
#include "local.h"
#include "rundir/best_point.h"
#include "supervisor/run_loop.h"
#include "trial.h"

/* ps-ctl run: run a cluster in the foreground, from its start to its result. */

struct options {
	struct opt_list set;
	struct local_place place;
	bool json;
	int64_t max_restarts;
	const char *resume, *best;
};

static const struct opt opts[] = {
	{ "set", 's', OPT_LIST, offsetof(struct options, set), "KEY=VALUE",
	    "change a key of the cluster file, for this run", NULL, 0, 0 },
	CTL_OPT_JSON(struct options, json),
	CTL_OPT_RESTARTS(struct options, max_restarts),
	CTL_OPT_RESUME(struct options, resume),
	{ "best", 0, OPT_STR, offsetof(struct options, best), "SWEEP",
	    "run the best point of a sweep, whose folder this is, instead of FILE", NULL, 0, 0 },
	LOCAL_OPT_INIT(struct options, place),
	LOCAL_OPTS(struct options, place),
	LOCAL_OPT_EXEC(struct options, place),
};

/* Makes the best point of a sweep the cluster file and the first assignments; those of --set follow and
 * override them. */
static enum err_code take_best_point(struct options *o, struct best_point *p, const char **file,
    struct err *e)
{
	const char **all;

	if (!o->best)
		return ERR_OK;
	if (*file || o->place.exec)
		return err_set(e, ERR_USAGE,
		    "--best %s names the cluster file: give neither FILE nor --exec", o->best);
	if (best_point_read(o->best, p, e) != ERR_OK)
		return e->code;
	all = mem_array(p->nset + o->set.n + 1, sizeof *all);
	for (size_t i = 0; i < p->nset; i++)
		all[i] = p->set[i];
	for (size_t i = 0; i < o->set.n; i++)
		all[p->nset + i] = o->set.item[i];
	free((void *)o->set.item);
	o->set = (struct opt_list){ all, p->nset + o->set.n };
	*file = p->cluster;
	return ERR_OK;
}

/* Stays in the foreground until the run ends; *code then is that of its result. The lock on the run
 * directory is held by this process. */
static int run_run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .max_restarts = -1 };
	struct best_point best = { 0 };
	struct supervisor s;
	struct err e = { 0 };
	struct conf conf = { 0 };
	char *dir = NULL;
	const char *file;
	int nargs, code, lock = -1;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	file = nargs ? argv[1] : NULL;
	if (take_best_point(&o, &best, &file, &e) != ERR_OK) {
		opt_list_release(&o.set);
		return ctl_fail(&e);
	}
	if (!local_check_operands(self->usage.prog, file, o.place.exec, &code))
		return code;
	if (local_load_conf(file, &o.set, &o.place, &conf, &dir, &e) != ERR_OK ||
	    trial_choose_sizes(&conf, dir, o.resume, &e) != ERR_OK) {
		code = ctl_fail(&e);
	} else {
		local_replace_stdin(&conf);
		if (local_begin_run(&s, &conf, dir, &o.place, o.resume, &lock, &code)) {
			s.max_restarts = o.max_restarts;
			if (run_loop_foreground(&s, &conf, dir, o.json, &code, &e) != ERR_OK)
				code = ctl_fail(&e);
		}
	}
	if (lock >= 0)
		close(lock);
	free(dir);
	best_point_release(&best);
	conf_release(&conf);
	opt_list_release(&o.set);
	return code;
}

const struct ctl_cmd ctl_cmd_run = {
	"run",
	{
	    .prog = "ps-ctl run",
	    .args = "[FILE]",
	    .about = "start a cluster, show its progress, wait, stop it and print the result",
	    .more =
	        "FILE is a cluster file; \"cluster\" finds cluster.json. Its run directory NAME.run beside it gets\n"
	        "logs, result.json and model.safetensors. The last line of standard output is the result. SIGINT\n"
	        "and SIGTERM stop the cluster (exit code 75 with a checkpoint, else 128+N), and a second signal\n"
	        "stops it immediately. In any case all processes are ended.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = 1,
	    .examples =
	        "  ps-ctl run cluster\n"
	        "  ps-ctl run cluster --set lr=0.01 --set workers=4 --json | tail -n 1 | jq .eval\n"
	        "  ps-ctl run cluster --set workers=auto --set servers=auto\n"
	        "  ps-ctl run today --init-from yesterday.run\n"
	        "  ps-ctl run --best cluster.sweep\n"
	        "  ps-ctl run --exec \"python3 train.py\" --set workers=2\n",
	},
	run_run,
};
