/* SPDX-License-Identifier: ISC */
/* Checkpoints: what is written is read, by any number of servers; streams,
 * descriptions, digests and differences. */
#include "ckpt_fixture.h"

#include <fcntl.h>
#include <math.h>
#include <sodium.h>
#include <unistd.h>

#include "core/endian.h"
#include "format/safetensors.h"

static char dir[] = "/tmp/pskit-ckpt-XXXXXX";

/* ---- round trips ---- */

static bool part_is(const struct ckpt_reader *r, const struct ckpt_part *p)
{
	const struct ckpt_table *t = ckpt_table_find(r, p->table);
	struct ckpt_info info = ckpt_part_info(r, t, p->part);
	float w[FLOATS] = { 0 }, vector[CKPT_VECTORS_MAX][FLOATS] = { { 0 } };
	float *to[CKPT_VECTORS_MAX] = { vector[0], vector[1], vector[2], vector[3] };
	uint64_t ids[FLOATS] = { 0 }, last[2] = { 0 };
	size_t bytes = p->n * p->cols * sizeof *w, half = p->n / 2;
	struct err e = { 0 };
	bool good = t->sparse == p->sparse && info.n == p->n && info.nvectors == p->nvectors &&
	    info.version == p->version && info.step == p->step && info.nlast == p->nlast;

	good = good && !ckpt_read_part(r, t, p->part, 0, p->n, ids, w, to, p->nvectors, &e) &&
	    memcmp(w, p->w, bytes) == 0 &&
	    (!p->sparse || memcmp(ids, p->ids, p->n * sizeof *ids) == 0);
	ckpt_part_last(r, t, p->part, last);
	good = good && memcmp(last, p->last, p->nlast * sizeof *last) == 0;
	for (unsigned k = 0; k < p->nvectors; k++)
		good = good && info.vector_cols[k] == p->vector_cols[k] &&
		    memcmp(vector[k], p->vector[k], p->n * p->vector_cols[k] * sizeof *w) == 0;
	good = good && !ckpt_read_part(r, t, p->part, half, p->n - half, NULL, w, NULL, 0, &e) &&
	    memcmp(w, p->w + half * p->cols, bytes - half * p->cols * sizeof *w) == 0;
	good = good && ckpt_read_part(r, t, p->part, 1, p->n, ids, w, NULL, 0, &e) == ERR_LIMIT;
	return good &&
	    ckpt_read_part(r, t, p->part, 0, p->n, NULL, NULL, to, p->nvectors + 1, &e) ==
	    ERR_LIMIT;
}

/* The digest by its definition, from the whole tables in memory. */
static void digest_by_hand(const struct model *m, char hex[65])
{
	static const char *const order[] = { "a.nothing", "b", "emb", "w" };
	crypto_generichash_state h;
	uint8_t sum[32], le[8];
	uint64_t last = 0;

	crypto_generichash_init(&h, NULL, 0, 32);
	for (size_t t = 0; t < 4; t++) {
		crypto_generichash_update(&h, (const uint8_t *)order[t], strlen(order[t]) + 1);
		for (size_t i = 0; i < PARTS; i++)
			if (strcmp(m->part[i].table, order[t]) == 0 && !m->part[i].sparse)
				crypto_generichash_update(&h, (const uint8_t *)m->part[i].w,
				    m->part[i].n * 4);
		for (bool any = t == 2; any;) {
			const float *row = NULL;
			uint64_t best = UINT64_MAX;

			for (size_t i = 4; i < 20; i++)
				for (size_t k = 0; k < m->part[i].n; k++)
					if (m->ids[i][k] < best && m->ids[i][k] > last) {
						best = m->ids[i][k];
						row = m->part[i].w + k * COLS;
					}
			any = row != NULL;
			if (!any)
				break;
			put_le64(le, best);
			crypto_generichash_update(&h, le, 8);
			crypto_generichash_update(&h, (const uint8_t *)row, COLS * 4);
			last = best;
		}
	}
	crypto_generichash_final(&h, sum, 32);
	sodium_bin2hex(hex, 65, sum, 32);
}

