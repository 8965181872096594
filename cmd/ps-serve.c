/* SPDX-License-Identifier: ISC */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "auth/keys.h"
#include "ckpt/dirs.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/opt.h"
#include "core/output.h"
#include "core/process_one.h"
#include "core/signals.h"
#include "core/helper.h"
#include "relay/relay.h"
#include "replica/follower.h"
#include "rundir/readonly.h"
#include "rundir/resume.h"
#include "rundir/rundir.h"
#include "saved/saved_source.h"
#include "serving/origin.h"
#include "serving/predict_http.h"
#include "serving/resp_server.h"
#include "coordinator/coordinator.h"
#include "coordinator/standby.h"
#include "server/service.h"
#include "store/store.h"

/* How long a server that was told to end waits for its coordinator, which lets it leave after it
 * has moved the last partition to another server; and, before that, for a checkpoint. */
#define LEAVE_GRACE_MS 3000
#define SAVE_GRACE_MS  10000

/* Default of --fresh: how old the values in the answers of a read replica may be. */
#define FRESH (200 * NSEC_PER_MSEC)

struct options {
	const char *run_dir, *join, *name, *listen, *iface, *advertise, *log_level, *resume, *zone,
	    *read_only;
	bool coordinator, no_store, force_new, relay, returns, standby;
	int64_t threads, fresh, timeout;
	struct opt_list set;
};

