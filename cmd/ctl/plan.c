/* SPDX-License-Identifier: ISC */
#include "lab/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/suggest.h"
#include "ctl.h"
#include "layout/layout.h"
#include "rundir/rundir.h"

#define DEFAULT_WINDOW (5 * NSEC_PER_SEC)
/* Bounds of values that a user may give: seconds, a factor of slowdown, and the number of
 * parameters that partitions can hold. */
#define COST_MAX   1e6
#define FACTOR_MAX 1e3
#define PARAMS_MAX ((double)UINT32_MAX * PART_ELEMENTS)

struct options {
	struct opt_list sets, costs;
	const char *net, *server_net, *compute, *slow, *params, *examples, *dir;
	int64_t rtt, window, workers, servers, cores, seed, steps;
	uint64_t example_bytes;
	double proxied;
	bool measure, json, alone;
};

static const struct opt opts[] = {
	{ "set", 's', OPT_LIST, offsetof(struct options, sets), "KEY=VALUE",
	    "change a key of the cluster file", NULL, 0, 0 },
	{ "workers", 0, OPT_INT, offsetof(struct options, workers), "N", "as --set workers=N", NULL,
	    1, 65535 },
	{ "servers", 0, OPT_INT, offsetof(struct options, servers), "N", "as --set servers=N", NULL,
	    1, 65535 },
	{ "net", 0, OPT_STR, offsetof(struct options, net), "RATE",
	    "bits per second of each worker's link: 100M, 1G, or UP/DOWN as 20M/100M", NULL, 0, 0 },
	{ "server-net", 0, OPT_STR, offsetof(struct options, server_net), "RATE",
	    "bits per second of each server's link (as --net)", NULL, 0, 0 },
	{ "rtt", 0, OPT_DURATION, offsetof(struct options, rtt), "TIME",
	    "round trip between a worker and a server", NULL, 0, 3600e9 },
	{ "cores", 0, OPT_INT, offsetof(struct options, cores), "N",
	    "all processes on one host of N cores, or 0: each on its own host (0 with --net or "
	    "--rtt, else this host's)",
	    NULL, 0, 4096 },
	{ "compute", 0, OPT_STR, offsetof(struct options, compute), "TIME",
	    "time of a batch: 50ms, or 50ms,5%x7: in 5 of 100 steps 7 times as long", NULL, 0, 0 },
	{ "slow", 0, OPT_STR, offsetof(struct options, slow), "NxT",
	    "N workers always take T times as long", NULL, 0, 0 },
	{ "params", 0, OPT_STR, offsetof(struct options, params), "N",
	    "number of parameters of the model, as 25.6M; the data is then not read", NULL, 0, 0 },
	{ "examples", 0, OPT_STR, offsetof(struct options, examples), "N",
	    "number of examples of the data, as 91M", NULL, 0, 0 },
	{ "example-bytes", 0, OPT_SIZE, offsetof(struct options, example_bytes), "BYTES",
	    "stored size of an example", NULL, 0, 0 },
	{ "cost", 0, OPT_LIST, offsetof(struct options, costs), "NAME=TIME",
	    "use this cost instead of measuring it, as send=0.4ns", NULL, 0, 0 },
	{ "proxied", 0, OPT_NUM, offsetof(struct options, proxied), "NS",
	    "all links go through a proxy on the one host, which needs this many ns of CPU per byte",
	    NULL, 0, 1e6 },
	{ "measure", 0, OPT_FLAG, offsetof(struct options, measure), NULL,
	    "plan for the running cluster, with its measured times and bytes", NULL, 0, 0 },
	{ "cluster", 'C', OPT_STR, offsetof(struct options, dir), "DIR",
	    "with --measure: its run directory", NULL, 0, 0 },
	{ "window", 0, OPT_DURATION, offsetof(struct options, window), "TIME",
	    "with --measure: duration of the measurement (5s)", NULL, 0.5e9, 3600e9 },
	{ "alone", 0, OPT_FLAG, offsetof(struct options, alone), NULL, "print no alternatives",
	    NULL, 0, 0 },
	{ "steps", 0, OPT_INT, offsetof(struct options, steps), "N",
	    "number of steps to simulate (enough for a stable average)", NULL, 1, 1000000 },
	{ "seed", 0, OPT_INT, offsetof(struct options, seed), "N", "seed of random numbers (1)",
	    NULL, 0, 0x1p53 },
	CTL_OPT_JSON(struct options, json),
};

