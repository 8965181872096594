/* SPDX-License-Identifier: ISC */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf_data.h"
#include "conf/conf_key.h"
#include "conf/conf_unused.h"
#include "conf/hosts.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "doctor.h"
#include "rundir/old_runs.h"
#include "rundir/resume.h"
#include "rundir/rundir.h"
#include "socket/listen_address.h"

/* ---- hosts and addresses ---- */

static void copy_conf_hosts(const struct conf *c, struct hosts *hosts)
{
	*hosts = (struct hosts){ NULL, 0 };
	for (size_t i = 0; i < c->hosts.n; i++)
		hosts_add(hosts, c->hosts.item[i], NULL);
}

/* Check that the hosts have slots for all processes that are started on them. Only slots given in
 * the list are a limit. */
static enum err_code check_host_slots(const struct conf *c, struct err *e)
{
	bool own = conf_trains(c) &&
	    (strcmp(c->job.model, "custom") != 0 || conf_is_named(c->job.exec) ||
	        conf_is_named(c->job.command));
	int64_t workers = own ? c->workers.max : 0, n = c->servers + workers;
	enum err_code rc = ERR_OK;
	struct hosts hosts;

	copy_conf_hosts(c, &hosts);
	if (hosts.n > 0 && n > 0 && !hosts_nth(&hosts, (size_t)(n - 1)))
		rc = err_set(e, ERR_CONFIG,
		    "hosts: %lld server%s and %lld worker%s need %lld slot%s, and the hosts have "
		    "%lld: add hosts or slots",
		    (long long)c->servers, NUM_S(c->servers), (long long)workers, NUM_S(workers),
		    (long long)n, NUM_S(n), (long long)hosts_slots(&hosts));
	hosts_release(&hosts);
	return rc;
}

/* Refuse a fixed port when several processes of this host would listen on it. */
static enum err_code check_listen_port(const struct conf *c, struct err *e)
{
	const char *port = strrchr(c->listen, ':');
	int64_t n = c->replicas > 1 || c->hosts.n;
	struct hosts hosts;

	copy_conf_hosts(c, &hosts);
	for (int64_t k = 0; k < c->servers; k++)
		n += !hosts.n || hosts_is_here(hosts_nth(&hosts, (size_t)k));
	hosts_release(&hosts);
	if (n <= 1 || !port || strcmp(port, ":0") == 0)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "listen: \"%s\" has a fixed port, but %lld servers are to start on this host: use port 0",
	    c->listen, (long long)n);
}

/* Set the key hosts from a host file, as if the cluster file had them. */
static enum err_code apply_hostfile(struct conf *c, const char *file, struct err *e)
{
	struct hosts hosts = { NULL, 0 };
	enum err_code rc = hosts_read(&hosts, file, e);
	json_t *list = json_array();
	char *text, *set;

	for (size_t i = 0; i < hosts.n; i++)
		for (int64_t n = hosts.item[i].limited ? 1 : hosts.item[i].slots; n > 0; n--)
			json_array_append_new(list,
			    hosts.item[i].limited
			        ? json_sprintf("%s slots=%lld", hosts.item[i].name,
			              (long long)hosts.item[i].slots)
			        : json_string(hosts.item[i].name));
	text = json_text(list);
	set = mem_printf("hosts=%s", text);
	if (rc == ERR_OK)
		rc = conf_set(c, set, e);
	if (rc != ERR_OK)
		err_prefix(e, "--hostfile");
	if (rc == ERR_FORMAT)
		rc = e->code = ERR_CONFIG;
	free(set);
	free(text);
	json_decref(list);
	hosts_release(&hosts);
	return rc;
}

/* Write "10.0.0.2", "fe80::1" or "me@b" (without the user) as host:port to out. */
static void format_with_port(const char *host, int port, char out[static NET_TEXT])
{
	const char *at = strrchr(host, '@');

	host = at ? at + 1 : host;
	snprintf(out, NET_TEXT, strchr(host, ':') && host[0] != '[' ? "[%s]:%d" : "%s:%d", host,
	    port);
}

static enum err_code set_listen_key(struct conf *c, const char *addr, struct err *e)
{
	char *set = mem_printf("listen=%s", addr);
	enum err_code rc = conf_set(c, set, e);

	free(set);
	return rc;
}

/* The HostName that the configuration of ssh gives to a host, to be freed; the name itself with
 * another remote shell or without an entry. */