static const struct opt opts[] = {
	{ "run-dir", 'C', OPT_STR, offsetof(struct options, run_dir), "DIR",
	    "the cluster's run directory", NULL, 0, 0 },
	{ "join", 0, OPT_STR, offsetof(struct options, join), "FILE",
	    "join a cluster with a join file made by ps-ctl invite", NULL, 0, 0 },
	{ "name", 0, OPT_STR, offsetof(struct options, name), "NAME",
	    "name of this server in the run directory: server-0 ...", NULL, 0, 0 },
	{ "coordinator", 0, OPT_FLAG, offsetof(struct options, coordinator), NULL,
	    "also coordinate the cluster of the run directory", NULL, 0, 0 },
	{ "no-store", 0, OPT_FLAG, offsetof(struct options, no_store), NULL,
	    "only coordinate, and store no partitions", NULL, 0, 0 },
	{ "standby", 0, OPT_FLAG, offsetof(struct options, standby), NULL,
	    "coordinate, as --no-store does, when no other coordinator of the cluster is alive",
	    NULL, 0, 0 },
	{ "relay", 0, OPT_FLAG, offsetof(struct options, relay), NULL,
	    "with --join: store nothing, and sum the pushes of the workers of --zone", NULL, 0, 0 },
	{ "zone", 0, OPT_STR, offsetof(struct options, zone), "ZONE",
	    "zone of this process: a name, or several with / between them", NULL, 0, 0 },
	{ "listen", 0, OPT_STR, offsetof(struct options, listen), "ADDR",
	    "address of the data plane, host:port (port 0: any)", NULL, 0, 0 },
	{ "iface", 0, OPT_STR, offsetof(struct options, iface), "NAMES",
	    "listen on a network interface of one of these names, as eth*,ib0", NULL, 0, 0 },
	{ "advertise", 0, OPT_STR, offsetof(struct options, advertise), "ADDR",
	    "address that other processes use: host or host:port", NULL, 0, 0 },
	{ "threads", 0, OPT_INT, offsetof(struct options, threads), "N",
	    "I/O threads (default: processors, at most 4)", NULL, 1, 64 },
	{ "resume", 0, OPT_STR, offsetof(struct options, resume), "FROM",
	    "resume from a checkpoint: auto (the newest whole one), a directory, an s3:// "
	    "name, or none; with FILE also step=N",
	    NULL, 0, 0 },
	{ "read-only", 0, OPT_STR, offsetof(struct options, read_only), "FROM",
	    "only answer pulls, from a model file, a checkpoint, a finished run, or a running cluster",
	    NULL, 0, 0 },
	{ "fresh", 0, OPT_DURATION, offsetof(struct options, fresh), "TIME",
	    "with --read-only of a cluster: the maximum age of values (200ms)", NULL, 0, 0 },
	{ "force-new-cluster", 0, OPT_FLAG, offsetof(struct options, force_new), NULL,
	    "coordinate a new cluster, even if the state of an earlier one is lost", NULL, 0, 0 },
	{ "returns", 0, OPT_FLAG, offsetof(struct options, returns), NULL,
	    "with --no-store: this process is started again; SIGTERM ends it, and the job goes on",
	    NULL, 0, 0 },
	{ "timeout", 0, OPT_DURATION, offsetof(struct options, timeout), "TIME",
	    "with --join: wait at most this long for the coordinator (60s)", NULL, 0, 0 },
	{ "set", 0, OPT_LIST, offsetof(struct options, set), "KEY=VALUE",
	    "override a key of the cluster file", NULL, 0, 0 },
	{ "log-level", 0, OPT_CHOICE, offsetof(struct options, log_level), "LEVEL",
	    "the lowest level of logged messages", "error|warn|info|debug", 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "ps-serve",
	.args = "[FILE]",
	.about =
	    "Run one server process of a pskit cluster. With a cluster file it is both coordinator and store.",
	.more =
	    "With FILE it creates the run directory NAME.run beside it, coordinates the cluster and stores its\n"
	    "partitions (as server-0); other servers and workers join by -C or by --join. ps-ctl run and\n"
	    "ps-ctl start do all this for local processes. SIGTERM: leave; SIGHUP: read authorized_keys again.",
	.examples =
	    "  ps-serve cluster.json                # a whole cluster in one process\n"
	    "  ps-serve -C demo.run --name server-1 # one more store on this host\n"
	    "  ps-serve --join server.join --listen 10.0.0.2:0   # a store on another host\n"
	    "  ps-serve --read-only demo.run/checkpoints/step-000000001000 -C serve.run   # then: "
	    "ps-work predict -C serve.run --follow\n"
	    "  ps-serve --read-only demo.run -C replica.run   # follows the cluster\n"
	    "  ps-serve --relay --join r1.join --zone rack1 --listen 10.0.1.2:0   # for the workers of a rack\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.min_args = 0,
	.max_args = 1,
};

static int report_fatal(const struct err *e)
{
	return err_report("ps-serve", e);
}

static int refuse_usage(const char *text)
{
	fprintf(stderr, "ps-serve: %s (see ps-serve -h)\n", text);
	return 2;
}

/* ---- place and identity ---- */

/* The role and the addresses of this process, and the resources that it releases at its end. */
struct place {
	char *dir, *resume;        /* resume: a checkpoint, auto or NULL */
	struct follower *follower; /* of the followed cluster, for a read replica; or NULL */
	struct param_source
	    *source; /* what a read-only server begins with, until it has; or NULL */
	/* what the endpoints of a read-only server answer from; NULL: there are none */
	struct served *served;
	struct predict_http *http;
	struct resp_server *redis;
	struct log follower_log;
	struct interrupt early; /* ends the start, while it waits for servers, on a signal */
	int lock;
	struct conf conf;
	bool has_conf;
	bool coordinates; /* this process is the coordinator */
	bool takes_over;  /* and another one may have been it before, and may have the lock */
	struct identity id;
	char *sock, *state_url;
};

/* The addresses of a standby that begins again, which the members of the cluster know. */
#define BEFORE_DATA "PSKIT_BEFORE_DATA"
#define BEFORE_HTTP "PSKIT_BEFORE_HTTP"

/* A coordinator that begins again continues its run, by whatever options it has begun it: another run would
 * have other keys. */
static void begin_where_it_was(struct options *o, const char *file)
{
	if (getenv(BEFORE_DATA))
		o->resume = file ? "auto" : NULL;
}

/* Does the command that began a run also continue it, from the state of the coordinator? A unit or
 * a pod starts its coordinator again by that command. */
static bool goes_on(const struct options *o, const char *file)
{
	return file && o->no_store && o->resume && strcmp(o->resume, "auto") == 0;
}

/* Load the cluster file, and make or resume its run directory. */
static enum err_code load_own_cluster(const struct options *o, const char *file, struct place *p,
    struct err *e)
{
	char *path = conf_file(file);
	enum err_code rc = conf_load(path, o->set.item, o->set.n, &p->conf, e);

	if (!rc) {
		p->has_conf = true;
		p->dir = o->run_dir ? mem_strdup(o->run_dir) : rundir_name_for(path, p->conf.name);
		rc = ERR_NOTFOUND;
		if (goes_on(o, file))
			rc = resume_finished(&p->conf, p->dir, &p->lock, e);
		if (!rc)
			p->resume = mem_strdup("auto");
		else if (rc == ERR_NOTFOUND)
			rc = resume_prepare(&p->conf, p->dir, o->resume, &p->lock, &p->resume, e);
	}
	free(path);
	return rc;
}

static enum err_code read_run_config(struct place *p, struct err *e)
{
	char *path = rundir_path(p->dir, "cluster.json");
	json_t *j = json_parse_file(path, 1 << 20, e);
	enum err_code rc = j ? conf_from_json(j, &p->conf, e) : e->code;

	p->has_conf = !rc;
	json_decref(j);
	free(path);
	return rc;
}

static enum err_code find_own_identity(struct place *p, const char *name, struct err *e)
{
	enum err_code rc = identity_from_run(p->dir, name, &p->id, e);
	char *base = mem_printf("%s.sock", name), *abs = rc ? NULL : path_absolute(p->dir);

	if (!rc)
		p->sock = rundir_path(abs, base);
	free(abs);
	free(base);
	return rc;
}

/* Prepare to serve a saved model: check all of it, and make the run directory. */
static enum err_code prepare_saved(const struct options *o, struct place *p, struct err *e)
{
	enum err_code rc;

	saved_source_report_cuts();
	rc = saved_source_open(o->read_only, &p->source, e);
	if (!rc)
		rc = param_source_finish(p->source, e);
	if (!rc)
		rc = readonly_prepare(p->source->config, o->set.item, o->set.n, &p->conf, &p->dir,
		    &p->lock, e);
	if (!rc && conf_is_named(p->conf.serve_if))
		rc = err_set(e, ERR_CONFIG,
		    "serve_if: a saved model has no training whose measures it could watch; name a "
		    "running cluster");
	return rc ? err_prefix(e, "--read-only") : ERR_OK;
}

/* Prepare to serve the parameters of a living cluster: copy them to a checkpoint. */
static enum err_code prepare_replica(const struct options *o, struct place *p, struct err *e)
{
	char *copy = NULL;
	enum err_code rc;

	log_init(&p->follower_log, "follower", 2, LOG_LEVEL_INFO);
	rc = follower_open(o->read_only, &p->early, &p->follower_log, &p->follower, e);
	if (!rc)
		rc = follower_prepare(p->follower, o->set.item, o->set.n, &p->conf, &p->dir,
		    &p->lock, &copy, e);
	if (!rc)
		rc = saved_source_open(copy, &p->source, e);
	if (!rc)
		rc = param_source_finish(p->source, e);
	free(copy);
	return rc;
}

/* Prepare to serve a model read-only: of a living cluster, named by its run directory or a join
 * file, or a saved one. */
static enum err_code prepare_read_only(const struct options *o, struct place *p, struct err *e)
{
	enum err_code rc;

	p->has_conf = true;
	p->dir = o->run_dir ? mem_strdup(o->run_dir) : NULL;
	rc = follower_can_follow(o->read_only) ? prepare_replica(o, p, e) : prepare_saved(o, p, e);
	return rc ? rc : find_own_identity(p, "coordinator", e);
}

/* How long a coordinator that is started again waits for room to write the lock of its run
 * directory, and how often it tries. Its configuration, which has `deadline`, is not read yet. */
#define ROOM_PATIENCE (60 * NSEC_PER_SEC)
#define ROOM_PAUSE    (200 * NSEC_PER_MSEC)
/* How often a coordinator that has taken over tries to take that lock. */
#define LOCK_PAUSE (500 * NSEC_PER_MSEC)

/* A coordinator that is started again without a supervisor holds the lock of its run directory, as
 * the one before it did, so that ps-ctl finds the cluster. A supervisor that lives holds it
 * itself. */
static enum err_code hold_run_directory(struct place *p, struct err *e)
{
	const struct timespec pause = { 0, ROOM_PAUSE };
	int64_t since = 0;
	struct err why;

	while (rundir_lock(p->dir, &p->lock, &why) != ERR_OK && !rundir_is_alive(p->dir, NULL)) {
		/* The disk may be full for a while, and the cluster goes on meanwhile. */
		if (why.code != ERR_IO || signals_end_is_pending() ||
		    (since && clock_now() - since > ROOM_PATIENCE)) {
			*e = why;
			return e->code;
		}
		if (!since)
			fprintf(stderr, "ps-serve: %s: trying again for up to %lld s\n", why.msg,
			    (long long)(ROOM_PATIENCE / NSEC_PER_SEC));
		since = since ? since : clock_now();
		nanosleep(&pause, NULL);
	}
	return ERR_OK;
}

/* The run directory of a process that begins again. */
#define BEFORE_RUN "PSKIT_BEFORE_RUN"

/* The directory that must exist; NULL: the cluster file makes it. A process that begins again goes on with
 * the run that its cluster file has begun. It would otherwise move this run out of the way, while another
 * coordinator may own it, and begin a new one. */
static const char *find_run_directory(const struct options *o, const char *file)
{
	const char *before = getenv(BEFORE_RUN);

	return before ? before : file ? NULL : o->run_dir;
}

/* Find the run directory, configuration and identity for the options. A cluster file and
 * --read-only make this process the coordinator. */
static enum err_code find_server_place(const struct options *o, const char *file, struct place *p,
    struct err *e)
{
	const char *name = o->name ? o->name : "server-0", *run = find_run_directory(o, file);
	enum err_code rc = ERR_OK;

	p->lock = -1;
	p->coordinates = o->coordinator || o->no_store || o->read_only || file;
	if (o->read_only)
		return prepare_read_only(o, p, e);
	if (o->join)
		return identity_from_join(o->join, &p->id, e);
	if (file && !run) {
		rc = load_own_cluster(o, file, p, e);
	} else if (!run) {
		rc = err_set(e, ERR_USAGE,
		    "a cluster file, -C DIR or --join FILE is required (see ps-serve -h)");
	} else {
		p->dir = path_absolute(run);
		if (access(p->dir, F_OK))
			rc = err_sys(e, ERR_NOTFOUND, "there is no run directory \"%s\"", run);
		else
			rc = read_run_config(p, e);
		/* The coordinator that lives holds it meanwhile. */
		if (!rc && p->coordinates && !o->standby)
			rc = hold_run_directory(p, e);
	}
	return rc ? rc : find_own_identity(p, p->coordinates ? "coordinator" : name, e);
}

/* Refuses a condition that nothing would watch. */
static enum err_code refuse_serve_if(const struct place *p, struct err *e)
{
	if (!p->has_conf || !conf_is_named(p->conf.serve_if) || p->follower)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "serve_if: only a read replica of a running cluster has training to watch: ps-serve "
	    "--read-only RUN --set serve_if=...");
}

