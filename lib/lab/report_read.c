/* SPDX-License-Identifier: ISC */
#include "lab/report_read.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf_key.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "msg/run_result.h"
#include "rundir/result.h"
#include "rundir/run_colour.h"
#include "rundir/rundir.h"

#define CONFIG_MAX (1u << 20)
/* How much of the end of metrics.jsonl is read to find its last line. */
#define TAIL_BYTES 65536

/* ---- lines of a file ---- */

/* A line without a newline is still being written and ends the reading; a line that is no JSON
 * object is skipped. The object is borrowed for the call. */
void report_each_line(const char *dir, const char *file, void (*fn)(void *ctx, const json_t *line),
    void *ctx)
{
	char *path = rundir_path(dir, file), *text = NULL;
	FILE *f = fopen(path, "re");
	size_t cap = 0;
	ssize_t n;

	while (f && (n = getline(&text, &cap, f)) > 0 && text[n - 1] == '\n') {
		json_t *line = json_loadb(text, (size_t)n, 0, NULL);

		if (json_is_object(line))
			fn(ctx, line);
		json_decref(line);
	}
	if (f)
		fclose(f);
	free(text);
	free(path);
}

double report_parse_time(const char *stamp)
{
	struct tm tm = { 0 };
	const char *rest = strptime(stamp, "%Y-%m-%dT%H:%M:%S", &tm);

	if (!rest)
		return NAN;
	return (double)timegm(&tm) + (*rest == '.' ? num_strtod(rest, NULL) : 0);
}

static double number_or_nan(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

struct points {
	struct report_sample *p;
	size_t n;
	double epoch;
};

/* Adds a line of metrics.jsonl to struct points (ctx). The array has room for the next power of
 * two. */
static void add_point(void *ctx, const json_t *s)
{
	struct points *all = ctx;
	struct report_sample *p;
	double at = report_parse_time(json_str(s, "ts", ""));

	if (isnan(at))
		return;
	if (all->n == 0)
		all->epoch = at;
	if ((all->n & (all->n - 1)) == 0)
		all->p = mem_regrow(all->p, all->n ? 2 * all->n : 1, sizeof *all->p);
	p = &all->p[all->n++];
	*p = (struct report_sample){ .time = at - all->epoch,
		.step = number_or_nan(s, "step"),
		.eval_step = number_or_nan(s, "eval_step"),
		.seconds = number_or_nan(s, "seconds"),
		.train_loss = number_or_nan(s, "train_loss"),
		.progressive_loss = number_or_nan(s, "progressive_loss"),
		.examples = number_or_nan(s, "examples"),
		.pushed_bytes = number_or_nan(s, "pushed_bytes"),
		.pulled_bytes = number_or_nan(s, "pulled_bytes"),
		.ring_bytes = number_or_nan(s, "ring_bytes"),
		.eval = json_is_object(json_object_get(s, "eval"))
		    ? json_incref(json_object_get(s, "eval"))
		    : NULL };
}

struct report_sample *report_samples_read(const char *dir, size_t *n, double *epoch)
{
	struct points all = { NULL, 0, NAN };

	report_each_line(dir, "metrics.jsonl", add_point, &all);
	*n = all.n;
	*epoch = all.epoch;
	return all.p;
}

void report_samples_free(struct report_sample *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_decref(p[i].eval);
	free(p);
}

/* ---- settings ---- */

static void flatten_settings(json_t *to, const char *prefix, const json_t *from)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)from, key, v) {
		char *path = mem_printf("%s%s", prefix, key);

		if (json_is_object(v) && !*prefix)
			flatten_settings(to, "job.", v);
		else if (strcmp(path, "name") != 0 && strcmp(path, "by_default") != 0)
			json_object_set(to, path, v);
		free(path);
	}
}

json_t *report_default_settings(void)
{
	json_t *all = json_object();
	struct conf c;
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	conf_init(&c);
	for (size_t i = 0; i < n; i++) {
		json_t *v = conf_value_json(&k[i], &c);

		if (v)
			json_object_set_new(all, k[i].path, v);
	}
	conf_release(&c);
	return all;
}

/* Elements of a list are joined by commas without brackets, as in [128,64] -> 128,64. NULL gives
 * "-". */
