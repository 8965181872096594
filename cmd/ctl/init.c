/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/conf_data.h"
#include "conf/conf_key.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/utf8.h"
#include "ctl.h"
#include "data/source/data_uri.h"
#include "init_data.h"
#include "supervisor/rsh.h"

struct options {
	const char *model, *data, *eval;
	struct opt_list set;
	bool fast;
};

static const struct opt opts[] = {
	{ "model", 'm', OPT_STR, offsetof(struct options, model), "MODEL",
	    "the model to train (mlp, or by --data and a trial; see ps-ctl list models)", NULL, 0,
	    0 },
	{ "data", 'd', OPT_STR, offsetof(struct options, data), "FILE",
	    "training data, by which the model and its settings are chosen", NULL, 0, 0 },
	{ "eval", 0, OPT_STR, offsetof(struct options, eval), "FILE", "evaluation data", NULL, 0,
	    0 },
	{ "set", 's', OPT_LIST, offsetof(struct options, set), "KEY=VALUE",
	    "write a key of the file (repeatable)", NULL, 0, 0 },
	{ "fast", 0, OPT_FLAG, offsetof(struct options, fast), NULL,
	    "choose the model by the labels alone, without a trial on a sample of --data", NULL, 0,
	    0 },
};

/* Writes a new file. Returns ERR_EXISTS, and changes nothing, when there is one. */
static enum err_code write_new_file(const char *path, const char *text, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	enum err_code rc;

	if (fd < 0 && errno == EEXIST)
		return err_set(e, ERR_EXISTS, "%s exists already and is not changed", path);
	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot write %s", path);
	rc = file_write_all(fd, text, strlen(text), e);
	if (rc != ERR_OK)
		err_prefix(e, "%s", path);
	if (close(fd) != 0 && rc == ERR_OK)
		rc = err_sys(e, ERR_IO, "cannot write %s", path);
	if (rc != ERR_OK)
		unlink(path);
	return rc;
}

static void describe_option(const char *path, const json_t *value, struct buf *out)
{
	const struct conf_key *k = conf_key_find(path, NULL);
	char *text = json_text(value);

	buf_printf(out, "- `%s`: `%s`. ", path, text);
	if (k) {
		buf_printf(out, "%c%s",
		    k->help[0] - (k->help[0] >= 'a' && k->help[0] <= 'z' ? 32 : 0), k->help + 1);
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

/* Lists the keys that the file leaves to the model and its update rule, with the values in
 * force. */
static void describe_defaults(const json_t *file, struct buf *out)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);
	struct conf c;

	if (conf_from_json(file, &c, NULL) != ERR_OK)
		return;
	buf_puts(out,
	    "\nThe model and its update rule decide these keys unless the file does:\n\n");
	for (size_t i = 0; i < n; i++) {
		json_t *value = conf_key_derives(&k[i]) && !conf_given(&c, &k[i])
		    ? conf_value_json(&k[i], &c)
		    : NULL;

		if (value)
			describe_option(k[i].path, value, out);
		json_decref(value);
	}
	conf_release(&c);
}

/* Writes a README that explains every key in the cluster file. */
static void write_readme(const char *file_text, struct buf *out)
{
	json_t *file = json_loads(file_text, 0, NULL), *value, *member;
	const char *key, *name;

	buf_puts(out,
	    "# cluster.json\n\nThe keys of the cluster file, with their values here:\n\n");
	json_object_foreach(file, key, value) {
		if (!json_is_object(value)) {
			describe_option(key, value, out);
			continue;
		}
		json_object_foreach(value, name, member) {
			char *path = mem_printf("%s.%s", key, name);

			describe_option(path, member, out);
			free(path);
		}
	}
	describe_defaults(file, out);
	buf_puts(out,
	    "\n`ps-ctl list options` lists all keys, `ps-ctl show KEY` describes one.\n\n"
	    "    ps-ctl run cluster                      train, print the result, end\n"
	    "    ps-ctl run cluster --set epochs=3       the same with one key changed\n"
	    "    ps-ctl start cluster                    train in the background\n"
	    "    ps-ctl wait --for done && ps-ctl stop\n\n"
	    "The run directory `cluster.run` holds logs, keys, `result.json` and, at the end,\n"
	    "the model: `model.safetensors`.\n");
	json_decref(file);
}

