/* SPDX-License-Identifier: ISC */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <sodium.h>

#include "core/clock.h"
#include "core/mem.h"
#include "shard/shard.h"
#include "tests/fault/ledger.h"
#include "tool/tool.h"

/* A program outside of the job, whose pushes are counted. It has a table of its own, of LEDGER_RANKS rows,
 * and each run of the program a row of its own. A push has no identity: it may be applied twice if its
 * session breaks or the layout changes before the receipt (ps-consistency(7), Pushes outside of the job).
 * So the program pulls after each push, and writes how much the cell has grown. */

#define OPEN_TIMEOUT (30 * NSEC_PER_SEC)
#define PACE_MS      3

struct outside {
	const struct ledger_config *cfg;
	struct admin_client tool;
	const struct table *table;
	struct book *book;
	float *gradient, *before, *seen;
	uint64_t step;
};

static bool has_interrupt(const struct outside *o)
{
	struct pollfd p = { o->cfg->interrupt_fd, POLLIN, 0 };

	return poll(&p, 1, PACE_MS) > 0;
}

static enum err_code pull_outside_table(struct outside *o, float *dst, struct err *e)
{
	enum err_code rc = client_want(o->tool.client, o->table, CLIENT_NOW, NULL, dst, e);

	return rc ? rc : client_wait(o->tool.client, CLIENT_NOW, e);
}

/* Nothing that has been pulled goes away, and each value is a whole number. */
static enum err_code judge_outside_pull(const struct outside *o, struct err *e)
{
	for (uint64_t i = 0; i < table_elements(o->table); i++) {
		if (o->seen[i] < o->before[i])
			return err_set(e, ERR_FAILED,
			    "WENT BACK: cell %" PRIu64 " is %.9g after %.9g", i, (double)o->seen[i],
			    (double)o->before[i]);
		if (o->seen[i] != truncf(o->seen[i]))
			return err_set(e, ERR_FAILED, "WRONG SUM: cell %" PRIu64 " is %.9g", i,
			    (double)o->seen[i]);
	}
	return ERR_OK;
}

static enum err_code push_outside_once(struct outside *o, struct err *e)
{
	size_t at = (size_t)o->cfg->rank * o->cfg->cells + o->step % o->cfg->cells;
	struct client_stats was, is;
	uint32_t epoch;
	float added;
	enum err_code rc = tool_update(&o->tool, e);

	if (!rc)
		rc = tool_table(&o->tool, LEDGER_OUTSIDE, &o->table, e);
	if (!rc)
		rc = book_begin(o->book, o->step, e);
	if (rc)
		return rc;
	client_stats(o->tool.client, &was);
	epoch = client_layout(o->tool.client)->epoch;
	o->gradient[at] = -1;
	rc = client_push(o->tool.client, o->table, 0, 1, o->gradient, e);
	if (!rc)
		rc = client_wait_receipts(o->tool.client, e);
	if (!rc)
		rc = pull_outside_table(o, o->seen, e);
	if (!rc)
		rc = judge_outside_pull(o, e);
	if (rc)
		return rc;
	o->gradient[at] = 0;
	client_stats(o->tool.client, &is);
	added = o->seen[at] - o->before[at];
	memcpy(o->before, o->seen, table_elements(o->table) * sizeof *o->seen);
	if (is.receipts[PUSH_REFUSED] > was.receipts[PUSH_REFUSED])
		return book_not_applied(o->book, o->step++, e);
	if (added < 1 ||
	    (added > 1 && is.reconnects == was.reconnects &&
	        client_layout(o->tool.client)->epoch == epoch))
		return err_set(e, ERR_FAILED, "WRONG SUM: an acknowledged push has added %.9g",
		    (double)added);
	return book_ack(o->book, o->step++, (uint32_t)added, 0, e);
}

static enum err_code open_outside(struct outside *o, struct err *e)
{
	enum err_code rc = tool_open(o->cfg->id, "tcp", OPEN_TIMEOUT, NULL, o->cfg->log, &o->tool,
	    e);
	size_t n = (size_t)LEDGER_RANKS * o->cfg->cells;

	if (!rc)
		rc = tool_table(&o->tool, LEDGER_OUTSIDE, &o->table, e);
	if (!rc && table_elements(o->table) != n)
		rc = err_set(e, ERR_CONFIG, "the table has another shape");
	if (rc)
		return rc;
	o->gradient = client_gradients(o->tool.client, n);
	if (!o->gradient)
		return err_set(e, ERR_NOMEM, "no memory for a gradient");
	o->before = mem_array(n, sizeof *o->before);
	o->seen = mem_array(n, sizeof *o->seen);
	return pull_outside_table(o, o->before, e);
}

enum err_code ledger_outside(const struct ledger_config *cfg, struct err *e)
{
	struct outside o = { .cfg = cfg };
	enum err_code rc = open_outside(&o, e);

	if (!rc)
		rc = book_open(cfg->book, cfg->rank, 0, &o.book, e);
	while (!rc && !has_interrupt(&o) && (!cfg->steps || o.step < cfg->steps))
		rc = push_outside_once(&o, e);
	book_close(o.book);
	tool_close(&o.tool);
	free(o.before);
	free(o.seen);
	return rc;
}

/* A push that was begun and not acknowledged may have been applied more than once. */
static void compare_outside(const struct ledger_config *cfg, const struct tally *t,
    const float *seen, struct ledger_sums *out)
{
	for (uint32_t r = 0; r < LEDGER_RANKS; r++)
		for (uint32_t k = 0; k < cfg->cells; k++) {
			const struct tally_cell *c = &t->cell[r][k];
			float v = seen[(size_t)r * cfg->cells + k];

			out->torn += v != truncf(v);
			out->lost += v < (float)c->dense;
			out->doubled += v > (float)c->dense && !c->open;
		}
	out->begun = t->begun;
	out->acked = t->acked;
}

enum err_code ledger_outside_check(const struct ledger_config *cfg, struct ledger_sums *out,
    struct err *e)
{
	struct outside o = { .cfg = cfg };
	enum err_code rc = open_outside(&o, e);
	struct tally t;

	*out = (struct ledger_sums){ 0 };
	if (!rc)
		rc = tally_read(cfg->book, cfg->cells, &t, e);
	if (!rc) {
		compare_outside(cfg, &t, o.before, out);
		tally_release(&t);
	}
	tool_close(&o.tool);
	free(o.before);
	free(o.seen);
	return rc;
}
