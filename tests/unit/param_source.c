/* SPDX-License-Identifier: ISC */
/* Sources of parameters: a server, a file and a checkpoint give equal values, and damage of a saved
 * model is found. */
#include "ear_fixture.h"
#include "tap.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "client/client_source.h"
#include "core/endian.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/safetensors.h"
#include "layout/values.h"
#include "saved/saved_metadata.h"
#include "saved/saved_model.h"
#include "saved/saved_source.h"

/* Rows of the sparse table e, with the ids 0, 7, 14, ... */
#define ROWS 1000u
#define COLS 3u
/* Values of the dense table w, in two partitions; and more values than are checked at once. */
#define DENSE 70000u
#define LARGE (5u * (1u << 20))
#define ASKED 2000u

static char *dir;
static struct layout l;

static const char *in_dir(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static float element(uint64_t i)
{
	return (float)i / 3;
}

/* The values of a row: the given ones, or the initial ones if it does not exist. */
static void fill_row(uint64_t id, float *out)
{
	const struct table *e = layout_find(&l, "e");

	if (id % 7 == 0 && id < 7 * ROWS)
		for (unsigned k = 0; k < COLS; k++)
			out[k] = (float)id + (float)k / 4;
	else
		init_fill(e, init_row_place(e, id), COLS, out);
}

/* ---- the sources ---- */

/* Answers a pull as a server with both tables does. */
static void answer_pull(struct ear *x, const struct record *r, const uint8_t *payload)
{
	struct record out = { .seq = r->seq,
		.epoch = r->epoch,
		.generation = r->generation,
		.table = r->table,
		.part = r->part,
		.total = 1 };
	const struct table *w = layout_find(&l, "w");
	float *values = mem_array(DENSE + 2 * ASKED * COLS, sizeof *values);
	struct payload_run run;
	size_t n = 0;

	if (r->type == REC_PULL && payload_get_run(payload, r->len, 0, &run)) {
		out.type = REC_PULLED;
		for (uint32_t p = 0; p < run.count; p++) {
			n = table_part_elements(w, run.first + p);
			for (size_t i = 0; i < n; i++)
				values[i] = element(table_part_begin(w, run.first + p) + i);
			out.part = run.first + p;
			out.len = (uint32_t)(n * sizeof *values);
			conn_send(x->conn, &out, values);
		}
	} else if (r->type == REC_PULL_ROWS) {
		out.type = REC_ROWS;
		for (n = 0; n < r->len / 8; n++)
			fill_row(get_le64(payload + 8 * n), values + n * COLS);
		out.len = (uint32_t)(n * COLS * sizeof *values);
		conn_send(x->conn, &out, values);
	}
	free(values);
}

static json_t *tables(uint64_t dense)
{
	return json_pack("[{s:s, s:b, s:I, s:I, s:s}, {s:s, s:b, s:I, s:I, s:s, s:s, s:f}]", "name",
	    "w", "sparse", 0, "rows", (json_int_t)dense, "cols", (json_int_t)1, "seed", "1", "name",
	    "e", "sparse", 1, "rows", (json_int_t)ROWS, "cols", (json_int_t)COLS, "seed", "5",
	    "init", "uniform", "init_limit", 0.5);
}

/* Writes a model file. ascend: the rows lie by ascending ids; twice: two rows have the same id;
 * bad: the number of a dense value that is NaN, or -1. */
static void write_file(const char *name, uint64_t dense, bool ascend, bool twice, int64_t bad)
{
	struct safetensors_writer *w = safetensors_writer_new();
	json_t *t = tables(dense),
	       *c = json_pack("{s:s, s:{s:s, s:s, s:[s], s:s}}", "name", "unit", "job", "model",
	           "fm", "optimizer", "sgd", "data", "/nowhere/train.svm", "init",
	           "/nowhere/first.safetensors"),
	       *facts = json_pack("{s:s}", "source", "x");
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	float *x = mem_array(dense, sizeof *x), row[COLS];

	saved_metadata_add(w, c, t, facts, NULL);
	safetensors_add(w, "e.ids", SAFETENSORS_U64, (const uint64_t[]){ ROWS }, 1, NULL);
	safetensors_add(w, "e", SAFETENSORS_F32, (const uint64_t[]){ ROWS, COLS }, 2, NULL);
	safetensors_add(w, "w", SAFETENSORS_F32, (const uint64_t[]){ dense, 1 }, 2, NULL);
	safetensors_begin(w, safetensors_to_fd, &fd, NULL);
	for (uint64_t i = 0; i < ROWS; i++) {
		uint64_t k = ascend ? i : ROWS - 1 - i;

		safetensors_put_ids(w, &(uint64_t){ 7 * (twice && i == 5 ? k + 1 : k) }, 1, NULL);
	}
	for (uint64_t i = 0; i < ROWS; i++) {
		fill_row(7 * (ascend ? i : ROWS - 1 - i), row);
		safetensors_put(w, row, COLS, NULL);
	}
	for (uint64_t i = 0; i < dense; i++)
		x[i] = (int64_t)i == bad ? NAN : element(i);
	safetensors_put(w, x, dense, NULL);
	if (safetensors_end(w, NULL))
		abort();
	safetensors_writer_free(w);
	close(fd);
	free(x);
	json_decref(facts);
	json_decref(c);
	json_decref(t);
}

/* The model file as a checkpoint; a fresh path. */
static char *write_checkpoint(const char *name)
{
	char *into = mem_printf("%s/of-%s", dir, name);
	json_t *serve = json_pack("{s:s, s:b, s:{s:s, s:s, s:[s]}}", "name", "unit", "read_only", 1,
	    "job", "model", "fm", "optimizer", "sgd", "data", "/nowhere/train.svm");
	struct saved_model *m = NULL;
	char *path = NULL;

	if (saved_model_open(in_dir(name), &m, NULL) ||
	    saved_model_write(m, serve, into, &path, NULL))
		abort();
	saved_model_close(m);
	json_decref(serve);
	free(into);
	return path;
}

/* ---- reading ---- */

/* Reads both tables, with rows that exist and rows that do not, in no order, and compares them with
 * what they must be. */
static bool has_values(struct param_source *s)
{
	const struct layout *shapes = s->ops->layout(s);
	const struct table *w = layout_find(shapes, "w"), *e = layout_find(shapes, "e");
	float *dense = mem_array(DENSE, sizeof *dense), *row = mem_array(ASKED * COLS, sizeof *row),
	      want[COLS];
	uint64_t *id = mem_array(ASKED, sizeof *id);
	const float *lent = dense;
	struct err err = { 0 };
	enum err_code rc;
	bool good = true;

	for (uint64_t i = 0; i < ASKED; i++)
		id[i] = i < ROWS ? (i * 7919) % 8000 : i == ROWS ? UINT64_MAX : 7 * (ASKED - i);
	rc = s->ops->want_dense(s, w, NULL, dense, &err);
	for (size_t at = 0; !rc && at < ASKED; at += ASKED / 2)
		rc = s->ops->want_rows(s, e, id + at, ASKED / 2, false, row + at * COLS, &err);
	if (!rc)
		rc = s->ops->wait(s, &err);
	if (!rc && param_source_is_constant(s))
		rc = s->ops->lend_dense(s, w, &lent, &err);
	if (!rc)
		rc = s->ops->attend(s, &err);
	if (!rc)
		rc = param_source_finish(s, &err);
	for (size_t i = 0; i < DENSE; i++)
		good &= dense[i] == element(i) && lent[i] == element(i);
	for (size_t i = 0; i < ASKED; i++) {
		fill_row(id[i], want);
		good &= memcmp(row + i * COLS, want, sizeof want) == 0;
	}
	if (rc)
		printf("# %s\n", err.msg);
	free(dense);
	free(row);
	free(id);
	return good && !rc;
}

static void read_cluster(void)
{
	static const uint8_t psk[32] = { 9 };
	struct client_config cfg = { .deadline = 60 * NSEC_PER_SEC, .attend_fd = -1 };
	const struct view *view = NULL;
	struct identity id = { 0 };
	struct client_source s;
	struct key_pair key;
	struct log logger;
	struct ear x;

	log_init(&logger, "client", 2, LOG_LEVEL_ERROR);
	ear_open(&x, psk);
	atomic_store(&x.answer, answer_pull);
	key_pair_generate(&key);
	handshake_identity_init(&id.conn.hs, &key, psk);
	cfg.id = &id;
	cfg.log = &logger;
	cfg.rank = CLIENT_NO_RANK;
	cfg.transport = transport_find("tcp");
	client_new(&cfg, &s.client, NULL);
	if (ear_view(&x, NULL, &l, 1, &view, NULL) || client_apply_view(s.client, view, NULL))
		abort();
	client_source_init(&s, s.client);
	ok(has_values(&s.source), "the servers give all values");
	ok(!param_source_is_constant(&s.source), "which may change");
	client_free(s.client);
	view_release(view);
	ear_close(&x);
}

/* The rows that each_row has given: `left` stops it. */
struct given {
	size_t n, left;
	uint64_t sum; /* of the ids */
	bool good;
};

static enum err_code count_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct given *g = ctx;
	float want[COLS];

	for (size_t i = 0; i < n; i++) {
		fill_row(ids[i], want);
		g->good &= ids[i] % 7 == 0 && !memcmp(want, rows + i * COLS, sizeof want);
		g->sum += ids[i] / 7;
	}
	g->n += n;
	return g->n < g->left ? ERR_OK : err_set(e, ERR_STOPPED, "enough");
}