/* ---- parsing of options ---- */

/* Parses a positive number like "25.6M", base 1000. */
static bool parse_count(const char *text, double *out)
{
	static const char unit[] = "kMGTP";
	size_t n = strlen(text);
	char *copy = mem_strdup(text);
	const char *u = n ? strchr(unit, text[n - 1] == 'K' ? 'k' : text[n - 1]) : NULL;
	double v = 0;
	bool good;

	if (u)
		copy[n - 1] = 0;
	good = num_double(copy, &v) && v > 0;
	free(copy);
	if (!good)
		return false;
	for (; u && u >= unit; u--)
		v *= 1000;
	*out = v;
	return v < 1e18;
}

/* Parses "100M" or "20M/100M" (up/down, seen from a worker), in bits a second, to bytes a
 * second. */
static bool parse_link_rates(const char *text, double *up, double *down)
{
	char *copy = mem_strdup(text), *slash = strchr(copy, '/');
	bool good;

	if (slash)
		*slash++ = 0;
	good = parse_count(copy, up) && parse_count(slash ? slash : copy, down) && *up >= 1 &&
	    *down >= 1;
	free(copy);
	*up /= 8;
	*down /= 8;
	return good;
}

/* Parses a time like "0.4ns" to seconds. */
static bool parse_seconds(const char *text, double *out)
{
	static const struct {
		const char *unit;
		double scale;
	} unit[] = {
		{ "ps", 1e-12 },
		{ "ns", 1e-9 },
		{ "us", 1e-6 },
		{ "ms", 1e-3 },
		{ "s", 1 },
	};
	char *copy = mem_strdup(text);
	size_t n = strlen(copy), i = 0;
	double v;
	bool good;

	while (i < CTL_COUNT(unit) &&
	    (n < strlen(unit[i].unit) ||
	        strcmp(copy + n - strlen(unit[i].unit), unit[i].unit) != 0))
		i++;
	if (i < CTL_COUNT(unit))
		copy[n - strlen(unit[i].unit)] = 0;
	good = i < CTL_COUNT(unit) && num_double(copy, &v) && v >= 0 &&
	    v * unit[i].scale <= COST_MAX;
	free(copy);
	if (good)
		*out = v * unit[i].scale;
	return good;
}

/* Finds a cost by its name, the first len bytes of text. Returns its index, or PLAN_COSTS for an
 * unknown name. */
static size_t find_cost(const char *text, size_t len)
{
	size_t i = 0;

	while (i < PLAN_COSTS &&
	    (strlen(capacity_plan_cost_at(i)->name) != len ||
	        strncmp(capacity_plan_cost_at(i)->name, text, len) != 0))
		i++;
	return i;
}

static int report_unknown_cost(const struct ctl_cmd *self, const char *text, size_t len)
{
	const char *names[PLAN_COSTS], *near;
	char *name = mem_printf("%.*s", (int)len, text);

	for (size_t i = 0; i < PLAN_COSTS; i++)
		names[i] = capacity_plan_cost_at(i)->name;
	near = suggest(name, names, PLAN_COSTS);
	free(name);
	if (near)
		return ctl_report_misuse(self, "--cost %.80s: unknown cost; did you mean \"%s\"?",
		    text, near);
	return ctl_report_misuse(self, "--cost %.80s: unknown cost", text);
}

