/* SPDX-License-Identifier: ISC */
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "supervisor/child.h"
#include "conf/conf_key.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "local.h"
#include "supervisor/rendezvous.h"
#include "socket/listen_address.h"
#include "supervisor/launcher_env.h"
#include "supervisor/run_loop.h"
#include "trial.h"

/* ps-ctl launch: one command on every rank of a scheduler's step. Rank 0 runs the coordinator and
 * server-0 (a supervisor with a rendezvous) and prints the result. The next ranks are the other
 * servers, and the rest are workers; each of them waits for its join file (supervisor/rendezvous.h)
 * and runs one program. */

/* How long a rank keeps its program after a signal. All ranks get the signal at once, and rank 0
 * takes a checkpoint before it stops the cluster. */
#define PATIENCE (20 * NSEC_PER_SEC)
#define GRACE    (5 * NSEC_PER_SEC)

struct options {
	const char *file, *role, *run_id, *resume;
	int64_t servers, rank, size, timeout;
	struct opt_list set;
	struct local_place place;
	bool json;
};

static const struct opt opts[] = {
	{ "file", 'f', OPT_STR, offsetof(struct options, file), "FILE",
	    "the cluster file (cluster.json), to which all ranks have access", NULL, 0, 0 },
	{ "servers", 0, OPT_INT, offsetof(struct options, servers), "N",
	    "number of ranks that are servers, the first ones (default: that of the cluster file)",
	    NULL, 1, 1024 },
	{ "set", 's', OPT_LIST, offsetof(struct options, set), "KEY=VALUE",
	    "change a key of the cluster file, for this run", NULL, 0, 0 },
	{ "role", 0, OPT_CHOICE, offsetof(struct options, role), "ROLE",
	    "role of this process; --rank then counts the processes of this role", "server|worker",
	    0, 0 },
	{ "rank", 0, OPT_INT, offsetof(struct options, rank), "N",
	    "rank of this process, from 0 (default: from the environment)", NULL, 0, 65535 },
	{ "world-size", 0, OPT_INT, offsetof(struct options, size), "N",
	    "number of ranks, servers and workers", NULL, 1, 65535 },
	{ "run-id", 0, OPT_STR, offsetof(struct options, run_id), "ID",
	    "an identifier of the run, the same on all its ranks", NULL, 0, 0 },
	{ "iface", 0, OPT_STR, offsetof(struct options, place.iface), "NAMES",
	    "listen on a network interface of one of these names, as eth*,ib0", NULL, 0, 0 },
	{ "bind", 0, OPT_STR, offsetof(struct options, place.bind), "ADDR",
	    "for rank 0: listen on this address, any port", NULL, 0, 0 },
	{ "advertise", 0, OPT_STR, offsetof(struct options, place.advertise), "ADDR",
	    "for a server: the address that other processes use, host or host:port", NULL, 0, 0 },
	CTL_OPT_TIMEOUT(struct options, timeout, "wait at most this long for rank 0 (60s)"),
	CTL_OPT_RESUME(struct options, resume),
	CTL_OPT_JSON(struct options, json),
};

/* The place of this rank in the run. */
struct place {
	struct launcher_env who;
	enum launcher_role role;
	int64_t number; /* among the processes of its role */
	char id[32];
	struct conf conf;
	char *dir;
};

/* Make the run id, which becomes the name of a directory, safe for that. ERR_USAGE without an id:
 * files of an earlier run could be taken for files of this one. */
static enum err_code check_run_id(struct launcher_env *who, struct err *e)
{
	if (!who->run[0])
		return err_set(e, ERR_USAGE,
		    "the launcher gives this run no identifier: give --run-id, the same on all ranks (%s)",
		    who->from);
	for (char *at = who->run; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
			*at = '_';
	if (who->run[0] == '.')
		who->run[0] = '_';
	return ERR_OK;
}

static enum err_code find_own_rank(const struct options *o, struct launcher_env *who, struct err *e)
{
	enum err_code rc;

	launcher_env_init(who);
	who->rank = o->rank;
	who->size = o->size;
	if (o->role)
		who->role = strcmp(o->role, "server") == 0 ? LAUNCHER_SERVER : LAUNCHER_WORKER;
	snprintf(who->run, sizeof who->run, "%s", o->run_id ? o->run_id : "");
	rc = launcher_env_read_environment(who, e);
	return rc == ERR_OK ? check_run_id(who, e) : rc;
}

static enum err_code set_number_key(struct conf *c, const char *key, int64_t value, struct err *e)
{
	char *set = mem_printf("%s=%lld", key, (long long)value);
	enum err_code rc = conf_set(c, set, e);

	free(set);
	return rc;
}

/* Set the numbers of servers and workers to what the ranks allow, and find the role of this
 * rank. */
static enum err_code settle_counts(struct place *p, const struct options *o, struct err *e)
{
	int64_t servers = o->servers ? o->servers : p->who.servers, workers = p->who.workers;
	enum err_code rc = servers > 0 ? set_number_key(&p->conf, "servers", servers, e) : ERR_OK;