static void test_round_trip(unsigned nservers, unsigned nvectors)
{
	struct model *m = model_new(1 + nvectors, nvectors);
	char *path, want[65], got[65] = "", *file;
	struct ckpt_reader *r = NULL;
	struct err e = { 0 };
	float w[150];
	bool good;

	good = !model_save(m, dir, 100, nservers, 1, 0, &path, &e) && !ckpt_verify(path, &e) &&
	    !ckpt_open(path, &r, &e);
	if (!ok(good, "%u servers, %u vectors: written and whole %s", nservers, nvectors, e.msg))
		exit(1);
	good = ckpt_step(r) == 100 && ckpt_tables(r) == 4 && !ckpt_table_find(r, "x");
	for (size_t i = 0; i < PARTS; i++)
		good = good && part_is(r, &m->part[i]);
	ok(good, "%u servers, %u vectors: every partition is as it was", nservers, nvectors);
	good = !ckpt_read_dense(r, ckpt_table_find(r, "w"), 60, 90, w, &e) &&
	    memcmp(w, m->part[0].w + 60, 16) == 0 && memcmp(w + 4, m->part[1].w, 256) == 0 &&
	    memcmp(w + 68, m->part[2].w, 88) == 0 &&
	    ckpt_read_dense(r, ckpt_table_find(r, "w"), 60, 91, w, &e) == ERR_LIMIT;
	ok(good, "a range over three partitions");
	digest_by_hand(m, want);
	good = !ckpt_digest(r, got, &e) && strcmp(got, want) == 0;
	ok(good, "%u servers: digest %.8s is %.8s", nservers, got, want);
	file = mem_printf("%s/server-0.state.safetensors", path);
	ok((access(file, F_OK) == 0) == (nvectors > 0), "a state file where there are vectors");
	free(file);
	ckpt_close(r);
	free(path);
	free(m);
}

static void test_manifest(void)
{
	struct model *m = model_new(3, 1);
	struct err e = { 0 };
	struct ckpt_reader *r;
	const struct manifest *read;
	const json_t *j;
	char *path, hex[65];

	model_save(m, dir, 100, 2, 5, 0.25, &path, &e);
	ckpt_open(path, &r, &e);
	read = ckpt_manifest(r);
	j = manifest_document(read);
	ckpt_config_digest(json_object_get(j, "config"), hex);
	ok(json_int(j, "v", 0) == 1 && json_int(j, "generation", 0) == 5 &&
	        json_int(j, "epoch", 0) == 7 &&
	        strcmp(json_str(j, "digest_of_config", ""), hex) == 0 &&
	        json_int(json_object_get(j, "data"), "at", 0) == 3 &&
	        json_num(json_object_get(j, "eval"), "loss", 0) == 0.25 &&
	        json_int(json_object_get(j, "stop"), "best_step", 0) == 60 &&
	        json_array_size(json_object_get(j, "ranks")) == 1 && !json_object_get(j, "seal"),
	    "the manifest has what it was given");
	ok(read->step == 100 && read->generation == 5 && read->epoch == 7 &&
	        read->base_step == -1 && strcmp(read->name, "test") == 0 && read->ntables == 4 &&
	        read->nfiles == 4 && strcmp(read->tables[1].name, "emb") == 0 &&
	        read->tables[1].sparse && read->tables[1].parts == 16 &&
	        read->score->loss == 0.25 && !read->data->deal,
	    "and is read as a struct");
	ckpt_close(r);
	free(path);
	free(m);
}

/* ---- streams ---- */

struct stream {
	const char *dir;
	struct ckpt_receive *r;
	size_t lose; /* this byte of a file does not come */
	size_t flip; /* this one is damaged */
	size_t at;
};

static enum err_code stream_begin(void *ctx, const char *name, uint64_t size, struct err *e)
{
	struct stream *s = ctx;

	s->at = 0;
	return ckpt_receive_begin(s->dir, name, size, true, &s->r, e);
}

static enum err_code stream_put(void *ctx, const void *p, size_t n, struct err *e)
{
	struct stream *s = ctx;
	const uint8_t *b = p;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++, s->at++) {
		uint8_t byte = b[i] ^ (s->at == s->flip);

		if (s->at != s->lose)
			rc = ckpt_receive_put(s->r, &byte, 1, e);
	}
	return rc;
}

static enum err_code stream_end(void *ctx, enum err_code rc, const char *blake2b, struct err *e)
{
	struct stream *s = ctx;

	return ckpt_receive_end(s->r, rc, blake2b, e);
}

static enum err_code stream(struct ckpt *c, const struct model *m, unsigned server, size_t lose,
    size_t flip, struct err *e)
{
	struct stream s = { ckpt_tmp(c), NULL, lose, flip, 0 };
	struct ckpt_sink sink = { &s, stream_begin, stream_put, stream_end };
	struct ckpt_part share[PARTS];
	json_t *d;
	enum err_code rc = ckpt_send_server(server, share, model_share(m, 2, server, share), &sink,
	    &d, e);

	if (!rc)
		rc = ckpt_add(c, d, e);
	json_decref(d);
	return rc;
}

