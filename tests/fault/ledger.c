/* SPDX-License-Identifier: ISC */
#include "tests/fault/ledger.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/file.h"
#include "core/opt.h"

struct options {
	const char *run_dir, *join, *book, *zone, *low, *high;
	int64_t rank, steps, cells;
	bool stale, repeats, omits;
};

static const struct opt opts[] = {
	{ "run-dir", 'C', OPT_STR, offsetof(struct options, run_dir), "DIR",
	    "the cluster's run directory", NULL, 0, 0 },
	{ "join", 0, OPT_STR, offsetof(struct options, join), "FILE",
	    "join by a file of ps-ctl invite", NULL, 0, 0 },
	{ "book", 0, OPT_STR, offsetof(struct options, book), "DIR", "where the books are", NULL, 0,
	    0 },
	{ "zone", 0, OPT_STR, offsetof(struct options, zone), "ZONE",
	    "go through a relay of this zone", NULL, 0, 0 },
	{ "low", 0, OPT_STR, offsetof(struct options, low), "DIR",
	    "base: the books when the checkpoint was requested", NULL, 0, 0 },
	{ "high", 0, OPT_STR, offsetof(struct options, high), "DIR",
	    "base: the books when it was answered", NULL, 0, 0 },
	{ "rank", 0, OPT_INT, offsetof(struct options, rank), "N", "which worker (0)", NULL, 0,
	    LEDGER_RANKS - 1 },
	{ "steps", 0, OPT_INT, offsetof(struct options, steps), "N",
	    "be done after this step (0: at SIGTERM)", NULL, 0, 0x1p53 },
	{ "cells", 0, OPT_INT, offsetof(struct options, cells), "N", "cells of each rank (2048)",
	    NULL, 2, 65536 },
	{ "stale", 0, OPT_FLAG, offsetof(struct options, stale), NULL,
	    "examples: epochs may overlap", NULL, 0, 0 },
	{ "repeats", 0, OPT_FLAG, offsetof(struct options, repeats), NULL,
	    "examples: some may count more often", NULL, 0, 0 },
	{ "omits", 0, OPT_FLAG, offsetof(struct options, omits), NULL,
	    "examples: some may count less often", NULL, 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "ledger",
	.args = "work|check|base|outside|outside-check|watch|watch-check|examples",
	.about =
	    "A worker whose pushes are counted, and the count: each that was acknowledged is in the model once.",
	.more =
	    "work joins a cluster whose rule is sgd with lr 1. check prints one line and exits with 1 when a push\n"
	    "is lost, counts twice or is torn; it may run while workers do. base compares a model\n"
	    "to which a job has gone back, and pushes count from there in --book; --steps is the step of bsp. outside is a program without a rank, which\n"
	    "pushes to the table \"outside\"; --rank is the number of its run. watch reads\n"
	    "again and again, and watch-check compares what it has seen. examples counts how often a job has trained on\n"
	    "each of --cells examples in --steps epochs.",
	.examples = "  ledger work -C demo.run --book books --rank 1\n"
	            "  ledger check -C demo.run --book books\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.min_args = 1,
	.max_args = 1,
};

/* A command of the program: it works until a signal comes, or compares. */
struct verb {
	const char *name;
	enum err_code (*work)(const struct ledger_config *cfg, struct err *e);
	enum err_code (
	    *check)(const struct ledger_config *cfg, struct ledger_sums *out, struct err *e);
};

static const struct verb verbs[] = {
	{ "work", ledger_work, NULL },
	{ "check", NULL, ledger_check },
	{ "base", NULL, ledger_base },
	{ "outside", ledger_outside, NULL },
	{ "outside-check", NULL, ledger_outside_check },
	{ "watch", ledger_watch, NULL },
	{ "watch-check", NULL, ledger_watch_check },
	{ "examples", NULL, ledger_examples },
};

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

static int run_check(const struct ledger_config *cfg, const struct verb *v)
{
	struct ledger_sums s;
	struct err e;

	if (v->check(cfg, &s, &e))
		return err_report("ledger", &e);
	printf("begun %" PRIu64 " acknowledged %" PRIu64 " lost %" PRIu64 " doubled %" PRIu64
	       " torn %" PRIu64 "\n",
	    s.begun, s.acked, s.lost, s.doubled, s.torn);
	return s.lost || s.doubled || s.torn;
}

static int run_work(struct ledger_config *cfg, const struct verb *v)
{
	enum err_code rc;
	struct err e;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	cfg->interrupt_fd = signalfd(-1, &set, SFD_CLOEXEC);
	rc = file_mkdirs(cfg->book, 0700, &e);
	if (!rc)
		rc = v->work(cfg, &e);
	close(cfg->interrupt_fd);
	return rc ? err_report("ledger", &e) : 0;
}

int main(int argc, char **argv)
{
	struct options o = { .cells = 2048 };
	struct ledger_config cfg = { 0 };
	struct identity id;
	struct log log;
	struct err e;
	char name[32];
	const struct verb *v;
	bool worker;
	int nargs, code;

	switch (opt_parse(&spec, &o, argc, argv, &nargs)) {
	case OPT_EXIT_OK:
		return 0;
	case OPT_EXIT_USAGE:
		return 2;
	case OPT_GO:
		break;
	}
	v = find_verb(argv[1]);
	worker = v && v->work == ledger_work;
	if (!v || !o.book || !o.run_dir == !o.join ||
	    (v->check == ledger_base && (!o.low || !o.high))) {
		fputs(
		    "ledger: work, check, base, outside, watch, outside-check, watch-check or examples, --book DIR, and -C DIR or --join FILE\n",
		    stderr);
		return 2;
	}
	snprintf(name, sizeof name, "worker-%d", (int)o.rank);
	if (key_init(&e) ||
	    (o.join ? identity_from_join(o.join, &id, &e)
	            : identity_from_run(o.run_dir, worker ? name : "admin", &id, &e)))
		return err_report("ledger", &e);
	signal(SIGPIPE, SIG_IGN);
	log_init(&log, worker ? name : v->name, 2, LOG_LEVEL_INFO);
	cfg = (struct ledger_config){ .id = &id,
		.book = o.book,
		.zone = o.zone,
		.low = o.low,
		.high = o.high,
		.rank = (uint32_t)o.rank,
		.cells = (uint32_t)o.cells,
		.steps = (uint64_t)o.steps,
		.stale = o.stale,
		.repeats = o.repeats,
		.omits = o.omits,
		.log = &log };
	code = v->work ? run_work(&cfg, v) : run_check(&cfg, v);
	identity_release(&id);
	return code;
}