	servers = p->conf.servers;
	if (workers < 0 && p->who.size >= 0)
		workers = p->who.size - servers;
	if (rc == ERR_OK && p->conf.has_job && p->who.size >= 0 && workers < 1)
		rc = err_set(e, ERR_CONFIG, "no rank is left for a worker: of %lld rank%s, %lld %s",
		    (long long)p->who.size, NUM_S(p->who.size), (long long)servers,
		    servers == 1 ? "is a server" : "are servers");
	if (rc == ERR_OK && p->conf.has_job && workers > 0)
		rc = set_number_key(&p->conf, "workers", workers, e);
	if (rc == ERR_OK)
		rc = trial_require_numbers(&p->conf, "may differ between the hosts of the ranks",
		    e);
	if (rc == ERR_OK)
		rc = conf_set(&p->conf, "hosts=[]", e);
	if (rc == ERR_OK)
		rc = conf_validate(&p->conf, e);
	if (rc == ERR_OK)
		rc = launcher_env_find_role(&p->who, servers, &p->role, &p->number, e);
	if (rc == ERR_OK &&
	    p->number >= (p->role == LAUNCHER_SERVER ? servers : p->conf.workers.max))
		rc = err_set(e, ERR_CONFIG,
		    "rank %lld (%s): there are only %lld server%s and %lld worker%s",
		    (long long)p->who.rank, p->who.from, (long long)servers, NUM_S(servers),
		    (long long)p->conf.workers.max, NUM_S(p->conf.workers.max));
	return rc;
}

/* Choose rank 0's listen address. It does not know where the other ranks are, but the host that
 * started them is on their network: take the local address on the route to that host. */
static enum err_code choose_rank_zero_listen(struct conf *c, struct err *e)
{
	static const char *const hints[] = { "MASTER_ADDR", "SLURM_LAUNCH_NODE_IPADDR" };
	struct choice choice = { .iface = "*" };
	char addr[NET_TEXT], *set, *towards;
	const char *why;
	enum err_code rc = ERR_NOTFOUND;

	for (size_t i = 0; rc != ERR_OK && i < CTL_COUNT(hints); i++) {
		const char *host = getenv(hints[i]);

		if (!host)
			continue;
		towards = mem_printf(strchr(host, ':') ? "[%s]:1" : "%s:1", host);
		rc = listen_address_choose(&(struct choice){ .towards = towards }, addr, &why,
		    NULL);
		free(towards);
	}
	if (rc != ERR_OK)
		rc = listen_address_choose(&choice, addr, &why, e);
	if (rc != ERR_OK)
		return rc;
	set = mem_printf("listen=%s", addr);
	rc = conf_set(c, set, e);
	free(set);
	return rc;
}

/* Find this rank's place in the run, and load the cluster file for it. Rank 0 also needs an
 * address that the other ranks can reach. */
static enum err_code find_rank_place(const struct options *o, struct place *p, struct err *e)
{
	const struct conf_key *listen = conf_key_find("listen", NULL);
	char text[160];
	enum err_code rc = find_own_rank(o, &p->who, e);

	if (rc == ERR_OK)
		rc = local_load_conf(o->file ? o->file : "cluster", &o->set, &o->place, &p->conf,
		    &p->dir, e);
	if (rc == ERR_OK)
		rc = settle_counts(p, o, e);
	if (rc == ERR_OK && p->role == LAUNCHER_SERVER && p->number == 0 && !p->who.one_host &&
	    !conf_given(&p->conf, listen))
		rc = choose_rank_zero_listen(&p->conf, e);
	if (rc != ERR_OK)
		return rc;
	snprintf(p->id, sizeof p->id, "%s-%lld", p->role == LAUNCHER_SERVER ? "server" : "worker",
	    (long long)p->number);
	launcher_env_describe(&p->who, text, sizeof text);
	fprintf(stderr, "ps-ctl launch: %s: %s, run %s\n", p->id, text, p->who.run);
	return ERR_OK;
}

/* ---- rank 0 ---- */

/* Run the whole cluster's life as its supervisor. max_restarts is 0, because the processes of other
 * ranks are restarted by the scheduler, if at all. */
static int run_rank_zero(struct place *p, const struct options *o)
{
	struct supervisor s;
	struct err e = { 0 };
	int code, lock = -1;

	if (!local_begin_run(&s, &p->conf, p->dir, &o->place, o->resume, &lock, &code))
		return code;
	s.max_restarts = 0;
	s.rendezvous = rendezvous_path(p->dir, p->who.run);
	if (run_loop_foreground(&s, &p->conf, p->dir, o->json, &code, &e) != ERR_OK)
		code = ctl_fail(&e);
	free(s.rendezvous);
	close(lock);
	return code;
}

/* ---- the other ranks ---- */

static void export_number(const char *name, int64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "%lld", (long long)value);
	if (value >= 0)
		setenv(name, text, 1);
}

