#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "conf/conf_key.h"
#include "ctl.h"

struct options {
	const char *model;
};

static const struct opt opts[] = {
	{ "model", 'm', OPT_STR, offsetof(struct options, model), "MODEL",
	  "what to train (mlp; see ps-ctl list models)", NULL, 0, 0 },
};

/* A new file, or ERR_EXISTS. */
static enum err_code write_new(const char *path, const char *text, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	enum err_code rc;

	if (fd < 0 && errno == EEXIST)
		return err_set(e, ERR_EXISTS, "%s exists already, and is left as it is", path);
	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot write %s", path);
	rc = fd_write_all(fd, text, strlen(text), e);
	if (close(fd) != 0 && rc == ERR_OK)
		rc = err_sys(e, ERR_IO, "cannot write %s", path);
	if (rc != ERR_OK)
		unlink(path);
	return rc;
}

static void describe(const char *path, const json_t *value, struct buf *out)
{
	const struct conf_key *k = conf_key_find(path, NULL);
	char *text = json_text(value);

	buf_printf(out, "- `%s`: `%s`. ", path, text);
	if (k) {
		buf_printf(out, "%c%s", k->help[0] - (k->help[0] >= 'a' && k->help[0] <= 'z' ? 32 : 0),
		           k->help + 1);
		buf_printf(out, " (%s", conf_type_name(k->type));
		if (k->choices)
			buf_printf(out, ": %s", k->choices);
		if (*k->deflt)
			buf_printf(out, "; default %s", k->deflt);
		buf_puts(out, ").");
	}
	buf_puts(out, "\n");
	free(text);
}

/* Says of every key in the file what it does. */
static void readme(const char *file_text, struct buf *out)
{
	json_t *file = json_loads(file_text, 0, NULL), *value, *member;
	const char *key, *name;

	buf_puts(out, "# cluster.json\n\nThe keys of the cluster file, with their values here:\n\n");
	json_object_foreach(file, key, value) {
		if (!json_is_object(value)) {
			describe(key, value, out);
			continue;
		}
		json_object_foreach(value, name, member) {
			char *path = mem_printf("%s.%s", key, name);

			describe(path, member, out);
			free(path);
		}
	}
	buf_puts(out, "\n`ps-ctl list options` lists all keys, `ps-ctl show KEY` tells more of one.\n\n"
	         "    ps-ctl run cluster                      train, print the result, end\n"
	         "    ps-ctl run cluster --set lr=0.01        the same with one key changed\n"
	         "    ps-ctl start cluster                    train in the background\n"
	         "    ps-ctl wait --for done && ps-ctl stop\n\n"
	         "The run directory `cluster.run` holds logs, keys, `result.json` and, at the end,\n"
	         "the model: `model.safetensors`.\n");
	json_decref(file);
}

/* What is still missing before `run` can work. */
static void next_step(const char *dir, const char *file, const char *text)
{
	json_t *o = json_loads(text, 0, NULL);
	const char *data = json_str(json_object_get(o, "job"), "data", "");
	char *path = path_join(dir, data);

	if (access(path, R_OK) != 0 && strncmp(data, "/usr/share/datasets/", 20) == 0)
		fprintf(stderr, "next: apt install dataset-fashion-mnist, then ps-ctl run %s\n", file);
	else if (access(path, R_OK) != 0)
		fprintf(stderr, "next: put your data into %s (or set job.data in %s), then ps-ctl run %s\n",
		        path, file, file);
	else
		fprintf(stderr, "next: ps-ctl run %s\n", file);
	free(path);
	json_decref(o);
}

static enum err_code make(const char *dir, const char *text, struct err *e)
{
	char *file = path_join(dir, "cluster.json"), *notes = path_join(dir, "README.md");
	struct buf about = BUF_INIT;
	enum err_code rc = file_mkdirs(dir, 0777, e);

	if (rc == ERR_OK)
		rc = write_new(file, text, e);
	if (rc == ERR_OK) {
		fprintf(stderr, "wrote %s\n", file);
		readme(text, &about);
		rc = write_new(notes, (char *)about.data, e);
		if (rc == ERR_OK)
			fprintf(stderr, "wrote %s\n", notes);
		else if (rc == ERR_EXISTS)
			fprintf(stderr, "%s\n", e->msg);
		/* A README of the user's own is no reason to fail. */
		rc = rc == ERR_EXISTS ? ERR_OK : rc;
	}
	if (rc == ERR_OK)
		next_step(dir, file, text);
	buf_release(&about);
	free(file);
	free(notes);
	return rc;
}

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .model = "mlp" };
	struct err e = { 0 };
	enum err_code rc;
	int nargs, code;
	char *text;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	text = conf_template(o.model, &e);
	if (!text)
		return ctl_misuse(self, "%s", e.msg);
	rc = make(nargs > 0 ? argv[1] : ".", text, &e);
	free(text);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

const struct ctl_cmd ctl_cmd_init = {
	"init",
	{
		.prog = "ps-ctl init", .args = "[DIR]",
		.about = "write a cluster file to begin with, and what its keys mean",
		.more = "Writes DIR/cluster.json (the current directory unless given) and a README.md "
		        "beside it that\nexplains every key of it.  Files that exist are never overwritten.",
		.opts = opts, .nopts = CTL_COUNT(opts), .max_args = 1,
		.examples = "  ps-ctl init --model logistic clicks && ps-ctl run clicks/cluster\n",
	},
	run,
};