char *report_value_text(const json_t *v)
{
	char *text;
	struct buf list = BUF_INIT;
	const json_t *item;
	size_t i;

	if (!v)
		return mem_strdup("-");
	if (json_is_string(v))
		return mem_strdup(json_string_value(v));
	if (json_is_real(v)) {
		text = mem_alloc(32);
		num_format(json_real_value(v), text);
		return text;
	}
	if (!json_is_array(v))
		return json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
	json_array_foreach(v, i, item) {
		text = report_value_text(item);
		buf_printf(&list, "%s%s", i ? "," : "", text);
		free(text);
	}
	return list.data ? (char *)list.data : mem_strdup("");
}

/* A key that some run does not have differs. Names are in order of first appearance. The work grows
 * with the square of the number of runs, which are few. */
json_t *report_run_differing_settings(const struct report_run *list, size_t n)
{
	json_t *names = json_array(), *seen = json_object();

	for (size_t i = 0; i < n; i++) {
		const char *key;
		json_t *v;

		json_object_foreach(list[i].settings, key, v) {
			bool same = true;

			for (size_t j = 0; j < n; j++)
				same &= json_equal(v, json_object_get(list[j].settings, key)) != 0;
			if (!same && !json_object_get(seen, key))
				json_array_append_new(names, json_string(key));
			json_object_set_new(seen, key, json_true());
		}
	}
	json_decref(seen);
	return names;
}

/* ---- one run ---- */

/* Returns the last complete line of metrics.jsonl, or NULL. */
static json_t *read_last_status(const char *dir)
{
	char *path = rundir_path(dir, "metrics.jsonl"), *line = NULL,
	     *text = mem_alloc(TAIL_BYTES + 1);
	FILE *f = fopen(path, "re");
	json_t *status = NULL;
	size_t n = 0;

	if (f) {
		if (fseek(f, -(long)TAIL_BYTES, SEEK_END) != 0)
			rewind(f);
		n = fread(text, 1, TAIL_BYTES, f);
		fclose(f);
	}
	while (!status && n > 0) {
		for (; n > 0 && text[n - 1] != '\n'; n--)
			text[n - 1] = 0;
		if (n == 0)
			break;
		text[--n] = 0;
		line = memrchr(text, '\n', n);
		line = line ? line + 1 : text;
		status = json_loads(line, 0, NULL);
		n = (size_t)(line - text);
	}
	free(text);
	free(path);
	return status;
}

static void add_example_rate(json_t *result)
{
	double seconds = number_or_nan(result, "seconds");

	if (seconds > 0)
		json_object_set_new(result, "examples_per_second",
		    json_of_num(number_or_nan(result, "examples") / seconds));
}

/* Sets state, result and end of a run. One that is not alive and has no result has crashed. */
static void read_run_state(struct report_run *r, const json_t *last)
{
	static const enum phase known[] = { PHASE_DONE, PHASE_FAILED, PHASE_STOPPED };
	bool alive = rundir_is_alive(r->dir, NULL);

	r->result = alive ? NULL : result_read(r->dir, NULL);
	r->state = alive ? "running" : "crashed";
	for (size_t i = 0; r->result && i < sizeof known / sizeof *known; i++)
		if (result_has_state(r->result, known[i]))
			r->state = words_phase[known[i]];
	if (!r->result)
		r->result = run_result_of_status(last, r->state, CAUSE_UNKNOWN,
		    alive ? NULL : "it ended without a result");
	add_example_rate(r->result);
	if (!alive)
		snprintf(r->ended, sizeof r->ended, "%.31s",
		    json_str(strcmp(r->state, "crashed") != 0 ? r->result : last, "ts", ""));
}

/* Takes the begin of the run from its first event. Reads only that line: the file may be long. */
static void read_run_begin(struct report_run *r)
{
	char *events = rundir_path(r->dir, "events.jsonl"), line[4096];
	FILE *f = fopen(events, "re");
	json_t *first = f && fgets(line, sizeof line, f) ? json_loads(line, 0, NULL) : NULL;

	snprintf(r->began, sizeof r->began, "%.31s", json_str(first, "ts", ""));
	json_decref(first);
	if (f)
		fclose(f);
	free(events);
}