/* Sets a cost from --cost NAME=TIME; "crowded" is a factor. Returns 0, or the exit code after
 * reporting an error. */
static int set_cost(const struct ctl_cmd *self, const char *text, struct plan *p)
{
	size_t len = strcspn(text, "="), i = find_cost(text, len);
	const char *value = text + len + (text[len] == '=');
	bool good;

	if (i == PLAN_COSTS)
		return report_unknown_cost(self, text, len);
	if (i == PLAN_crowded)
		good = num_double(value, &p->fixed[i]) && p->fixed[i] >= 1 &&
		    p->fixed[i] <= FACTOR_MAX;
	else
		good = parse_seconds(value, &p->fixed[i]);
	if (good)
		return 0;
	return i == PLAN_crowded
	    ? ctl_report_misuse(self, "--cost %.80s: must be a factor from 1 to %g", text,
	          FACTOR_MAX)
	    : ctl_report_misuse(self, "--cost %.80s: must be a time, as 0.4ns, of at most %g s",
	          text, COST_MAX);
}

/* Sets the links and cores from --net, --server-net, --rtt, --cores and --proxied. Returns 0, or
 * the exit code after reporting an error. */
static int set_links(const struct ctl_cmd *self, const struct options *o,
    struct capacity_plan_place *place)
{
	long here = sysconf(_SC_NPROCESSORS_ONLN);
	double up = 0, down = 0;

	if (o->net && !parse_link_rates(o->net, &up, &down))
		return ctl_report_misuse(self,
		    "--net: must be bits a second, as 100M or 20M/100M, got \"%.80s\"", o->net);
	place->worker = (struct sim_link){ up, down, (double)o->rtt / 1e9 / 2 };
	place->server = (struct sim_link){ down, up, 0 };
	if (o->server_net &&
	    !parse_link_rates(o->server_net, &place->server.up, &place->server.down))
		return ctl_report_misuse(self,
		    "--server-net: must be bits a second, as 1G or 10G/10G, got \"%.80s\"",
		    o->server_net);
	place->cores = o->cores >= 0            ? (unsigned)o->cores
	    : o->net || o->server_net || o->rtt ? 0
	    : here > 0                          ? (unsigned)here
	                                        : 1;
	place->remote = place->cores == 0;
	place->carried = o->proxied / 1e9;
	if (place->carried > 0 && !place->cores)
		return ctl_report_misuse(self,
		    "--proxied simulates one host, so it requires --cores above 0");
	/* On one host the servers have no links of their own: the workers' links stand for both. */
	if (place->cores && !o->server_net)
		place->server.up = place->server.down = 0;
	return 0;
}

/* Sets everything that the options give. Returns 0, or the exit code after reporting an error. */
static int set_plan_options(const struct ctl_cmd *self, const struct options *o, struct plan *p)
{
	struct capacity_plan_place *place = &p->place;
	double params = 0;
	struct err e;
	int code = set_links(self, o, place);

	place->seed = (uint64_t)o->seed;
	place->steps = (unsigned)o->steps;
	if (!code && o->compute && compute_time_parse(o->compute, &place->compute, &e))
		code = ctl_report_misuse(self, "--compute: %s", e.msg);
	if (!code && o->slow && sim_parse_slow(o->slow, &place->slow, &e))
		code = ctl_report_misuse(self, "--slow: %s", e.msg);
	if (!code && o->params &&
	    (!parse_count(o->params, &params) || params < 1 || params > PARAMS_MAX))
		code = ctl_report_misuse(self,
		    "--params: must be a number, as 25.6M, from 1 to %g, got \"%.80s\"", PARAMS_MAX,
		    o->params);
	if (!code && o->examples &&
	    (!parse_count(o->examples, &p->facts.examples) || p->facts.examples < 1))
		code = ctl_report_misuse(self,
		    "--examples: must be a number, as 91M, got \"%.80s\"", o->examples);
	for (size_t i = 0; !code && i < o->costs.n; i++)
		code = set_cost(self, o->costs.item[i], p);
	p->facts.values = floor(params);
	p->facts.parts = (unsigned)ceil(params / PART_ELEMENTS);
	p->facts.example_bytes = (double)o->example_bytes;
	return code;
}