/* Does each_row give every row once, and end with the first error? */
static bool has_each_row(struct param_source *s)
{
	const struct table *t = layout_find(s->ops->layout(s), "e");
	struct given all = { .left = SIZE_MAX, .good = true }, some = { .left = 1, .good = true };
	struct err e = { 0 };

	return !s->ops->each_row(s, t, count_rows, &all, &e) && all.good && all.n == ROWS &&
	    all.sum == (uint64_t)ROWS * (ROWS - 1) / 2 &&
	    s->ops->each_row(s, t, count_rows, &some, &e) == ERR_STOPPED && some.n <= ROWS;
}

static void read_saved(const char *path, const char *what)
{
	struct param_source *s = NULL;
	struct err e = { 0 };

	if (saved_source_open(path, &s, &e))
		printf("# %s\n", e.msg);
	ok(s && has_values(s), "%s: equal values", what);
	ok(s && has_each_row(s), "each row once");
	ok(s && param_source_is_constant(s) && json_is_object(s->facts) &&
	        json_is_object(json_object_get(s->config, "job")),
	    "with the description");
	saved_source_close(s);
}

static void refuse(const char *path, enum err_code code, const char *why)
{
	struct param_source *s = NULL;
	struct err e = { 0 };
	enum err_code rc = saved_source_open(path, &s, &e);

	ok(rc == code && !s && strstr(e.msg, why), "%s: %s", path, e.msg);
}

