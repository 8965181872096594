/* SPDX-License-Identifier: ISC */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/dirs.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/output.h"
#include "ctl.h"
#include "format/onnx.h"
#include "format/uri.h"
#include "rundir/rundir.h"
#include "saved.h"
#include "saved/saved_model.h"
#include "saved/saved_source.h"
#include "store.h"
#include "tool/export.h"
#include "tool/int8_export.h"
#include "tool/onnx_export.h"

#define MODEL "model.safetensors"

struct options {
	const char *dir, *output, *format, *file;
	int64_t since;           /* -1 when not given */
	uint64_t external_above; /* bytes; 0: not given */
	const char *values;      /* NULL: as they are */
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "output", 'o', OPT_STR, offsetof(struct options, output), "OUTPUT",
	    "a format: safetensors (the default), npy, text or onnx; or a file, whose name ends in "
	    ".safetensors, .npy, .txt or .onnx",
	    NULL, 0, 0 },
	{ "file", 0, OPT_STR, offsetof(struct options, file), "FILE",
	    "write to FILE (or s3:// name), which appears only when it is complete", NULL, 0, 0 },
	{ "since", 0, OPT_INT, offsetof(struct options, since), "STEP",
	    "export only the rows of sparse tables that were updated at STEP or later", NULL, 0,
	    1LL << 53 },
	{ "values", 0, OPT_STR, offsetof(struct options, values), "int8",
	    "safetensors: write the rows of sparse tables with 8 bits a value and a scale a row",
	    NULL, 0, 0 },
	{ "external-above", 0, OPT_SIZE, offsetof(struct options, external_above), "SIZE",
	    "onnx: write the values of a model that is larger than SIZE to FILE.data (2G)", NULL, 1,
	    (double)ONNX_FILE_MAX },
};

/* The source of the model. */
struct source {
	const char *dir;  /* a run directory, or a checkpoint's directory */
	char *checkpoint; /* the checkpoint to read; NULL: none */
	char *file;       /* the model file to read; NULL: that of the run */
	bool living;      /* ask the servers */
};

static void release_source(struct source *from)
{
	free(from->checkpoint);
	free(from->file);
}

/* Writes the rows that changed since a step, and tells the user from which step to go on. */
static enum err_code write_changed_rows(const char *dir, const char *table, int64_t since, int fd,
    struct err *e)
{
	uint64_t step;
	enum err_code rc = export_changes(dir, table, (uint64_t)since, fd, &step, e);

	if (!rc && step == UINT64_MAX)
		fprintf(stderr, "ps-ctl: %s has no sparse table: all of it is exported\n", table);
	else if (!rc)
		fprintf(stderr, "ps-ctl: to export later changes: --since %llu\n",
		    (unsigned long long)step);
	return rc;
}

/* The destination of a conversion of the whole model. */
struct target {
	const struct options *options;
	int fd;
};

/* Writes the model as ONNX. The values of a large one need a file beside it, and a pipe or an object store
 * has none. It is a tool_model_fn. */
static enum err_code write_onnx(void *ctx, const struct tool_model *m, struct err *e)
{
	const struct target *x = ctx;
	const struct options *o = x->options;
	char *data = o->file && !uri_is(o->file) ? mem_printf("%s.data", o->file) : NULL;
	enum err_code rc = onnx_export(m, x->fd, data,
	    o->external_above ? o->external_above : ONNX_FILE_MAX, e);

	free(data);
	return rc;
}

/* A tool_model_fn. */
static enum err_code write_int8(void *ctx, const struct tool_model *m, struct err *e)
{
	return int8_export(m, ((const struct target *)ctx)->fd, e);
}

/* The conversion that the options ask for; NULL: none, because the format has the values as they are. */
static tool_model_fn *find_conversion(const struct options *o)
{
	return strcmp(o->format, "onnx") == 0 ? write_onnx : o->values ? write_int8 : NULL;
}

static enum err_code convert(const struct source *from, const char *model, tool_model_fn *write,
    struct target *to, struct err *e)
{
	if (from->living)
		return tool_with_run(from->dir, "export", write, to, e);
	saved_source_report_cuts();
	return tool_with_saved(from->checkpoint ? from->checkpoint : model, "export", write, to, e);
}

/* Writes the model, or one table of it, to fd, from the source that was found. */
static enum err_code write_model_from(const struct source *from, const char *table,
    const struct options *o, int fd, struct err *e)
{
	const char *format = o->format;
	tool_model_fn *write = find_conversion(o);
	char *model;
	enum err_code rc;

	model = from->file ? mem_strdup(from->file) : rundir_path(from->dir, MODEL);
	if (write)
		rc = convert(from, model, write, &(struct target){ o, fd }, e);
	else if (from->living && o->since >= 0)
		rc = write_changed_rows(from->dir, table, o->since, fd, e);
	else if (from->living)
		rc = export_run(from->dir, table, format, fd, e);
	else if (from->checkpoint)
		rc = saved_export_checkpoint(from->checkpoint, table, format, fd, e);
	else
		rc = saved_export(model, table, format, fd, e);
	free(model);
	return rc;
}

