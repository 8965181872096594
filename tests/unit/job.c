/* SPDX-License-Identifier: ISC */
/* Tests the figures that a job computes of its training data before it begins. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "data/data.h"
#include "data/table/data_schema.h"
#include "model/model.h"
#include "tap.h"
#include "worker/data_facts.h"
#include "worker/job.h"

enum { ROWS = 200 };

/* Loads a job that holds out half of the examples of a file. */
static struct job load_job(const char *path, const char *options, const char *model,
    const char *more)
{
	struct log quiet = { .level = LOG_LEVEL_ERROR, .fd = -1 };
	const struct job_source from = { .models = model_kinds_all, .trains = true, .log = &quiet };
	char *text = mem_printf("{\"job\": {\"model\": \"%s\", \"data\": \"%s%s\", \"epochs\": 1, "
	                        "\"cache\": \"none\", \"validate\": \"50%%\"%s}}",
	    model, path, options, more);
	json_t *config = json_loads(text, 0, NULL);
	struct job j;
	struct err e = { 0 };

	if (!config || job_load(config, &from, &j, &e)) {
		printf("# %s\n", e.msg);
		abort();
	}
	json_decref(config);
	free(text);
	return j;
}

/* Writes ratings from 1 to 5, the high ones at the end. */
static void put_ratings(const char *path)
{
	FILE *f = fopen(path, "w");

	for (int i = 0; f && i < ROWS; i++)
		fprintf(f, "%d\t%d\t%d\n", i % 17, i % 13, 1 + i / 40);
	if (!f || fclose(f))
		abort();
}

static void test_initial_mean(const char *path)
{
	struct job j = load_job(path, "?format=ratings", "mf", "");
	json_t *tables = job_tables(&j), *t;
	double trained = 0, all = 0, limit = NAN;
	size_t i;

	for (size_t r = 0; r < j.split.ntrain; r++)
		trained += (double)j.train->y[j.split.train[r]] / j.split.ntrain;
	for (size_t r = 0; r < j.train->rows; r++)
		all += (double)j.train->y[r] / (double)j.train->rows;
	json_array_foreach(tables, i, t)
		if (json_real_value(json_object_get(t, "init_limit")) > 1)
			limit = json_real_value(json_object_get(t, "init_limit"));
	ok(j.split.nheld_out && fabs(all - trained) > 1e-4 && fabs(limit - trained) < 1e-6,
	    "mf begins with the mean of the ratings that it is trained on, %.6f; of all it is %.6f",
	    limit, all);
	json_decref(tables);
	job_release(&j);
}

/* The loss of row r, of all parameters 0: its weight times log 2. */
static double zero_loss(const struct job *j, uint32_t r)
{
	struct batch b = { 0 };
	float *zero[2] = { NULL }, *grad[2] = { NULL };
	struct err e;
	double loss;

	if (j->ntables > 2 || data_gather(j->train, &r, 1, &b, &e))
		abort();
	for (size_t i = 0; i < j->ntables; i++) {
		zero[i] = mem_array(j->table[i].rows * j->table[i].cols, sizeof **zero);
		grad[i] = mem_array(j->table[i].rows * j->table[i].cols, sizeof **grad);
	}
	loss = model_grad(j->model, &b, (const float *const *)zero, grad);
	for (size_t i = 0; i < 2; i++) {
		free(zero[i]);
		free(grad[i]);
	}
	batch_release(&b);
	return loss;
}

