/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/num.h"
#include "ctl.h"

struct options {
	const char *dir, *init, *policy;
	int64_t rows, cols, timeout;
	bool sparse, decay, json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "rows", 'r', OPT_INT, offsetof(struct options, rows), "N",
	    "for add and grow: the number of rows (of a sparse table, an estimate)", NULL, 1,
	    1e12 },
	{ "cols", 'c', OPT_INT, offsetof(struct options, cols), "N", "for add: values in a row (1)",
	    NULL, 1, 1 << 20 },
	{ "sparse", 0, OPT_FLAG, offsetof(struct options, sparse), NULL,
	    "for add: create a row when its id is first pushed", NULL, 0, 0 },
	{ "init", 0, OPT_STR, offsetof(struct options, init), "HOW",
	    "for add: initial values, zeros or uniform:LIMIT (zeros)", NULL, 0, 0 },
	{ "policy", 0, OPT_STR, offsetof(struct options, policy), "POLICY",
	    "for add: the row policy of a sparse table, like the key sparse of the cluster file (none)",
	    NULL, 0, 0 },
	{ "decay", 0, OPT_FLAG, offsetof(struct options, decay), NULL,
	    "for add: apply l1 and l2 to the table", NULL, 0, 0 },
	CTL_OPT_TIMEOUT(struct options, timeout, "wait at most this long for the decision (60s)"),
	CTL_OPT_JSON(struct options, json),
};

/* Adds --init, "zeros" or "uniform:0.1", to a table's shape. Returns false after reporting a wrong
 * one. */
static bool add_initializer(const struct ctl_cmd *self, const struct options *o, json_t *shape)
{
	double limit;

	if (!o->init || strcmp(o->init, "zeros") == 0)
		return true;
	if (strncmp(o->init, "uniform:", 8) != 0 || !num_double(o->init + 8, &limit) ||
	    !(limit > 0)) {
		ctl_report_misuse(self,
		    "--init: must be zeros or uniform:LIMIT with a limit above 0, got \"%.60s\"",
		    o->init);
		return false;
	}
	json_object_set_new(shape, "init", json_string("uniform"));
	json_object_set_new(shape, "init_limit", json_real(limit));
	return true;
}

/* Make the body of the request. Return NULL after reporting wrong options. */
static json_t *make_add_body(const struct ctl_cmd *self, const struct options *o, const char *name)
{
	json_t *shape;

	if (!o->rows && !o->sparse) {
		ctl_report_misuse(self, "add: --rows is required for a dense table");
		return NULL;
	}
	shape = json_pack("{s:s, s:I, s:I, s:b, s:b}", "name", name, "rows", (json_int_t)o->rows,
	    "cols", (json_int_t)(o->cols ? o->cols : 1), "sparse", o->sparse, "decay", o->decay);
	if (o->policy)
		json_object_set_new(shape, "policy", json_string(o->policy));
	if (!add_initializer(self, o, shape)) {
		json_decref(shape);
		return NULL;
	}
	return json_pack("{s:o}", "add", shape);
}

static json_t *make_grow_body(const struct ctl_cmd *self, const struct options *o, const char *name)
{
	if (!o->rows) {
		ctl_report_misuse(self, "grow: --rows is required: the new number of rows");
		return NULL;
	}
	return json_pack("{s:{s:s, s:I}}", "grow", "name", name, "rows", (json_int_t)o->rows);
}

static json_t *make_drop_body(const struct ctl_cmd *self, const struct options *o, const char *name)
{
	(void)self;
	(void)o;
	return json_pack("{s:s}", "drop", name);
}

static const struct action {
	const char *name, *says;
	json_t *(*body)(const struct ctl_cmd *self, const struct options *o, const char *name);
} actions[] = {
	{ "add", "is added", make_add_body },
	{ "grow", "is extended", make_grow_body },
	{ "drop", "is dropped", make_drop_body },
};

static json_t *make_table_body(const struct ctl_cmd *self, const struct options *o,
    const struct action *a, const char *name)
{
	bool adds = a->body == make_add_body;

	if (!adds && (o->cols || o->sparse || o->init || o->policy || o->decay)) {
		ctl_report_misuse(self,
		    "--cols, --sparse, --init, --policy and --decay can only be used with add");
		return NULL;
	}
	if (a->body == make_drop_body && o->rows) {
		ctl_report_misuse(self, "--rows can only be used with add and grow");
		return NULL;
	}
	return a->body(self, o, name);
}

/* An answer without a step means that the change holds at once. */
static int run_table(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = 60 * NSEC_PER_SEC };
	json_t *body, *answer = NULL;
	const struct action *a;
	struct err e = { 0 };
	enum err_code rc;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	a = CTL_ACTION(self, argv[1], actions);
	body = a ? make_table_body(self, &o, a, argv[2]) : NULL;
	if (!body)
		return 2;
	rc = ctl_request(o.dir,
	    &(struct ctl_call){ .path = "/v1/tables", .body = body, .repeatable = true }, o.timeout,
	    &answer, &e);
	if (rc == ERR_OK && o.json)
		json_print_event("table_change", answer);
	else if (rc == ERR_OK && json_is_integer(json_object_get(answer, "step")))
		printf("%s %s, from step %lld on\n", argv[2], a->says,
		    (long long)json_int(answer, "step", 0));
	else if (rc == ERR_OK)
		printf("%s %s, from now on\n", argv[2], a->says);
	json_decref(body);
	json_decref(answer);
	return rc == ERR_OK ? 0 : ctl_fail(&e);
}

const struct ctl_cmd ctl_cmd_table = {
	"table",
	{
	    .prog = "ps-ctl table",
	    .args = "add NAME --rows N | grow NAME --rows N | drop NAME",
	    .about = "add, grow or drop tables of a running job, besides those of its model",
	    .more =
	        "The change takes effect at the same step on all servers. The table has replicas and is in\n"
	        "checkpoints and exports like any other table. grow appends rows to a dense table, and the old rows\n"
	        "do not change; a sparse table grows automatically. drop frees the memory of a table. Tables of the\n"
	        "job's model have the shape of the model and cannot be changed.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 2,
	    .max_args = 2,
	    .examples = "  ps-ctl table add emb --rows 1000 --cols 16 --init uniform:0.05\n"
	                "  ps-ctl table add ids --sparse --cols 16 --policy "
	                "admit=5,expire=100000,memory=2G\n  ps-ctl table grow emb --rows 2000\n"
	                "  ps-work push emb < gradient.npy\n  ps-ctl table drop emb\n",
	},
	run_table,
};
