/* SPDX-License-Identifier: ISC */
#include "tool/tool.h"

#include <sodium.h>

#include "conf/conf.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "format/npy.h"
#include "msg/answer.h"
#include "saved/saved_source.h"
#include "session/description_exchange.h"
#include "sync/push_status.h"
#include "tool/dense_table.h"

/* Ends the wait when tables have servers, or when the job is over: the caller must find out
 * which. */
static bool is_placed(void *ctx, const struct view *view)
{
	struct err ignored;

	(void)ctx;
	if (!view)
		return false;
	/* While forming, the layout may come from a checkpoint, before any server has its part. */
	return (layout_json_epoch(view->layout) > 0 && !view_phase_is(view, PHASE_FORMING)) ||
	    cluster_view_is_over(view, &ignored);
}

enum err_code tool_update(struct admin_client *t, struct err *e)
{
	struct err why;

	if (cluster_view_is_lost(t->cluster, &why))
		return err_pass(e, &why);
	if (interrupt_came(t->interrupt))
		return err_set(e, ERR_STOPPED, "interrupted");
	if (!cluster_view_changed(t->cluster))
		return ERR_OK;
	view_release(t->view);
	t->view = cluster_view_current(t->cluster);
	return client_apply_view(t->client, t->view, e);
}

/* Called during the client's waits: takes over views, so that waits follow the layout. */
static bool cancel_tool_wait(void *ctx, struct err *why)
{
	return tool_update(ctx, why) != ERR_OK;
}

/* Reads how long to poll for answers before sleeping, as the cluster's workers do. */
static enum err_code read_spin(const struct view *view, int64_t *spin, struct err *e)
{
	struct conf conf;
	enum err_code rc = conf_from_json(view->config, &conf, e);

	if (rc)
		return rc;
	*spin = conf.spin;
	conf_release(&conf);
	return ERR_OK;
}

enum err_code tool_open(const struct identity *id, const char *transport, int64_t deadline,
    const struct interrupt *interrupt, struct log *log, struct admin_client *out, struct err *e)
{
	struct cluster_view_config cc = { .id = id,
		.role = ROLE_ADMIN,
		.heartbeat = NSEC_PER_SEC,
		.deadline = deadline,
		.eager = !id->local,
		.interrupt = interrupt,
		.log = log };
	struct client_config cl = { .id = id,
		.rank = CLIENT_NO_RANK,
		.transport = transport_find(transport),
		.deadline = deadline,
		.log = log,
		.ctx = out,
		.attend = cancel_tool_wait,
		.attend_fd = interrupt_fd(interrupt) };
	enum err_code rc;

	*out = (struct admin_client){ .log = log, .interrupt = interrupt };
	randombytes_buf(&cc.incarnation, sizeof cc.incarnation);
	cl.incarnation = cc.incarnation;
	rc = cluster_view_open(&cc, &out->cluster, e);
	if (!rc)
		rc = cluster_view_await(out->cluster, is_placed, NULL, deadline, &out->view, e);
	if (!rc && layout_json_epoch(out->view->layout) == 0)
		rc = cluster_view_is_over(out->view, e);
	if (!rc)
		rc = read_spin(out->view, &cl.spin, e);
	if (!rc)
		rc = client_new(&cl, &out->client, e);
	if (!rc)
		rc = client_apply_view(out->client, out->view, e);
	if (rc)
		tool_close(out);
	return rc;
}

#define ANSWER_TIMEOUT (10 * NSEC_PER_SEC)

/* Is the view at least as new as the revision that the answer named? */
static bool view_is_recent(void *ctx, const struct view *view)
{
	const int64_t *rev = ctx;

	return view->rev >= *rev;
}

enum err_code tool_create(struct admin_client *t, const json_t *shapes, struct err *e)
{
	json_t *msg = MESSAGE(table, .tables = shapes), *answer = NULL;
	const struct view *view = NULL;
	struct answer_table made;
	enum err_code rc = agent_call(cluster_view_agent(t->cluster), msg, ANSWER_TIMEOUT, &answer,
	    e);

	if (!rc)
		rc = answer_decode_table(answer, &made, e);
	if (!rc)
		rc = cluster_view_await(t->cluster, view_is_recent, &made.rev, ANSWER_TIMEOUT,
		    &view, e);
	if (!rc)
		rc = tool_update(t, e);
	view_release(view);
	json_decref(answer);
	json_decref(msg);
	return rc;
}

enum err_code tool_facts(struct admin_client *t, json_t **facts, struct err *e)
{
	bool given;

	return description_ask(cluster_view_agent(t->cluster), ANSWER_TIMEOUT, &given, facts, e);
}

enum err_code tool_source(struct admin_client *t, struct param_source **out, struct err *e)
{
	enum err_code rc = tool_facts(t, &t->facts, e);

	if (rc)
		return rc;
	/* A copy, because newer views replace the present one. */
	t->config = json_deep_copy(t->view->config);
	client_source_init(&t->source, t->client);
	t->source.source.config = t->config;
	t->source.source.facts = t->facts;
	*out = &t->source.source;
	return ERR_OK;
}