/* Changes the last byte of the parameters in a checkpoint, or of its optimizer state. */
static void spoil_checkpoint(const char *path, const char *name)
{
	char *file = path_join(path, name);
	int fd = open(file, O_RDWR);
	off_t end = lseek(fd, -1, SEEK_END);
	uint8_t byte;

	if (fd < 0 || pread(fd, &byte, 1, end) != 1 ||
	    pwrite(fd, &(uint8_t){ byte ^ 1 }, 1, end) != 1)
		abort();
	close(fd);
	free(file);
}

/* A damaged file of a checkpoint is found at once if it is small, or at the latest in the end. */
static void find_wrong_digests(const char *small)
{
	struct param_source *s = NULL;
	struct err e = { 0 };
	char *large;

	spoil_checkpoint(small, "server-0.params.safetensors");
	refuse(small, ERR_FORMAT, "is damaged: its digest differs from the one in the manifest");
	write_file("large.safetensors", LARGE, true, false, -1);
	large = write_checkpoint("large.safetensors");
	ok(!saved_source_open(large, &s, &e) && !param_source_finish(s, &e),
	    "a large checkpoint is whole");
	saved_source_close(s);
	spoil_checkpoint(large, "server-0.params.safetensors");
	ok(!saved_source_open(large, &s, &e) && param_source_finish(s, &e) == ERR_FORMAT &&
	        strstr(e.msg, "server-0.params.safetensors\" is damaged: its digest differs"),
	    "a large one that is not: %s", e.msg);
	saved_source_close(s);
	free(large);
}

/* A value that is not finite is found before the model is used, or at the latest afterwards. */
static void find_damage(void)
{
	struct param_source *s = NULL;
	struct err e = { 0 };
	enum err_code rc;

	write_file("twice.safetensors", DENSE, false, true, -1);
	refuse(in_dir("twice.safetensors"), ERR_FORMAT, "twice.safetensors: table \"e\" has row ");
	write_file("early.safetensors", DENSE, true, false, 69999);
	refuse(in_dir("early.safetensors"), ERR_NONFINITE,
	    "early.safetensors is damaged: table \"w\" has the value NaN in row 69999, column 0");
	write_file("late.safetensors", LARGE, true, false, LARGE - 1);
	rc = saved_source_open(in_dir("late.safetensors"), &s, &e);
	ok(!rc && param_source_finish(s, &e) == ERR_NONFINITE &&
	        strstr(e.msg, "is damaged: table \"w\" has the value NaN in row 5242879"),
	    "late.safetensors: %s", e.msg);
	saved_source_close(s);
	rc = saved_source_open(in_dir("late.safetensors"), &s, &e);
	for (unsigned i = 0; !rc && i < 2; i++)
		rc = s->ops->attend(s, &e);
	ok(rc == ERR_NONFINITE, "a program that goes on for long finds it, too");
	saved_source_close(s);
}

int main(void)
{
	json_t *t = tables(DENSE), *item;
	char *checkpoint;
	size_t i;

	dir = strdup("/tmp/ps-source-XXXXXX");
	if (!mkdtemp(dir))
		abort();
	layout_reserve(&l);
	json_array_foreach(t, i, item) {
		struct table shape, *made;

		if (table_from_json(item, &shape, NULL) || layout_add(&l, &shape, &made, NULL))
			abort();
	}
	layout_place(&l, (const uint16_t[]){ 0 }, 1, 1);
	read_cluster();
	write_file("m.safetensors", DENSE, true, false, -1);
	read_saved(in_dir("m.safetensors"), "a file");
	write_file("down.safetensors", DENSE, false, false, -1);
	read_saved(in_dir("down.safetensors"), "a file whose rows do not ascend");
	checkpoint = write_checkpoint("m.safetensors");
	read_saved(checkpoint, "a checkpoint");
	find_damage();
	find_wrong_digests(checkpoint);
	file_remove_tree(dir, NULL);
	layout_release(&l);
	json_decref(t);
	free(checkpoint);
	free(dir);
	return tap_done();
}