static void test_stream(void)
{
	struct model *m = model_new(4, 2);
	json_t *head = model_head(1, 0);
	struct err e = { 0 };
	struct ckpt *c;
	char *path, *file;

	ckpt_begin(dir, 200, &c, &e);
	file = mem_printf("%s/server-0.params.safetensors", ckpt_tmp(c));
	ok(stream(c, m, 0, 1000, SIZE_MAX, &e) == ERR_FORMAT && access(file, F_OK),
	    "a byte is missing: %s", e.msg);
	ok(stream(c, m, 0, SIZE_MAX, 1000, &e) == ERR_FORMAT && access(file, F_OK),
	    "a bit is wrong: %s", e.msg);
	ok(!stream(c, m, 0, SIZE_MAX, SIZE_MAX, &e) && access(file, F_OK) == 0,
	    "then it comes well");
	ok(stream(c, m, 0, SIZE_MAX, SIZE_MAX, &e) == ERR_PROTO, "twice: %s", e.msg);
	ok(!stream(c, m, 1, SIZE_MAX, SIZE_MAX, &e), "the other server");
	ok(!model_commit(c, head, &path, &e) && !ckpt_verify(path, &e), "committed and whole");
	free(file);
	free(path);
	json_decref(head);
	free(m);
}

/* In bsp all partitions must have the checkpoint's step. */
static void test_steps(void)
{
	struct model *m = model_new(4, 1);
	struct err e = { 0 };
	struct ckpt *c;

	for (size_t i = 0; i < PARTS; i++)
		m->part[i].step = 210;
	ckpt_begin(dir, 210, &c, &e);
	ok(!model_write(m, c, 2, &e) && !ckpt_check_step(c, &e),
	    "all partitions have the step of the checkpoint");
	ckpt_abort(c);
	m->part[2].step = 211;
	ckpt_begin(dir, 210, &c, &e);
	ok(!model_write(m, c, 2, &e) && ckpt_check_step(c, &e) == ERR_FAILED,
	    "one of them has another: %s", e.msg);
	ckpt_abort(c);
	free(m);
}

static void test_strangers(void)
{
	static const char *const names[] = { "", "x", "../server-0.params.safetensors",
		"server-0.params.safetensors/..", "server-00.params.safetensors",
		"server--1.params.safetensors", "server-65536.params.safetensors",
		"server-0.params.safetensors.tmp", "server-.params.safetensors", "MANIFEST.json",
		"server-0.other.safetensors", "server-99999999999999999999999.params.safetensors" };
	struct ckpt_receive *r;
	struct err e = { 0 };
	bool all = true;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		all = all && ckpt_receive_begin(dir, names[i], 10, false, &r, &e) == ERR_PROTO &&
		    !r;
	ok(all, "names that are no server's: %s", e.msg);
	ok(ckpt_receive_begin(dir, "server-1.state.safetensors", (uint64_t)1 << 62, false, &r,
	       &e) == ERR_IO,
	    "more than the disk holds: %s", e.msg);
	ckpt_receive_begin(dir, "server-1.state.safetensors", 3, false, &r, &e);
	ok(!ckpt_receive_put(r, "ab", 2, &e) && ckpt_receive_put(r, "cd", 2, &e) == ERR_LIMIT,
	    "beyond its size: %s", e.msg);
	ok(ckpt_receive_end(r, ERR_LIMIT, NULL, &e) == ERR_LIMIT, "and given up");
}