static void test_balanced_classes(const char *path)
{
	FILE *f = fopen(path, "w");
	struct job j;
	uint32_t ones = 0;
	double want;

	for (int i = 0; f && i < ROWS; i++)
		fprintf(f, "%d,%d,%d\n", i % 3, i % 7, i < ROWS - 30 ? 0 : 1);
	if (!f || fclose(f))
		abort();
	j = load_job(path, "", "logistic", ", \"class_weight\": \"balanced\"");
	for (size_t r = 0; r < j.split.ntrain; r++)
		ones += j.train->y[j.split.train[r]] > 0;
	want = (double)j.split.ntrain / (2 * ones) * log(2);
	ok(j.split.nheld_out && (double)j.split.ntrain / ones != ROWS / 30.0 &&
	        fabs(zero_loss(&j, ROWS - 1) - want) < 1e-5,
	    "balanced weights are of the %u examples of %u that are trained on: loss %.6f, not %.6f",
	    ones, j.split.ntrain, zero_loss(&j, ROWS - 1), want);
	job_release(&j);
}

/* Writes the text of a table. */
static void put_table(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		abort();
}

/* Loads a table by the description of another one that the model was trained on before. *out: the job,
 * which is empty after an error. */
static enum err_code go_on_with(const char *path, const char *text, const json_t *before,
    struct job *out, struct err *e)
{
	struct log quiet = { .level = LOG_LEVEL_ERROR, .fd = -1 };
	const struct job_source from = { .models = model_kinds_all,
		.trains = true,
		.before = before,
		.log = &quiet };
	json_t *config = json_pack("{s:{s:s, s:s, s:i, s:s}}", "job", "model", "logistic", "data",
	    path, "epochs", 1, "cache", "none");
	enum err_code rc;

	*e = (struct err){ 0 };
	put_table(path, text);
	rc = job_load(config, &from, out, e);
	json_decref(config);
	return rc;
}

/* A job that goes on with a checkpoint reads the data by the checkpoint's description. */
static void test_goes_on(const char *path)
{
	static const char *const table = "x,town,y\n1,Rome,0\n2,Oslo,1\n3,Rome,1\n5,Oslo,0\n";
	struct err e = { 0 };
	struct job j;
	json_t *before;

	put_table(path, table);
	j = load_job(path, "", "logistic", "");
	before = data_facts(j.train);
	job_release(&j);

	ok(!go_on_with(path, table, before, &j, &e) && !j.train->schema->feature_of,
	    "the same data are read as at the first start");
	job_release(&j);
	ok(!go_on_with(path, "town,y,x\nRome,0,11\nRome,1,12\n", before, &j, &e) &&
	        j.train->cols == 3 &&
	        fabs((double)j.train->x[0] - (11 - 2.75) / 1.4790199) < 1e-4 &&
	        j.train->x[1] == 0 && j.train->x[2] == 1,
	    "columns are found by name; scaling and numbers of categories are the checkpoint's: %s",
	    e.msg);
	job_release(&j);
	ok(go_on_with(path, "x,town,y\n1,Bern,0\n2,Oslo,1\n3,Rome,1\n", before, &j, &e) ==
	            ERR_CONFIG &&
	        strstr(e.msg, "town=Bern") && strstr(e.msg, "job.data"),
	    "a dense model cannot grow, and the new feature is named: %s", e.msg);
	ok(go_on_with(path, "x,town,y\n1,Rome,1\n2,Oslo,-1\n3,Rome,-1\n", before, &j, &e) &&
	        strstr(e.msg, "job.data"),
	    "other classes are refused: %s", e.msg);
	ok(go_on_with(path, "town,y\nRome,0\nOslo,1\n", before, &j, &e) && strstr(e.msg, "\"x\""),
	    "a column that is missing is named: %s", e.msg);
	json_decref(before);

	put_table(path, "town,y\nRome,0\nOslo,1\n");
	j = load_job(path, "", "logistic", "");
	before = data_facts(j.train);
	job_release(&j);
	ok(!go_on_with(path, "town,y\nRome,0\nOslo,1\n", before, &j, &e) &&
	        !j.train->schema->feature_of,
	    "the same data are the same where no column needs scaling");
	job_release(&j);
	json_decref(before);
}

int main(void)
{
	char path[] = "/tmp/pskit-job-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	put_ratings(path);
	test_initial_mean(path);
	test_balanced_classes(path);
	test_goes_on(path);
	unlink(path);
	return tap_done();
}
