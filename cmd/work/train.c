/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cmd/work/cmd.h"
#include "cmd/work/common.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/signals.h"
#include "model/model.h"
#include "worker/train.h"

/* The command train: the training loop of one worker (role/worker). */

struct options {
	struct where where;
	int64_t rank;
	const char *compute;
	struct opt_list data;
	const char *cache, *zone, *listen, *iface, *exec;
	bool returns;
};

static const struct opt opts[] = {
	WHERE_OPTS(struct options),
	{ "rank", 0, OPT_INT, offsetof(struct options, rank), "N",
	    "take this worker rank, also from the process that has it", NULL, -1, 4095 },
	{ "data", 0, OPT_LIST, offsetof(struct options, data), "PATH",
	    "training data, instead of job.data (-: standard input)", NULL, 0, 0 },
	{ "exec", 0, OPT_STR, offsetof(struct options, exec), "COMMAND",
	    "with job.model custom: the program that computes its gradients; see ps-program(7)",
	    NULL, 0, 0 },
	{ "cache", 0, OPT_STR, offsetof(struct options, cache), "DIR",
	    "keep parsed data in this directory, instead of job.cache (run: for this run only; none: not at all)",
	    NULL, 0, 0 },
	{ "zone", 0, OPT_STR, offsetof(struct options, zone), "ZONE",
	    "the zone of this worker: it uses a relay of this zone", NULL, 0, 0 },
	{ "listen", 0, OPT_STR, offsetof(struct options, listen), "ADDR",
	    "address for the other workers, with via allreduce (default: this host's address, any port)",
	    NULL, 0, 0 },
	{ "iface", 0, OPT_STR, offsetof(struct options, iface), "NAMES",
	    "like --listen, by the name of a network interface: eth*,ib0", NULL, 0, 0 },
	{ "returns", 0, OPT_FLAG, offsetof(struct options, returns), NULL,
	    "this process is started again unless it exits with 0: exit with 75 after SIGTERM",
	    NULL, 0, 0 },
	{ "compute", 0, OPT_STR, offsetof(struct options, compute), "TIME",
	    "emulate a slow worker: the least time of a gradient, as 50ms, or 50ms,5%x7", NULL, 0,
	    0 },
};

static const struct opt_spec spec = {
	.prog = "ps-work train",
	.about = "Run the training loop as one worker of a cluster, until the job is over.",
	.more =
	    "The configuration comes from the coordinator. SIGTERM: finish the step, return the rank, exit 0.\n"
	    "A worker that was killed can be restarted with the same --rank, and takes the rank over.",
	.examples = "  ps-work train -C demo.run --rank 1   # as ps-ctl starts it\n"
	            "  ps-work train --join w7.join --data /data/train.libsvm.gz\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
};

/* Exit code of a worker that should be started again: it has given up waiting for the cluster, or
 * it was asked to leave and returns. */
#define EXIT_AGAIN 75

/* Signal handlers until the worker has its rank: there is nothing to finish or to give back yet. */
static void exit_at_once(int sig)
{
	(void)sig;
	_exit(0);
}

static void exit_to_return(int sig)
{
	(void)sig;
	_exit(EXIT_AGAIN);
}

/* Runs the worker; returns the exit code. */
static int run_worker(const struct train_config *cfg)
{
	struct err e = { 0 };

	if (train(cfg, &e) != ERR_OK)
		return train_has_given_up(&e) ? (fail(spec.prog, &e), EXIT_AGAIN)
		                              : fail(spec.prog, &e);
	return cfg->returns && interrupt_came(&cfg->interrupt) ? EXIT_AGAIN : 0;
}

/* SIGHUP, SIGUSR1 and SIGUSR2 make a coordinator reload keys or take a checkpoint; a worker
 * ignores them. */
static void ignore_other_signals(void)
{
	static const int none_of_ours[] = { SIGHUP, SIGUSR1, SIGUSR2, 0 };

	signals_ignore_stray(none_of_ours);
}

/* Put SIGINT and SIGTERM, which ask the worker to leave, into *set. They end the process until
 * train() blocks them; from then on they are read from the returned descriptor. */
static int open_leave_signals(sigset_t *set, bool returns)
{
	struct sigaction now = { .sa_handler = returns ? exit_to_return : exit_at_once }, was;

	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaction(SIGINT, &now, NULL);
	/* A SIGTERM that our parent had ignored stays ignored. */
	if (sigaction(SIGTERM, NULL, &was) == 0 && was.sa_handler != SIG_IGN) {
		sigaddset(set, SIGTERM);
		sigaction(SIGTERM, &now, NULL);
	}
	return signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The rank comes from the option, else from PSKIT_RANK; without either (-1) the coordinator
 * chooses, and the log has the name of the identity. */
int cmd_train(int argc, char **argv)
{
	struct options o = { .rank = -1 };
	struct train_config cfg;
	struct identity id;
	struct err e = { 0 };
	struct log log;
	char name[32];
	sigset_t hold;
	const char *rank = getenv("PSKIT_RANK");
	int nargs, code = where_parse(&spec, &o, argc, argv, &nargs);
	struct compute_time compute = { 0 };

	if (code)
		return code - 1;
	ignore_other_signals();
	if (o.compute && compute_time_parse(o.compute, &compute, &e)) {
		err_prefix(&e, "--compute");
		return fail(spec.prog, &e);
	}
	if (o.rank < 0 && rank && !num_int(rank, 0, 4095, &o.rank)) {
		err_set(&e, ERR_USAGE, "PSKIT_RANK=%.40s: must be a number from 0 to 4095", rank);
		return fail(spec.prog, &e);
	}
	if (o.rank >= 0)
		snprintf(name, sizeof name, "worker-%lld", (long long)o.rank);
	else
		snprintf(name, sizeof name, "worker-0");
	if (where_identity(&o.where, name, &id, &e))
		return fail(spec.prog, &e);
	log_init(&log, o.rank < 0 ? id.name : name, 2,
	    (enum log_level)where_log_level(&o.where, LOG_LEVEL_INFO));
	cfg = (struct train_config){ .models = model_kinds_all,
		.id = &id,
		.rank = (int)o.rank,
		.data = o.data.item,
		.ndata = o.data.n,
		.cache = o.cache,
		.kind = o.exec ? &worker_program : &worker_native,
		.exec = o.exec,
		.zone = o.zone,
		.listen = o.listen,
		.iface = o.iface,
		.log = &log,
		.compute = compute,
		.hold = &hold,
		.interrupt = { .fd = open_leave_signals(&hold, o.returns) },
		.returns = o.returns,
		.first_wait = o.where.timeout };
	code = run_worker(&cfg);
	close(cfg.interrupt.fd);
	identity_release(&id);
	opt_list_release(&o.data);
	return code;
}