/* Writes the model to a file without a name, then uploads that: a failure leaves no object. */
static enum err_code export_to_store(const struct source *from, const char *table,
    const struct options *o, struct err *e)
{
	int fd = open(from->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct object_client *c = NULL;
	enum err_code rc;

	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot create a file in %s", from->dir);
	rc = write_model_from(from, table, o, fd, e);
	if (!rc && lseek(fd, 0, SEEK_SET) < 0)
		rc = err_sys(e, ERR_IO, "cannot read the temporary file in %s", from->dir);
	if (!rc)
		rc = store_open(STORE_TIMEOUT, &c, e);
	if (!rc)
		rc = object_put(c, o->file, fd, e);
	object_client_free(c);
	close(fd);
	return rc;
}

/* Writes to o->file, which appears only when it is complete: no reader sees half a model. */
static enum err_code export_to_file(const struct source *from, const char *table,
    const struct options *o, struct err *e)
{
	struct file_new f;
	enum err_code rc;

	if (uri_is(o->file))
		return export_to_store(from, table, o, e);
	rc = file_new_open(o->file, 0666, &f, e);

	return rc ? rc : file_new_close(&f, write_model_from(from, table, o, f.fd, e), e);
}

/* ---- which model ---- */

static bool dir_has_file(const char *dir, const char *name)
{
	char *path = rundir_path(dir, name);
	bool has = access(path, F_OK) == 0;

	free(path);
	return has;
}

static void warn_of_damage(void *ctx, const char *path, const char *why)
{
	(void)ctx;
	(void)path;
	fprintf(stderr, "ps-ctl: warning: a newer checkpoint is damaged and was not used: %s\n",
	    why);
}

/* For a run that has ended, chooses the model that it saved, else its newest undamaged
 * checkpoint. */
static enum err_code choose_saved_model(const char *dir, struct source *from, struct err *e)
{
	char *checkpoints = rundir_path(dir, "checkpoints");
	enum err_code rc = ERR_OK;

	if (dir_has_file(dir, MODEL)) {
		fprintf(stderr, "ps-ctl: %s is not running; exporting the model that it saved\n",
		    dir);
	} else {
		rc = ckpt_newest(checkpoints, warn_of_damage, NULL, &from->checkpoint, e);
		if (rc == ERR_NOTFOUND || rc == ERR_FORMAT)
			rc = err_set(e, ERR_NOTFOUND,
			    "the run has saved no model: %s has neither %s nor a whole checkpoint",
			    dir, MODEL);
		else if (rc == ERR_OK)
			fprintf(stderr,
			    "ps-ctl: %s is not running; exporting the model of its newest checkpoint, %s\n",
			    dir, path_basename(from->checkpoint));
	}
	free(checkpoints);
	return rc;
}

/* Is it a model file? */
static bool is_model_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && saved_model_is_named(path);
}

/* Finds where to read the model. -C may also name a checkpoint, a model file, or a copy of a run
 * directory. *dir must be freed. */
static enum err_code find_model_source(const struct options *o, struct source *from, char **dir,
    struct err *e)
{
	const char *named = o->dir ? o->dir : getenv("PS_CLUSTER");
	enum err_code rc;

	*dir = NULL;
	if (named && ckpt_is_there(named)) {
		*dir = mem_strdup(named);
		from->checkpoint = mem_strdup(named);
	} else if (named && is_model_file(named)) {
		*dir = path_dirname(named);
		from->file = mem_strdup(named);
	} else {
		rc = rundir_find_serving(o->dir, dir, e);
		from->living = rc == ERR_OK;
		if (rc == ERR_NOTFOUND && named &&
		    (dir_has_file(named, MODEL) || dir_has_file(named, "checkpoints")))
			*dir = mem_strdup(named);
		else if (rc != ERR_NOTREADY || !*dir)
			return rc;
	}
	if (o->since >= 0)
		return err_set(e, ERR_NOTREADY,
		    "%s is not running, but --since requires running servers", *dir);
	return from->checkpoint || from->file ? ERR_OK : choose_saved_model(*dir, from, e);
}