static void place_release(struct place *p, struct options *o)
{
	follower_close(p->follower);
	if (p->source)
		p->source->ops->close(p->source);
	identity_release(&p->id);
	conf_release(&p->conf);
	opt_list_release(&o->set);
	free(p->dir);
	free(p->resume);
	free(p->state_url);
	free(p->sock);
	if (p->lock >= 0)
		close(p->lock);
}

/* Upload the checkpoints of our run directory that its object store lacks. False with e on
 * failure. A signal ends this process at once, because signals are no longer blocked. */
static bool upload_last_checkpoints(const struct place *p, struct err *e)
{
	char *timeout = mem_printf("%lldms", (long long)(p->conf.deadline / NSEC_PER_MSEC));
	const char *args[] = { "-C", p->dir, "checkpoint", "push", "--timeout", timeout, NULL };
	enum err_code rc = ERR_OK;
	sigset_t none;

	sigemptyset(&none);
	if (conf_is_named(p->conf.checkpoint_to)) {
		sigprocmask(SIG_SETMASK, &none, NULL);
		rc = helper_run(args, NULL, NULL, e);
	}
	free(timeout);
	return rc == ERR_OK;
}

/* "server-3" -> 3; -1: no particular index. */
static int server_index(const char *name)
{
	int64_t n;

	return name && strncmp(name, "server-", 7) == 0 && num_int(name + 7, 0, 65535, &n) ? (int)n
	                                                                                   : -1;
}

