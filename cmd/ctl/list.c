/* SPDX-License-Identifier: ISC */
#include <stdio.h>

#include "catalog.h"
#include "core/json.h"
#include "core/suggest.h"
#include "ctl.h"

struct options {
	bool json;
};

static const struct opt opts[] = { CTL_OPT_JSON(struct options, json) };

static int report_unknown_list(const struct ctl_cmd *self, const char *what)
{
	const char *names[32], *near;
	size_t n = 0;

	for (; n < CTL_COUNT(names) && catalog_at(n) != NULL; n++)
		names[n] = catalog_at(n)->plural;
	near = suggest(what, names, n);
	if (near)
		return ctl_report_misuse(self, "cannot list \"%.60s\"; did you mean \"%s\"?", what,
		    near);
	return ctl_report_misuse(self, "cannot list \"%.60s\"; the choices are %s", what,
	    CATALOG_NAMES);
}

/* Prints the columns name, default (options only) and help. */
static void print_catalog_table(const json_t *list)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)list, i, o) {
		const char *deflt = json_str(o, "default", NULL);

		if (deflt)
			printf("%-18s %-12s %s\n", json_str(o, "name", ""), *deflt ? deflt : "-",
			    json_str(o, "help", ""));
		else
			printf("%-12s %s\n", json_str(o, "name", ""), json_str(o, "help", ""));
	}
}

static int run_list(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	const struct catalog *c;
	json_t *list, *item;
	int nargs, code;
	size_t i;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	c = catalog_find(argv[1]);
	if (!c)
		return report_unknown_list(self, argv[1]);
	list = c->list();
	if (!o.json)
		print_catalog_table(list);
	else
		json_array_foreach(list, i, item)
			json_print_event(c->kind, item);
	json_decref(list);
	return 0;
}

const struct ctl_cmd ctl_cmd_list = {
	"list",
	{
	    .prog = "ps-ctl list",
	    .args = CATALOG_NAMES,
	    .about = "list the available keys, models, update rules ...",
	    .more =
	        "Options are the keys of the cluster file, with their defaults (\"-\": none). ps-ctl show NAME\n"
	        "describes one of them.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 1,
	    .examples = "  ps-ctl list models\n  ps-ctl list options --json | jq -r .name\n",
	},
	run_list,
};
