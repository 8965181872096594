/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_key.h"
#include "core/json.h"
#include "ctl.h"

struct options {
	const char *dir;
	bool origin, json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "origin", 0, OPT_FLAG, offsetof(struct options, origin), NULL,
	    "add the origin of each value: default, model, rule, file, or set, with the user and the step",
	    NULL, 0, 0 },
	CTL_OPT_JSON(struct options, json),
};

/* Prints "(file)", or "(set by local, from step 120 on)". */
static void print_setting_origin(const json_t *o)
{
	if (strcmp(json_str(o, "origin", ""), "set") == 0 &&
	    !json_is_integer(json_object_get(o, "step")))
		printf("  (set by %s)", json_str(o, "who", ""));
	else if (strcmp(json_str(o, "origin", ""), "set") == 0)
		printf("  (set by %s, from step %lld on)", json_str(o, "who", ""),
		    (long long)json_int(o, "step", 0));
	else
		printf("  (%s)", json_str(o, "origin", ""));
}

static void print_setting(const struct options *o, const char *key, const json_t *row)
{
	const json_t *value = json_object_get(row, "value");
	char *text;
	json_t *line;

	if (o->json) {
		line = json_copy((json_t *)(uintptr_t)row);
		json_object_set_new(line, "key", json_string(key));
		json_print_event("setting", line);
		json_decref(line);
		return;
	}
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
	printf("%s=%s", key, json_is_string(value) ? json_string_value(value) : text);
	if (o->origin)
		print_setting_origin(row);
	putchar('\n');
	free(text);
}

/* Prints the settings that are named, or all when none is. */
static enum err_code print_settings(const struct options *o, char **word, int n, const json_t *all,
    struct err *e)
{
	const char *key;
	json_t *row;

	for (int i = 0; i < n; i++) {
		const struct conf_key *k = conf_key_find(word[i], e);

		if (!k)
			return err_set(e, ERR_NOTFOUND, "%s", e->msg);
		row = json_object_get(all, k->path);
		if (row)
			print_setting(o, k->path, row);
	}
	if (!n)
		json_object_foreach((json_t *)(uintptr_t)all, key, row)
			print_setting(o, key, row);
	return ERR_OK;
}

static int run_get(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	json_t *answer = NULL;
	int nargs, code;
	struct err e = { 0 };
	enum err_code rc;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (strcmp(argv[1], "config") != 0)
		return ctl_report_misuse(self, "cannot get \"%.60s\"; the only choice is config",
		    argv[1]);
	rc = ctl_request_soon(o.dir,
	    &(struct ctl_call){ .method = "GET",
	        .path = "/v1/config?origin=1",
	        .repeatable = true },
	    CTL_CALL, &answer, &e);
	if (rc == ERR_OK)
		rc = print_settings(&o, argv + 2, nargs - 1, answer, &e);
	json_decref(answer);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

const struct ctl_cmd ctl_cmd_get = {
	"get",
	{
	    .prog = "ps-ctl get",
	    .args = "config [KEY ...]",
	    .about = "print the present settings of a running cluster",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 64,
	    .examples = "  ps-ctl get config lr sync\n  ps-ctl get config --origin\n",
	},
	run_get,
};