/* ---- waiting for the end ---- */

static int read_server_signal(int fd)
{
	struct signalfd_siginfo si;

	return read(fd, &si, sizeof si) == sizeof si ? (int)si.ssi_signo : 0;
}

/* The earlier of two times, of which 0 means never. */
static int64_t earlier(int64_t a, int64_t b)
{
	return a && b ? (a < b ? a : b) : a ? a : b;
}

/* The timeout for poll() up to a time, or for ever. */
static int poll_timeout(int64_t until)
{
	return until ? clock_poll_timeout(until - clock_now()) : -1;
}

/* A coordinator that has taken over takes the lock of the run directory when the one before it, which may
 * have been stopped only, lets it go. Returns when to try again (clock_now); 0: never. */
static int64_t take_lock(struct place *p)
{
	if (!p->takes_over || p->lock >= 0)
		return 0;
	if (rundir_lock(p->dir, &p->lock, NULL) == ERR_OK)
		return 0;
	p->lock = -1;
	return clock_now() + LOCK_PAUSE;
}

static void reload_keys(struct server *s, struct service *service, struct log *log)
{
	struct err why;

	service_reloading(service);
	if (server_reload(s, &why))
		log_error(log, "cannot read the keys again, the old ones remain in use: %s",
		    why.msg);
	else
		log_info(log, "the keys have been read again");
	service_reloaded(service);
}

/* Starts the endpoints, unless the process is to end. */
static enum err_code start_endpoints(struct place *p, struct served_origin *origin, struct log *log,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	saved_source_report_cuts();
	p->served = served_new(origin, log);
	if (conf_is_named(p->conf.serve_http))
		rc = predict_http_start(&p->conf, p->served, log, &p->http, e);
	if (!rc)
		rc = resp_server_start(&p->conf, p->served, log, &p->redis, e);
	if (!rc)
		rc = served_start(p->served, e);
	return rc == ERR_STOPPED ? ERR_OK : rc;
}

/* Ends them: requests under way are answered. */
static void stop_endpoints(struct place *p)
{
	predict_http_stop(p->http);
	p->http = NULL;
	resp_server_stop(p->redis);
	p->redis = NULL;
	served_free(p->served);
	p->served = NULL;
}

static void reload_endpoints(struct place *p, struct log *log)
{
	struct err why;

	if ((p->http && predict_http_reload(p->http, &why)) ||
	    (p->redis && resp_server_reload(p->redis, &why)))
		log_error(log, "cannot read the tokens again, the old ones remain in use: %s",
		    why.msg);
	if (p->served)
		served_look(p->served);
}

