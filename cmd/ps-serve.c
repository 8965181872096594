#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "auth/keys.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/output.h"
#include "client/readonly.h"
#include "client/resume.h"
#include "launch/rundir.h"
#include "object/helper.h"
#include "mirror/mirror.h"
#include "server/service.h"

/* How long a server waits for its coordinator's word to end after SIGTERM. */
#define LEAVE_GRACE_MS 3000
/* And first for a checkpoint. */
#define SAVE_GRACE_MS 10000

/* How old may be what a replica answers, unless it was told. */
#define FRESH (200 * NSEC_PER_MSEC)

struct options {
	const char *run_dir, *join, *name, *listen, *iface, *advertise, *log_level, *resume, *zone, *read_only;
	bool coordinator, no_store, force_new, relay;
	int64_t threads, fresh;
	struct opt_list set;
};

static const struct opt opts[] = {
	{ "run-dir", 'C', OPT_STR, offsetof(struct options, run_dir), "DIR", "the cluster's run directory", NULL, 0, 0 },
	{ "join", 0, OPT_STR, offsetof(struct options, join), "FILE", "join the cluster of a file made by ps-ctl invite", NULL, 0, 0 },
	{ "name", 0, OPT_STR, offsetof(struct options, name), "NAME", "which server of the run directory: server-0 ...", NULL, 0, 0 },
	{ "coordinator", 0, OPT_FLAG, offsetof(struct options, coordinator), NULL, "coordinate the run directory's cluster, too", NULL, 0, 0 },
	{ "no-store", 0, OPT_FLAG, offsetof(struct options, no_store), NULL, "coordinate only, hold no partitions", NULL, 0, 0 },
	{ "relay", 0, OPT_FLAG, offsetof(struct options, relay), NULL, "with --join: hold nothing, sum the pushes of the workers of --zone", NULL, 0, 0 },
	{ "zone", 0, OPT_STR, offsetof(struct options, zone), "ZONE", "where it is: a name, or several with / between them", NULL, 0, 0 },
	{ "listen", 0, OPT_STR, offsetof(struct options, listen), "ADDR", "address of the data plane, host:port (port 0: any)", NULL, 0, 0 },
	{ "iface", 0, OPT_STR, offsetof(struct options, iface), "NAMES", "listen on a network interface of one of these names, as eth*,ib0", NULL, 0, 0 },
	{ "advertise", 0, OPT_STR, offsetof(struct options, advertise), "ADDR", "address that the others shall use: host or host:port", NULL, 0, 0 },
	{ "threads", 0, OPT_INT, offsetof(struct options, threads), "N", "I/O threads (default: processors, at most 4)", NULL, 1, 64 },
	{ "resume", 0, OPT_STR, offsetof(struct options, resume), "FROM", "go on from a checkpoint: auto (the newest whole one), a directory, an s3:// name, or none; with FILE also step=N", NULL, 0, 0 },
	{ "read-only", 0, OPT_STR, offsetof(struct options, read_only), "FROM", "answer pulls from a checkpoint, or from a cluster that lives", NULL, 0, 0 },
	{ "fresh", 0, OPT_DURATION, offsetof(struct options, fresh), "TIME", "with --read-only of a cluster: how old values may be (200ms)", NULL, 0, 0 },
	{ "force-new-cluster", 0, OPT_FLAG, offsetof(struct options, force_new), NULL, "coordinate anew, whatever was here before", NULL, 0, 0 },
	{ "set", 0, OPT_LIST, offsetof(struct options, set), "KEY=VALUE", "override a key of the cluster file", NULL, 0, 0 },
	{ "log-level", 0, OPT_CHOICE, offsetof(struct options, log_level), "LEVEL", "how much to say", "error|warn|info|debug", 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "ps-serve",
	.args = "[FILE]",
	.about = "One server process of a pskit cluster. With a cluster file it is coordinator and store in one.",
	.more = "With FILE it makes the run directory NAME.run beside it, coordinates the cluster and holds its\n"
	    "partitions (as server-0); other servers and workers join by -C or by --join. ps-ctl run and\n"
	    "ps-ctl start do all this for local processes. SIGTERM: leave; SIGHUP: read authorized_keys again.",
	.examples = "  ps-serve cluster.json                # a whole cluster in one process\n"
	    "  ps-serve -C demo.run --name server-1 # one more store on this host\n"
	    "  ps-serve --join server.join --listen 10.0.0.2:0   # a store on another host\n"
	    "  ps-serve --read-only demo.run/checkpoints/step-000000001000 -C serve.run   # then: ps-work predict -C serve.run --follow\n"
	    "  ps-serve --read-only demo.run -C replica.run   # follows the cluster\n"
	    "  ps-serve --relay --join r1.join --zone rack1 --listen 10.0.1.2:0   # for the workers of a rack\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.min_args = 0,
	.max_args = 1,
};

static int die(const struct err *e)
{
	fprintf(stderr, "ps-serve: %s\n", e->msg);
	return err_exit_code(e->code);
}

static int contradiction(const char *text)
{
	fprintf(stderr, "ps-serve: %s (see ps-serve -h)\n", text);
	return 2;
}

/* ---- who we are -------------------------------------------------------------------- */

struct place {
	char *dir, *resume;             /* resume: a checkpoint, auto or NULL */
	struct mirror *mirror;          /* of the cluster that is followed; NULL: of none */
	struct log mirror_log;
	struct interrupt early;         /* a signal, before there is a server */
	int lock;
	struct conf conf;
	bool has_conf;
	struct identity id;
	char *sock;
};

static enum err_code own_cluster(const struct options *o, const char *file, struct place *p, struct err *e)
{
	char *path = conf_file(file);
	enum err_code rc = conf_load(path, o->set.item, o->set.n, &p->conf, e);

	if (!rc) {
		p->has_conf = true;
		p->dir = o->run_dir ? mem_strdup(o->run_dir) : rundir_name_for(path, p->conf.name);
		rc = resume_prepare(&p->conf, p->dir, o->resume, &p->lock, &p->resume, e);
	}
	free(path);
	return rc;
}

static enum err_code read_config(struct place *p, struct err *e)
{
	char *path = rundir_path(p->dir, "cluster.json");
	json_t *j = json_parse_file(path, 1 << 20, e);
	enum err_code rc = j ? conf_from_json(j, &p->conf, e) : e->code;

	p->has_conf = !rc;
	json_decref(j);
	free(path);
	return rc;
}

static enum err_code find_identity(struct place *p, const char *name, struct err *e)
{
	enum err_code rc = identity_from_run(p->dir, name, &p->id, e);
	char *base = mem_printf("%s.sock", name), *abs = rc ? NULL : path_absolute(p->dir);

	if (!rc)
		p->sock = rundir_path(abs, base);
	free(abs);
	free(base);
	return rc;
}

/* From a checkpoint, which is a directory with a manifest; else from a cluster's run directory, or by a join file. */
static enum err_code read_only(const struct options *o, int signals, struct place *p, struct err *e)
{
	enum err_code rc;

	p->has_conf = true;
	p->dir = o->run_dir ? mem_strdup(o->run_dir) : NULL;
	if (!mirror_can_follow(o->read_only)) {
		rc = readonly_prepare(o->read_only, o->set.item, o->set.n, &p->conf, &p->dir, &p->lock, &p->resume, e);
	} else {
		p->early.fd = signals;
		log_init(&p->mirror_log, "mirror", 2, LOG_LEVEL_INFO);
		rc = mirror_open(o->read_only, &p->early, &p->mirror_log, &p->mirror, e);
		if (!rc)
			rc = mirror_prepare(p->mirror, o->set.item, o->set.n, &p->conf, &p->dir, &p->lock, &p->resume, e);
	}
	return rc ? rc : find_identity(p, "coordinator", e);
}

static enum err_code find_place(const struct options *o, const char *file, bool *coordinator, int signals, struct place *p,
    struct err *e)
{
	const char *name = o->name ? o->name : "server-0";
	enum err_code rc = ERR_OK;

	p->lock = -1;
	if (o->read_only) {
		*coordinator = true;
		return read_only(o, signals, p, e);
	}
	if (o->join)
		return identity_from_join(o->join, &p->id, e);
	if (file) {
		*coordinator = true;
		rc = own_cluster(o, file, p, e);
	} else if (!o->run_dir) {
		rc = err_set(e, ERR_USAGE, "name a cluster file, -C DIR or --join FILE (see ps-serve -h)");
	} else {
		p->dir = path_absolute(o->run_dir);
		if (access(p->dir, F_OK))
			rc = err_sys(e, ERR_NOTFOUND, "no run directory \"%s\"", o->run_dir);
		else
			rc = read_config(p, e);
	}
	return rc ? rc : find_identity(p, *coordinator ? "coordinator" : name, e);
}

static void place_release(struct place *p, struct options *o)
{
	mirror_close(p->mirror);
	identity_release(&p->id);
	conf_release(&p->conf);
	opt_list_release(&o->set);
	free(p->dir);
	free(p->resume);
	free(p->sock);
}

/* Our own run directory's checkpoints, as far as their store has not got them: false and e when that
 * failed.  A signal ends us at once. */
static bool store_last(const struct place *p, struct err *e)
{
	char *timeout = mem_printf("%lldms", (long long)(p->conf.deadline / NSEC_PER_MSEC));
	const char *args[] = { "-C", p->dir, "checkpoint", "push", "--timeout", timeout, NULL };
	enum err_code rc = ERR_OK;
	sigset_t none;

	sigemptyset(&none);
	if (conf_names(p->conf.checkpoint_to)) {
		sigprocmask(SIG_SETMASK, &none, NULL);
		rc = helper_run(args, NULL, NULL, e);
	}
	free(timeout);
	return rc == ERR_OK;
}

/* "server-3" -> 3; -1 for any. */
static int index_of(const char *name)
{
	int64_t n;

	return name && strncmp(name, "server-", 7) == 0 && num_int(name + 7, 0, 65535, &n) ? (int)n : -1;
}

/* ---- waiting for the end -------------------------------------------------------------- */

static int read_signal(int fd)
{
	struct signalfd_siginfo si;

	return read(fd, &si, sizeof si) == sizeof si ? (int)si.ssi_signo : 0;
}

/* How long to sleep until then; 0 is never. */
static int sleep_ms(int64_t until, int64_t due)
{
	int64_t end = until && due ? (until < due ? until : due) : until ? until : due, left = end - clock_now();

	return !end ? -1 : left <= 0 ? 0 : (int)(left / NSEC_PER_MSEC) + 1;
}

static void reload(struct server *s, struct service *service, struct log *log)
{
	struct err why;

	service_reloading(service);
	if (server_reload(s, &why))
		log_error(log, "the old keys stay: %s", why.msg);
	else
		log_info(log, "keys read again");
	service_reloaded(service);
}

static int serve(struct server *s, int signals, struct service *service, struct log *log)
{
	struct pollfd p[2] = { { signals, POLLIN, 0 }, { server_fd(s), POLLIN, 0 } };
	int64_t until = 0;
	bool leaving = false, saving = false;
	struct err why;

	for (;;) {
		bool over = until && clock_now() >= until;

		if (over && !saving)
			return 0;
		if (over) {
			saving = false;
			log_warn(log, "the checkpoint takes too long: leaving without");
			server_leave(s);
			until = clock_now() + LEAVE_GRACE_MS * NSEC_PER_MSEC;
			continue;
		}
		poll(p, 2, sleep_ms(until, service_turn(service)));
		if (server_ended(s, &why)) {
			if (why.code)
				log_error(log, "%s", why.msg);
			service_close(service, &why);
			return err_exit_code(why.code);
		}
		if (!p[0].revents)
			continue;
		switch (read_signal(signals)) {
		case SIGHUP:
			reload(s, service, log);
			break;
		case SIGTERM:
		case SIGINT:
			if (leaving)
				return 128 + SIGTERM;
			leaving = true;
			saving = server_leave(s);
			until = clock_now() + (saving ? SAVE_GRACE_MS : LEAVE_GRACE_MS) * NSEC_PER_MSEC;
			service_stopping(service, (SAVE_GRACE_MS + LEAVE_GRACE_MS) * NSEC_PER_MSEC);
			break;
		case SIGUSR1:
			if (!server_checkpoint(s))
				log_info(log, "SIGUSR1 is for the coordinator, which has checkpoints made");
			break;
		default:
			break;
		}
	}
}

/* Of socket activation. */
static enum err_code take_sockets(struct server_config *cfg, struct err *e)
{
	static const char *const names[] = { "data", "http" };
	int fd[2];
	enum err_code rc = notify_sockets(names, 2, fd, e);

	cfg->data_fd = fd[0] < 0 ? 0 : fd[0];
	cfg->http_fd = fd[1] < 0 ? 0 : fd[1];
	return rc;
}

static int block_signals(void)
{
	struct sigaction was;
	sigset_t set;

	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&set);
	/* Where it is ignored it is for who started this. */
	if (sigaction(SIGTERM, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
		sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static bool contradicts(const struct options *o, int nargs)
{
	if (o->join && (nargs || o->run_dir || o->coordinator || o->no_store))
		return contradiction("--join stands alone: the join file says which cluster it is");
	if (o->relay && (!o->join || !o->zone))
		return contradiction("--relay wants --join and --zone: it serves the workers of a zone");
	if (o->read_only && (nargs || o->join || o->resume || o->no_store || o->name))
		return contradiction("--read-only stands alone, but for -C, --fresh and --set: the checkpoint, or the other cluster, says what the cluster is");
	if (o->fresh >= 0 && (!o->read_only || !mirror_can_follow(o->read_only)))
		return contradiction("--fresh goes with --read-only of a cluster that lives");
	return o->set.n && !nargs && !o->read_only && contradiction("--set needs a cluster file to override");
}

int main(int argc, char **argv)
{
	struct options o = { .fresh = -1 };
	struct place place = { 0 };
	struct err e = { 0 };
	struct server_config cfg = { .index = -1 };
	struct rlimit no_core = { 0, 0 };
	struct server *s = NULL;
	struct service service;
	struct log log;
	int nargs, signals, code;

	output_begin();
	switch (opt_parse(&spec, &o, argc, argv, &nargs)) {
	case OPT_EXIT_OK:
		return output_end("ps-serve", 0);
	case OPT_EXIT_USAGE:
		return 2;
	case OPT_GO:
		break;
	}
	setrlimit(RLIMIT_CORE, &no_core);       /* keys are in memory */
	if (!nargs && !o.run_dir && !o.join)
		o.join = identity_join_file(NULL);
	if (contradicts(&o, nargs))
		return 2;
	signals = block_signals();
	if (key_init(&e))
		return die(&e);
	cfg.coordinator = o.coordinator || o.no_store;
	if (take_sockets(&cfg, &e))
		return die(&e);
	if (find_place(&o, nargs ? argv[1] : NULL, &cfg.coordinator, signals, &place, &e)) {
		place_release(&place, &o);
		return die(&e);
	}
	log_init(&log, o.name ? o.name : o.join ? place.id.name : o.no_store ? "coordinator" : "server-0", 2, LOG_LEVEL_INFO);
	if (o.log_level || place.has_conf)
		atomic_store(&log.level, log_level_parse(o.log_level ? o.log_level : place.conf.log_level));
	atomic_store(&place.mirror_log.level, atomic_load(&log.level));
	cfg.id = &place.id;
	cfg.conf = place.has_conf ? &place.conf : NULL;
	cfg.store = !o.no_store && !o.relay;
	cfg.relay = o.relay;
	cfg.zone = o.zone;
	cfg.index = index_of(o.name);
	cfg.listen = o.listen;
	cfg.iface = o.iface;
	cfg.advertise = o.advertise;
	cfg.unix_path = place.sock;
	cfg.threads = (unsigned)o.threads;
	cfg.resume = nargs || o.read_only ? place.resume : o.resume;
	cfg.force_new = o.force_new;
	cfg.log = &log;
	if (server_start(&cfg, &s, &e) || (place.mirror && mirror_start(place.mirror, s, o.fresh < 0 ? FRESH : o.fresh, &e))) {
		code = die(&e);
	} else {
		service_open(&service, s);
		code = serve(s, signals, &service, &log);
		mirror_close(place.mirror);
		place.mirror = NULL;
		server_stop(s);
		notify_close(&service.notify);
		if (nargs && !store_last(&place, &e) && code == 0)
			code = die(&e);
	}
	place_release(&place, &o);
	return code;
}