/* ---- the file ---- */

/* Loads the cluster file with --set, --workers and --servers. With --params, the data need not
 * exist. */
static enum err_code load_plan_conf(const struct options *o, const char *file, struct conf *c,
    struct err *e)
{
	char *workers = mem_printf("workers=%lld", (long long)o->workers),
	     *servers = mem_printf("servers=%lld", (long long)o->servers);
	const char **sets = mem_array(o->sets.n + 4, sizeof *sets);
	size_t n = 0;
	enum err_code rc;

	for (; n < o->sets.n; n++)
		sets[n] = o->sets.item[n];
	if (o->workers)
		sets[n++] = workers;
	if (o->servers)
		sets[n++] = servers;
	/* The options tell all that is needed of the data: they need not exist. */
	if (o->params) {
		sets[n++] = "job.data=/dev/null";
		sets[n++] = "job.eval=[]";
	}
	rc = conf_load(file, sets, n, c, e);
	if (!rc && !c->has_job)
		rc = err_set(e, ERR_CONFIG, "%s: a plan requires the key job", file);
	if (rc == ERR_CONFIG && !o->params &&
	    (e->cause == CAUSE_DATA || e->cause == CAUSE_DATA_MISSING))
		rc = err_set(e, ERR_CONFIG,
		    "%.400s; or give the size and the time: --params N --compute TIME", e->msg);
	free(sets);
	free(workers);
	free(servers);
	return rc;
}

/* Reads the facts that the plan needs from the data, unless the options give them. */
static enum err_code load_data_facts(const struct options *o, const struct conf *c,
    struct capacity_plan_facts *f, struct err *e)
{
	struct capacity_plan_facts told = *f;
	enum err_code rc;

	if (o->params)
		return ERR_OK;
	rc = capacity_plan_facts_load(c, f, e);
	if (told.examples > 0)
		f->examples = told.examples;
	f->example_bytes = told.example_bytes;
	return rc;
}

static bool gives_batch_cost(const struct options *o)
{
	for (size_t i = 0; i < o->costs.n; i++)
		if (strncmp(o->costs.item[i], "batch=", 6) == 0)
			return true;
	return false;
}

/* ---- running ---- */

/* Simulates the configuration `own`, finds its bottlenecks and alternatives, and prints all. */
static enum err_code run_plan_and_show(const struct options *o, struct plan *p, struct planned *own,
    const struct plan_sample *sample, struct err *e)
{
	double samples = capacity_plan_samples(p, &own->conf);
	struct planned *table = NULL;
	struct plan_limit limit[PLAN_LIMITS];
	struct plan_output words = { .json = o->json,
		.plan = p,
		.limit = limit,
		.sample = sample,
		.samples = samples };
	size_t n = 0;
	enum err_code rc = plan_candidate_run(p, own, samples, e);

	if (!rc)
		rc = plan_limit(&own->spec, own->result.step_seconds, limit, e);
	if (!rc && !o->alone)
		rc = plan_table(p, own, samples, &table, &n, e);
	if (!rc)
		plan_show(&words, own, table, n);
	for (size_t i = 0; i < n; i++)
		plan_candidate_release(&table[i]);
	free(table);
	return rc;
}

static enum err_code plan_from_file(const struct options *o, const char *file, struct plan *p,
    struct planned *own, struct err *e)
{
	enum err_code rc = load_plan_conf(o, file, &own->conf, e);

	if (!rc)
		rc = load_data_facts(o, &own->conf, &p->facts, e);
	return rc ? rc : run_plan_and_show(o, p, own, NULL, e);
}