/* How far the server is in leaving; serve_until_end has the states. */
struct departure {
	bool leaving;  /* it has been asked to leave */
	bool saving;   /* and waits for a checkpoint */
	bool moving;   /* and has logged that it waits for other servers */
	int signal;    /* asked it */
	int64_t until; /* end of the grace period of this state; 0: it has none */
};

static void begin_leaving(struct server *s, int sig, struct departure *d, struct service *service,
    struct log *log)
{
	d->leaving = true;
	d->signal = sig;
	log_info(log, "SIG%s: leaving", sigabbrev_np(sig));
	d->saving = server_leave(s, sig);
	d->until = clock_now() + (d->saving ? SAVE_GRACE_MS : LEAVE_GRACE_MS) * NSEC_PER_MSEC;
	service_stopping(service, (SAVE_GRACE_MS + LEAVE_GRACE_MS) * NSEC_PER_MSEC);
}

/* Waits on while partitions are on their way to other servers. False: none has been, for
 * LEAVE_GRACE_MS. */
static bool wait_for_moves(struct server *s, struct departure *d, struct service *service,
    struct log *log)
{
	int64_t now = clock_now(), until = server_moved_at(s) + LEAVE_GRACE_MS * NSEC_PER_MSEC;

	if (until <= now)
		return false;
	if (!d->moving)
		log_info(log,
		    "other servers are copying the partitions; a second signal ends this process "
		    "without waiting for them");
	d->moving = true;
	d->until = until;
	service_stopping(service, 2 * LEAVE_GRACE_MS * NSEC_PER_MSEC);
	return true;
}

static void leave_without_checkpoint(struct server *s, struct departure *d, struct log *log)
{
	d->saving = false;
	log_warn(log, "the checkpoint was not finished in time; leaving without it");
	server_leave(s, d->signal);
	d->until = clock_now() + LEAVE_GRACE_MS * NSEC_PER_MSEC;
}

/* Reports why the server ends (why->code may be ERR_OK). Returns the exit code. */
static int report_end(struct service *service, const struct err *why, struct log *log)
{
	if (why->code)
		log_err(log, why);
	service_close(service, why);
	return err_exit_code(why->code);
}

/* The main loop: wait for signals, the end of the server and the removal of the run directory (dir
 * watches it). Returns the exit code.
 *
 *   serving   SIGTERM, SIGINT             ask to leave; the server   saving with a checkpoint,
 *                                         may need a checkpoint      else leaving
 *   saving    SAVE_GRACE_MS is over       ask to leave without it    leaving
 *   leaving   LEAVE_GRACE_MS is over      none, if partitions were   leaving
 *                                         on their way meanwhile;
 *                                         else none                  end, code 0
 *   saving,   a second SIGTERM, SIGINT    none                       end, code 128+15
 *   leaving
 *   any       the server has ended        none                       end, with its code
 *   any       the run directory is gone   none                       end, a failure
 *   any       SIGHUP                      read the keys again        same
 *   any       SIGUSR1                     checkpoint, if we are      same
 *                                         the coordinator */
static int serve_until_end(struct server *s, int signals, struct service *service,
    struct place *place, struct rundir_watch *dir, struct log *log)
{
	struct pollfd p[3] = { { signals, POLLIN, 0 }, { server_fd(s), POLLIN, 0 },
		{ dir->fd, POLLIN, 0 } };
	struct departure departure = { 0 };
	struct err why;
	int sig;

	for (;;) {
		if (departure.until && clock_now() >= departure.until) {
			if (departure.saving)
				leave_without_checkpoint(s, &departure, log);
			else if (!wait_for_moves(s, &departure, service, log))
				return 0;
			continue;
		}
		poll(p, 3,
		    poll_timeout(earlier(departure.until,
		        earlier(service_turn(service), take_lock(place)))));
		if (server_ended(s, &why))
			return report_end(service, &why, log);
		if (p[2].revents && rundir_watch_gone(dir)) {
			err_set(&why, ERR_FAILED,
			    "the run directory was deleted, so no process can reach this one; it ends");
			return report_end(service, &why, log);
		}
		if (!p[0].revents)
			continue;
		sig = read_server_signal(signals);
		switch (sig) {
		case SIGHUP:
			reload_keys(s, service, log);
			reload_endpoints(place, log);
			break;
		case SIGTERM:
		case SIGINT:
			if (departure.leaving)
				return 128 + SIGTERM;
			/* Their partitions go with the server. */
			stop_endpoints(place);
			begin_leaving(s, sig, &departure, service, log);
			break;
		case SIGUSR1:
			if (!server_checkpoint(s))
				log_info(log,
				    "SIGUSR1 is ignored here; send it to the coordinator to take a checkpoint");
			break;
		case 0:
			break;
		default:
			log_info(log, "ignored SIG%s", sigabbrev_np(sig));
			break;
		}
	}
}

