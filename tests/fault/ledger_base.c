/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "tests/fault/ledger.h"
#include "tool/tool.h"

#define SAY_MOST 20

struct base {
	const struct ledger_config *cfg;
	struct ledger_model model;
	struct ledger_sums *sums;
	struct tally low;
	/* Has some step been found such that exactly the steps before it are in the values of a rank? The
	 * dense table has one partition. */
	bool *dense, *sparse; /* ranks, and ranks x partitions */
	unsigned said;
};

static uint32_t largest_unit(uint32_t ranks)
{
	struct conf conf = { .workers = { .max = ranks } };

	return ledger_unit(&conf);
}

static bool is_within(float v, uint64_t least, uint64_t most)
{
	return v >= (float)least && v <= (float)most;
}

/* Notes in whose values are exactly the steps before one; t has their sums. A step that was begun and not
 * acknowledged may be there or not. */
static void note_prefixes(struct base *b, const struct tally *t)
{
	const struct ledger_model *m = &b->model;
	uint32_t nparts = m->rows->nparts, unit = largest_unit(m->ranks);

	for (uint32_t w = 0; w < m->ranks; w++) {
		bool dense = true;

		for (uint32_t k = 0; k < m->cells; k++) {
			const struct tally_cell *c = &t->cell[w][k];

			dense &= is_within(m->cell[(size_t)w * m->cells + k], c->dense,
			    c->dense + (uint64_t)unit * c->open);
		}
		b->dense[w] |= dense;
		for (uint32_t part = 0; part < nparts; part++) {
			bool sparse = true;

			for (uint32_t k = part; k < m->cells; k += nparts) {
				const struct tally_cell *c = &t->cell[w][k];

				sparse &=
				    is_within(m->row[((size_t)w * m->cells + k) * LEDGER_WIDTH],
				        c->sparse, c->sparse + (uint64_t)unit * c->open);
			}
			b->sparse[w * nparts + part] |= sparse;
		}
	}
}

static enum err_code try_step(struct base *b, uint64_t step, uint64_t *beyond, struct err *e)
{
	struct tally t;
	enum err_code rc = tally_read_before(b->cfg->high, b->cfg->cells, step, &t, e);

	if (rc)
		return rc;
	note_prefixes(b, &t);
	*beyond = t.beyond;
	b->sums->begun = t.begun;
	tally_release(&t);
	return ERR_OK;
}

/* Tries all steps; in bsp the one of the checkpoint. */
static enum err_code find_prefixes(struct base *b, struct err *e)
{
	uint64_t step = b->cfg->steps, beyond = 0;
	enum err_code rc = try_step(b, step, &beyond, e);

	while (!rc && !b->cfg->steps && step < beyond)
		rc = try_step(b, ++step, &beyond, e);
	return rc;
}

static void report_cell(struct base *b, const char *what, uint32_t rank, uint32_t at)
{
	if (b->said++ < SAY_MOST)
		log_error(b->cfg->log, "rank %u, %u: %s", rank, at, what);
}

/* A cell counts as doubled if it is not the sum of a prefix of the pushes, and as lost if it lacks one that was
 * acknowledged. */
static void count_differences(struct base *b)
{
	const struct ledger_model *m = &b->model;
	uint32_t nparts = m->rows->nparts;

	for (uint32_t w = 0; w < m->ranks; w++) {
		for (uint32_t k = 0; k < m->cells; k++) {
			size_t at = (size_t)w * m->cells + k;
			const float *row = m->row + at * LEDGER_WIDTH;
			float v = m->cell[at];
			const struct tally_cell *low = &b->low.cell[w][k];

			b->sums->torn += v != truncf(v) || row[0] != truncf(row[0]);
			for (uint32_t i = 1; i < LEDGER_WIDTH; i++)
				b->sums->torn += row[i] != row[0];
			if (v >= (float)low->dense && row[0] >= (float)low->sparse)
				continue;
			b->sums->lost++;
			report_cell(b, "it lacks what was acknowledged before the request", w, k);
		}
		if (!b->dense[w]) {
			b->sums->doubled++;
			report_cell(b, "the dense table has the pushes before no one step", w, 0);
		}
		for (uint32_t part = 0; part < nparts; part++)
			if (!b->sparse[w * nparts + part]) {
				b->sums->doubled++;
				report_cell(b, "a partition has the pushes before no one step", w,
				    part);
			}
	}
	b->sums->torn += m->strange;
	b->sums->acked = b->low.acked;
}

enum err_code ledger_base(const struct ledger_config *cfg, struct ledger_sums *out, struct err *e)
{
	struct base b = { .cfg = cfg, .sums = out };
	struct admin_client tool;
	enum err_code rc = tally_read(cfg->low, cfg->cells, &b.low, e);

	*out = (struct ledger_sums){ 0 };
	if (rc)
		return rc;
	rc = tool_open(cfg->id, "auto", 30 * NSEC_PER_SEC, NULL, cfg->log, &tool, e);
	if (!rc) {
		rc = ledger_read_model(&tool, cfg->cells, &b.model, e);
		if (!rc) {
			b.dense = mem_array(b.model.ranks, sizeof *b.dense);
			b.sparse = mem_array((size_t)b.model.ranks * b.model.rows->nparts,
			    sizeof *b.sparse);
			rc = find_prefixes(&b, e);
		}
		if (!rc)
			count_differences(&b);
		if (!rc)
			rc = file_mkdirs(cfg->book, 0700, e);
		if (!rc)
			rc = tally_write_base(cfg->book, b.model.ranks, cfg->cells, b.model.cell,
			    b.model.row, e);
		tool_close(&tool);
	}
	free(b.dense);
	free(b.sparse);
	free(b.model.cell);
	free(b.model.row);
	tally_release(&b.low);
	return rc;
}
