/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint.h"
#include "ckpt/dirs.h"
#include "ckpt/read.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "format/uri.h"
#include "metric/metrics.h"
#include "rundir/rundir.h"
#include "worker/data_facts_diff.h"

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct checkpoint_options, dir),
	CTL_OPT_TIMEOUT(struct checkpoint_options, timeout,
	    "time limit for take, and for an object store that does not answer (60s)"),
	CTL_OPT_JSON(struct checkpoint_options, json),
	{ "stop", 0, OPT_FLAG, offsetof(struct checkpoint_options, stop), NULL,
	    "take: pause the job before, and end it at the step of the checkpoint", NULL, 0, 0 },
	{ "newer", 0, OPT_FLAG, offsetof(struct checkpoint_options, newer), NULL,
	    "fetch nothing if this checkpoint or a later one exists locally", NULL, 0, 0 },
};

/* ---- where checkpoints are ---- */

/* True when dir contains the files by which a run directory is recognized. */
static bool looks_like_run_dir(const char *dir)
{
	char *lock = rundir_path(dir, "lock"), *config = rundir_path(dir, "cluster.json");
	bool is = access(lock, F_OK) == 0 && access(config, F_OK) == 0;

	free(config);
	free(lock);
	return is;
}

/* rundir_find() failed with e: replace its message by one that says what the user could have
 * meant. */
static void explain_no_run(const char *named, struct err *e)
{
	const char *where = named ? named : ".";
	char *path[] = { mem_strdup(where), path_join(where, ".."), path_join(where, "../..") };
	char *found = NULL;

	for (size_t i = 0; !found && i < CTL_COUNT(path); i++)
		if (looks_like_run_dir(path[i]))
			found = path[i];
	if (found)
		err_set(e, e->code, "%s is inside a run directory: give that directory with -C %s",
		    where, found);
	else if (e->code == ERR_NOTREADY)
		err_set(e, e->code,
		    "this directory has several runs: name one with -C DIR (ps-ctl runs lists them)");
	else if (!named)
		err_set(e, e->code,
		    "there is no *.run directory in \".\": name a run directory with -C DIR");
	else if (access(named, F_OK) == 0)
		err_set(e, e->code, "-C: \"%s\" is not a run directory", named);
	for (size_t i = 0; i < CTL_COUNT(path); i++)
		free(path[i]);
}

char *checkpoint_dir(const struct checkpoint_options *o, struct err *e)
{
	char *run = NULL, *dir = NULL;
	enum err_code rc = rundir_find(o->dir, &run, e);

	if (run && (rc == ERR_OK || rc == ERR_NOTREADY)) {
		dir = rundir_path(run, "checkpoints");
		*e = (struct err){ 0 };
	} else if (rc == ERR_NOTFOUND || rc == ERR_NOTREADY) {
		explain_no_run(o->dir, e);
	}
	free(run);
	return dir;
}

/* Finds the checkpoint that a word names: a step ("1000", "step-000000001000") or a path. *path
 * must be freed; the directory exists. */
static enum err_code resolve_checkpoint(const struct checkpoint_options *o, const char *word,
    char **path, struct err *e)
{
	bool is_step = false;
	char name[64], *dir;
	uint64_t step;
	struct stat st;

	*path = NULL;
	if (uri_is(word))
		return err_set(e, ERR_USAGE,
		    "%s is in an object store: ps-ctl checkpoint fetch copies it to this host",
		    word);
	if (num_uint(word, INT64_MAX, &step)) {
		snprintf(name, sizeof name, "step-%012llu", (unsigned long long)step);
		is_step = true;
	} else if (strncmp(word, "step-", 5) == 0 && !strchr(word, '/')) {
		snprintf(name, sizeof name, "%.60s", word);
		is_step = true;
	}
	if (is_step) {
		dir = checkpoint_dir(o, e);
		if (!dir)
			return e->code;
		*path = path_join(dir, name);
		free(dir);
	} else {
		*path = mem_strdup(word);
		for (size_t n = strlen(*path); n > 1 && (*path)[n - 1] == '/'; n--)
			(*path)[n - 1] = '\0';
	}
	if (stat(*path, &st) == 0 && S_ISDIR(st.st_mode))
		return ERR_OK;
	err_set(e, ERR_NOTFOUND,
	    "there is no checkpoint \"%s\"; ps-ctl checkpoint ls shows what there is", *path);
	free(*path);
	*path = NULL;
	return ERR_NOTFOUND;
}

