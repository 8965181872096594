/* SPDX-License-Identifier: ISC */
#include <inttypes.h>
#include <poll.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "tests/fault/ledger.h"
#include "tool/tool.h"

/* A reader, of a read replica or of the cluster itself: it pulls the ledger's tables again and again. The
 * values of a ledger only grow, so none may go back, whatever happens to the replica meanwhile. At the end
 * it writes what it has seen; all of that must be in the cluster's model (watch-check). */

#define OPEN_TIMEOUT (5 * NSEC_PER_SEC)
#define PACE_MS      10

struct watch {
	const struct ledger_config *cfg;
	struct admin_client tool;
	bool open;
	const struct table *dense, *rows;
	uint64_t *ids;
	float *seen, *now; /* the dense table, then the first value of each row */
	size_t n;          /* of the dense table; there are as many rows */
};

static bool has_interrupt(const struct watch *w)
{
	struct pollfd p = { w->cfg->interrupt_fd, POLLIN, 0 };

	return poll(&p, 1, PACE_MS) > 0;
}

/* An earlier run has seen this. */
static enum err_code read_seen(const struct watch *w, struct buf *out, struct err *e)
{
	char *path = path_join(w->cfg->book, "seen");
	enum err_code rc = file_read(path, 1u << 20, out, e);

	if (!rc && out->len != 2 * w->n * sizeof *w->seen)
		rc = err_set(e, ERR_FORMAT, "\"%s\": %zu bytes", path, out->len);
	free(path);
	return rc;
}

static enum err_code open_watched(struct watch *w, struct err *e)
{
	struct buf seen = BUF_INIT;
	enum err_code rc = tool_open(w->cfg->id, "tcp", OPEN_TIMEOUT, NULL, w->cfg->log, &w->tool,
	    e);

	if (rc)
		return rc;
	w->open = true;
	rc = tool_table(&w->tool, LEDGER_DENSE, &w->dense, e);
	if (!rc)
		rc = tool_table(&w->tool, LEDGER_ROWS, &w->rows, e);
	if (rc || w->seen)
		return rc;
	w->n = (size_t)table_elements(w->dense);
	w->seen = mem_array(2 * w->n, sizeof *w->seen);
	w->now = mem_array(2 * w->n, sizeof *w->now);
	w->ids = mem_array(w->n, sizeof *w->ids);
	for (size_t i = 0; i < w->n; i++)
		w->ids[i] = ledger_row(w->rows, (uint32_t)(i / w->dense->cols),
		    (uint32_t)(i % w->dense->cols));
	if (read_seen(w, &seen, e) == ERR_OK)
		memcpy(w->seen, seen.data, seen.len);
	buf_release(&seen);
	return ERR_OK;
}

static enum err_code pull_watched(struct watch *w, struct err *e)
{
	float *rows = mem_array(w->n * LEDGER_WIDTH, sizeof *rows);
	enum err_code rc = tool_update(&w->tool, e);

	if (!rc)
		rc = tool_table(&w->tool, LEDGER_DENSE, &w->dense, e);
	if (!rc)
		rc = tool_table(&w->tool, LEDGER_ROWS, &w->rows, e);
	if (!rc)
		rc = client_want(w->tool.client, w->dense, CLIENT_NOW, NULL, w->now, e);
	if (!rc)
		rc = client_want_rows(w->tool.client, w->rows, CLIENT_NOW, w->ids, w->n, rows, e);
	if (!rc)
		rc = client_wait(w->tool.client, CLIENT_NOW, e);
	for (size_t i = 0; !rc && i < w->n; i++)
		w->now[w->n + i] = rows[i * LEDGER_WIDTH];
	free(rows);
	return rc;
}

static enum err_code judge_watched(struct watch *w, struct err *e)
{
	for (size_t i = 0; i < 2 * w->n; i++)
		if (w->now[i] < w->seen[i])
			return err_set(e, ERR_FAILED,
			    "WENT BACK: value %zu of the %s table is %.9g after %.9g", i % w->n,
			    i < w->n ? "dense" : "sparse", (double)w->now[i], (double)w->seen[i]);
	memcpy(w->seen, w->now, 2 * w->n * sizeof *w->seen);
	return ERR_OK;
}

/* The replica may be away, or have no model yet: then it is opened again. */
static enum err_code watch_once(struct watch *w, struct err *e)
{
	if ((w->open || open_watched(w, e) == ERR_OK) && pull_watched(w, e) == ERR_OK)
		return judge_watched(w, e);
	if (w->open)
		tool_close(&w->tool);
	w->open = false;
	return ERR_OK;
}

enum err_code ledger_watch(const struct ledger_config *cfg, struct err *e)
{
	struct watch w = { .cfg = cfg };
	enum err_code rc = ERR_OK;
	char *path = path_join(cfg->book, "seen");

	while (!rc && !has_interrupt(&w))
		rc = watch_once(&w, e);
	if (!rc && w.seen)
		rc = file_replace(path, w.seen, 2 * w.n * sizeof *w.seen, 0600, e);
	if (w.open)
		tool_close(&w.tool);
	free(path);
	free(w.seen);
	free(w.now);
	free(w.ids);
	return rc;
}

enum err_code ledger_watch_check(const struct ledger_config *cfg, struct ledger_sums *out,
    struct err *e)
{
	struct watch w = { .cfg = cfg };
	struct buf seen = BUF_INIT;
	enum err_code rc = open_watched(&w, e);
	const float *old;

	*out = (struct ledger_sums){ 0 };
	if (!rc)
		rc = pull_watched(&w, e);
	if (!rc)
		rc = read_seen(&w, &seen, e);
	old = (const float *)(const void *)seen.data;
	for (size_t i = 0; !rc && i < 2 * w.n; i++) {
		out->lost += old[i] > w.now[i];
		out->begun += old[i] > 0;
	}
	out->acked = out->begun;
	if (w.open)
		tool_close(&w.tool);
	buf_release(&seen);
	free(w.seen);
	free(w.now);
	free(w.ids);
	return rc;
}