/* Tells the user what to do before `ps-ctl run` can work. */
static void print_next_step(const char *dir, const char *file, const char *text)
{
	json_t *o = json_loads(text, 0, NULL);
	const char *data = json_str(json_object_get(o, "job"), "data", "");
	char *path = conf_path_from(dir, data), *name = NULL;
	bool found = conf_path_check("job.data", path, NULL) == ERR_OK;
	struct data_options options;
	struct buf word = BUF_INIT;

	rsh_quote(file, &word);

	/* Without its options, as "?format=ratings". */
	if (data_uri_parse(path, &name, &options, NULL) == ERR_OK)
		data_uri_release(&options);
	if (!found && strncmp(data, "/usr/share/datasets/", 20) == 0)
		fprintf(stderr, "next: apt install dataset-fashion-mnist, then ps-ctl run %s\n",
		    (char *)word.data);
	else if (!found)
		fprintf(stderr,
		    "next: put your data into %s (or set job.data in %s), then ps-ctl run %s\n",
		    name ? name : path, file, (char *)word.data);
	else
		fprintf(stderr, "next: ps-ctl run %s\n", (char *)word.data);
	buf_release(&word);
	free(path);
	free(name);
	json_decref(o);
}

/* Writes cluster.json and README.md into dir. An existing cluster.json is an error, an existing
 * README.md is not. */
static enum err_code init_directory(const char *dir, const char *text, struct err *e)
{
	char *file = path_join(dir, "cluster.json"), *notes = path_join(dir, "README.md");
	struct buf about = BUF_INIT;
	enum err_code rc = file_mkdirs(dir, 0777, e);

	if (rc == ERR_OK)
		rc = write_new_file(file, text, e);
	if (rc == ERR_OK) {
		fprintf(stderr, "wrote %s\n", file);
		write_readme(text, &about);
		rc = write_new_file(notes, (char *)about.data, e);
		if (rc == ERR_OK)
			fprintf(stderr, "wrote %s\n", notes);
		else if (rc == ERR_EXISTS)
			fprintf(stderr, "%s\n", e->msg);
		/* Keep a README that the user has written. */
		rc = rc == ERR_EXISTS ? ERR_OK : rc;
	}
	if (rc == ERR_OK)
		print_next_step(dir, file, text);
	buf_release(&about);
	free(file);
	free(notes);
	return rc;
}

/* The path as the cluster file in dir must have it: paths there are relative to the file. NULL for
 * NULL. */
static char *path_from(const char *dir, const char *path)
{
	char *here = path && dir && path[0] != '/' && !strstr(path, "://") &&
	        !conf_path_is_stdin(path)
	    ? getcwd(NULL, 0)
	    : NULL,
	     *whole = here ? path_join(here, path)
	    : path         ? mem_strdup(path)
	                   : NULL;

	free(here);
	return whole;
}

/* A cluster file is UTF-8, and so are the paths in it. path may be NULL. */
static enum err_code check_encoding(const char *path, struct err *e)
{
	if (!path || utf8_is_clean(path, strlen(path)))
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "%s: a cluster file cannot name it, because its name is not UTF-8; rename it, or make "
	    "a link with another name",
	    path);
}

/* Adds the keys of --set that are options of the data to the path. Frees the old path; NULL is fine. */
static char *add_data_settings(char *path, const struct opt_list *set)
{
	for (size_t i = 0; path && i < set->n; i++) {
		const char *key = set->item[i], *eq;
		char *name, *more;

		key += strncmp(key, "job.", 4) == 0 ? 4 : 0;
		eq = strchrnul(key, '=');
		name = mem_printf("%.*s", (int)(eq - key), key);
		if (*eq && eq[1] && conf_data_has_key(name)) {
			more = conf_data_add_option(path, name, eq + 1);
			free(path);
			path = more;
		}
		free(name);
	}
	return path;
}

