/* SPDX-License-Identifier: ISC */
#include "cmd/work/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/dirs.h"
#include "core/file.h"
#include "core/mem.h"
#include "rundir/rundir.h"
#include "saved/saved_model.h"
#include "saved/saved_source.h"

/* The caller's command and its arguments. */
struct call {
	const struct opt_spec *spec;
	const void *options;
	int nargs;
	char **argv;
	model_fn fn;
};

static int run_with_source(const struct call *c, struct param_source *source, struct log *log)
{
	struct tool_model m = { .source = source, .log = log };
	struct err e = { 0 };

	return c->fn(&m, c->options, c->nargs, c->argv, &e) ? where_fail_output(c->spec->prog, &e)
	                                                    : 0;
}

static int run_with_cluster(const struct call *c, const struct where *w, struct log *log)
{
	struct param_source *source = NULL;
	struct identity id;
	struct err e = { 0 };
	struct admin_client tool;
	int code;

	if (where_connect(w, "auto", log, &id, &tool, &e))
		return fail(c->spec->prog, &e);
	code = tool_source(&tool, &source, &e) ? fail(c->spec->prog, &e)
	                                       : run_with_source(c, source, log);
	tool_close(&tool);
	identity_release(&id);
	return code;
}

static int run_with_saved(const struct call *c, const char *path, struct log *log)
{
	struct param_source *source;
	struct err e = { 0 };
	int code;

	saved_source_report_cuts();
	if (saved_source_open(path, &source, &e))
		return fail(c->spec->prog, &e);
	code = run_with_source(c, source, log);
	saved_source_close(source);
	return code;
}

/* Is this a checkpoint or a model file? */
static bool is_model_alone(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return ckpt_is_there(path);
	return saved_model_is_named(path);
}

/* The path of the model file, the checkpoint, or the run directory whose run has ended, that is
 * named by run_dir (option -C, may be NULL), else by PS_CLUSTER, else as the only run here; a fresh
 * string. NULL: it names a living cluster, a join file, or nothing. Standard error says so when a
 * run has ended. */
static char *find_saved_model(const char *prog, const char *run_dir)
{
	const char *named = run_dir ? run_dir : getenv("PS_CLUSTER");
	struct err e = { 0 };
	char *dir = NULL;

	if (named && is_model_alone(named))
		return mem_strdup(named);
	if (rundir_find_serving(run_dir, &dir, &e) == ERR_NOTREADY && dir) {
		fprintf(stderr, "%s: %s has no running cluster: reading its saved model\n", prog,
		    dir);
		return dir;
	}
	free(dir);
	return NULL;
}

/* Is it the name of a run that does not exist? It is reported as such, and not as missing data. */
static bool is_missing_run(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && strcmp(path + n - 4, ".run") == 0 && access(path, F_OK) != 0;
}

/* The first operand may name the model instead of -C. False: it is named twice. */
static bool take_model_operand(struct where *w, int *nargs, char ***argv)
{
	if (!*nargs || !(saved_model_is_named((*argv)[1]) || is_missing_run((*argv)[1])))
		return true;
	if (w->run_dir || w->join)
		return false;
	w->run_dir = (*argv)[1];
	++*argv;
	--*nargs;
	return true;
}

int model_run(const struct opt_spec *spec, const struct where *w, const void *options, int nargs,
    char **argv, model_fn fn)
{
	struct call call = { spec, options, nargs, argv, fn };
	struct where here = *w;
	char *saved;
	struct log log;
	int code;

	if (!take_model_operand(&here, &call.nargs, &call.argv)) {
		fprintf(stderr, "%s: \"%s\" is a second model; the first is %s %s\n", spec->prog,
		    argv[1], w->run_dir ? "-C" : "--join", w->run_dir ? w->run_dir : w->join);
		return 2;
	}
	where_log(w, spec, &log);
	saved = here.join || (!here.run_dir && identity_join_file(NULL))
	    ? NULL
	    : find_saved_model(spec->prog, here.run_dir);
	code = saved ? run_with_saved(&call, saved, &log) : run_with_cluster(&call, &here, &log);
	free(saved);
	return code;
}