void tool_hand_over(struct admin_client *t)
{
	if (t->client)
		client_hand_over(t->client);
}

void tool_close(struct admin_client *t)
{
	client_free(t->client);
	cluster_view_close(t->cluster);
	view_release(t->view);
	json_decref(t->config);
	json_decref(t->facts);
	*t = (struct admin_client){ 0 };
}

enum err_code tool_table(const struct admin_client *t, const char *name, const struct table **out,
    struct err *e)
{
	return layout_find_or_fail(client_layout(t->client), name, out, e);
}

/* ---- pull, push ---- */

struct dump {
	int fd;
	uint32_t cols;
};

/* Writes one line for each row: the id and the values, separated by tabs. It is a callback of
 * client_scan. */
static enum err_code dump_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct dump *d = ctx;
	struct buf line = BUF_INIT;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < n; i++) {
		buf_printf(&line, "%llu", (unsigned long long)ids[i]);
		for (uint32_t k = 0; k < d->cols; k++)
			buf_printf(&line, "\t%.9g", (double)rows[i * d->cols + k]);
		buf_puts(&line, "\n");
	}
	rc = file_write_all(d->fd, line.data, line.len, e);
	buf_release(&line);
	return rc;
}

/* Writes values of a dense table. It is a callback of dense_table_read. */
static enum err_code write_values(void *ctx, uint64_t first, const float *w, size_t n,
    struct err *e)
{
	const struct dump *d = ctx;

	(void)first;
	return file_write_all(d->fd, w, n * sizeof *w, e);
}

enum err_code tool_pull(struct admin_client *t, const char *name, int fd, struct err *e)
{
	const struct table *table;
	enum err_code rc = tool_table(t, name, &table, e);
	uint64_t shape[2];
	struct buf head = BUF_INIT;
	struct dump d;

	if (rc)
		return rc;
	/* Remember the shape now: the table may grow during the pull. */
	shape[0] = table->rows;
	shape[1] = table->cols;
	d = (struct dump){ fd, table->cols };
	if (table->sparse)
		return client_scan(t->client, table, 0, table->nparts, dump_rows, &d, e);
	npy_put_header(&head, shape, 2);
	rc = file_write_all(fd, head.data, head.len, e);
	buf_release(&head);
	return rc ? rc : dense_table_read(t->client, table, shape[0], write_values, &d, e);
}

enum err_code tool_push(struct admin_client *t, const char *name, const char *path, struct err *e)
{
	const struct table *table;
	struct stream *s = NULL;
	struct npy h;
	float *g = NULL;
	struct client_stats cs;
	enum err_code rc = tool_table(t, name, &table, e);

	if (!rc && table->sparse)
		rc = err_set(e, ERR_UNSUPPORTED,
		    "table \"%s\" is sparse: push only accepts the gradient of a dense table",
		    name);
	if (!rc)
		rc = stream_open(path, &s, e);
	if (!rc)
		rc = npy_read(s, table_elements(table), &h, &g, e);
	if (!rc && h.count != table_elements(table))
		rc = err_set(e, ERR_FORMAT,
		    "the array has %llu value%s, table \"%s\" has %llu x %u",
		    (unsigned long long)h.count, NUM_S(h.count), name,
		    (unsigned long long)table->rows, table->cols);
	if (!rc)
		rc = client_push(t->client, table, 0, 1, g, e);
	if (!rc)
		rc = client_wait_receipts(t->client, e);
	if (!rc) {
		client_stats(t->client, &cs);
		if (cs.receipts[PUSH_REFUSED])
			rc = err_set(e, ERR_NONFINITE,
			    "refused (%llu partition%s): the gradient has values that are not "
			    "finite, or the table accepts none from outside of the job (robust, "
			    "via allreduce)",
			    (unsigned long long)cs.receipts[PUSH_REFUSED],
			    NUM_S(cs.receipts[PUSH_REFUSED]));
	}
	free(g);
	stream_close(s);
	return rc;
}

enum err_code tool_with_run(const char *run_dir, const char *command, tool_model_fn *fn, void *ctx,
    struct err *e)
{
	struct param_source *source = NULL;
	struct admin_client tool;
	struct identity id;
	struct log log;
	enum err_code rc = identity_from_run(run_dir, "admin", &id, e);

	if (rc)
		return rc;
	log_init(&log, command, 2, LOG_LEVEL_WARN);
	rc = tool_open(&id, "auto", 30 * NSEC_PER_SEC, NULL, &log, &tool, e);
	if (!rc) {
		rc = tool_source(&tool, &source, e);
		if (!rc)
			rc = fn(ctx, &(struct tool_model){ .source = source, .log = &log }, e);
		tool_close(&tool);
	}
	identity_release(&id);
	return rc;
}

enum err_code tool_with_saved(const char *path, const char *command, tool_model_fn *fn, void *ctx,
    struct err *e)
{
	struct param_source *source;
	struct log log;
	enum err_code rc = saved_source_open(path, &source, e);

	if (rc)
		return rc;
	log_init(&log, command, 2, LOG_LEVEL_WARN);
	rc = fn(ctx, &(struct tool_model){ .source = source, .log = &log }, e);
	saved_source_close(source);
	return rc;
}
