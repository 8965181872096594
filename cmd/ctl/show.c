/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/suggest.h"
#include "ctl.h"

struct options {
	bool json;
};

static const struct opt opts[] = { CTL_OPT_JSON(struct options, json) };

/* True when word is the name of the item, or what follows "job." in it. */
static bool has_name(const json_t *o, const char *word)
{
	const char *name = json_str(o, "name", "");

	return strcmp(name, word) == 0 ||
	    (strncmp(name, "job.", 4) == 0 && strcmp(name + 4, word) == 0);
}

static void print_catalog_value(const json_t *v)
{
	size_t i;
	json_t *item;

	if (json_is_array(v)) {
		json_array_foreach((json_t *)v, i, item)
			printf("%s%s", i ? ", " : "", json_string_value(item));
		puts(json_array_size(v) ? "" : "none");
	} else if (json_is_string(v)) {
		puts(*json_string_value(v) ? json_string_value(v) : "none");
	} else if (json_is_boolean(v)) {
		puts(json_is_true(v) ? "yes" : "no");
	} else if (fabs(json_number_value(v)) < 1e15 &&
	    floor(json_number_value(v)) == json_number_value(v)) {
		printf("%.0f\n", json_number_value(v));
	} else {
		printf("%g\n", json_number_value(v));
	}
}

static void print_catalog_item(const struct catalog *c, const json_t *o)
{
	const struct ctl_cmd *cmd = ctl_find(json_str(o, "name", ""));
	const char *key;
	json_t *value;

	if (strcmp(c->kind, "subcommand") == 0 && cmd) {
		opt_help(&cmd->usage, stdout, true);
		return;
	}
	printf("%s %s: %s\n", c->kind, json_str(o, "name", ""), json_str(o, "help", ""));
	json_object_foreach((json_t *)o, key, value) {
		if (strcmp(key, "name") == 0 || strcmp(key, "help") == 0)
			continue;
		printf("  %-10s ", key);
		print_catalog_value(value);
	}
}

/* Prints the choices of a key whose variants are in a list of their own: the items of the list that
 * word names, with their defaults and the cases that they are for. */
static void print_choices(const struct catalog *c)
{
	json_t *list = c->list(), *o;
	size_t i;

	json_array_foreach(list, i, o) {
		printf("  %s: %s\n", json_str(o, "name", ""), json_str(o, "help", ""));
		if (*json_str(o, "defaults", ""))
			printf("      defaults   %s\n", json_str(o, "defaults", ""));
		if (*json_str(o, "use", ""))
			printf("      use        %s\n", json_str(o, "use", ""));
	}
	json_decref(list);
}

/* Shows every item of this name: "momentum" is a key and an update rule. Returns their number. */
static size_t show_matches(const char *word, bool json)
{
	const struct catalog *c;
	size_t found = 0, i;
	json_t *o;

	for (size_t k = 0; (c = catalog_at(k)) != NULL; k++) {
		json_t *list = c->list();

		json_array_foreach(list, i, o) {
			if (!has_name(o, word))
				continue;
			if (json)
				json_print_event(c->kind, o);
			else
				print_catalog_item(c, o);
			found++;
		}
		json_decref(list);
	}
	for (size_t k = 0; found && !json && (c = catalog_at(k)) != NULL; k++)
		if (strcmp(c->kind, word) == 0)
			print_choices(c);
	return found;
}

/* Reports a name that no list has, with the most similar one. Returns the exit code. */
static int report_unknown_item(const char *word)
{
	const char **names = NULL, *near;
	const struct catalog *c;
	json_t *all = json_array(), *o;
	struct err e = { 0 };
	size_t n = 0, i;

	for (size_t k = 0; (c = catalog_at(k)) != NULL; k++) {
		json_t *list = c->list();

		json_array_extend(all, list);
		json_decref(list);
	}
	names = mem_array(2 * json_array_size(all) + 1, sizeof *names);
	json_array_foreach(all, i, o) {
		names[n++] = json_str(o, "name", "");
		if (strncmp(names[n - 1], "job.", 4) == 0) {
			names[n] = names[n - 1] + 4;
			n++;
		}
	}
	near = suggest(word, names, n);
	if (near)
		err_set(&e, ERR_NOTFOUND,
		    "unknown key, model or rule \"%.60s\"; did you mean \"%s\"?", word, near);
	else
		err_set(&e, ERR_NOTFOUND,
		    "unknown key, model or rule \"%.60s\"; see ps-ctl list options", word);
	free((void *)names);
	json_decref(all);
	return ctl_fail(&e);
}

static int run_show(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	return show_matches(argv[1], o.json) > 0 ? 0 : report_unknown_item(argv[1]);
}

const struct ctl_cmd ctl_cmd_show = {
	"show",
	{
	    .prog = "ps-ctl show",
	    .args = "KEY|MODEL|NAME",
	    .about = "describe one key of the cluster file, model, update rule ...",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 1,
	    .examples = "  ps-ctl show sync\n  ps-ctl show mlp\n  ps-ctl show optimizer\n",
	},
	run_show,
};
