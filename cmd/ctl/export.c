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
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "output", 'o', OPT_CHOICE, offsetof(struct options, format), "FORMAT",
	  "as what; safetensors unless given", "safetensors|npy|text", 0, 0 },
	{ "file", 0, OPT_STR, offsetof(struct options, file), "FILE",
	  "write to FILE (or s3:// name), which appears when it is whole", NULL, 0, 0 },
};

struct source {
	const char *dir;
	bool living;
};

static enum err_code write_model(const struct source *from, const char *table, const char *format,
                                 int fd, struct err *e)
{
	char *model;
	enum err_code rc;

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
	rc = write_model(from, table, o->format, fd, e);
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

	return rc ? rc : file_new_close(&f, write_model(from, table, o->format, f.fd, e), e);
}

static int export(const struct ctl_cmd *self, const struct options *o, const char *table)
{
	struct source from = { NULL, false };
	struct err e = { 0 };
	char *dir = NULL;
	enum err_code rc;

	if (strcmp(table, "all") == 0 && strcmp(o->format, "npy") == 0)
		return ctl_misuse(self, "npy holds one table: name it, or use -o safetensors");
	if (!o->file && strcmp(o->format, "text") != 0 && isatty(STDOUT_FILENO))
		return ctl_misuse(self, "%s is not for a terminal: add > FILE", o->format);
	rc = rundir_find(o->dir, &dir, &e);
	from.dir = dir;
	from.living = rc == ERR_OK;
	if (rc == ERR_NOTREADY && dir) {
		fprintf(stderr, "ps-ctl: %s is not running; this is the model that it saved\n", dir);
		rc = ERR_OK;
	}
	if (rc == ERR_OK)
		rc = o->file ? to_file(&from, table, o, &e) :
		     write_model(&from, table, o->format, STDOUT_FILENO, &e);
	free(dir);
	/* Who reads it may leave. */
	if (rc == ERR_OK || (rc == ERR_IO && !o->file && output_abandoned()))
		return 0;
	return ctl_fail(&e);
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .format = "safetensors" };
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
		        "RUN/model.safetensors.\n\"all\" needs safetensors or text; npy is one dense table.",
		.opts = opts, .nopts = CTL_COUNT(opts), .min_args = 1, .max_args = 1,
		.examples = "  ps-ctl export all > model.safetensors\n  ps-ctl export w -o npy > w.npy\n",
	},
	run,
};