/* Returns the exit code. Binary output to a terminal is refused before anything is opened. */
static int export_model(const struct ctl_cmd *self, const struct options *o, const char *table)
{
	struct source from = { 0 };
	struct err e = { 0 };
	char *dir = NULL;
	enum err_code rc;

	if (strcmp(table, "all") == 0 && strcmp(o->format, "npy") == 0)
		return ctl_report_misuse(self,
		    "npy can only store one table: name it, or use -o safetensors");
	if (strcmp(table, "all") != 0 && strcmp(o->format, "onnx") == 0)
		return ctl_report_misuse(self,
		    "onnx has the whole model: write \"all\" in place of \"%.60s\"", table);
	if (o->values && strcmp(o->values, "int8") != 0)
		return ctl_report_misuse(self, "--values: must be int8, got \"%.60s\"", o->values);
	if (o->values && (strcmp(table, "all") != 0 || strcmp(o->format, "safetensors") != 0))
		return ctl_report_misuse(self, "--values requires \"all\" and -o safetensors");
	if (o->values && o->since >= 0)
		return ctl_report_misuse(self, "--values cannot be combined with --since");
	if (o->external_above && strcmp(o->format, "onnx") != 0)
		return ctl_report_misuse(self, "--external-above requires -o onnx");
	if (o->since >= 0 && strcmp(o->format, "safetensors") != 0)
		return ctl_report_misuse(self, "--since requires -o safetensors");
	if (!o->file && strcmp(o->format, "text") != 0 && isatty(STDOUT_FILENO))
		return ctl_report_misuse(self, "%s cannot be written to a terminal: add > FILE",
		    o->format);
	rc = find_model_source(o, &from, &dir, &e);
	from.dir = dir;
	if (rc == ERR_OK)
		rc = o->file ? export_to_file(&from, table, o, &e)
		             : write_model_from(&from, table, o, STDOUT_FILENO, &e);
	free(dir);
	release_source(&from);
	/* A reader of standard output that stopped reading, as head does, is not an error. */
	if (rc == ERR_OK || (rc == ERR_IO && !o->file && output_abandoned()))
		return 0;
	return ctl_fail(&e);
}

/* Parses -o: a format, or a file whose suffix tells the format. Returns false when it is
 * neither. */
static bool parse_output(struct options *o)
{
	static const struct {
		const char *format, *suffix;
	} known[] = { { "safetensors", ".safetensors" }, { "npy", ".npy" }, { "text", ".txt" },
		{ "onnx", ".onnx" } };
	size_t n = strlen(o->output);

	for (size_t i = 0; i < CTL_COUNT(known); i++) {
		size_t m = strlen(known[i].suffix);
		bool file = n > m && strcmp(o->output + n - m, known[i].suffix) == 0;

		if (!file && strcmp(o->output, known[i].format) != 0)
			continue;
		o->format = known[i].format;
		if (file)
			o->file = o->output;
		return true;
	}
	return false;
}

static int run_export(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .format = "safetensors", .since = -1 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (o.output && !parse_output(&o))
		return ctl_report_misuse(self,
		    "--output: must be safetensors, npy, text or onnx, or a file whose name ends in "
		    ".safetensors, .npy, .txt or .onnx; got \"%.60s\"",
		    o.output);
	return export_model(self, &o, argv[1]);
}

const struct ctl_cmd ctl_cmd_export = {
	"export",
	{
	    .prog = "ps-ctl export",
	    .args = "TABLE|all",
	    .about = "write the model, or one table of it, to standard output",
	    .more =
	        "The values are those of the servers or, if the cluster is not running, of RUN/model.safetensors\n"
	        "or, if that does not exist, of its newest whole checkpoint. -C may also name the directory of a\n"
	        "checkpoint, or a model file. \"all\" requires safetensors, text or onnx; npy is one dense table.\n"
	        "\n"
	        "onnx scores examples as ps-work predict does, in any runtime of ONNX: of models linear, logistic,\n"
	        "softmax, mlp, fm, ffm, wide_deep, deepfm, dcn and dlrm (ps-models(7)).\n"
	        "\n"
	        "--values int8 is for a read-only server, which then needs 0.3 to 0.5 of the memory.\n"
	        "Tables whose rows have fewer than 8 values, and dense tables, stay as they are.\n"
	        "\n"
	        "--since is for a reader that has the rest. It exports dense tables as a whole, and of a sparse\n"
	        "table TABLE.ids and TABLE, and, if rows were removed since, the ids of all remaining rows as\n"
	        "TABLE.live. The step for the next export is printed.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 1,
	    .examples =
	        "  ps-ctl export all > model.safetensors\n  ps-ctl export w -o w.npy\n"
	        "  ps-ctl export emb --since 0 > all.safetensors\n  ps-ctl export all -o model.onnx\n"
	        "  ps-ctl export all -o small.safetensors --values int8\n"
	        "  ps-ctl -C demo.run/checkpoints/step-000000001000 export all > model.safetensors\n",
	},
	run_export,
};