/* Plans for the running cluster, from its configuration and a sample of its times. When its data
 * are not on this host, the number of parameters comes from the servers instead. */
static enum err_code plan_from_cluster(const struct options *o, struct plan *p, struct planned *own,
    struct err *e)
{
	struct plan_sample sample;
	struct err ignored;
	char *dir = NULL;
	enum err_code rc = rundir_find(o->dir, &dir, e);

	if (!rc)
		rc = plan_sample(dir, (double)o->window / 1e9, &sample, &own->conf, e);
	free(dir);
	if (rc)
		return rc;
	if (load_data_facts(o, &own->conf, &p->facts, &ignored)) {
		p->facts.values = sample.parameters / (double)own->conf.replicas;
		p->facts.parts = (unsigned)ceil(p->facts.values / PART_ELEMENTS);
	}
	if (o->cores < 0 && sample.spread)
		p->place.cores = 0;
	p->place.remote = p->place.cores == 0;
	/* The sample will give the time of a batch: until then any value keeps capacity_plan_measure() from
	 * measuring it. */
	p->place.compute.seconds = 1;
	rc = capacity_plan_measure(p, &own->conf, &own->costs, e);
	if (rc)
		return rc;
	plan_use_sample(p, &own->conf, &sample, &own->costs);
	return run_plan_and_show(o, p, own, &sample, e);
}

static int check_plan_options(const struct ctl_cmd *self, const struct options *o, int nargs)
{
	if (o->measure &&
	    (nargs || o->sets.n || o->workers || o->servers || o->params || o->compute))
		return ctl_report_misuse(self,
		    "--measure plans for the running cluster; it cannot be used with a file, --set, "
		    "--workers, --servers, --params or --compute");
	if (!o->measure && nargs < 1)
		return ctl_report_misuse(self, "give a cluster file, or --measure");
	if (!o->measure && (o->dir || o->window != DEFAULT_WINDOW))
		return ctl_report_misuse(self,
		    "--cluster and --window can only be used with --measure");
	if (o->params && !o->compute && !gives_batch_cost(o))
		return ctl_report_misuse(self,
		    "--params requires --compute, because no batch can be measured");
	return 0;
}

static int run_plan(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .cores = -1, .seed = 1, .window = DEFAULT_WINDOW };
	struct planned own = { 0 };
	struct err e = { 0 };
	enum err_code rc = ERR_OK;
	struct plan p;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	capacity_plan_init(&p);
	own.set = mem_strdup("");
	code = check_plan_options(self, &o, nargs);
	if (!code)
		code = set_plan_options(self, &o, &p);
	if (!code)
		rc = o.measure ? plan_from_cluster(&o, &p, &own, &e)
		               : plan_from_file(&o, argv[1], &p, &own, &e);
	plan_candidate_release(&own);
	capacity_plan_release(&p);
	opt_list_release(&o.sets);
	opt_list_release(&o.costs);
	return code ? code : rc ? ctl_fail(&e) : 0;
}

const struct ctl_cmd ctl_cmd_plan = {
	"plan",
	{
	    .prog = "ps-ctl plan",
	    .args = "FILE | --measure",
	    .about = "predict the speed of a cluster file on given links, and find faster settings",
	    .more =
	        "Simulates the cluster, with costs measured on this machine, and prints the time of a step and its\n"
	        "parts, bytes, memory and the limiting resource. Then it prints alternative settings, sorted by the\n"
	        "time to the same number of examples. With --measure, times and bytes are those of the running\n"
	        "cluster.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = 1,
	    .examples =
	        "  ps-ctl plan cluster                              # on this host\n"
	        "  ps-ctl plan cluster --net 100M --rtt 20ms --workers 100 --servers 10 --compute 50ms\n"
	        "  ps-ctl plan --measure                            # of the cluster of this folder\n",
	},
	run_plan,
};