/* Watch the run directory, if a live process holds its lock; another directory is not a
 * cluster's. */
static void watch_run_dir(const struct place *place, struct rundir_watch *w, struct log *log)
{
	struct err e = { 0 };

	if (!place->id.run_dir || !rundir_is_alive(place->id.run_dir, NULL))
		return;
	if (rundir_watch_open(place->id.run_dir, w, &e))
		log_warn(log, "%s", e.msg);
}

/* Take the listening sockets that systemd passes by socket activation. */
static enum err_code take_activation_sockets(struct server_config *cfg, struct err *e)
{
	static const char *const names[] = { "data", "http" };
	int fd[2];
	enum err_code rc = notify_sockets(names, 2, fd, e);

	cfg->data_fd = fd[0] < 0 ? 0 : fd[0];
	cfg->http_fd = fd[1] < 0 ? 0 : fd[1];
	return rc;
}

/* Block the signals that serve_until_end() handles. Returns a descriptor that they are read
 * from. */
static int block_server_signals(void)
{
	struct sigaction was;
	sigset_t set;

	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&set);
	/* A SIGTERM that our parent had ignored stays ignored. */
	if (sigaction(SIGTERM, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
		sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	for (size_t i = 0; i < signals_nstray; i++)
		sigaddset(&set, signals_stray[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Do the options contradict each other? Reports the contradiction. */
static bool has_contradiction(const struct options *o, int nargs)
{
	if (o->standby && (o->coordinator || o->force_new || o->read_only || o->join))
		return refuse_usage(
		    "--standby can only be combined with a cluster file or -C, and with "
		    "options for addresses: it continues what another coordinator began");
	if (o->join && (nargs || o->run_dir || o->coordinator || o->no_store))
		return refuse_usage(
		    "--join cannot be used with a cluster file or -C: the join file names the cluster");
	if (o->returns && !o->no_store)
		return refuse_usage(
		    "--returns requires --no-store: a store that ends loses its partitions");
	if (o->timeout && !o->join)
		return refuse_usage(
		    "--timeout requires --join: it limits the wait for the coordinator");
	if (o->relay && (!o->join || !o->zone))
		return refuse_usage(
		    "--relay requires --join and --zone: a relay serves the workers of one zone");
	if (o->read_only && (nargs || o->join || o->resume || o->no_store || o->name))
		return refuse_usage("--read-only can only be combined with -C, --fresh and --set");
	if (o->fresh >= 0 && (!o->read_only || !follower_can_follow(o->read_only)))
		return refuse_usage("--fresh requires --read-only with a running cluster");
	if (o->force_new && !nargs && !o->coordinator && !o->no_store)
		return refuse_usage("--force-new-cluster requires a cluster file, --coordinator or "
		                    "--no-store: only a coordinator begins a cluster");
	if (o->resume && !nargs && !o->coordinator && !o->no_store)
		return refuse_usage(
		    "--resume requires a cluster file, --coordinator or --no-store: the "
		    "coordinator decides from which checkpoint the servers begin");
	return o->set.n && !nargs && !o->read_only && refuse_usage("--set requires a cluster file");
}

static struct shard *follower_target_shard(void *server)
{
	return server_shard(server);
}

static void follower_target_as_of(void *server, int64_t then)
{
	server_as_of(server, then);
}

static void follower_target_held(void *server, bool held)
{
	server_hold(server, held);
}

/* The server of a read replica, for the origin of its model, which is made before the server. */
struct origin_server {
	struct server *server;
	int signals;
};

static struct shard *find_origin_shard(void *ctx)
{
	return server_shard(((struct origin_server *)ctx)->server);
}

static int64_t find_origin_time(void *ctx)
{
	return server_values_as_of(((struct origin_server *)ctx)->server);
}

/* A signal is left to run_server. */
static bool wait_for_server_end(void *ctx, int64_t ns)
{
	const struct origin_server *o = ctx;
	struct pollfd p[2] = { { o->signals, POLLIN, 0 }, { server_fd(o->server), POLLIN, 0 } };

	return poll(p, 2, clock_poll_timeout(ns)) > 0;
}

/* The checkpoint that --resume names, with a path; NULL: it names none. */
static const char *named_checkpoint(const char *resume)
{
	return resume && ckpt_is_there(resume) ? resume : NULL;
}

/* How old copies of dense tables may be in the endpoints of a read replica. */
#define COPY_FRESH (10 * NSEC_PER_MSEC)

/* Returns the origin of the models of this server's endpoints; NULL: it has no endpoints. The place
 * must still have its source, if it has one, which describes the model. The server need not exist yet:
 * *server will be it. */
static struct served_origin *choose_origin(const struct options *o, struct place *p,
    struct origin_server *server, const struct server_config *cfg)
{
	if (!p->coordinates || !p->has_conf || !p->conf.read_only ||
	    !(conf_is_named(p->conf.serve_http) || conf_is_named(p->conf.serve_redis)))
		return NULL;
	if (!o->read_only)
		return origin_cluster(
		    &(struct cluster_origin_config){ p->dir, named_checkpoint(cfg->resume),
		        p->conf.deadline, p->conf.serve_deadline, &p->early, cfg->log });
	if (!p->source)
		return NULL;
	if (!p->follower)
		return origin_saved(o->read_only);
	return origin_replica(&(struct origin_target){ server, find_origin_shard, find_origin_time,
	                          wait_for_server_end },
	    p->source, COPY_FRESH);
}

/* Starts the thread that fills the read replica s. */
static enum err_code start_follower(struct follower *m, struct server *s, int64_t fresh,
    struct err *e)
{
	const struct follower_target target = { s, follower_target_shard, follower_target_as_of,
		follower_target_held };

	return follower_start(m, &target, fresh, e);
}

/* Begins the logs of the server and of the read replica's follower, at the level of the option or
 * of the cluster file. */
static void begin_logs(const struct options *o, struct place *p, struct log *log)
{
	log_init(log,
	    o->name           ? o->name
	        : o->join     ? p->id.name
	        : o->no_store ? "coordinator"
	                      : "server-0",
	    2, LOG_LEVEL_INFO);
	if (o->log_level || p->has_conf)
		atomic_store(&log->level,
		    log_level_parse(o->log_level ? o->log_level : p->conf.log_level));
	atomic_store(&p->follower_log.level, atomic_load(&log->level));
}

/* Fills all but the sockets. Texts are borrowed. */
static void configure_server(const struct options *o, const char *file, struct place *p,
    struct server_config *cfg)
{
	cfg->id = &p->id;
	cfg->conf = p->has_conf ? &p->conf : NULL;
	cfg->coordinator = p->coordinates ? &coordinator_role : NULL;
	cfg->role = o->relay ? &relay_role : o->no_store ? NULL : &store_role;
	cfg->zone = o->zone;
	cfg->index = server_index(o->name);
	cfg->listen = o->listen;
	cfg->iface = o->iface;
	cfg->advertise = o->advertise;
	cfg->unix_path = p->sock;
	cfg->threads = (unsigned)o->threads;
	cfg->resume = file ? p->resume : o->resume;
	cfg->source = p->source ? &p->source : NULL;
	cfg->goes_on = goes_on(o, file) && p->resume;
	cfg->returns = o->returns;
	cfg->saves_model = file || (o->standby && o->returns);
	cfg->first_wait = o->timeout;
	cfg->force_new = o->force_new;
	cfg->standby = p->takes_over = o->standby;
	/* A read replica has the configuration of its cluster, and a state of its own. */
	p->state_url = p->coordinates && p->has_conf && !o->read_only ? conf_state_url(&p->conf)
	                                                              : NULL;
	cfg->state_url = p->state_url;
}

/* Waits until this process is to be the coordinator. *end: it is not to be one, and ends. */
static enum err_code stand_by(int signals, struct server_config *cfg, struct identity *id,
    bool *end, struct err *e)
{
	char data[NET_TEXT], http[NET_TEXT];
	enum err_code rc;

	cfg->before_data = getenv(BEFORE_DATA);
	cfg->before_http = getenv(BEFORE_HTTP);
	rc = standby_wait(cfg, signals, end, e);
	if (rc || *end)
		return rc;
	/* The secret of the cluster may have been renewed meanwhile. */
	identity_look(id);
	net_bound(cfg->data_fd, data);
	net_bound(cfg->http_fd, http);
	setenv(BEFORE_DATA, data, 1);
	setenv(BEFORE_HTTP, http, 1);
	return ERR_OK;
}

/* For this process, which begins again. */
static void keep_run_directory(const struct place *p)
{
	char *dir = p->dir ? path_absolute(p->dir) : NULL;

	if (dir)
		setenv(BEFORE_RUN, dir, 1);
	free(dir);
}

/* Has a standby not become the coordinator for a reason that may pass: another one was faster, to the state
 * or to the sockets of the run directory, its ownership ended before it had written the state, or the state
 * cannot be read? */
static bool may_stand_by_again(enum err_code rc, const struct err *e)
{
	return rc == ERR_FENCED || rc == ERR_CLOSED || rc == ERR_IO ||
	    (rc == ERR_EXISTS && e->cause == CAUSE_PORT_TAKEN);
}

/* Starts a standby's server when it is its turn to be the coordinator. *out is NULL if it does not come to
 * that: the cluster has ended, or *again: this program is to begin again, and stand by. */
static enum err_code start_in_turn(int signals, struct server_config *cfg, struct identity *id,
    struct server **out, bool *again, struct err *e)
{
	bool end = false;
	enum err_code rc = stand_by(signals, cfg, id, &end, e);

	if (!rc && !end)
		rc = server_start(cfg, out, e);
	if (!may_stand_by_again(rc, e))
		return rc;
	log_warn(cfg->log, "%s%s; standing by again",
	    rc == ERR_FENCED ? "another coordinator was faster: " : "", e->msg);
	*again = true;
	return ERR_OK;
}

/* Begins this program again in the same process. Returns after an error only. */
static int begin_again(char **argv)
{
	struct err e;

	/* Their sockets are closed. */
	unsetenv("LISTEN_FDS");
	execv("/proc/self/exe", argv);
	err_sys(&e, ERR_FAILED, "cannot begin again");
	return report_fatal(&e);
}

/* Serves until the end and stops the server. A follower is closed before the server that it feeds
 * stops. *again: this program is to begin again. Returns the exit code. */
static int run_server(struct server *s, int signals, struct place *p, struct log *log, bool *again)
{
	struct rundir_watch dir = { -1, -1 };
	struct service service;
	int code;

	service_open(&service, s);
	watch_run_dir(p, &dir, log);
	code = serve_until_end(s, signals, &service, p, &dir, log);
	stop_endpoints(p);
	rundir_watch_close(&dir);
	follower_close(p->follower);
	p->follower = NULL;
	*again = server_begins_again(s);
	server_stop(s);
	notify_close(&service.notify);
	return code;
}

/* The order matters. Core dumps are switched off before keys are read; signals are blocked before
 * any thread exists, so that all threads inherit the mask and only the signalfd sees them. *again: the
 * program is to begin again. Returns the exit code. */
static int serve(int argc, char **argv, bool *again)
{
	struct options o = { .fresh = -1 };
	struct place place = { 0 };
	struct err e = { 0 };
	struct server_config cfg = { 0 };
	struct rlimit no_core = { 0, 0 };
	struct server *s = NULL;
	struct served_origin *origin;
	struct origin_server origin_server = { NULL, -1 };
	struct log log;
	const char *file;
	int nargs, signals, code = 0;
	enum err_code rc;

	output_begin();
	switch (opt_parse(&spec, &o, argc, argv, &nargs)) {
	case OPT_EXIT_OK:
		return output_end("ps-serve", 0);
	case OPT_EXIT_USAGE:
		return 2;
	case OPT_GO:
		break;
	}
	setrlimit(RLIMIT_CORE, &no_core); /* keys are in memory */
	file = nargs ? argv[1] : NULL;
	if (!file && !o.run_dir && !o.join)
		o.join = identity_join_file(NULL);
	if (has_contradiction(&o, nargs))
		return 2;
	if (o.standby) {
		o.no_store = true;
		begin_where_it_was(&o, file);
	}
	signals = block_server_signals();
	if (key_init(&e) || take_activation_sockets(&cfg, &e))
		return report_fatal(&e);
	place.early.fd = signals;
	if (find_server_place(&o, file, &place, &e) || refuse_serve_if(&place, &e)) {
		place_release(&place, &o);
		close(signals);
		return report_fatal(&e);
	}
	begin_logs(&o, &place, &log);
	configure_server(&o, file, &place, &cfg);
	cfg.log = &log;
	/* The server consumes the source, which describes the model. */
	origin = choose_origin(&o, &place, &origin_server, &cfg);
	rc = o.standby ? start_in_turn(signals, &cfg, &place.id, &s, again, &e)
	               : server_start(&cfg, &s, &e);
	if (!rc && place.follower)
		rc = start_follower(place.follower, s, o.fresh < 0 ? FRESH : o.fresh, &e);
	origin_server = (struct origin_server){ s, signals };
	if (!rc && origin) {
		rc = start_endpoints(&place, origin, &log, &e);
		origin = NULL;
	}
	if (origin)
		origin->ops->free(origin);
	if (rc) {
		code = report_fatal(&e);
		stop_endpoints(&place);
		/* A follower without a server is closed by place_release. */
		if (s) {
			follower_close(place.follower);
			place.follower = NULL;
		}
		server_stop(s);
	} else if (s) {
		code = run_server(s, signals, &place, &log, again);
		/* A coordinator that returns uploads them then. */
		if (file && !*again && !o.returns && !upload_last_checkpoints(&place, &e) &&
		    code == 0)
			code = report_fatal(&e);
	}
	if (*again)
		keep_run_directory(&place);
	place_release(&place, &o);
	close(signals);
	return code;
}

int main(int argc, char **argv)
{
	/* opt_parse moves the words of argv. */
	char **words = memcpy(mem_array((size_t)argc + 1, sizeof *words), argv,
	    ((size_t)argc + 1) * sizeof *words);
	bool again = false;
	int code;

	process_one_begin();
	code = serve(argc, argv, &again);
	if (again)
		code = begin_again(words);
	free(words);
	return code;
}
