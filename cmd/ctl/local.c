#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "conf/conf_key.h"
#include "launch/rundir.h"

/* All servers are started on this host, with the same address. */
static enum err_code check_port(const struct conf *c, struct err *e)
{
	const char *port = strrchr(c->listen, ':');

	if (c->servers + (c->replicas > 1) <= 1 || !port || strcmp(port, ":0") == 0)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "listen: \"%s\" is for one server, and there are to be %lld on this host: use port 0",
	               c->listen, (long long)(c->servers + (c->replicas > 1)));
}

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

enum err_code local_load(const char *file, const struct opt_list *sets, const char *exec, struct conf *c, char **dir,
                         struct err *e)
{
	char *path = file ? conf_file(file) : NULL, *run;
	enum err_code rc = load(path, sets, exec, c, e);

	*dir = NULL;
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