static char *find_ssh_address(const char *name)
{
	const char *rsh = getenv("PS_RSH"), *first = rsh && *rsh ? rsh : "ssh";
	size_t n = strcspn(first, " ");
	char *word = mem_printf("%.*s", (int)n, first), *command = NULL, *found = NULL, line[512];
	FILE *f = NULL;

	/* hosts_add() accepts no characters in host names that are special to a shell. */
	if (strcmp(path_basename(word), "ssh") == 0) {
		command = mem_printf("exec %s -G %s 2>/dev/null", first, name);
		f = popen(command, "r");
	}
	while (f && fgets(line, sizeof line, f))
		if (!found && strncmp(line, "hostname ", 9) == 0)
			found = mem_printf("%.*s", (int)strcspn(line + 9, "\n"), line + 9);
	if (f)
		pclose(f);
	free(command);
	free(word);
	return found && *found ? found : mem_strdup(name);
}

/* Choose the listen address, unless it was given: the local address on the route to the first
 * other host that can be resolved. */
static enum err_code choose_reachable_listen(struct conf *c, struct err *e)
{
	const struct conf_key *listen = conf_key_find("listen", NULL);
	char towards[NET_TEXT] = "", addr[NET_TEXT];
	const struct choice choice = { .towards = towards };
	enum err_code rc = ERR_OK;
	struct hosts hosts;
	const char *why;

	copy_conf_hosts(c, &hosts);
	for (size_t i = 0; !conf_given(c, listen) && i < hosts.n; i++) {
		char *address;

		if (hosts_is_here(hosts.item[i].name))
			continue;
		address = find_ssh_address(hosts.item[i].name);
		format_with_port(address, 1, towards);
		free(address);
		rc = listen_address_choose(&choice, addr, &why, e);
		if (rc == ERR_OK)
			break;
	}
	hosts_release(&hosts);
	if (!towards[0])
		return ERR_OK;
	if (rc != ERR_OK)
		return err_prefix(e,
		    "cannot find the address at which other hosts reach this one: give --bind");
	return set_listen_key(c, addr, e);
}

/* Set the keys hosts and listen from the options in place. */
static enum err_code apply_place_options(struct conf *c, const struct local_place *place,
    struct err *e)
{
	const struct choice choice = { .iface = place->iface };
	enum err_code rc = place->hostfile ? apply_hostfile(c, place->hostfile, e) : ERR_OK;
	char addr[NET_TEXT];
	const char *why;

	if (rc != ERR_OK || place->later)
		return rc;
	if (!place->bind && !place->iface)
		return choose_reachable_listen(c, e);
	if (place->bind)
		format_with_port(place->bind, 0, addr);
	else
		rc = listen_address_choose(&choice, addr, &why, e);
	if (rc == ERR_OK)
		rc = set_listen_key(c, addr, e);
	return rc == ERR_OK ? rc : err_prefix(e, place->bind ? "--bind" : "--iface");
}

/* ---- the file ---- */

#define FILE_MAX_BYTES (1u << 20)

/* Tells which options of the cluster file's data --set data=PATH leaves out. Without them the job may predict
 * another column. */
static void print_lost_options(const char *path, const struct conf *now)
{
	json_t *file = json_parse_file(path, FILE_MAX_BYTES, NULL);
	struct conf before;
	char *lost;

	if (!file || conf_from_json(file, &before, NULL)) {
		json_decref(file);
		return;
	}
	lost = conf_data_lost_options(&before.job, &now->job);
	if (lost)
		fprintf(stderr,
		    "ps-ctl: job.data of %s has the options %s, and that of --set has none: add them to its "
		    "path if they are meant; as keys of the job (\"label\": \"NAME\") they stay\n",
		    path, lost);
	free(lost);
	conf_release(&before);
	json_decref(file);
}

/* Load the cluster file. --exec stands for the assignments job.model=custom and
 * job.command=COMMAND, --init-from for job.init_from=MODEL. */
static enum err_code load_conf(const char *path, const struct opt_list *sets,
    const struct local_place *place, struct conf *c, struct err *e)
{
	const char **all = mem_array(sets->n + 3, sizeof *all);
	const char *exec = place ? place->exec : NULL, *from = place ? place->init_from : NULL;
	char *command = mem_printf("job.command=%s", exec ? exec : ""),
	     *init = mem_printf("job.init_from=%s", from ? from : "");
	size_t n = sets->n;
	enum err_code rc;

	for (size_t i = 0; i < n; i++)
		all[i] = sets->item[i];
	if (exec) {
		all[n++] = "job.model=custom";
		all[n++] = command;
	}
	if (from)
		all[n++] = init;
	rc = place && place->elsewhere ? conf_load_elsewhere(path, all, n, c, e)
	                               : conf_load(path, all, n, c, e);
	if (!rc && path && sets->n)
		print_lost_options(path, c);
	free(init);
	free(command);
	free((void *)all);
	return rc;
}

