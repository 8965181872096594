#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/output.h"
#include "ctl.h"
#include "launch/rundir.h"
#include "object/uri.h"
#include "saved.h"
#include "store.h"
#include "work/export.h"

struct options {
	const char *dir, *format, *file;
	int64_t since;                  /* -1: not asked for */
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "output", 'o', OPT_CHOICE, offsetof(struct options, format), "FORMAT",
	  "as what; safetensors unless given", "safetensors|npy|text", 0, 0 },
	{ "file", 0, OPT_STR, offsetof(struct options, file), "FILE",
	  "write to FILE (or s3:// name), which appears when it is whole", NULL, 0, 0 },
	{ "since", 0, OPT_INT, offsetof(struct options, since), "STEP",
	  "of sparse tables the rows alone that were updated at STEP or later", NULL, 0, 1LL << 53 },
};

struct source {
	const char *dir;
	bool living;
};

/* And says from where to go on. */
static enum err_code write_changes(const char *dir, const char *table, int64_t since, int fd, struct err *e)
{
	uint64_t step;
	enum err_code rc = model_export_since(dir, table, (uint64_t)since, fd, &step, e);

	if (!rc && step == UINT64_MAX)
		fprintf(stderr, "ps-ctl: %s has no sparse table: it is whole\n", table);
	else if (!rc)
		fprintf(stderr, "ps-ctl: what comes from now on: --since %llu\n", (unsigned long long)step);
	return rc;
}

static enum err_code write_model(const struct source *from, const char *table, const struct options *o,
                                 int fd, struct err *e)
{
	const char *format = o->format;
	char *model;
	enum err_code rc;

	if (from->living && o->since >= 0)
		return write_changes(from->dir, table, o->since, fd, e);
	if (from->living)
		return model_export(from->dir, table, format, fd, e);
	model = rundir_path(from->dir, "model.safetensors");
	rc = saved_export(model, table, format, fd, e);
	free(model);
	return rc;
}

/* By a file that has no name: the object is put when that is whole. */
static enum err_code to_store(const struct source *from, const char *table, const struct options *o, struct err *e)
{
	int fd = open(from->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct object_client *c = NULL;
	enum err_code rc;

	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot make a file in %s", from->dir);
	rc = write_model(from, table, o, fd, e);
	if (!rc && lseek(fd, 0, SEEK_SET) < 0)
		rc = err_sys(e, ERR_IO, "cannot read again what was written in %s", from->dir);
	if (!rc)
		rc = store_open(STORE_TIMEOUT, &c, e);
	if (!rc)
		rc = object_put(c, o->file, fd, e);
	object_client_free(c);
	close(fd);
	return rc;
}

/* Beside the file first, so that a reader never sees half a model. */
static enum err_code to_file(const struct source *from, const char *table, const struct options *o,
                             struct err *e)
{
	struct file_new f;
	enum err_code rc;

	if (uri_is(o->file))
		return to_store(from, table, o, e);
	rc = file_new_open(o->file, 0666, &f, e);

	return rc ? rc : file_new_close(&f, write_model(from, table, o, f.fd, e), e);
}

static int export(const struct ctl_cmd *self, const struct options *o, const char *table)
{
	struct source from = { NULL, false };
	struct err e = { 0 };
	char *dir = NULL;
	enum err_code rc;

	if (strcmp(table, "all") == 0 && strcmp(o->format, "npy") == 0)
		return ctl_misuse(self, "npy holds one table: name it, or use -o safetensors");
	if (o->since >= 0 && strcmp(o->format, "safetensors") != 0)
		return ctl_misuse(self, "--since is for -o safetensors");
	if (!o->file && strcmp(o->format, "text") != 0 && isatty(STDOUT_FILENO))
		return ctl_misuse(self, "%s is not for a terminal: add > FILE", o->format);
	rc = rundir_find(o->dir, &dir, &e);
	from.dir = dir;
	from.living = rc == ERR_OK;
	if (rc == ERR_NOTREADY && dir && o->since >= 0) {
		err_set(&e, ERR_NOTREADY, "%s is not running: --since asks its servers", dir);
	} else if (rc == ERR_NOTREADY && dir) {
		fprintf(stderr, "ps-ctl: %s is not running; this is the model that it saved\n", dir);
		rc = ERR_OK;
	}
	if (rc == ERR_OK)
		rc = o->file ? to_file(&from, table, o, &e) :
		     write_model(&from, table, o, STDOUT_FILENO, &e);
	free(dir);
	/* Who reads it may leave. */
	if (rc == ERR_OK || (rc == ERR_IO && !o->file && output_abandoned()))
		return 0;
	return ctl_fail(&e);
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .format = "safetensors", .since = -1 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	return export(self, &o, argv[1]);
}

const struct ctl_cmd ctl_cmd_export = {
	"export",
	{
		.prog = "ps-ctl export", .args = "TABLE|all",
		.about = "write the model, or one table of it, to standard output",
		.more = "From the servers as they stand, or, of a cluster that is not running, from "
		        "RUN/model.safetensors.\n\"all\" needs safetensors or text; npy is one dense table.\n"
		        "With --since, for who has the rest: dense tables whole; of a sparse table TABLE.ids and TABLE, and, where\n"
		        "rows have gone since, the ids of all that there are as TABLE.live.  It says from which step to go on.",
		.opts = opts, .nopts = CTL_COUNT(opts), .min_args = 1, .max_args = 1,
		.examples = "  ps-ctl export all > model.safetensors\n  ps-ctl export w -o npy > w.npy\n"
		            "  ps-ctl export emb --since 0 > all.safetensors\n",
	},
	run,
};
