/* SPDX-License-Identifier: ISC */
#include "conf/conf_data.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/source/data_option.h"
#include "data/source/data_uri.h"

/* A key of a job that is an option of its data, too. */
struct data_key {
	const char *name;
	size_t at; /* of its value in struct conf_job */
};
#define DATA_KEY(name) \
	{ \
#name, offsetof(struct conf_job, name) \
	}
static const struct data_key keys[] = { DATA_KEY(format), DATA_KEY(label), DATA_KEY(weight),
	DATA_KEY(ignore), DATA_KEY(categories), DATA_KEY(text), DATA_KEY(text_weight),
	DATA_KEY(lists), DATA_KEY(columns), DATA_KEY(id), DATA_KEY(missing), DATA_KEY(user),
	DATA_KEY(item), DATA_KEY(rating), DATA_KEY(positive), DATA_KEY(bits), DATA_KEY(norm),
	DATA_KEY(pairs) };
#define KEYS (sizeof keys / sizeof keys[0])

static const char *key_value(const struct conf_job *job, const struct data_key *k)
{
	const char *value;

	memcpy(&value, (const char *)job + k->at, sizeof value);
	return value;
}

bool conf_data_has_key(const char *option)
{
	for (size_t i = 0; i < KEYS; i++)
		if (strcmp(keys[i].name, option) == 0)
			return true;
	/* Not one of all paths: a path has another scaling than the job without a contradiction. */
	return strcmp(option, "scale") == 0;
}

/* Appends an option, with the characters that have a meaning in a path as %XX. */
static void append_option(struct buf *out, const char *name, const char *value, bool first)
{
	buf_printf(out, "%c%s=", first ? '?' : '&', name);
	for (const char *at = value; *at; at++)
		buf_printf(out, strchr("%&?#+ ", *at) ? "%%%02X" : "%c", (unsigned char)*at);
}

char *conf_data_add_option(const char *path, const char *option, const char *value)
{
	struct data_options o;
	struct buf out = BUF_INIT;
	char *file = NULL;
	bool has = data_uri_parse(path, &file, &o, NULL) == ERR_OK && strcmp(file, path) != 0;

	buf_puts(&out, path);
	append_option(&out, option, value, !has);
	free(file);
	data_uri_release(&o);
	return (char *)out.data;
}

char *conf_data_move_options(const char *path, conf_data_take_fn *take, void *ctx, struct err *e)
{
	struct data_options o;
	struct buf out = BUF_INIT, value = BUF_INIT;
	char *file;
	bool first = true;

	if (data_uri_parse(path, &file, &o, e))
		return NULL;
	buf_puts(&out, file);
	for (const char *at = path + strlen(file); *at;) {
		size_t n = strcspn(at + 1, "&");
		char *name = mem_printf("%.*s", (int)strcspn(at + 1, "="), at + 1);

		if (conf_data_has_key(name)) {
			/* The value may be the default, which is not set. */
			value.len = 0;
			if (data_option_value(&o, name, &value))
				take(ctx, name, (const char *)value.data);
		} else if (n) {
			buf_printf(&out, "%c%.*s", first ? '?' : '&', (int)n, at + 1);
			first = false;
		}
		free(name);
		at += 1 + n;
	}
	buf_release(&value);
	free(file);
	data_uri_release(&o);
	return (char *)out.data;
}

/* Does the job lack an option that another path had? */
static bool lacks_option(const struct conf_job *job, const char *name)
{
	static const char *const of_one_path[] = { "labels", "follow", "from", "properties",
		"deleted", "head" };

	for (size_t i = 0; i < sizeof of_one_path / sizeof of_one_path[0]; i++)
		if (strcmp(of_one_path[i], name) == 0)
			return false;
	for (size_t i = 0; i < KEYS; i++)
		if (strcmp(keys[i].name, name) == 0 && conf_is_named(key_value(job, &keys[i])))
			return false;
	return true;
}

/* Returns the place where the options of a path begin: its end, if it has none or wrong ones. */
static const char *find_options(const char *path)
{
	struct data_options o;
	char *file;
	size_t n = strlen(path);

	if (!data_uri_parse(path, &file, &o, NULL)) {
		n = strlen(file);
		free(file);
		data_uri_release(&o);
	}
	return path + n;
}

char *conf_data_lost_options(const struct conf_job *before, const struct conf_job *now)
{
	struct buf out = BUF_INIT;

	if (!before->data.n || !now->data.n || *find_options(now->data.item[0]))
		return NULL;
	for (const char *at = find_options(before->data.item[0]); *at;) {
		size_t n = strcspn(at + 1, "&");
		char *name = mem_printf("%.*s", (int)strcspn(at + 1, "="), at + 1);

		if (n && lacks_option(now, name))
			buf_printf(&out, "%c%.*s", out.len ? '&' : '?', (int)n, at + 1);
		free(name);
		at += 1 + n;
	}
	return (char *)out.data;
}

static enum err_code refuse_contradiction(const char *of, const char *path,
    const struct data_key *k, const char *option, const char *value, struct err *e)
{
	return err_set(e, ERR_CONFIG, "%s: %s has %s=%s, but job.%s is \"%s\": remove one of them",
	    of, path, k->name, option, k->name, value);
}