static char *find_report_dir(const char *run, struct err *e)
{
	static const char *const suffix[] = { "", ".run" };

	for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
		char *dir = mem_printf("%s%s", run, suffix[i]),
		     *config = rundir_path(dir, "cluster.json");
		bool there = access(config, F_OK) == 0;

		free(config);
		if (there)
			return dir;
		free(dir);
	}
	err_set(e, ERR_NOTFOUND,
	    "\"%s\" is not a run directory: it has no cluster.json; ps-ctl runs lists those of a folder",
	    run);
	return NULL;
}

/* Only the directory must exist: without a configuration, a result or events the members are empty.
 * On success r must be released. */
enum err_code report_run_read(const char *run, struct report_run *r, struct err *e)
{
	char *path;
	json_t *config, *last;

	*r = (struct report_run){ .dir = find_report_dir(run, e) };
	if (!r->dir)
		return e->code;
	r->colour = run_colour_of(r->dir);
	path = path_absolute(r->dir);
	r->name = mem_strdup(path_basename(path));
	free(path);
	path = rundir_path(r->dir, "cluster.json");
	config = json_parse_file(path, CONFIG_MAX, NULL);
	free(path);
	r->cluster = mem_strdup(json_str(config, "name", ""));
	r->settings = json_object();
	if (json_is_object(config))
		flatten_settings(r->settings, "", config);
	last = read_last_status(r->dir);
	read_run_begin(r);
	read_run_state(r, last);
	r->emulation = conf_emulation(json_str(r->settings, "job.slow", "none"),
	    json_str(r->settings, "net", "none"));
	json_decref(last);
	json_decref(config);
	return ERR_OK;
}

void report_run_release(struct report_run *r)
{
	free(r->dir);
	free(r->name);
	free(r->cluster);
	free(r->emulation);
	json_decref(r->settings);
	json_decref(r->result);
	*r = (struct report_run){ 0 };
}

const char *report_emulation(const struct report_run *r)
{
	return json_str(r->result, "emulated", r->emulation ? r->emulation : "");
}

/* ---- the runs of a folder ---- */

/* For scandir(): accepts NAME.run and NAME.run.N. */
static int is_run_dir_entry(const struct dirent *d)
{
	const char *at = strstr(d->d_name, ".run");

	while (at && strstr(at + 1, ".run"))
		at = strstr(at + 1, ".run");
	if (!at || d->d_name[0] == '.')
		return 0;
	at += 4;
	return !*at || (*at == '.' && at[1] && !at[1 + strspn(at + 1, "0123456789")]);
}

/* For qsort(): the older run first. Time stamps sort as text. Of runs with the same or no stamp,
 * NAME.run.N, which was moved away, is older than NAME.run. */
static int compare_run_age(const void *a, const void *b)
{
	const struct report_run *x = a, *y = b;
	int order = strcmp(x->began, y->began);

	return order ? order : strverscmp(y->name, x->name);
}

/* On success e may have the message of a directory that was skipped. */
enum err_code report_run_list(const char *folder, struct report_run **list, size_t *n,
    struct err *e)
{
	struct dirent **entry;
	int found = scandir(folder, &entry, is_run_dir_entry, versionsort);

	*list = NULL;
	*n = 0;
	if (found < 0)
		return err_sys(e, errno == ENOENT || errno == ENOTDIR ? ERR_NOTFOUND : ERR_IO,
		    "cannot search for runs in \"%s\"", folder);
	*list = mem_array((size_t)found + 1, sizeof **list);
	for (int i = 0; i < found; i++) {
		char *dir = strcmp(folder, ".") == 0 ? mem_strdup(entry[i]->d_name)
		                                     : path_join(folder, entry[i]->d_name);

		/* Skip directories without a configuration: they are not runs. */
		if (!report_run_read(dir, &(*list)[*n], e))
			++*n;
		free(dir);
		free(entry[i]);
	}
	free(entry);
	if (*n)
		qsort(*list, *n, sizeof **list, compare_run_age);
	return ERR_OK;
}

void report_run_list_free(struct report_run *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		report_run_release(&list[i]);
	free(list);
}
