/* SPDX-License-Identifier: ISC */
#ifndef CKPT_FIXTURE_H
#define CKPT_FIXTURE_H

/* A model of two dense tables and a sparse one, whose values follow from a seed,
 * dealt over any number of servers and written as a checkpoint. */
#include "tap.h"

#include <sys/stat.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/rng.h"
#include "ckpt/dirs.h"
#include "ckpt/names.h"
#include "ckpt/read.h"
#include "ckpt/write.h"
#include "format/digest.h"
#include "msg/large_description.h"

#define PARTS  21 /* w: 3, b: 1, emb: 16, and nothing: 1 */
#define COLS   3
#define FLOATS 512

struct model {
	unsigned nvectors;
	struct large_description *large; /* of its data; NULL: none */
	struct ckpt_part part[PARTS];
	uint64_t ids[PARTS][FLOATS / COLS];
	uint64_t last[PARTS];
	float values[PARTS][1 + CKPT_VECTORS_MAX][FLOATS];
};

static inline void model_part(struct model *m, size_t at, const char *table, uint32_t part,
    uint32_t cols, uint64_t n, struct rng *r)
{
	struct ckpt_part *p = &m->part[at];

	*p = (struct ckpt_part){ .table = table,
		.sparse = cols > 0,
		.part = part,
		.cols = cols ? cols : 1,
		.values = cols && m->nvectors % 2 ? ELEMENT_bf16 : ELEMENT_f32,
		.n = n,
		.nvectors = m->nvectors,
		.version = rng_next(r),
		.step = at,
		.w = m->values[at][0],
		.last = m->last + at,
		.nlast = at < PARTS - 2 ? 2 : 0 };
	m->last[at] = rng_next(r);
	for (uint64_t i = 0; cols && i < n; i++)
		m->ids[at][i] = (i ? m->ids[at][i - 1] + 1 : 0) + rng_next(r) % (UINT64_MAX / 400);
	p->ids = cols ? m->ids[at] : NULL;
	for (unsigned k = 0; k <= m->nvectors; k++) {
		for (size_t i = 0; i < n * p->cols; i++)
			m->values[at][k][i] = (float)rng_normal(r);
		if (k == 0)
			element_fit(p->values, n * p->cols, m->values[at][k]);
		if (k > 0) {
			p->vector[k - 1] = m->values[at][k];
			/* The second vector has one value for each row. */
			p->vector_cols[k - 1] = k == 2 ? 1 : p->cols;
		}
	}
}

static inline struct model *model_new(uint64_t seed, unsigned nvectors)
{
	struct model *m = mem_alloc(sizeof *m);
	struct rng r;

	rng_init(&r, seed);
	m->nvectors = nvectors;
	for (uint32_t k = 0; k < 3; k++)
		model_part(m, k, "w", k, 0, k < 2 ? 64 : 22, &r);
	model_part(m, 3, "b", 0, 0, 5, &r);
	for (uint32_t k = 0; k < 16; k++)
		model_part(m, 4 + k, "emb", k, COLS, k == 7 ? 0 : 5 + rng_below(&r, 20), &r);
	model_part(m, 20, "a.nothing", 0, 2, 0, &r);
	return m;
}

static inline json_t *model_head(int64_t generation, double loss)
{
	json_t *eval = loss > 0 ? json_pack("{s:f}", "loss", loss) : json_null();

	return json_pack(
	    "{s:I, s:i, s:s, s:{s:i}, s:s, s:s, s:[{s:s, s:b, s:i, s:i, s:i}, {s:s, s:b, s:i, s:i, s:i},"
	    "{s:s, s:b, s:i, s:i, s:i}, {s:s, s:b, s:i, s:i, s:i}], s:[{s:i, s:i, s:b}], s:{s:i}, s:o, s:{s:i}}",
	    "generation", (json_int_t)generation, "epoch", 7, "name", "test", "config", "servers",
	    2, "optimizer", "adam", "mode", "bsp", "tables", "name", "w", "sparse", 0, "rows", 15,
	    "cols", 10, "parts", 3, "name", "emb", "sparse", 1, "rows", 100, "cols", COLS, "parts",
	    16, "name", "b", "sparse", 0, "rows", 1, "cols", 5, "parts", 1, "name", "a.nothing",
	    "sparse", 1, "rows", 0, "cols", 2, "parts", 1, "ranks", "rank", 0, "clock", 9, "done",
	    0, "data", "at", 3, "eval", eval, "stop", "best_step", 60);
}

/* As ckpt_commit, with the head as JSON. */
static inline enum err_code model_commit(struct ckpt *c, const json_t *head, char **path,
    struct err *e)
{
	struct manifest_head decoded;
	enum err_code rc = manifest_head_decode(head, &decoded, e);

	if (!rc)
		return ckpt_commit(c, &decoded, path, e);
	ckpt_abort(c);
	return rc;
}

/* Partition i is with server i modulo nservers. */
static inline size_t model_share(const struct model *m, unsigned nservers, unsigned server,
    struct ckpt_part *out)
{
	size_t n = 0;

	for (size_t i = server; i < PARTS; i += nservers)
		out[n++] = m->part[i];
	return n;
}

static inline enum err_code model_write(const struct model *m, struct ckpt *c, unsigned nservers,
    struct err *e)
{
	struct ckpt_part share[PARTS];
	enum err_code rc = ERR_OK;
	json_t *d;

	for (unsigned s = 0; !rc && s < nservers; s++) {
		rc = ckpt_write_server(ckpt_tmp(c), s, share, model_share(m, nservers, s, share),
		    &d, e);
		if (!rc)
			rc = ckpt_add(c, d, e);
		json_decref(d);
	}
	return rc;
}

static inline enum err_code model_save(const struct model *m, const char *dir, uint64_t step,
    unsigned nservers, int64_t generation, double loss, char **path, struct err *e)
{
	json_t *head = model_head(generation, loss);
	struct ckpt *c;
	enum err_code rc = ckpt_begin(dir, step, &c, e);

	if (path)
		*path = NULL;
	if (!rc && m->large) {
		json_object_set_new(json_object_get(head, "data"), "facts",
		    large_description_refer(m->large));
		rc = ckpt_describe(c, m->large, e);
		if (rc)
			ckpt_abort(c);
	}
	if (!rc) {
		rc = model_write(m, c, nservers, e);
		if (rc)
			ckpt_abort(c);
		else
			rc = model_commit(c, head, path, e);
	}
	json_decref(head);
	return rc;
}

#endif