/* Tell a program of the user, in the environment, which process of the run it is. */
static void export_place(const struct place *p, const char *join)
{
	bool worker = p->role == LAUNCHER_WORKER;

	setenv("PS_CLUSTER", join, 1);
	setenv("PS_ROLE", worker ? "worker" : "server", 1);
	setenv("PS_RUN_ID", p->who.run, 1);
	export_number("PS_RANK", p->number);
	export_number("PS_WORLD_SIZE", p->who.size);
	export_number("PS_LOCAL_RANK", p->who.local);
	if (worker) {
		setenv("PSKIT_WORKER", p->id, 1);
		export_number("PSKIT_RANK", p->number);
	}
}

/* Wait for the end of the program, and return its exit code. A scheduler may signal all ranks at
 * once, Slurm even all processes of each. The program must then stay for rank 0's checkpoint,
 * until rank 0 stops the cluster or PATIENCE is over; a second signal ends it at once. */
static int attend_member(struct launch_set *set, size_t child, int signals)
{
	struct pollfd p[] = { { .fd = launch_fd(set), .events = POLLIN },
		{ .fd = signals, .events = POLLIN } };
	int64_t end = 0;
	struct launch_event how;
	int ready;

	for (;;) {
		ready = poll(p, 2, end ? clock_poll_timeout(end - clock_now()) : -1);
		if (ready > 0 && p[0].revents)
			break;
		if (ready > 0 && p[1].revents && child_read_signal(signals) != SIGUSR1) {
			if (end)
				break;
			end = clock_now() + PATIENCE;
		}
		if (end && clock_now() >= end)
			break;
	}
	if (p[0].revents)
		launch_wait(set, 0, &how, NULL);
	else
		launch_stop_all(set, GRACE);
	return child_exit_code(set, child);
}

/* Wait for the join file, run the program of this rank, and return its exit code. */
static int run_member(const struct place *p, const struct options *o, char **command)
{
	char *rendezvous = rendezvous_path(p->dir, p->who.run), *join = NULL;
	const char *server[] = { "ps-serve", "--name", p->id, NULL, NULL, NULL, NULL, NULL },
	           *worker[] = { "ps-work", "train", NULL, NULL, NULL };
	size_t n = p->role == LAUNCHER_SERVER ? 3 : 2, child = 0;
	const char **words = p->role == LAUNCHER_SERVER ? server : worker;
	struct launch_set *set = NULL;
	struct err e = { 0 };
	int code, signals = -1;

	if (o->place.iface) {
		words[n++] = "--iface";
		words[n++] = o->place.iface;
	}
	if (o->place.advertise && p->role == LAUNCHER_SERVER) {
		words[n++] = "--advertise";
		words[n++] = o->place.advertise;
	}
	if (rendezvous_await_join(rendezvous, p->id, o->timeout, &join, &e) == ERR_OK) {
		export_place(p, join);
		signals = child_open_signals();
		if (child_start_program(p->id, NULL,
		        p->role == LAUNCHER_WORKER && *command ? command : (char *const *)words,
		        true, &set, &child, &e) == ERR_OK)
			e.code = ERR_OK;
	}
	code = e.code == ERR_OK ? attend_member(set, child, signals) : ctl_fail(&e);
	launch_free(set);
	free(rendezvous);
	free(join);
	return code;
}

static int run_launch(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .rank = -1, .size = -1, .timeout = 60 * NSEC_PER_SEC };
	struct place p = { 0 };
	struct err e = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	argv[nargs + 1] = NULL;
	if (find_rank_place(&o, &p, &e) != ERR_OK)
		code = ctl_fail(&e);
	else if (p.role == LAUNCHER_SERVER && p.number == 0)
		code = run_rank_zero(&p, &o);
	else
		code = run_member(&p, &o, argv + 1);
	free(p.dir);
	conf_release(&p.conf);
	opt_list_release(&o.set);
	return code;
}

const struct ctl_cmd ctl_cmd_launch = {
	"launch",
	{
	    .prog = "ps-ctl launch",
	    .args = "[-- COMMAND [ARG ...]]",
	    .about =
	        "run one process of a cluster that srun, mpirun or another launcher starts on every rank",
	    .more =
	        "The first ranks are servers and the others workers, which run COMMAND (ps-work train). Rank 0\n"
	        "coordinates and prints the result. The rank and the number of ranks are taken from the\n"
	        "environment: PS_RANK or the variables of torchrun, Open MPI, PMI, Slurm or Kubernetes, TF_CONFIG\n"
	        "or DMLC_ROLE. They are printed on standard error. All ranks must have access to the directory of\n"
	        "the cluster file. On SIGTERM to all ranks the cluster takes a checkpoint, and the exit code is 75.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 0,
	    .max_args = -1,
	    .examples = "  srun -n 10 ps-ctl launch --servers 2 -- ps-work train\n"
	                "  mpirun -n 10 ps-ctl launch --servers 2\n",
	},
	run_launch,
};
