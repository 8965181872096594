/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"
#include "ctl.h"
#include "lab/report_read.h"
#include "lab/report_sort.h"
#include "lab/report_table.h"
#include "metric/metrics.h"

struct options {
	const char *sort;
	bool json;
};

static const struct opt opts[] = {
	{ "sort", 's', OPT_STR, offsetof(struct options, sort), "METRIC",
	    "the best run by this metric first: auc, loss, train_loss, seconds, ...", NULL, 0, 0 },
	CTL_OPT_JSON(struct options, json),
};

/* True for a figure that gets a column in the table. --json has all figures. */
static bool deserves_column(const char *figure)
{
	static const char *const no[] = { "state", "examples", "examples_per_second",
		"pushed_bytes", "pulled_bytes", "ring_bytes" };

	for (size_t i = 0; i < CTL_COUNT(no); i++)
		if (strcmp(figure, no[i]) == 0)
			return false;
	return strncmp(figure, "eval.", 5) != 0 || !metrics_is_detail(figure + 5);
}

static json_t *choose_run_columns(const struct report_run *list, size_t n)
{
	json_t *all = report_figure_names(list, n), *some = json_array();
	const json_t *name;
	size_t i;

	json_array_foreach(all, i, name)
		if (deserves_column(json_string_value(name)))
			json_array_append(some, (json_t *)name);
	json_decref(all);
	return some;
}

static void add_runs_header(struct report_text_table *t, const json_t *figures, const json_t *keys)
{
	static const char *const fixed[] = { "run", "state", "began" };
	const json_t *name;
	size_t i;

	for (i = 0; i < CTL_COUNT(fixed); i++)
		report_text_table_add(t, mem_strdup(fixed[i]));
	json_array_foreach(figures, i, name)
		report_text_table_add(t, mem_strdup(json_string_value(name)));
	json_array_foreach(keys, i, name)
		report_text_table_add(t, mem_strdup(json_string_value(name)));
}

/* Columns: name, state, begin, the figures that some run has, and the settings in which the runs
 * differ. */
static void print_runs_table(const struct report_run *list, size_t n)
{
	json_t *figures = choose_run_columns(list, n),
	       *keys = report_run_differing_settings(list, n);
	struct report_text_table t = TEXT_TABLE(
	    3 + json_array_size(figures) + json_array_size(keys));
	const json_t *name;
	size_t j;

	add_runs_header(&t, figures, keys);
	for (size_t i = 0; i < n; i++) {
		const struct report_run *r = &list[i];

		report_text_table_add(&t, mem_strdup(r->name));
		report_text_table_add(&t, mem_strdup(r->state));
		report_text_table_add(&t, *r->began ? mem_printf("%.19sZ", r->began) : NULL);
		json_array_foreach(figures, j, name)
			report_text_table_add(&t,
			    report_figure_text(report_figure(r->result, json_string_value(name))));
		json_array_foreach(keys, j, name)
			report_text_table_add(&t,
			    report_value_text(
			        json_object_get(r->settings, json_string_value(name))));
	}
	report_text_table_print(&t);
	json_decref(figures);
	json_decref(keys);
}

static void print_runs_json(const struct report_run *list, size_t n)
{
	json_t *keys = report_run_differing_settings(list, n);

	for (size_t i = 0; i < n; i++) {
		const struct report_run *r = &list[i];
		json_t *result = json_copy(r->result), *o;

		json_object_del(result, "v");
		json_object_del(result, "ts");
		json_object_del(result, "kind");
		o = json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:o, s:O, s:O}", "run", r->name,
		    "directory", r->dir, "state", r->state, "began", *r->began ? r->began : NULL,
		    "ended", *r->ended ? r->ended : NULL, "result", result, "settings", r->settings,
		    "differing", keys);
		json_print_event("run", o);
		json_decref(o);
	}
	json_decref(keys);
}

static int run_runs(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct err e = { 0 };
	struct report_run *list;
	int nargs, code;
	size_t n;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (report_run_list(nargs ? argv[1] : ".", &list, &n, &e))
		return ctl_fail(&e);
	if (o.sort && report_run_sort(list, n, o.sort, &e) != ERR_OK) {
		report_run_list_free(list, n);
		return ctl_fail(&e);
	}
	if (o.json)
		print_runs_json(list, n);
	else if (n)
		print_runs_table(list, n);
	else
		fprintf(stderr, "ps-ctl: no runs in %s\n", nargs ? argv[1] : ".");
	report_run_list_free(list, n);
	return 0;
}

const struct ctl_cmd ctl_cmd_runs = {
	"runs",
	{
	    .prog = "ps-ctl runs",
	    .args = "[FOLDER]",
	    .about = "list the runs of a folder, with their results and the settings that differ",
	    .more =
	        "Lists all NAME.run and NAME.run.N directly in FOLDER (default: the current directory), the oldest\n"
	        "first. A run is running, done, failed, stopped, or crashed, which means that it ended without a\n"
	        "result. With --sort, those that lack the metric come last.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = 1,
	    .examples =
	        "  ps-ctl runs\n"
	        "  ps-ctl runs lin.sweep --sort auc\n"
	        "  ps-ctl runs lin.sweep --json | jq -r '[.run, .settings[\"job.lr\"], .result.eval.loss] | @tsv'\n",
	},
	run_runs,
};
