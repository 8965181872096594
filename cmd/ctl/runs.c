/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "ctl.h"
#include "lab/report_read.h"
#include "lab/report_sort.h"
#include "lab/report_table.h"
#include "metric/metrics.h"
#include "rundir/old_runs.h"

/* How many finished earlier runs of a cluster --prune keeps by default. */
#define KEEP 3u

struct options {
	const char *sort;
	bool json, prune;
	int64_t keep;
};

static const struct opt opts[] = {
	{ "sort", 's', OPT_STR, offsetof(struct options, sort), "METRIC",
	    "the best run by this metric first: auc, loss, train_loss, seconds, ...", NULL, 0, 0 },
	CTL_OPT_JSON(struct options, json),
	{ "prune", 0, OPT_FLAG, offsetof(struct options, prune), NULL,
	    "remove the NAME.run.N that are finished, except for the newest of each NAME, and list those removed",
	    NULL, 0, 0 },
	{ "keep", 0, OPT_INT, offsetof(struct options, keep), "N",
	    "for --prune: number of finished NAME.run.N of each NAME to keep (3)", NULL, 0,
	    1000000 },
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

/* The length of "NAME.run" in "NAME.run" or "NAME.run.N". */
static size_t base_length(const char *run)
{
	const char *dot = strrchr(run, '.');

	return dot && strspn(dot + 1, "0123456789") == strlen(dot + 1) ? (size_t)(dot - run)
	                                                               : strlen(run);
}

/* Removes earlier runs of all clusters of a folder. The list is in the order of names and numbers or of
 * times, so a cluster may have been looked at already. Returns the exit code. */
static int prune_runs(const struct report_run *list, size_t n, size_t keep)
{
	int code = 0;

	for (size_t i = 0; i < n; i++) {
		size_t len = base_length(list[i].dir), k = 0;
		char *base = mem_printf("%.*s", (int)len, list[i].dir);
		struct buf names = BUF_INIT;
		struct err e = { 0 };

		while (k < i &&
		    (base_length(list[k].dir) != len || strncmp(list[k].dir, base, len) != 0))
			k++;
		if (k == i && old_runs_prune(base, keep, NULL, 0, &names, &e))
			printf("removed %s\n", (char *)names.data);
		if (e.code)
			code = ctl_fail(&e);
		buf_release(&names);
		free(base);
	}
	return code;
}

static int run_runs(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .keep = -1 };
	struct err e = { 0 };
	struct report_run *list;
	int nargs, code;
	size_t n;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (o.keep >= 0 && !o.prune)
		return ctl_report_misuse(self, "--keep requires --prune, which removes runs");
	if (report_run_list(nargs ? argv[1] : ".", &list, &n, &e))
		return ctl_fail(&e);
	if (o.sort && report_run_sort(list, n, o.sort, &e) != ERR_OK) {
		report_run_list_free(list, n);
		return ctl_fail(&e);
	}
	if (o.prune)
		code = prune_runs(list, n, o.keep < 0 ? KEEP : (size_t)o.keep);
	else if (o.json)
		print_runs_json(list, n);
	else if (n)
		print_runs_table(list, n);
	else
		fprintf(stderr, "ps-ctl: no runs in %s\n", nargs ? argv[1] : ".");
	report_run_list_free(list, n);
	return o.prune ? code : 0;
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
	        "result. With --sort, those that lack the metric come last. --prune removes runs that are done, and\n"
	        "those that have failed or were stopped without a checkpoint to go on from; NAME.run itself always\n"
	        "stays.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = 1,
	    .examples =
	        "  ps-ctl runs\n"
	        "  ps-ctl runs lin.sweep --sort auc\n"
	        "  ps-ctl runs --prune --keep 5\n"
	        "  ps-ctl runs lin.sweep --json | jq -r '[.run, .settings[\"job.lr\"], .result.eval.loss] | @tsv'\n",
	},
	run_runs,
};
