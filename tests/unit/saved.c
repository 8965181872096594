/* SPDX-License-Identifier: ISC */
/* Saved models: what a file must say, and that each kind gives the same values. */
#include "tap.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/read.h"
#include "conf/conf.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/safetensors.h"
#include "layout/values.h"
#include "msg/manifest.h"
#include "optim/optim.h"
#include "saved/saved_kind.h"
#include "saved/saved_metadata.h"
#include "saved/saved_model.h"

#define ROWS 1000u
#define COLS 3u

static char *dir;

static const char *in_dir(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static json_t *tables(void)
{
	return json_pack("[{s:s, s:b, s:I, s:I, s:s}, {s:s, s:b, s:I, s:I, s:s}]", "name", "w",
	    "sparse", 0, "rows", (json_int_t)70000, "cols", (json_int_t)1, "seed", "1", "name", "e",
	    "sparse", 1, "rows", (json_int_t)ROWS, "cols", (json_int_t)COLS, "seed", "1");
}

static json_t *config(const char *optimizer)
{
	return json_pack("{s:s, s:{s:s, s:s, s:[s]}}", "name", "unit", "job", "model", "fm",
	    "optimizer", optimizer, "data", "/nowhere/train.svm");
}

static float value(uint64_t id, unsigned k)
{
	return (float)id / 8 + (float)k;
}

/* Writes the file NAME. entry: the description, NULL: that of the model; "": none. Rows stand in
 * descending order of their ids; twice: an id stands twice. wide: columns of e. */
static void write_file(const char *name, const char *entry, bool twice, uint32_t wide)
{
	struct safetensors_writer *w = safetensors_writer_new();
	json_t *t = tables(), *c = config("adagrad"), *facts = json_pack("{s:s}", "source", "x");
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	float *x = mem_array(70000, sizeof *x);

	if (!entry)
		saved_metadata_add(w, c, t, facts, NULL);
	else if (*entry)
		safetensors_add_meta(w, "pskit", entry);
	safetensors_add(w, "e.ids", SAFETENSORS_U64, (const uint64_t[]){ ROWS }, 1, NULL);
	safetensors_add(w, "e", SAFETENSORS_F32, (const uint64_t[]){ ROWS, wide }, 2, NULL);
	safetensors_add(w, "w", SAFETENSORS_F32, (const uint64_t[]){ 70000, 1 }, 2, NULL);
	safetensors_begin(w, safetensors_to_fd, &fd, NULL);
	for (uint64_t i = 0; i < ROWS; i++)
		safetensors_put_ids(w, &(uint64_t){ twice && i == 1 ? ROWS : ROWS - i }, 1, NULL);
	for (uint64_t i = 0; i < ROWS; i++)
		for (unsigned k = 0; k < wide; k++)
			safetensors_put(w, &(float){ value(ROWS - i, k) }, 1, NULL);
	for (size_t i = 0; i < 70000; i++)
		x[i] = (float)i;
	safetensors_put(w, x, 70000, NULL);
	ok(safetensors_end(w, NULL) == ERR_OK, "%s is written", name);
	safetensors_writer_free(w);
	close(fd);
	free(x);
	json_decref(facts);
	json_decref(c);
	json_decref(t);
}

/* Reads everything and compares it with what write_file wrote. */
static bool has_values(struct saved_model *m, unsigned nvectors, float vector)
{
	const struct layout *l = saved_model_about(m).layout;
	const struct table *e = layout_find(l, "e"), *w = layout_find(l, "w");
	bool good = e && w && w->nparts == 2;
	uint64_t rows = 0, elements = 0;
	struct saved_part p;

	for (uint32_t i = 0; good && i < e->nparts; i++) {
		good = saved_model_read(m, e, i, nvectors > 0, &p, NULL) == ERR_OK &&
		    p.nvectors == nvectors;
		for (uint64_t r = 0; good && r < p.n; r++) {
			good = table_part_of(e, p.ids[r]) == i && (!r || p.ids[r] > p.ids[r - 1]);
			for (unsigned k = 0; good && k < COLS; k++)
				good = p.w[r * COLS + k] == value(p.ids[r], k) &&
				    (!nvectors || p.vector[0][r * COLS + k] == vector);
		}
		rows += p.n;
		saved_part_release(&p);
	}
	for (uint32_t i = 0; good && i < w->nparts; i++) {
		good = saved_model_read(m, w, i, false, &p, NULL) == ERR_OK && p.nvectors == 0;
		for (uint64_t k = 0; good && k < p.n; k++)
			good = p.w[k] == (float)elements++;
		saved_part_release(&p);
	}
	return good && rows == ROWS && elements == 70000;
}

static void files(void)
{
	struct saved_model *m = NULL;
	struct saved_about about;
	struct err e;
	struct conf c;

	write_file("m.safetensors", NULL, false, COLS);
	ok(saved_model_open(in_dir("m.safetensors"), &m, &e) == ERR_OK, "a file is a model");
	about = saved_model_about(m);
	ok(!about.checkpoint && !about.optimizer && json_is_object(about.facts),
	    "it has facts, and no optimizer state");
	ok(conf_from_json(about.config, &c, &e) == ERR_OK && strcmp(c.name, "unit") == 0 &&
	        strcmp(c.job.model, "fm") == 0 && c.job.data.n == 0,
	    "its configuration is the model's, and no path goes with it");
	conf_release(&c);
	ok(has_values(m, 0, 0), "every partition has its rows, in ascending order");
	saved_model_close(m);
}

/* The file as a checkpoint for a job with another rule, and that as one of the same rule. */
static void checkpoints(void)
{
	struct saved_model *m = NULL;
	json_t *serve = json_pack("{s:s, s:b}", "name", "unit", "read_only", 1);
	char *first, *second, *third;
	struct err e;

	saved_model_open(in_dir("m.safetensors"), &m, &e);
	json_t *c = config("adagrad");

	ok(saved_model_write(m, c, in_dir("first"), &first, &e) == ERR_OK, "a file as checkpoint");
	saved_model_close(m);
	ok(saved_model_open(first, &m, &e) == ERR_OK, "which is a model: %s", first ? "" : e.msg);
	ok(strcmp(saved_model_about(m).checkpoint, first) == 0 &&
	        strcmp(saved_model_about(m).optimizer, "adagrad") == 0 &&
	        json_is_object(saved_model_about(m).facts),
	    "with the state of its job's rule and the facts");
	ok(has_values(m, 1, optim_find("adagrad")->vector_init[0]), "which begins anew");
	ok(saved_model_write(m, c, in_dir("second"), &second, &e) == ERR_OK, "written again");
	ok(saved_model_write(m, serve, in_dir("third"), &third, &e) == ERR_OK, "and to be served");
	saved_model_close(m);
	saved_model_open(second, &m, &e);
	ok(has_values(m, 1, optim_find("adagrad")->vector_init[0]), "nothing is lost on the way");
	saved_model_close(m);
	saved_model_open(third, &m, &e);
	ok(has_values(m, 0, 0) && !saved_model_about(m).optimizer,
	    "what is served needs no optimizer state");
	saved_model_close(m);
	ok(saved_checkpoint_open_copy(second, "s3://b/k/step-0", &m, &e) == ERR_OK,
	    "a downloaded checkpoint is a model: %s", second);
	m->about.layout = &m->layout; /* as saved_model_open does */
	file_remove_tree(in_dir("second"), NULL);
	ok(strcmp(saved_model_about(m).path, "s3://b/k/step-0") == 0 &&
	        !saved_model_about(m).checkpoint &&
	        strcmp(saved_model_about(m).optimizer, "adagrad") == 0 &&
	        has_values(m, 1, optim_find("adagrad")->vector_init[0]),
	    "which stays readable when it has been removed");
	saved_model_close(m);
	json_decref(c);
	json_decref(serve);
	free(first);
	free(second);
	free(third);
}

static void refused(const char *name, enum err_code code, const char *why)
{
	struct saved_model *m = NULL;
	struct err e = { 0 };
	enum err_code rc = saved_model_open(in_dir(name), &m, &e);

	ok(rc == code && !m && strstr(e.msg, why), "%s: %s", name, e.msg);
}

static void damage(void)
{
	struct saved_model *m = NULL;
	struct saved_part p;
	struct err e;
	enum err_code rc = ERR_OK;

	refused("nowhere", ERR_NOTFOUND, "cannot read the model");
	write_file("alone.safetensors", "", false, COLS);
	refused("alone.safetensors", ERR_FORMAT, "has no description of its model");
	write_file("text.safetensors", "{\"v\":1", false, COLS);
	refused("text.safetensors", ERR_FORMAT, "the description of its model is damaged");
	write_file("empty.safetensors", "{\"v\":1}", false, COLS);
	refused("empty.safetensors", ERR_FORMAT, "it has no configuration or no tables");
	write_file("later.safetensors", "{\"v\":2,\"config\":{},\"tables\":[]}", false, COLS);
	refused("later.safetensors", ERR_UNSUPPORTED, "by a later pskit");
	write_file("odd.safetensors", "{\"v\":1,\"config\":{},\"tables\":[{\"name\":3}]}", false,
	    COLS);
	refused("odd.safetensors", ERR_CONFIG, "the description of its model");
	write_file("wide.safetensors", NULL, false, COLS + 1);
	refused("wide.safetensors", ERR_FORMAT, "table \"e\" is missing or its shape differs");
	write_file("twice.safetensors", NULL, true, COLS);
	ok(saved_model_open(in_dir("twice.safetensors"), &m, &e) == ERR_OK, "ids are read later");
	for (uint32_t i = 0; !rc && i < layout_find(saved_model_about(m).layout, "e")->nparts;
	     i++) {
		rc = saved_model_read(m, layout_find(saved_model_about(m).layout, "e"), i, false,
		    &p, &e);
		saved_part_release(&p);
	}
	ok(rc == ERR_FORMAT && strstr(e.msg, "has row 1000 twice"), "%s", e.msg);
	saved_model_close(m);
	mkdir(in_dir("run"), 0700);
	refused("run", ERR_NOTFOUND, "has neither model.safetensors nor a whole checkpoint");
}

/* Overwrites four bytes of a file, `before` bytes before its end, with a NaN. */
static void spoil_file(const char *name, long before)
{
	FILE *f = fopen(in_dir(name), "r+");

	if (f) {
		fseek(f, -before, SEEK_END);
		fwrite(&(float){ NAN }, sizeof(float), 1, f);
		fclose(f);
	}
}

static void values(void)
{
	const float w[] = { 1, 2, -INFINITY, 4 };
	json_t *c = config("adagrad");
	struct saved_model *m = NULL;
	struct err e = { 0 };
	char *path = NULL;

	ok(values_check_dense("w", 2, 10, w, 2, &e) == ERR_OK, "finite values are good");
	ok(values_check_dense("w", 2, 10, w, 4, &e) == ERR_NONFINITE &&
	        strcmp(e.msg, "table \"w\" has the value -infinity in row 6, column 0") == 0,
	    "%s", e.msg);
	ok(values_check_rows("e", 2, (const uint64_t[]){ 7, 900 }, w, 2, &e) == ERR_NONFINITE &&
	        strcmp(e.msg, "table \"e\" has the value -infinity in row 900, column 0") == 0,
	    "%s", e.msg);
	write_file("nan.safetensors", NULL, false, COLS);
	spoil_file("nan.safetensors", 4);
	saved_model_open(in_dir("nan.safetensors"), &m, &e);
	ok(saved_model_write(m, c, in_dir("nan"), &path, &e) == ERR_NONFINITE &&
	        strstr(e.msg, "nan.safetensors is damaged: table \"w\" has the value NaN in row 69999"),
	    "%s", e.msg);
	saved_model_close(m);
	write_file("row.safetensors", NULL, false, COLS);
	spoil_file("row.safetensors", 70001 * 4);
	saved_model_open(in_dir("row.safetensors"), &m, &e);
	ok(saved_model_write(m, c, in_dir("row"), &path, &e) == ERR_OK,
	    "a row of a sparse table is checked when it is used");
	saved_model_close(m);
	free(path);
	json_decref(c);
}

static void names(void)
{
	ok(saved_model_is_named("not/there.safetensors"), "a name that ends so means a model");
	ok(saved_model_is_named(in_dir("first/step-000000000000")), "a checkpoint is one");
	ok(saved_model_is_named("s3://b/k/step-000000000100") &&
	        saved_model_is_named("https://h/k/step-000000000100/") &&
	        !saved_model_is_named("s3://b/k/step-000000000100/train.csv") &&
	        !saved_model_is_named("s3://b/k") && !saved_model_is_named("step-000000000100"),
	    "so is a URL that ends in a step");
	ok(!saved_model_is_named("train.csv") && !saved_model_is_named(".safetensors") &&
	        !saved_model_is_named(in_dir("run")),
	    "other files and directories are none");
	mkdir(in_dir("run/checkpoints"), 0700);
	ok(saved_model_is_named(in_dir("run")), "a run directory is one");
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	dir = mem_printf("%s/saved-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return 1;
	files();
	checkpoints();
	damage();
	values();
	names();
	file_remove_tree(dir, NULL);
	free(dir);
	return tap_done();
}
