/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "format/uri.h"
#include "store.h"

struct options {
	int64_t timeout;
	const char *range, *match;
	bool json;
};

static const struct opt opts[] = {
	CTL_OPT_TIMEOUT(struct options, timeout,
	    "fail if the store sends nothing for this time (60s)"),
	{ .name = "range",
	    .kind = OPT_STR,
	    .offset = offsetof(struct options, range),
	    .arg = "BEGIN-END",
	    .help = "cat: only the bytes from BEGIN, counted from 0, up to but excluding END" },
	{ .name = "if-match",
	    .kind = OPT_STR,
	    .offset = offsetof(struct options, match),
	    .arg = "VERSION",
	    .help = "cat: only this version of the object, as stat --json shows it" },
	CTL_OPT_JSON(struct options, json),
};

/* ---- cat ---- */

static enum err_code write_to_stdout(void *ctx, const void *p, size_t n, struct err *e)
{
	(void)ctx;
	return file_write_all(STDOUT_FILENO, p, n, e);
}

/* Returns the name of an object, to be freed: the word, or for "-" the first line of standard
 * input. Other users can see a process's arguments, but not its input, so that a name may contain
 * a secret. */
static char *read_object_name(const char *word)
{
	char *line = NULL;
	size_t cap = 0;

	if (strcmp(word, "-") != 0)
		return mem_strdup(word);
	if (getline(&line, &cap, stdin) < 0) {
		free(line);
		return mem_strdup("");
	}
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* Parses "BEGIN-END"; *end becomes 0 for NULL. */
static enum err_code parse_range(const char *text, uint64_t *begin, uint64_t *end, struct err *e)
{
	const char *dash = text ? strchr(text, '-') : NULL;
	char *first = dash ? mem_printf("%.*s", (int)(dash - text), text) : NULL;
	bool good = !text ||
	    (dash && num_uint(first, INT64_MAX, begin) && num_uint(dash + 1, INT64_MAX, end) &&
	        *begin < *end);

	if (!text)
		*begin = *end = 0;
	free(first);
	return good ? ERR_OK
	            : err_set(e, ERR_CONFIG,
	                  "--range: must be BEGIN-END with BEGIN less than END, got \"%s\"", text);
}

static enum err_code cat_object(struct object_client *c, const struct options *o, char **args,
    struct err *e)
{
	struct object_part part = { .version = o->match };
	enum err_code rc = parse_range(o->range, &part.begin, &part.end, e);
	char *name = read_object_name(args[0]);

	if (!rc)
		rc = object_get_part(c, name, &part, write_to_stdout, NULL, e);
	free(name);
	return rc;
}

/* ---- stat ---- */

static enum err_code stat_object(struct object_client *c, const struct options *o, char **args,
    struct err *e)
{
	struct object_facts f;
	char *name = read_object_name(args[0]), first[2 * sizeof f.first + 1] = "";
	enum err_code rc = object_stat(c, name, &f, e);
	json_t *line;

	for (size_t i = 0; !rc && i < f.nfirst; i++)
		snprintf(first + 2 * i, 3, "%02x", f.first[i]);
	if (!rc && o->json) {
		line = json_pack("{s:s, s:I, s:b, s:s, s:s}", "name", name, "size_bytes",
		    (json_int_t)f.size, "ranges", f.ranges, "first", first, "version", f.version);
		json_print_event("object", line);
		json_decref(line);
	} else if (!rc) {
		printf("%14llu  %s\n", (unsigned long long)f.size, name);
	}
	free(name);
	return rc;
}

/* ---- ls ---- */

struct listing {
	const struct options *o;
	const char *before;
};

static enum err_code print_object(void *ctx, const char *rest, uint64_t size, struct err *e)
{
	const struct listing *l = ctx;
	json_t *line;

	(void)e;
	if (l->o->json) {
		line = json_pack("{s:o, s:I}", "name", json_sprintf("%s%s", l->before, rest),
		    "size_bytes", (json_int_t)size);
		json_print_event("object", line);
		json_decref(line);
	} else {
		printf("%14llu  %s%s\n", (unsigned long long)size, l->before, rest);
	}
	return ERR_OK;
}

static enum err_code list_objects(struct object_client *c, const struct options *o, char **args,
    struct err *e)
{
	char *name = read_object_name(args[0]);
	struct listing l = { o, uri_is_pattern(name) ? "" : name };
	enum err_code rc = uri_is_pattern(name) ? object_match(c, name, print_object, &l, e)
	                                        : object_list(c, name, print_object, &l, e);

	free(name);
	return rc;
}

/* ---- put and rm ---- */

static enum err_code upload_object(struct object_client *c, const struct options *o, char **args,
    struct err *e)
{
	(void)o;
	return store_put_file(c, strcmp(args[0], "-") == 0 ? NULL : args[0], args[1], e);
}

static enum err_code remove_object(struct object_client *c, const struct options *o, char **args,
    struct err *e)
{
	(void)o;
	return object_remove(c, args[0], e);
}

static const struct action {
	const char *name;
	int operands;
	const char *wants;
	enum err_code (
	    *run)(struct object_client *c, const struct options *o, char **args, struct err *e);
} actions[] = {
	{ "ls", 1, "one name, prefix or pattern", list_objects },
	{ "cat", 1, "one name", cat_object },
	{ "stat", 1, "one name", stat_object },
	{ "put", 2, "FILE (or -) and s3://BUCKET/KEY", upload_object },
	{ "rm", 1, "one name", remove_object },
};

static int run_object(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = STORE_TIMEOUT };
	struct object_client *c = NULL;
	const struct action *a;
	struct err e = { 0 };
	enum err_code rc;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	a = CTL_ACTION(self, argv[1], actions);
	if (!a)
		return 2;
	if (nargs - 1 != a->operands)
		return ctl_report_misuse(self, "%s takes %s", a->name, a->wants);
	if (a->run != cat_object && (o.range || o.match))
		return ctl_report_misuse(self, "--range and --if-match can only be used with cat");
	rc = store_open(o.timeout, &c, &e);
	if (rc == ERR_OK)
		rc = a->run(c, &o, argv + 2, &e);
	object_client_free(c);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

const struct ctl_cmd ctl_cmd_object = {
	"object",
	{
	    .prog = "ps-ctl object",
	    .args = "ls NAME | cat NAME | stat NAME | put FILE NAME | rm NAME",
	    .about = "list, read, write and remove objects of s3:// and https://",
	    .more =
	        "These are the objects that job.data, job.eval and checkpoint_to can name. The command shows\n"
	        "whether the keys and the name are right, and whether the store answers. ls accepts only s3://\n"
	        "names, and lists all objects that begin with the name or match it as a pattern. put reads FILE, or\n"
	        "standard input for -. The object appears only when it is complete.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 3,
	    .examples =
	        "  ps-ctl object ls s3://bucket/data/\n  ps-ctl object cat https://host/train.csv.gz | zcat | head\n"
	        "  ps-ctl export all | ps-ctl object put - s3://bucket/model.safetensors\n",
	},
	run_object,
};
