/* SPDX-License-Identifier: ISC */
#include "conf/conf_data.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/data_uri.h"

/* A key, its value in a job, and the option of a path. */
struct pair {
	const char *name, *key, *option;
};
#define PAIRS 12

static void list_pairs(const struct conf_job *job, const struct data_options *o,
    struct pair out[static PAIRS])
{
	const struct pair all[PAIRS] = {
		{ "format", job->format, o->format },
		{ "label", job->label, o->label },
		{ "weight", job->weight, o->weight },
		{ "ignore", job->ignore, o->ignore },
		{ "categories", job->categories, o->categories },
		{ "columns", job->columns, o->columns },
		{ "id", job->id, o->id },
		{ "missing", job->missing, o->missing },
		{ "user", job->user, o->user },
		{ "item", job->item, o->item },
		{ "rating", job->rating, o->rating },
		{ "positive", job->positive, o->positive },
	};

	memcpy(out, all, sizeof all);
}

/* Appends an option, with the characters that have a meaning in a path as %XX. */
static void append_option(struct buf *out, const struct pair *p, bool first)
{
	buf_printf(out, "%c%s=", first ? '?' : '&', p->name);
	for (const char *at = p->key; *at; at++)
		buf_printf(out, strchr("%&?#+ ", *at) ? "%%%02X" : "%c", (unsigned char)*at);
}

static enum err_code refuse_contradiction(const char *of, const char *path, const struct pair *p,
    struct err *e)
{
	return err_set(e, ERR_CONFIG,
	    "%s: %s has %s=%s, but job.%s is \"%s\": remove one of them", of, path, p->name,
	    p->option, p->name, p->key);
}

/* One path with the options that the keys give, in a new string. */
static enum err_code complete_path(const struct conf_job *job, const char *path, char **out,
    struct err *e)
{
	struct data_options o;
	struct pair pair[PAIRS];
	struct buf text = BUF_INIT;
	char *file;
	enum err_code rc = data_uri_parse(path, &file, &o, e);
	bool plain;

	*out = NULL;
	if (rc)
		return err_prefix(e, "job.data");
	plain = strcmp(file, path) == 0;
	buf_puts(&text, path);
	list_pairs(job, &o, pair);
	for (size_t i = 0; !rc && i < PAIRS; i++) {
		const struct pair *p = &pair[i];

		if (!conf_is_named(p->key))
			continue;
		/* user= and others set the format by themselves. */
		if (p->option && strcmp(p->option, p->key) != 0) {
			rc = refuse_contradiction("job.data", path, p, e);
		} else if (!p->option) {
			append_option(&text, p, plain);
			plain = false;
		}
	}
	free(file);
	data_uri_release(&o);
	/* The values of the keys are checked as those of options. */
	if (!rc) {
		rc = data_uri_parse((const char *)text.data, &file, &o, e);
		if (!rc) {
			free(file);
			data_uri_release(&o);
		}
	}
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

enum err_code conf_data_check_eval(const struct conf_job *job, struct err *e)
{
	static const char *const of_meaning[] = { "weight", "missing", "positive" };
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < job->eval.n; i++) {
		struct data_options o;
		struct pair pair[PAIRS];
		char *file;

		rc = data_uri_parse(job->eval.item[i], &file, &o, e);
		if (rc)
			return err_prefix(e, "job.eval");
		list_pairs(job, &o, pair);
		for (size_t k = 0; !rc && k < PAIRS; k++)
			for (size_t m = 0; !rc && m < sizeof of_meaning / sizeof of_meaning[0]; m++)
				if (strcmp(pair[k].name, of_meaning[m]) == 0 &&
				    conf_is_named(pair[k].key) && pair[k].option &&
				    strcmp(pair[k].option, pair[k].key) != 0)
					rc = refuse_contradiction("job.eval", job->eval.item[i],
					    &pair[k], e);
		free(file);
		data_uri_release(&o);
	}
	return rc;
}
