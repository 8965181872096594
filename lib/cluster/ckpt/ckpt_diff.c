/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "ckpt/read.h"
#include "core/mem.h"

#define PIECE 65536u /* values */

/* One table in both checkpoints. */
struct pair {
	const struct ckpt_reader *a, *b;
	const struct ckpt_table *ta, *tb;
	struct ckpt_difference d;
	double squares;
};

static void compare_floats(struct pair *p, const float *x, const float *y, size_t n)
{
	p->d.values += n;
	for (size_t i = 0; i < n; i++) {
		double d;

		if (memcmp(&x[i], &y[i], sizeof *x) == 0)
			continue;
		d = fabs((double)x[i] - (double)y[i]);
		if (!isfinite(d))
			d = INFINITY;
		p->d.differ++;
		p->d.max_abs = fmax(p->d.max_abs, d);
		p->squares += d * d;
	}
}

static enum err_code diff_dense(struct pair *p, struct err *e)
{
	uint64_t all = p->ta->rows * p->ta->cols, n;
	float *x = mem_array(PIECE, sizeof *x), *y = mem_array(PIECE, sizeof *y);
	enum err_code rc = ERR_OK;

	for (uint64_t at = 0; !rc && at < all; at += n) {
		n = all - at < PIECE ? all - at : PIECE;
		rc = ckpt_read_dense(p->a, p->ta, at, n, x, e);
		if (!rc)
			rc = ckpt_read_dense(p->b, p->tb, at, n, y, e);
		if (!rc)
			compare_floats(p, x, y, n);
	}
	free(x);
	free(y);
	return rc;
}

/* Both scans ascend, so a row whose id is lower than the other's exists on one side only. */
static enum err_code diff_rows(struct pair *p, struct ckpt_scan *a, struct ckpt_scan *b,
    struct err *e)
{
	const float *x, *y;
	uint64_t i = 0, k = 0;
	enum err_code rc = ckpt_scan_next(a, &i, &x, e);

	if (!rc)
		rc = ckpt_scan_next(b, &k, &y, e);
	while (!rc && (x || y)) {
		bool left = x && (!y || i <= k), right = y && (!x || k <= i);

		if (left && right)
			compare_floats(p, x, y, p->ta->cols);
		p->d.rows_only_a += !right;
		p->d.rows_only_b += !left;
		if (left)
			rc = ckpt_scan_next(a, &i, &x, e);
		if (!rc && right)
			rc = ckpt_scan_next(b, &k, &y, e);
	}
	return rc;
}

static enum err_code diff_sparse(struct pair *p, struct err *e)
{
	struct ckpt_scan *a, *b = NULL;
	enum err_code rc = ckpt_scan_begin(p->a, p->ta, &a, e);

	if (!rc)
		rc = ckpt_scan_begin(p->b, p->tb, &b, e);
	if (!rc)
		rc = diff_rows(p, a, b, e);
	ckpt_scan_end(a);
	ckpt_scan_end(b);
	return rc;
}

static bool have_same_shape(const struct ckpt_table *a, const struct ckpt_table *b)
{
	return a->sparse == b->sparse && a->cols == b->cols && (a->sparse || a->rows == b->rows);
}

static enum err_code diff_table(struct pair *p, const char *name, ckpt_difference_fn *fn, void *ctx,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	p->ta = ckpt_table_find(p->a, name);
	p->tb = ckpt_table_find(p->b, name);
	p->squares = 0;
	p->d = (struct ckpt_difference){ .table = name, .in_a = p->ta, .in_b = p->tb };
	p->d.same_shape = p->ta && p->tb && have_same_shape(p->ta, p->tb);
	if (p->d.same_shape)
		rc = p->ta->sparse ? diff_sparse(p, e) : diff_dense(p, e);
	if (rc)
		return rc;
	if (p->d.values > 0)
		p->d.rms = sqrt(p->squares / (double)p->d.values);
	fn(ctx, &p->d);
	return ERR_OK;
}

enum err_code ckpt_diff(const struct ckpt_reader *a, const struct ckpt_reader *b,
    ckpt_difference_fn *fn, void *ctx, struct err *e)
{
	struct pair p = { .a = a, .b = b };
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < ckpt_tables(a); i++)
		rc = diff_table(&p, ckpt_table_at(a, i)->name, fn, ctx, e);
	for (size_t i = 0; !rc && i < ckpt_tables(b); i++)
		if (!ckpt_table_find(a, ckpt_table_at(b, i)->name))
			rc = diff_table(&p, ckpt_table_at(b, i)->name, fn, ctx, e);
	return rc;
}

bool ckpt_is_same(const struct ckpt_difference *d)
{
	return d->same_shape && d->differ == 0 && d->rows_only_a == 0 && d->rows_only_b == 0;
}
