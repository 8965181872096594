/* SPDX-License-Identifier: ISC */
#include "cmd/work/model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/work/saved.h"
#include "saved/saved_model.h"

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
	struct tool tool;
	int code;

	if (where_connect(w, "auto", log, &id, &tool, &e))
		return fail(c->spec->prog, &e);
	code = tool_source(&tool, &source, &e) ? fail(c->spec->prog, &e)
	                                       : run_with_source(c, source, log);
	tool_close(&tool);
	identity_release(&id);
	return code;
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
	char *model, *run_dir = NULL;
	struct log log;
	int code;

	if (!take_model_operand(&here, &call.nargs, &call.argv)) {
		fprintf(stderr, "%s: \"%s\" is a second model; the first is %s %s\n", spec->prog,
		    argv[1], w->run_dir ? "-C" : "--join", w->run_dir ? w->run_dir : w->join);
		return 2;
	}
	where_log(w, spec, &log);
	model = here.join || (!here.run_dir && identity_join_file(NULL))
	    ? NULL
	    : saved_server_find(spec->prog, here.run_dir);
	if (!model) {
		code = run_with_cluster(&call, &here, &log);
	} else if (saved_server_run(spec->prog, model, &run_dir, &code)) {
		here.run_dir = run_dir;
		code = run_with_cluster(&call, &here, &log);
	}
	free(run_dir);
	free(model);
	return code;
}
