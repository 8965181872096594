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

/* The description of the data that write_file writes. */
static json_t *file_facts;

/* Writes the file NAME. entry: the description, NULL: that of the model; "": none. Rows stand in
 * descending order of their ids; twice: an id stands twice. wide: columns of e. */
static void write_file(const char *name, const char *entry, bool twice, uint32_t wide)
{
	struct safetensors_writer *w = safetensors_writer_new();
	json_t *t = tables(), *c = config("adagrad"),
	       *facts = file_facts ? json_incref(file_facts) : json_pack("{s:s}", "source", "x");
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
	ok(!about.optimizer && json_is_object(about.facts), "it has facts, and no optimizer state");
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
	ok(strcmp(saved_model_about(m).path, first) == 0 &&
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

/* Replaces `from` by `to`, of the same length, where it stands first in the file after `skip` bytes. */
static void replace_in_file(const char *name, const char *as, const char *from, const char *to,
    size_t skip)
{
	struct buf b = BUF_INIT;
	uint8_t *at;

	file_read(in_dir(name), 1 << 24, &b, NULL);
	at = memmem(b.data + skip, b.len - skip, from, strlen(from));
	if (at)
		memcpy(at, to, strlen(to));
	ok(at && !file_replace(in_dir(as), b.data, b.len, 0600, NULL), "%s becomes %s", from, to);
	buf_release(&b);
}

/* Has the model, a file or a checkpoint, the large description? */
static bool has_facts(const char *path)
{
	struct saved_model *m = NULL;
	struct err e = { 0 };
	bool has = !saved_model_open(path, &m, &e) &&
	    json_equal(saved_model_about(m).facts, file_facts) && has_values(m, 0, 0);

	if (!has)
		printf("# %s\n", e.msg);
	saved_model_close(m);
	return has;
}

/* A description of very many names is a tensor of the file, and a file of the checkpoint. */
static void large(void)
{
	json_t *list = json_array(),
	       *serve = json_pack("{s:s, s:b}", "name", "unit", "read_only", 1);
	struct saved_model *m = NULL;
	struct safetensors *file;
	struct err e = { 0 };
	char *path = NULL;

	for (size_t i = 0; i < 9000; i++)
		json_array_append_new(list, json_sprintf("city=caf\u00e9 %zu", i));
	file_facts = json_pack("{s:s, s:o}", "source", "x", "names", list);
	write_file("large.safetensors", NULL, false, COLS);
	ok(has_facts(in_dir("large.safetensors")), "a large description comes back from a file");
	ok(!safetensors_open(in_dir("large.safetensors"), &file, &e) &&
	        safetensors_count(file) == 4 && safetensors_at(file, 3)->type == SAFETENSORS_U8 &&
	        strlen(safetensors_meta(file, "pskit")) < 2000,
	    "it is the last tensor, and not in the metadata");
	safetensors_close(file);
	saved_model_open(in_dir("large.safetensors"), &m, &e);
	ok(!saved_model_write(m, serve, in_dir("large"), &path, &e) && has_facts(path),
	    "and from a checkpoint: %s", e.msg);
	saved_model_close(m);
	free(path);
	replace_in_file("large.safetensors", "bits.safetensors", "city=caf", "city=cat", 1000);
	refused("bits.safetensors", ERR_FORMAT, "its digest differs");
	replace_in_file("large.safetensors", "gone.safetensors", "\"pskit:descr", "\"pskit_descr",
	    0);
	refused("gone.safetensors", ERR_FORMAT, "and is missing");
	replace_in_file("large.safetensors", "size.safetensors", "\\\"size\\\":1", "\\\"size\\\":2",
	    0);
	refused("size.safetensors", ERR_FORMAT, "has another type or size");
	replace_in_file("large.safetensors", "minus.safetensors", "\\\"size\\\":1",
	    "\\\"size\\\":-", 0);
	ok(!saved_model_open(in_dir("minus.safetensors"), &m, &e) &&
	        json_object_size(saved_model_about(m).facts) == 2,
	    "a size that can be none is no reference");
	saved_model_close(m);
	json_decref(file_facts);
	file_facts = NULL;
	json_decref(serve);
}

/* A file that has the entry of its model and a tensor of floats for the description. */
static void wrong_tensor(void)
{
	struct safetensors_writer *w = safetensors_writer_new();
	json_t *entry = json_pack("{s:i, s:{}, s:[], s:{s:i, s:s}}", "v", 1, "config", "tables",
	    "facts", "size", 8, "blake2b",
	    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
	char *text = json_text(entry);
	int fd = open(in_dir("floats.safetensors"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	safetensors_add_meta(w, "pskit", text);
	safetensors_add(w, "pskit:description", SAFETENSORS_F32, (const uint64_t[]){ 8 }, 1, NULL);
	safetensors_begin(w, safetensors_to_fd, &fd, NULL);
	safetensors_put(w, (const float[8]){ 0 }, 8, NULL);
	safetensors_end(w, NULL);
	safetensors_writer_free(w);
	close(fd);
	refused("floats.safetensors", ERR_FORMAT, "has another type or size");
	free(text);
	json_decref(entry);
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
	        strstr(e.msg,
	            "nan.safetensors is damaged: table \"w\" has the value NaN in row 69999"),
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
	large();
	wrong_tensor();
	values();
	names();
	file_remove_tree(dir, NULL);
	free(dir);
	return tap_done();
}
