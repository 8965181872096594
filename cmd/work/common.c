/* SPDX-License-Identifier: ISC */
#include "cmd/work/common.h"

#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/output.h"
#include "rundir/rundir.h"

int where_parse(const struct opt_spec *spec, void *out, int argc, char **argv, int *nargs)
{
	switch (opt_parse(spec, out, argc, argv, nargs)) {
	case OPT_EXIT_OK:
		return 1;
	case OPT_EXIT_USAGE:
		return 3;
	case OPT_GO:
		break;
	}
	return 0;
}

enum err_code where_identity(const struct where *w, const char *name, struct identity *out,
    struct err *e)
{
	const char *join = w->join ? w->join : w->run_dir ? NULL : identity_join_file(NULL);
	char *dir = NULL;
	enum err_code rc;

	if (join)
		return identity_from_join(join, out, e);
	rc = rundir_find(w->run_dir, &dir, e);
	if (!rc)
		rc = identity_from_run(dir, name ? name : "admin", out, e);
	free(dir);
	return rc;
}

int where_log_level(const struct where *w, int deflt)
{
	return w->log_level ? log_level_parse(w->log_level) : deflt;
}

void where_log(const struct where *w, const struct opt_spec *spec, struct log *out)
{
	/* The log is named by the second word of "ps-work eval". */
	log_init(out, strchr(spec->prog, ' ') + 1, 2,
	    (enum log_level)where_log_level(w, LOG_LEVEL_WARN));
}

enum err_code where_connect(const struct where *w, const char *transport, struct log *log,
    struct identity *id, struct admin_client *out, struct err *e)
{
	enum err_code rc = where_identity(w, NULL, id, e);

	if (rc)
		return rc;
	rc = tool_open(id, transport, w->timeout ? w->timeout : 30 * NSEC_PER_SEC, NULL, log, out,
	    e);
	if (rc)
		identity_release(id);
	return rc;
}

int fail(const char *prog, const struct err *e)
{
	return err_report(prog, e);
}

int where_fail_output(const char *prog, const struct err *e)
{
	return e->code == ERR_IO && output_abandoned() ? 0 : fail(prog, e);
}

int where_run(const struct opt_spec *spec, const struct where *w, const void *options, int nargs,
    char **argv, where_fn fn)
{
	struct identity id;
	struct err e = { 0 };
	struct admin_client tool;
	struct log log;
	int code = 0;

	where_log(w, spec, &log);
	if (where_connect(w, "auto", &log, &id, &tool, &e))
		return fail(spec->prog, &e);
	if (fn(&tool, options, nargs, argv, &e))
		code = where_fail_output(spec->prog, &e);
	tool_close(&tool);
	identity_release(&id);
	return code;
}
