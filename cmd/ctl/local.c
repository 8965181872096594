#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hosts.h"
#include "base/json.h"
#include "base/mem.h"
#include "conf/conf_key.h"
#include "launch/rundir.h"
#include "wire/choose.h"

/* ---- hosts and addresses --------------------------------------------------------------- */

static void read_hosts(const struct conf *c, struct hosts *hosts)
{
	*hosts = (struct hosts){ NULL, 0 };
	for (size_t i = 0; i < c->hosts.n; i++)
		hosts_add(hosts, c->hosts.item[i], NULL);
}

/* The servers of this host have the same address. */
static enum err_code check_port(const struct conf *c, struct err *e)
{
	const char *port = strrchr(c->listen, ':');
	int64_t n = c->replicas > 1 || c->hosts.n;
	struct hosts hosts;

	read_hosts(c, &hosts);
	for (int64_t k = 0; k < c->servers; k++)
		n += !hosts.n || hosts_is_here(hosts_place(&hosts, (size_t)k));
	hosts_release(&hosts);
	if (n <= 1 || !port || strcmp(port, ":0") == 0)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "listen: \"%s\" is for one server, and there are to be %lld on this host: use port 0",
	               c->listen, (long long)n);
}

/* As if the cluster file had them. */
static enum err_code take_hostfile(struct conf *c, const char *file, struct err *e)
{
	struct hosts hosts = { NULL, 0 };
	enum err_code rc = hosts_read(&hosts, file, e);
	json_t *list = json_array();
	char *text, *set;

	for (size_t i = 0; i < hosts.n; i++)
		json_array_append_new(list, json_sprintf("%s slots=%lld", hosts.item[i].name, (long long)hosts.item[i].slots));
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

/* "10.0.0.2", "fe80::1" and "me@b" with a port. */
static void with_port(const char *host, int port, char out[static NET_TEXT])
{
	const char *at = strrchr(host, '@');

	host = at ? at + 1 : host;
	snprintf(out, NET_TEXT, strchr(host, ':') && host[0] != '[' ? "[%s]:%d" : "%s:%d", host, port);
}

static enum err_code set_listen(struct conf *c, const char *addr, struct err *e)
{
	char *set = mem_printf("listen=%s", addr);
	enum err_code rc = conf_set(c, set, e);

	free(set);
	return rc;
}

/* What was not told is chosen by the first host that is not this one. */
static enum err_code choose_for_others(struct conf *c, struct err *e)
{
	const struct conf_key *listen = conf_key_find("listen", NULL);
	char towards[NET_TEXT] = "", addr[NET_TEXT];
	const struct choice choice = { .towards = towards };
	enum err_code rc = ERR_OK;
	struct hosts hosts;
	const char *why;

	read_hosts(c, &hosts);
	for (size_t i = 0; !towards[0] && i < hosts.n; i++)
		if (!hosts_is_here(hosts.item[i].name))
			with_port(hosts.item[i].name, 1, towards);
	hosts_release(&hosts);
	if (!towards[0] || conf_given(c, listen))
		return ERR_OK;
	rc = choose_listen(&choice, addr, &why, e);
	if (rc != ERR_OK)
		return err_prefix(e, "it is not known on which address others reach this host (--bind tells)");
	return set_listen(c, addr, e);
}

static enum err_code take_place(struct conf *c, const struct local_place *place, struct err *e)
{
	const struct choice choice = { .iface = place->iface };
	enum err_code rc = place->hostfile ? take_hostfile(c, place->hostfile, e) : ERR_OK;
	char addr[NET_TEXT];
	const char *why;

	if (rc != ERR_OK || place->later)
		return rc;
	if (!place->bind && !place->iface)
		return choose_for_others(c, e);
	if (place->bind)
		with_port(place->bind, 0, addr);
	else
		rc = choose_listen(&choice, addr, &why, e);
	if (rc == ERR_OK)
		rc = set_listen(c, addr, e);
	return rc == ERR_OK ? rc : err_prefix(e, place->bind ? "--bind" : "--iface");
}

/* ---- the file -------------------------------------------------------------------------- */

/* --exec stands for two assignments. */
static enum err_code load(const char *path, const struct opt_list *sets, const char *exec, struct conf *c, struct err *e)
{
	const char **all = mem_array(sets->n + 2, sizeof *all);
	char *command = mem_printf("job.command=%s", exec ? exec : "");
	enum err_code rc;

	for (size_t i = 0; i < sets->n; i++)
		all[i] = sets->item[i];
	all[sets->n] = "job.model=custom";
	all[sets->n + 1] = command;
	rc = conf_load(path, all, sets->n + (exec ? 2 : 0), c, e);
	free(command);
	free((void *)all);
	return rc;
}

enum err_code local_load(const char *file, const struct opt_list *sets, const struct local_place *place, struct conf *c, char **dir,
                         struct err *e)
{
	char *path = file ? conf_file(file) : NULL, *run;
	enum err_code rc = load(path, sets, place ? place->exec : NULL, c, e);

	*dir = NULL;
	if (rc == ERR_OK && place && take_place(c, place, e) != ERR_OK) {
		rc = e->code;
		conf_release(c);
		free(path);
		return rc;
	}
	if (rc == ERR_OK)
		rc = check_port(c, e);
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

bool local_may_go(const char *prog, const char *file, const char *exec, int *code)
{
	if (file || exec)
		return true;
	fprintf(stderr, "%s: FILE is missing: a cluster file, or --exec COMMAND for workers that are programs of yours\n", prog);
	*code = 2;
	return false;
}

static bool rename_stdin(struct conf_strs *paths)
{
	bool found = false;

	for (size_t i = 0; i < paths->n; i++) {
		char *old = paths->item[i];

		if (!conf_path_is_stdin(old))
			continue;
		paths->item[i] = mem_printf("/proc/%d/fd/0%s", (int)getpid(), old + strcspn(old, "?"));
		free(old);
		found = true;
	}
	return found;
}

bool local_name_stdin(struct conf *c)
{
	bool data = rename_stdin(&c->job.data), eval = rename_stdin(&c->job.eval);

	return data || eval;
}