/* ---- take ---- */

/* Prints the step of the checkpoint that was requested. Returns the exit code. */
static int take_checkpoint(const struct checkpoint_options *o, int nargs, char **args)
{
	json_t *body = json_object(), *answer = NULL;
	struct err e = { 0 };
	struct http_client *client = NULL;
	enum err_code rc = ctl_reach(o->dir, &client, &e);

	if (!rc && o->stop)
		rc = ctl_stop_saved(o->dir, client, "ps-ctl checkpoint --stop", o->timeout, &answer,
		    &e);
	else if (!rc)
		rc = ctl_call(o->dir, client,
		    &(struct ctl_call){ .path = "/v1/checkpoints",
		        .body = body,
		        .repeatable = true },
		    o->timeout, &answer, &e);
	http_client_free(client);
	(void)nargs;
	(void)args;
	if (rc == ERR_OK && o->json)
		json_print_event("checkpoint", answer);
	else if (rc == ERR_OK)
		printf("%lld\n", (long long)json_int(answer, "step", 0));
	json_decref(answer);
	json_decref(body);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

/* ---- ls and verify ---- */

static const char *checkpoint_state(const struct ckpt_entry *c)
{
	return c->whole ? "whole" : c->unread ? "unread" : "damaged";
}

static json_t *checkpoint_to_json(const struct ckpt_entry *c)
{
	return json_pack("{s:I, s:s, s:s, s:o, s:o, s:I, s:o, s:o}", "step", (json_int_t)c->step,
	    "path", c->path, "state", checkpoint_state(c), "why",
	    c->why ? json_string(c->why) : json_null(), "generation",
	    c->readable ? json_integer((json_int_t)c->generation) : json_null(), "size_bytes",
	    (json_int_t)c->bytes, "created", c->created ? json_string(c->created) : json_null(),
	    "eval", c->eval ? json_incref(c->eval) : json_null());
}

static void print_checkpoint_eval(const json_t *eval)
{
	const char *key, *between = "";
	char figure[32];
	json_t *v;

	json_object_foreach((json_t *)eval, key, v)
		if (json_is_number(v) && strcmp(key, "examples") != 0 && !metrics_is_detail(key)) {
			num_digits(json_number_value(v), 4, figure);
			printf("%s%s %s", between, key, figure);
			between = ", ";
		}
}

static void print_checkpoint_entry(const struct ckpt_entry *c)
{
	char size[16];

	num_human((double)c->bytes, size);
	printf("%12llu  %-8s %7sB  %-24s  ", (unsigned long long)c->step, checkpoint_state(c), size,
	    c->created ? c->created : "-");
	if (c->why)
		fputs(c->why, stdout);
	else if (c->eval)
		print_checkpoint_eval(c->eval);
	else
		putchar('-');
	putchar('\n');
}

/* Lists the checkpoints of the run. *dir becomes their directory, to be freed; it is set on
 * errors, too. */
static enum err_code list_run_checkpoints(const struct checkpoint_options *o, bool every_byte,
    char **dir, struct ckpt_entry **list, size_t *n, struct err *e)
{
	*list = NULL;
	*n = 0;
	*dir = checkpoint_dir(o, e);
	return *dir ? ckpt_list(*dir, every_byte, list, n, e) : e->code;
}

void checkpoint_print(const struct checkpoint_options *o, const struct ckpt_entry *list, size_t n)
{
	if (n > 0 && !o->json)
		printf("%12s  %-8s %8s  %-24s  %s\n", "STEP", "STATE", "SIZE", "CREATED", "EVAL");
	for (size_t i = 0; i < n; i++) {
		json_t *line = checkpoint_to_json(&list[i]);

		if (o->json)
			json_print_event("checkpoint", line);
		else
			print_checkpoint_entry(&list[i]);
		json_decref(line);
	}
}

static int list_checkpoints(const struct checkpoint_options *o, int nargs, char **args)
{
	struct ckpt_entry *list;
	struct err e = { 0 };
	enum err_code rc;
	char *dir;
	size_t n;

	if (nargs > 0)
		return checkpoint_ls_store(o, args[0]);
	rc = list_run_checkpoints(o, false, &dir, &list, &n, &e);
	if (rc == ERR_OK)
		checkpoint_print(o, list, n);
	ckpt_list_free(list, n);
	free(dir);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

/* Computes the digest of the model in a checkpoint, in the form of model_digest in result.json. */
static enum err_code digest_checkpoint_model(const char *path, char hex[static 65], struct err *e)
{
	struct ckpt_reader *r;
	enum err_code rc = ckpt_open(path, &r, e);

	if (rc == ERR_OK)
		rc = ckpt_digest(r, hex, e);
	ckpt_close(r);
	return rc;
}

/* Prints one line about a checkpoint whose every byte was read. Returns true when it is
 * undamaged. */
static bool report_verified(const struct checkpoint_options *o, struct ckpt_entry *c)
{
	struct err e = { 0 };
	char hex[65], size[16];
	json_t *line;

	if (c->whole && digest_checkpoint_model(c->path, hex, &e) != ERR_OK) {
		c->whole = false;
		c->why = mem_strdup(e.msg);
	}
	num_human((double)c->bytes, size);
	if (o->json) {
		line = checkpoint_to_json(c);
		json_object_set_new(line, "model_digest",
		    c->whole ? json_string(hex) : json_null());
		json_print_event("checkpoint", line);
		json_decref(line);
	} else if (c->whole) {
		printf("step %llu: whole, %sB, model %s\n", (unsigned long long)c->step, size, hex);
	} else {
		printf("step %llu: damaged: %s\n", (unsigned long long)c->step, c->why);
	}
	return c->whole;
}

/* Verifies all checkpoints of a run, reading every byte. Exit code 1: some are damaged. */
static int verify_run_checkpoints(const struct checkpoint_options *o)
{
	struct ckpt_entry *list;
	struct err e = { 0 };
	bool good = true;
	enum err_code rc;
	char *dir;
	size_t n;

	rc = list_run_checkpoints(o, true, &dir, &list, &n, &e);
	if (rc == ERR_OK && n == 0)
		rc = err_set(&e, ERR_NOTFOUND, "there are no checkpoints in %s", dir);
	for (size_t i = 0; i < n; i++)
		good = report_verified(o, &list[i]) && good;
	ckpt_list_free(list, n);
	free(dir);
	return rc != ERR_OK ? ctl_fail(&e) : good ? 0 : 1;
}

/* Without an operand all checkpoints of the run are verified, else the one that it names. */
static int verify_checkpoints(const struct checkpoint_options *o, int nargs, char **args)
{
	struct ckpt_entry c = { 0 };
	struct err e = { 0 };
	char *path = NULL;
	bool good = false;
	enum err_code rc;

	if (nargs == 0)
		return verify_run_checkpoints(o);
	rc = resolve_checkpoint(o, args[0], &path, &e);
	if (rc == ERR_OK)
		rc = ckpt_look(path, true, &c, &e);
	if (rc == ERR_OK)
		good = report_verified(o, &c);
	ckpt_entry_release(&c);
	free(path);
	return rc != ERR_OK ? ctl_fail(&e) : good ? 0 : 1;
}

/* ---- diff ---- */

struct differing {
	bool json, same, headed;
};

/* Prints one table as it is compared, and notes in x->same whether all were equal so far. The
 * header comes with the first table, so an empty comparison prints none. */
static void print_table_difference(void *ctx, const struct ckpt_difference *d)
{
	struct differing *x = ctx;
	const char *state = !d->in_a ? "only in B"
	    : !d->in_b               ? "only in A"
	    : !d->same_shape         ? "other shape"
	    : ckpt_is_same(d)        ? "same"
	                             : "differs";
	json_t *line;

	x->same = x->same && ckpt_is_same(d);
	if (x->json) {
		line = json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:I, s:I}", "table", d->table,
		    "state", state, "values", (json_int_t)d->values, "differ",
		    (json_int_t)d->differ, "max_abs", json_of_num(d->max_abs), "rms",
		    json_of_num(d->rms), "rows_only_a", (json_int_t)d->rows_only_a, "rows_only_b",
		    (json_int_t)d->rows_only_b);
		json_print_event("difference", line);
		json_decref(line);
		return;
	}
	if (!x->headed)
		printf("%-16s %-11s %12s %12s %10s %10s %11s %11s\n", "TABLE", "STATE", "VALUES",
		    "DIFFER", "MAX", "RMS", "ROWS-ONLY-A", "ROWS-ONLY-B");
	x->headed = true;
	printf("%-16s %-11s %12llu %12llu %10.4g %10.4g %11llu %11llu\n", d->table, state,
	    (unsigned long long)d->values, (unsigned long long)d->differ, d->max_abs, d->rms,
	    (unsigned long long)d->rows_only_a, (unsigned long long)d->rows_only_b);
}

