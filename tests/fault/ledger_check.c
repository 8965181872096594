/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "core/clock.h"
#include "core/mem.h"
#include "tests/fault/ledger.h"
#include "tool/tool.h"

#define SAY_MOST 20

struct check {
	const struct ledger_config *cfg;
	struct admin_client tool;
	struct ledger_model model;
	uint32_t unit;
	/* The books, read before the model and after it.  What was acknowledged in `before` must be in
	 * the model; what was not begun in `after` must not be. */
	struct tally before, after;
	unsigned said;
	struct ledger_sums *sums;
};

/* ---- reading the model ---- */

static enum err_code collect_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct ledger_model *m = ctx;

	(void)e;
	for (size_t i = 0; i < n; i++) {
		uint32_t rank = 0, cell = (uint32_t)(ids[i] >> 16);

		while (rank < m->ranks && ledger_row(m->rows, rank, cell) != ids[i])
			rank++;
		if (cell >= m->cells || rank == m->ranks)
			m->strange++;
		else
			memcpy(m->row + ((size_t)rank * m->cells + cell) * LEDGER_WIDTH,
			    rows + i * LEDGER_WIDTH, LEDGER_WIDTH * sizeof *rows);
	}
	return ERR_OK;
}

enum err_code ledger_read_model(struct admin_client *tool, uint32_t cells, struct ledger_model *m,
    struct err *e)
{
	enum err_code rc = tool_table(tool, LEDGER_ROWS, &m->rows, e);

	if (!rc)
		rc = tool_table(tool, LEDGER_DENSE, &m->dense, e);
	if (!rc && (m->dense->cols != cells || m->dense->rows > LEDGER_RANKS))
		rc = err_set(e, ERR_USAGE, "the table has %u cells, not %u: see --cells",
		    m->dense->cols, cells);
	if (rc)
		return rc;
	m->ranks = (uint32_t)m->dense->rows;
	m->cells = cells;
	m->cell = mem_array((size_t)m->ranks * cells, sizeof *m->cell);
	m->row = mem_array((size_t)m->ranks * cells, LEDGER_WIDTH * sizeof *m->row);
	rc = client_want(tool->client, m->dense, CLIENT_NOW, NULL, m->cell, e);
	if (!rc)
		rc = client_wait(tool->client, CLIENT_NOW, e);
	return rc ? rc : client_scan(tool->client, m->rows, 0, m->rows->nparts, collect_rows, m, e);
}

static enum err_code read_unit(struct check *c, struct err *e)
{
	struct conf conf;
	enum err_code rc = conf_from_json(c->tool.view->config, &conf, e);

	if (rc)
		return rc;
	c->unit = ledger_unit(&conf);
	conf_release(&conf);
	return ERR_OK;
}

/* ---- comparing ---- */

/* Judges one value: at least what was acknowledged before the model was read (acked), at most what
 * was acknowledged after it plus one unit for each step still open then. */
static void judge_cell(struct check *c, const char *where, uint32_t rank, uint32_t cell, float v,
    uint64_t acked, uint64_t after)
{
	uint64_t most = after + (uint64_t)c->unit * c->after.cell[rank][cell].open;
	bool torn = v != truncf(v), lost = v<(float)acked, doubled = v>(float) most;

	if (!torn && !lost && !doubled)
		return;
	c->sums->torn += torn;
	c->sums->lost += lost;
	c->sums->doubled += doubled;
	if (c->said++ < SAY_MOST)
		log_error(c->cfg->log,
		    "rank %u cell %u of the %s table is %.9g: %llu acknowledged, at most %llu begun",
		    rank, cell, where, (double)v, (unsigned long long)acked,
		    (unsigned long long)most);
}

static void compare_all_cells(struct check *c)
{
	for (uint32_t w = 0; w < c->model.ranks; w++) {
		for (uint32_t k = 0; k < c->cfg->cells; k++) {
			const struct tally_cell *before = &c->before.cell[w][k],
			                        *after = &c->after.cell[w][k];
			size_t at = (size_t)w * c->cfg->cells + k;
			const float *row = c->model.row + at * LEDGER_WIDTH;

			judge_cell(c, "dense", w, k, c->model.cell[at], before->dense,
			    after->dense);
			judge_cell(c, "sparse", w, k, row[0], before->sparse, after->sparse);
			for (uint32_t i = 1; i < LEDGER_WIDTH; i++)
				c->sums->torn += row[i] != row[0];
		}
	}
	c->sums->torn += c->model.strange;
	c->sums->begun = c->after.begun;
	c->sums->acked = c->before.acked;
}

enum err_code ledger_check(const struct ledger_config *cfg, struct ledger_sums *out, struct err *e)
{
	struct check c = { .cfg = cfg, .sums = out };
	enum err_code rc = tally_read(cfg->book, cfg->cells, &c.before, e);

	*out = (struct ledger_sums){ 0 };
	if (rc)
		return rc;
	rc = tool_open(cfg->id, "auto", 30 * NSEC_PER_SEC, NULL, cfg->log, &c.tool, e);
	if (!rc) {
		rc = read_unit(&c, e);
		if (!rc)
			rc = ledger_read_model(&c.tool, cfg->cells, &c.model, e);
		if (!rc)
			rc = tally_read(cfg->book, cfg->cells, &c.after, e);
		if (!rc)
			ledger_note_model(c.model.ranks, cfg->cells, c.model.cell);
		if (!rc)
			compare_all_cells(&c);
		tool_close(&c.tool);
	}
	free(c.model.cell);
	free(c.model.row);
	tally_release(&c.before);
	tally_release(&c.after);
	return rc;
}