/* On success *c must be released and *dir freed. Errors become ERR_CONFIG, except a missing file
 * and a wrong use, which have exit codes of their own. */
enum err_code local_load_conf(const char *file, const struct opt_list *sets,
    const struct local_place *place, struct conf *c, char **dir, struct err *e)
{
	char *path = file ? conf_file(file) : NULL, *run;
	enum err_code rc = load_conf(path, sets, place, c, e);

	*dir = NULL;
	if (rc == ERR_OK && place && apply_place_options(c, place, e) != ERR_OK) {
		rc = e->code;
		conf_release(c);
		free(path);
		return rc;
	}
	if (rc == ERR_OK)
		rc = check_host_slots(c, e);
	if (rc == ERR_OK)
		rc = check_listen_port(c, e);
	if (rc == ERR_OK) {
		run = rundir_name_for(path ? path : "", c->name);
		*dir = path_absolute(run);
		free(run);
	} else if (rc != ERR_NOTFOUND && rc != ERR_USAGE) {
		rc = e->code = ERR_CONFIG;
	}
	free(path);
	return rc;
}

/* From this number on, earlier runs are reported as many. */
#define RUNS_MANY 10u

bool local_check_operands(const char *prog, const char *file, const char *exec, int *code)
{
	if (file || exec)
		return true;
	fprintf(stderr,
	    "%s: FILE is missing: a cluster file, or --exec COMMAND for workers that run your own program\n",
	    prog);
	*code = 2;
	return false;
}

static bool rename_stdin_paths(struct conf_strs *paths)
{
	bool found = false;

	for (size_t i = 0; i < paths->n; i++) {
		char *old = paths->item[i];

		if (!conf_path_is_stdin(old))
			continue;
		paths->item[i] = mem_printf("/proc/%d/fd/0%s", (int)getpid(),
		    old + strcspn(old, "?"));
		free(old);
		found = true;
	}
	return found;
}

bool local_replace_stdin(struct conf *c)
{
	bool data = rename_stdin_paths(&c->job.data), eval = rename_stdin_paths(&c->job.eval);

	return data || eval;
}

/* Removes earlier runs beyond keep_runs. Without that key, says once that they pile up: when their
 * number reaches RUNS_MANY. */
static void limit_earlier_runs(const struct conf *c, const char *dir)
{
	const char *used[] = { c->job.init, c->job.init_from };
	struct buf names = BUF_INIT;
	struct err e;
	int64_t *number;
	size_t n = old_runs_list(dir, &number);

	free(number);
	if (!c->keep_runs) {
		if (n == RUNS_MANY)
			fprintf(stderr,
			    "ps-ctl: there are %zu earlier runs, %s.1 and others: \"ps-ctl runs --prune\" "
			    "removes those that are finished, and keep_runs=N keeps only the newest N\n",
			    n, path_basename(dir));
		return;
	}
	if (old_runs_prune(dir, (size_t)c->keep_runs, used, CTL_COUNT(used), &names, &e))
		fprintf(stderr, "ps-ctl: keep_runs %lld: removed %s\n", (long long)c->keep_runs,
		    (char *)names.data);
	if (e.code)
		fprintf(stderr, "ps-ctl: keep_runs: %s\n", e.msg);
	buf_release(&names);
}

static void print_unused_key(void *ctx, const char *key, const char *why)
{
	(void)ctx;
	fprintf(stderr, "ps-ctl: %s is set, but changes nothing: %s\n", key, why);
}

bool local_begin_run(struct supervisor *s, const struct conf *c, const char *dir,
    const struct local_place *place, const char *resume, int *lock, int *code)
{
	struct err e = { 0 };

	if (conf_trains(c) && conf_rule_follows_lr(c))
		fprintf(stderr,
		    "ps-ctl: job.lr is given and job.optimizer is not: the update rule is %s, because that of "
		    "model %s needs no learning rate\n",
		    c->job.optimizer, c->job.model);
	conf_unused(c, print_unused_key, NULL);
	if (supervisor_init(s, &e) != ERR_OK ||
	    resume_prepare(c, dir, resume, lock, &s->resume, &e) != ERR_OK) {
		ctl_fail(&e);
		*code = supervisor_init_exit_code(s, &e);
		return false;
	}
	limit_earlier_runs(c, dir);
	s->iface = place->iface;
	s->advertise = place->advertise;
	s->explain = doctor_glance;
	return true;
}