/* Prints a difference between the descriptions of the data. */
static void print_data_difference(void *ctx, const char *what, const char *text)
{
	struct differing *x = ctx;
	json_t *line;

	x->same = false;
	if (x->json) {
		line = json_pack("{s:s, s:s}", "what", what, "text", text);
		json_print_event("data_difference", line);
		json_decref(line);
		return;
	}
	printf("data: %s: %s\n", what, text);
}

/* Compares the descriptions of the data, by which the same parameters may stand for other features. */
static enum err_code diff_descriptions(struct ckpt_reader *const r[static 2], struct differing *x,
    struct err *e)
{
	json_t *facts[2] = { NULL, NULL };
	enum err_code rc = ERR_OK;

	for (int i = 0; !rc && i < 2; i++)
		rc = ckpt_facts_read(ckpt_manifest(r[i]), ckpt_path(r[i]), &facts[i], e);
	if (!rc)
		rc = data_facts_diff(facts[0], facts[1], print_data_difference, x, e);
	json_decref(facts[0]);
	json_decref(facts[1]);
	return rc;
}

/* Exit code 0: equal; 1: they differ; others as of the error. */
static int diff_checkpoints(const struct checkpoint_options *o, int nargs, char **args)
{
	struct differing x = { .json = o->json, .same = true };
	struct ckpt_reader *r[2] = { NULL, NULL };
	struct err e = { 0 };
	enum err_code rc = ERR_OK;

	(void)nargs;
	for (int i = 0; rc == ERR_OK && i < 2; i++) {
		char *path;

		rc = resolve_checkpoint(o, args[i], &path, &e);
		if (rc == ERR_OK)
			rc = ckpt_open(path, &r[i], &e);
		free(path);
	}
	if (rc == ERR_OK)
		rc = ckpt_diff(r[0], r[1], print_table_difference, &x, &e);
	if (rc == ERR_OK)
		rc = diff_descriptions(r, &x, &e);
	ckpt_close(r[0]);
	ckpt_close(r[1]);
	return rc != ERR_OK ? ctl_fail(&e) : x.same ? 0 : 1;
}