/* Makes the text of the cluster file by looking at the data. NULL, with an error. */
static char *data_template(const struct options *o, const char *dir, struct err *e)
{
	char *data = path_from(dir, o->data), *eval = path_from(dir, o->eval), *text = NULL;

	data = add_data_settings(data, &o->set);
	if (!check_encoding(data, e) && !check_encoding(eval, e) &&
	    (!eval || !conf_path_check("--eval", eval, e)))
		text = init_data_template(&(struct init_request){ data, eval, o->model, o->fast },
		    e);
	free(data);
	free(eval);
	return text;
}

/* The model that --set names; else that of --model, which may be NULL. */
static const char *chosen_model(const struct options *o)
{
	const char *model = o->model;

	for (size_t i = 0; i < o->set.n; i++) {
		const char *set = o->set.item[i];

		set += strncmp(set, "job.", 4) == 0 ? 4 : 0;
		if (strncmp(set, "model=", 6) == 0)
			model = set + 6;
	}
	return model;
}

/* Writes the key of an assignment, which c has taken, into the object of a cluster file. */
static void write_setting(json_t *file, const char *assignment, const struct conf *c)
{
	char *name = mem_printf("%.*s", (int)strcspn(assignment, "="), assignment);
	const struct conf_key *k = conf_key_find(name, NULL);
	json_t *job = json_object_get(file, "job");

	if (k && strncmp(k->path, "job.", 4) == 0)
		json_object_set_new(job, k->path + 4, conf_value_json(k, c));
	else if (k)
		json_object_set_new(file, k->path, conf_value_json(k, c));
	free(name);
}

/* Returns the text with the keys that --set names, and frees the old one. NULL, with an error: a
 * key is wrong. */
static char *apply_settings(char *text, const struct opt_list *set, struct err *e)
{
	json_t *file = text && set->n ? json_loads(text, 0, NULL) : NULL;
	char *dump, *out = NULL;
	struct conf c;
	enum err_code rc;

	if (!file)
		return text;
	rc = conf_from_json(file, &c, e);
	for (size_t i = 0; !rc && i < set->n; i++) {
		rc = conf_set(&c, set->item[i], e);
		if (!rc)
			write_setting(file, set->item[i], &c);
		else
			err_prefix(e, "--set %s", set->item[i]);
	}
	if (!rc) {
		dump = json_dumps(file, JSON_INDENT(8) | JSON_REAL_PRECISION(6));
		out = mem_printf("%s\n", dump);
		free(dump);
	}
	conf_release(&c);
	json_decref(file);
	free(text);
	return out;
}

static int run_init(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct err e = { 0 };
	enum err_code rc;
	int nargs, code;
	char *text;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (o.eval && !o.data)
		return ctl_report_misuse(self, "--eval requires --data");
	o.model = chosen_model(&o);
	if (o.model && conf_model_check(o.model, &e) != ERR_OK)
		return ctl_report_misuse(self, "%s", e.msg);
	text = o.data ? data_template(&o, nargs > 0 ? argv[1] : NULL, &e)
	              : conf_template(o.model ? o.model : "mlp", &e);
	text = apply_settings(text, &o.set, &e);
	opt_list_release(&o.set);
	if (!text)
		return ctl_fail(&e);
	rc = init_directory(nargs > 0 ? argv[1] : ".", text, &e);
	free(text);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

const struct ctl_cmd ctl_cmd_init = {
	"init",
	{
	    .prog = "ps-ctl init",
	    .args = "[DIR]",
	    .about = "write an initial cluster file, and an explanation of its keys",
	    .more = "Writes DIR/cluster.json (default: in the current directory) and a README.md\n"
	            "beside it that explains all its keys.  Existing files are never overwritten.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = 1,
	    .examples = "  ps-ctl init --model logistic clicks && ps-ctl run clicks/cluster\n"
	                "  ps-ctl init --data adult.data && ps-ctl run cluster\n"
	                "  ps-ctl init --data adult.data --fast --set epochs=3 quick\n",
	},
	run_init,
};