/* One path with the options that the keys give, in a new string. */
static enum err_code complete_path(const struct conf_job *job, const char *path, char **out,
    struct err *e)
{
	struct data_options o;
	struct buf text = BUF_INIT, option = BUF_INIT;
	char *file;
	enum err_code rc = data_uri_parse(path, &file, &o, e);
	bool plain;

	*out = NULL;
	if (rc)
		return err_prefix(e, "job.data");
	plain = strcmp(file, path) == 0;
	buf_puts(&text, path);
	for (size_t i = 0; !rc && i < KEYS; i++) {
		const char *value = key_value(job, &keys[i]);

		option.len = 0;
		if (!conf_is_named(value))
			continue;
		/* user= and others set the format by themselves. */
		if (!data_option_value(&o, keys[i].name, &option)) {
			append_option(&text, keys[i].name, value, plain);
			plain = false;
		} else if (strcmp((const char *)option.data, value) != 0) {
			rc = refuse_contradiction("job.data", path, &keys[i],
			    (const char *)option.data, value, e);
		}
	}
	free(file);
	data_uri_release(&o);
	/* The values of the keys are checked as the values of options are. */
	if (!rc) {
		rc = data_uri_parse((const char *)text.data, &file, &o, e);
		if (!rc) {
			free(file);
			data_uri_release(&o);
		}
	}
	buf_release(&option);
	if (rc) {
		buf_release(&text);
		return rc;
	}
	*out = (char *)text.data;
	return ERR_OK;
}

enum err_code conf_data_paths(const struct conf_job *job, const char *const *path, size_t n,
    struct conf_strs *out, struct err *e)
{
	enum err_code rc = ERR_OK;

	*out = (struct conf_strs){ mem_array(n + 1, sizeof *out->item), 0 };
	while (!rc && out->n < n) {
		rc = complete_path(job, path[out->n], &out->item[out->n], e);
		out->n += !rc;
	}
	if (rc)
		conf_data_release(out);
	return rc;
}

void conf_data_release(struct conf_strs *paths)
{
	for (size_t i = 0; i < paths->n; i++)
		free(paths->item[i]);
	free(paths->item);
	*paths = (struct conf_strs){ 0 };
}

/* Is a value the name of a column, rather than its number? */
static bool is_name(const char *value)
{
	return strspn(value, "0123456789") != strlen(value) && strcmp(value, "last") != 0;
}

/* Does an option of evaluation data contradict a key? Options that tell where a file has its
 * columns may differ, and so may the numbers of columns; readers compare the others with the
 * description of the training data. */
static bool contradicts(const char *name, const char *option, const char *value)
{
	static const char *const of_files[] = { "format", "columns", "id", "user", "item",
		"rating" };

	for (size_t i = 0; i < sizeof of_files / sizeof of_files[0]; i++)
		if (strcmp(name, of_files[i]) == 0)
			return false;
	if (strcmp(name, "label") == 0 && !(is_name(option) && is_name(value)))
		return false;
	return strcmp(option, value) != 0;
}

/* The options that evaluation data are compared with: for each key its value, or the value in the
 * first path. */
struct held {
	char *value[KEYS]; /* NULL: neither has it */
};

static enum err_code find_held(const struct conf_job *job, struct held *h, struct err *e)
{
	struct data_options o = DATA_OPTIONS_INIT;
	char *file = NULL;

	*h = (struct held){ { 0 } };
	if (job->data.n && data_uri_parse(job->data.item[0], &file, &o, e))
		return err_prefix(e, "job.data");
	for (size_t k = 0; k < KEYS; k++) {
		const char *value = key_value(job, &keys[k]);
		struct buf option = BUF_INIT;

		if (conf_is_named(value))
			h->value[k] = mem_strdup(value);
		else if (data_option_value(&o, keys[k].name, &option))
			h->value[k] = mem_strdup((const char *)option.data);
		buf_release(&option);
	}
	free(file);
	data_uri_release(&o);
	return ERR_OK;
}

static enum err_code check_eval_path(const struct conf_job *job, const char *path,
    const struct held *h, struct err *e)
{
	struct data_options o;
	char *file;
	enum err_code rc = data_uri_parse(path, &file, &o, e);

	if (rc)
		return err_prefix(e, "job.eval");
	for (size_t k = 0; !rc && k < KEYS; k++) {
		struct buf option = BUF_INIT;

		if (h->value[k] && data_option_value(&o, keys[k].name, &option) &&
		    contradicts(keys[k].name, (const char *)option.data, h->value[k]))
			rc = conf_is_named(key_value(job, &keys[k]))
			    ? refuse_contradiction("job.eval", path, &keys[k],
			          (const char *)option.data, h->value[k], e)
			    : err_set(e, ERR_CONFIG,
			          "job.eval: %s has %s=%s, but %s has %s=%s: give evaluation data the "
			          "options of the training data",
			          path, keys[k].name, (const char *)option.data, job->data.item[0],
			          keys[k].name, h->value[k]);
		buf_release(&option);
	}
	free(file);
	data_uri_release(&o);
	return rc;
}

enum err_code conf_data_check_eval(const struct conf_job *job, struct err *e)
{
	struct held held;
	enum err_code rc = job->eval.n ? find_held(job, &held, e) : ERR_OK;

	for (size_t i = 0; !rc && i < job->eval.n; i++)
		rc = check_eval_path(job, job->eval.item[i], &held, e);
	for (size_t k = 0; job->eval.n && k < KEYS; k++)
		free(held.value[k]);
	return rc;
}