/* ---- rm ---- */

/* Resolves all names before it removes the first checkpoint, so that a typing error removes
 * nothing. */
static int remove_checkpoints(const struct checkpoint_options *o, int nargs, char **args)
{
	char **path = mem_array((size_t)nargs, sizeof *path);
	struct err e = { 0 };
	enum err_code rc = ERR_OK;

	if (uri_is(args[0])) {
		free((void *)path);
		return checkpoint_rm_store(o, nargs, args);
	}
	for (int i = 0; rc == ERR_OK && i < nargs; i++)
		rc = resolve_checkpoint(o, args[i], &path[i], &e);
	for (int i = 0; rc == ERR_OK && i < nargs; i++)
		rc = ckpt_remove(path[i], &e);
	for (int i = 0; i < nargs; i++)
		free(path[i]);
	free((void *)path);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

/* ---- actions ---- */

/* Options that not all actions have. */
enum action_option {
	TAKES_STOP = 1,
	TAKES_NEWER = 2,
	TAKES_TIMEOUT = 4,
	TAKES_TIMEOUT_OF_STORE = 8, /* if an operand names an object store */
};

static const struct action {
	const char *name;
	int min, max; /* operands; max -1: any number */
	unsigned options;
	const char *wants;
	int (*run)(const struct checkpoint_options *o, int nargs, char **args);
} actions[] = {
	{ "take", 0, 0, TAKES_STOP | TAKES_TIMEOUT, "no operand", take_checkpoint },
	{ "ls", 0, 1, TAKES_TIMEOUT_OF_STORE, "at most one s3://BUCKET/PREFIX/NAME",
	    list_checkpoints },
	{ "verify", 0, 1, 0, "at most one STEP or PATH", verify_checkpoints },
	{ "diff", 2, 2, 0, "two operands, each a STEP or a PATH", diff_checkpoints },
	{ "rm", 1, -1, TAKES_TIMEOUT_OF_STORE, "at least one STEP or s3:// name",
	    remove_checkpoints },
	{ "push", 0, 1, TAKES_TIMEOUT, "at most one s3://BUCKET/PREFIX/NAME", checkpoint_push },
	{ "fetch", 1, 2, TAKES_NEWER | TAKES_TIMEOUT, "FROM and at most one DIR",
	    checkpoint_fetch },
};

/* The option that was given and has no meaning for the action; NULL: none. A timeout of -1 was not
 * given. */
static const char *find_foreign_option(const struct checkpoint_options *o, const struct action *a,
    int nargs, char **args)
{
	bool timeout = a->options & TAKES_TIMEOUT;

	for (int i = 0; i < nargs; i++)
		timeout |= a->options & TAKES_TIMEOUT_OF_STORE && uri_is(args[i]);
	return o->stop && !(a->options & TAKES_STOP)  ? "--stop"
	    : o->newer && !(a->options & TAKES_NEWER) ? "--newer"
	    : o->timeout >= 0 && !timeout             ? "--timeout"
	                                              : NULL;
}

static int run_checkpoint(const struct ctl_cmd *self, int argc, char **argv)
{
	struct checkpoint_options o = { .timeout = -1 };
	const char *foreign;
	const struct action *a;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	a = nargs ? CTL_ACTION(self, argv[1], actions) : &actions[0];
	if (!a)
		return 2;
	if (nargs == 0)
		nargs = 1;
	if (nargs - 1 < a->min || (a->max >= 0 && nargs - 1 > a->max))
		return ctl_report_misuse(self, "%s takes %s", a->name, a->wants);
	foreign = find_foreign_option(&o, a, nargs - 1, argv + 2);
	if (foreign)
		return ctl_report_misuse(self, "%s: %s has no such option%s", foreign, a->name,
		    a->options & TAKES_TIMEOUT_OF_STORE ? " without an object store" : "");
	if (o.timeout < 0)
		o.timeout = 60 * NSEC_PER_SEC;
	return a->run(&o, nargs - 1, argv + 2);
}

const struct ctl_cmd ctl_cmd_checkpoint = {
	"checkpoint",
	{
	    .prog = "ps-ctl checkpoint",
	    .args = "[take|ls|verify|diff|rm|push|fetch] [ARG ...]",
	    .about = "take, list, check, compare, remove and copy checkpoints",
	    .more =
	        "Actions: take, ls [AT], verify [STEP|PATH], diff A B, rm STEP ..., push [AT], fetch FROM [DIR].\n"
	        "take is the default: the running cluster makes a checkpoint and its step is printed. The other\n"
	        "actions use RUN/checkpoints, whether the cluster is running or not. verify reads every byte of all\n"
	        "checkpoints or of one. diff exits with 0 if all parameters and the\n"
	        "descriptions of the data (classes, columns, categories ...) are equal, else with 1. push uploads\n"
	        "the checkpoints that an object store at AT, s3://BUCKET/PREFIX/NAME (default: checkpoint_to), does\n"
	        "not have, and removes there those that keep_last, keep_every and keep_best do not keep. fetch\n"
	        "downloads one, or the newest of an AT, to DIR (default: RUN/checkpoints).",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = -1,
	    .examples =
	        "  ps-ctl checkpoint\n  ps-ctl checkpoint ls\n  ps-ctl -C fashion.run checkpoint verify 1000\n"
	        "  ps-ctl checkpoint diff 1000 2000\n"
	        "  ps-ctl checkpoint ls s3://bucket/runs/fashion\n",
	},
	run_checkpoint,
};
