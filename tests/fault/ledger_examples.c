/* SPDX-License-Identifier: ISC */
#include <inttypes.h>
#include <math.h>

#include "core/clock.h"
#include "tests/fault/ledger.h"
#include "tool/tool.h"

/* Counts how often a job has trained on each of its examples. The job is linear regression without a bias, and each
 * example has the label 1 and one feature of its own, which is 1: so the row of that feature knows no other example.
 * Features before the first of those are 0 in all examples.
 * The gradient of one example is G = w - 1, and AdaGrad with the initial accumulator 1 changes w by
 * -lr * G / sqrt(1 + the sum of all G^2), whatever the size of the batch and the number of workers.
 *
 * The first push makes w lr / sqrt(2). A push that counts twice within one sum has 2 G and makes it
 * 2 lr / sqrt(5). The next epochs make less, and more if G was computed before the last push was applied
 * (stale). So the number of pushes follows from w if there are few of them. */

#define OPEN_TIMEOUT (30 * NSEC_PER_SEC)
#define LEARNING     0.1
#define TOLERANCE    1e-5
#define SAY_MOST     20

struct examples {
	const struct ledger_config *cfg;
	struct ledger_sums *sums;
	double least,
	    most; /* of the weight of an example that was trained on as often as it should be */
	uint64_t first;
	unsigned said, found;
};

/* Returns the weight after n pushes whose gradients were computed from the weight that each of them changed, or,
 * if they are stale, from 0. */
static double weight_after(uint64_t n, bool stale)
{
	double w = 0, sum = 1;

	for (uint64_t i = 0; i < n; i++) {
		double g = stale ? -1 : w - 1;

		sum += g * g;
		w -= LEARNING * g / sqrt(sum);
	}
	return w;
}

static void judge_example(struct examples *x, uint64_t id, double w)
{
	bool lost = !x->cfg->omits && w < x->least - TOLERANCE;
	bool doubled = !(x->cfg->repeats ? isfinite(w) : w <= x->most + TOLERANCE);
	bool strange = id - x->first >= x->cfg->cells;

	if (id < x->first && w == 0)
		return;
	x->found += !strange;
	x->sums->acked += !lost && !doubled && !strange;
	x->sums->lost += lost && !strange;
	x->sums->doubled += doubled && !strange;
	x->sums->torn += strange;
	if ((lost || doubled || strange) && x->said++ < SAY_MOST)
		log_error(x->cfg->log,
		    "example %" PRIu64 " of %u has the weight %.9g, not %.9g to %.9g",
		    id - x->first, x->cfg->cells, w, x->least, x->most);
}

static enum err_code judge_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct examples *x = ctx;

	(void)e;
	for (size_t i = 0; i < n; i++)
		judge_example(x, ids[i], (double)rows[i]);
	return ERR_OK;
}

/* After all rows. */
static void judge_number(struct examples *x)
{
	if (x->cfg->omits || x->found >= x->cfg->cells)
		return;
	x->sums->lost += x->cfg->cells - x->found;
	log_error(x->cfg->log, "%u of %u examples were trained on", x->found, x->cfg->cells);
}

enum err_code ledger_examples(const struct ledger_config *cfg, struct ledger_sums *out,
    struct err *e)
{
	struct examples x = { .cfg = cfg,
		.sums = out,
		.least = weight_after(cfg->steps, false),
		.most = weight_after(cfg->steps, cfg->stale),
		.first = LEDGER_FIRST_EXAMPLE };
	const struct table *table;
	struct admin_client tool;
	enum err_code rc = tool_open(cfg->id, "auto", OPEN_TIMEOUT, NULL, cfg->log, &tool, e);

	*out = (struct ledger_sums){ .begun = cfg->cells };
	if (rc)
		return rc;
	rc = tool_table(&tool, "w", &table, e);
	if (!rc)
		rc = client_scan(tool.client, table, 0, table->nparts, judge_rows, &x, e);
	if (!rc)
		judge_number(&x);
	if (!rc && !out->acked && !out->doubled && !out->lost)
		out->lost = cfg->cells;
	tool_close(&tool);
	return rc;
}