static void test_descriptions(void)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"{\"files\":[],\"parts\":3}",
		"{\"files\":[],\"parts\":[[\"w\",0,\"server-0.params.safetensors\",\"1\",\"1\"]]}",
		"{\"files\":[{\"name\":\"../x\",\"size\":3,\"blake2b\":\"00\"}],\"parts\":[]}",
		"{\"files\":[7],\"parts\":[]}",
		"{\"files\":[{\"name\":\"server-0.params.safetensors\",\"size\":3,\"blake2b\":"
		"\"0000000000000000000000000000000000000000000000000000000000000000\"}],\"parts\":[]}",
	};
	struct model *m = model_new(4, 0);
	json_t *head = model_head(1, 0), *d;
	struct ckpt_part share[PARTS];
	struct err e = { 0 };
	struct ckpt *c;
	bool all = true;

	ckpt_begin(dir, 300, &c, &e);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		d = json_parse(bad[i], strlen(bad[i]), 4096, &e);
		all = all && d && ckpt_add(c, d, &e) == (i == 6 ? ERR_FORMAT : ERR_PROTO);
		json_decref(d);
	}
	ok(all, "descriptions that are none: %s", e.msg);
	ckpt_write_server(ckpt_tmp(c), 0, share, model_share(m, 2, 0, share), &d, &e);
	ckpt_add(c, d, &e);
	json_decref(d);
	ok(model_commit(c, head, NULL, &e) == ERR_FAILED, "a partition is missing: %s", e.msg);
	ckpt_begin(dir, 300, &c, &e);
	model_write(m, c, 1, &e);
	ckpt_write_server(ckpt_tmp(c), 1, share, 1, &d, &e);
	ckpt_add(c, d, &e);
	json_decref(d);
	ok(model_commit(c, head, NULL, &e) == ERR_FAILED, "a partition comes twice: %s", e.msg);
	json_object_del(head, "epoch");
	ckpt_begin(dir, 300, &c, &e);
	model_write(m, c, 1, &e);
	ok(model_commit(c, head, NULL, &e) == ERR_FAILED, "no epoch: %s", e.msg);
	m->ids[5][1] = m->ids[5][0];
	ok(ckpt_write_server(dir, 0, m->part, PARTS, &d, &e) == ERR_FAILED && !d, "ids: %s", e.msg);
	m->ids[5][1]++;
	m->part[6].nvectors = 1;
	ok(ckpt_write_server(dir, 0, m->part, PARTS, &d, &e) == ERR_FAILED && !d, "vectors: %s",
	    e.msg);
	json_decref(head);
	free(m);
}

/* ---- differences ---- */

struct seen {
	struct ckpt_difference w, emb, b;
	size_t n, same;
};

static void see(void *ctx, const struct ckpt_difference *d)
{
	struct seen *s = ctx;

	s->n++;
	s->same += ckpt_is_same(d);
	*(strcmp(d->table, "w") == 0 ? &s->w : strcmp(d->table, "emb") == 0 ? &s->emb : &s->b) = *d;
}

static void diff(const char *a, const char *b, struct seen *s)
{
	struct ckpt_reader *ra, *rb;
	struct err e = { 0 };

	*s = (struct seen){ 0 };
	ckpt_open(a, &ra, &e);
	ckpt_open(b, &rb, &e);
	if (ckpt_diff(ra, rb, see, s, &e))
		printf("# %s\n", e.msg);
	ckpt_close(ra);
	ckpt_close(rb);
}

static void test_diff(void)
{
	struct model *m = model_new(9, 1);
	struct err e = { 0 };
	struct seen s;
	char *a, *b;

	model_save(m, dir, 400, 3, 1, 0, &a, &e);
	m->values[5][1][0] += 1;
	model_save(m, dir, 500, 2, 1, 0, &b, &e);
	diff(a, b, &s);
	ok(s.n == 4 && s.same == 4 && s.w.values == 150, "no difference, by other servers");
	free(b);
	m->values[1][0][2] += 3;
	m->values[2][0][1] -= 4;
	m->values[6][0][4] = NAN;
	m->part[8].n--;
	m->ids[9][0]--;
	model_save(m, dir, 500, 2, 1, 0, &b, &e);
	diff(a, b, &s);
	ok(s.same == 2 && s.w.differ == 2 && fabs(s.w.max_abs - 4) < 1e-5 &&
	        fabs(s.w.rms - sqrt(25.0 / 150)) < 1e-5,
	    "dense: %g %g", s.w.max_abs, s.w.rms);
	ok(s.emb.differ == 1 && isinf(s.emb.max_abs) && s.emb.rows_only_a == 2 &&
	        s.emb.rows_only_b == 1,
	    "sparse: a NaN, two rows only in one, one only in the other");
	free(a);
	free(b);
	free(m);
}

int main(void)
{
	struct err e = { 0 };

	if (sodium_init() < 0 || !mkdtemp(dir))
		return 1;
	for (unsigned n = 1; n <= 6; n++)
		test_round_trip(n == 6 ? 40 : n, n % 5);
	test_manifest();
	test_stream();
	test_steps();
	test_strangers();
	test_descriptions();
	test_diff();
	file_remove_tree(dir, &e);
	return tap_done();
}
