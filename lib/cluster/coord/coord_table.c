/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include <math.h>

#include "core/json.h"
#include "core/mem.h"
#include "layout/place.h"
#include "msg/layout_document.h"

/* Tables that are added, grown and dropped while the cluster runs. A change takes effect at a step
 * that the servers agree on, like members and settings (coord_change.c), so that all replicas of a
 * new partition count steps from the same one. Only added tables can change; the others belong to
 * the job's model. */

struct table_request {
	enum coord_table_op op;
	struct table shape; /* grow: its name and rows; drop: its name */
	char who[64];
};

/* ---- on a layout ---- */

/* Apply a table change to a layout. *first: partitions from this number on are new. After a failure
 * `l` may be partly changed. */
static enum err_code apply_table_change(const struct coord *c, struct layout *l,
    const struct table_request *w, uint64_t step, uint32_t *first, struct err *e)
{
	const struct table *had = layout_find(l, w->shape.name);
	struct table shape = w->shape, *t;

	*first = 0;
	/* A cluster without a job counts no steps. */
	shape.since = c->cfg.has_job ? step : 0;
	if (w->op == COORD_TABLE_ADD)
		return had ? err_set(e, ERR_CONFIG, "table \"%s\" already exists", shape.name)
		           : layout_add(l, &shape, &t, e);
	if (!had)
		return err_set(e, ERR_NOTFOUND, "there is no table \"%s\"", shape.name);
	if (!had->added)
		return err_set(e, ERR_CONFIG,
		    "table \"%s\" belongs to the job's model: only tables of ps-ctl table add "
		    "can %s",
		    had->name, w->op == COORD_TABLE_GROW ? "grow" : "be dropped");
	*first = had->nparts;
	if (w->op == COORD_TABLE_GROW)
		return layout_grow(l, shape.name, shape.rows, shape.since, e);
	layout_drop(l, shape.name);
	return ERR_OK;
}

/* Make a layout that contains only the changed table, as it would be placed. False: no server needs
 * room for the change. */
static bool lay_out_trial(const struct coord *c, struct layout *out, uint32_t *first)
{
	json_t *now = layout_to_json(&c->layout);
	struct layout l;
	const struct table *t = NULL;

	if (!layout_from_json(now, &l, NULL)) {
		l.zone = c->layout.zone;
		if (!apply_table_change(c, &l, c->tables.request, 0, first, NULL)) {
			coord_place_tables_in(c, &l);
			t = layout_find(&l, c->tables.request->shape.name);
		}
		if (t) {
			/* In the layout that contains only this table, its number is 0. */
			struct table first_table = *t;
			struct layout one = { .ntables = 1, .table = &first_table };
			json_t *j;

			first_table.id = 0;
			j = layout_to_json(&one);
			t = layout_from_json(j, out, NULL) ? NULL : t;
			json_decref(j);
		}
		layout_release(&l);
	}
	json_decref(now);
	return t != NULL;
}

/* For each server, the number of servers on its host, which share the host's memory: a list to
 * free(). */
static int64_t *count_host_sharers(const struct coord *c)
{
	int64_t *n = mem_array(c->nservers + 1, sizeof *n);

	for (unsigned i = 0; i < c->nservers; i++)
		for (unsigned k = 0; k < c->nservers; k++)
			n[i] += c->server[k].live &&
			    strcmp(c->server[k].host, c->server[i].host) == 0;
	return n;
}

json_t *coord_table_proposed(const struct coord *c)
{
	struct layout one;
	uint32_t first;
	json_t *o, *layout;
	int64_t *sharing;

	if (!c->tables.request || !lay_out_trial(c, &one, &first))
		return json_null();
	layout = layout_to_json(&one);
	sharing = count_host_sharers(c);
	o = layout_trial_encode(&(const struct layout_trial){ .layout = layout,
	    .first = first,
	    .sharing = sharing,
	    .nsharing = c->nservers });
	json_decref(layout);
	free(sharing);
	layout_release(&one);
	return o;
}

/* ---- requested, decided ---- */

/* Has every server acknowledged the last table change? A server must not skip a shape. */
static bool all_servers_acked_tables(const struct coord *c)
{
	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].live && c->server[i].acked < c->tables.changed)
			return false;
	return true;
}

static bool is_first_of_host(const struct coord *c, unsigned server)
{
	for (unsigned i = 0; i < server; i++)
		if (c->server[i].live && strcmp(c->server[i].host, c->server[server].host) == 0)
			return false;
	return true;
}

/* A cheap check before the table is laid out: do the servers together have memory for its
 * values? */
static enum err_code check_table_fits(const struct coord *c, const struct table *t, struct err *e)
{
	const struct table *had = layout_find(&c->layout, t->name);
	double left = 0,
	       bytes = (double)t->rows *
	    (had              ? had->cols
	            : t->cols ? t->cols
	                      : 1) *
	    sizeof(float);

	for (unsigned i = 0; i < c->nservers; i++) {
		struct heartbeat_about about = { 0 };

		if (!c->server[i].live || !is_first_of_host(c, i))
			continue;
		heartbeat_about_decode(c->server[i].about, &about);
		/* 0: the server cannot tell (procstat_memory). */
		left += about.has_memory_available_bytes && about.memory_available_bytes > 0
		    ? about.memory_available_bytes
		    : (double)INFINITY;
	}
	if (t->sparse || bytes <= left)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "rows: table \"%s\" needs at least %.0f bytes, but the servers have %.0f bytes left",
	    t->name, bytes, left);
}

static enum err_code check_table_change(const struct coord *c, const struct table_request *w,
    struct err *e)
{
	json_t *now = layout_to_json(&c->layout);
	struct layout l;
	uint32_t first;
	enum err_code rc = layout_from_json(now, &l, e);

	json_decref(now);
	if (rc)
		return rc;
	rc = apply_table_change(c, &l, w, 0, &first, e);
	if (!rc)
		rc = coord_rules_fit_tables(&l, c->conf, e);
	layout_release(&l);
	return rc;
}

enum err_code coord_table(struct coord *c, const struct coord_table *t, int64_t now,
    uint64_t *ticket, struct err *e)
{
	struct table_request w = { .op = t->op, .shape = *t->shape };
	enum err_code rc;

	if (c->phase != PHASE_RUNNING)
		return err_set(e, ERR_NOTREADY,
		    "the %s is %s: tables can change only while it runs",
		    c->cfg.has_job ? "job" : "cluster", coord_phase_name(c->phase));
	rc = coord_table_fits_job(c, &w.shape, e);
	if (!rc)
		rc = check_table_fits(c, &w.shape, e);
	if (rc)
		return rc;
	if (coord_is_deciding(c) || !all_servers_acked_tables(c))
		return err_set(e, ERR_EXISTS, "another change is being decided");
	w.shape.added = true;
	snprintf(w.who, sizeof w.who, "%s", t->who);
	rc = check_table_change(c, &w, e);
	if (rc)
		return rc;
	c->tables.request = mem_alloc(sizeof w);
	*c->tables.request = w;
	*ticket = ++c->settings.tickets;
	coord_change_request(c, CHANGE_TABLE, 0, WORKER_EMPTY);
	coord_progress(c, now);
	return ERR_OK;
}

/* A table may begin at a step that no worker has reached yet, because its vote was held again and again. A
 * change of it that took effect earlier would be one of a table that is not there: its new partitions would
 * wait for pushes of steps in which no worker knows the table. */
uint64_t coord_table_earliest_step(const struct coord *c)
{
	const struct table_request *w = c->tables.request;
	const struct table *t = w ? layout_find(&c->layout, w->shape.name) : NULL;

	return t ? t->since : 0;
}

static void report_table_change(struct coord *c, const struct table_request *w, uint64_t step)
{
	const struct table *t = &w->shape;
	char from[48] = "";

	if (c->cfg.has_job)
		snprintf(from, sizeof from, ", from step %llu on", (unsigned long long)step);
	if (w->op == COORD_TABLE_DROP)
		coord_event(c, EVENT_table, "table %s is dropped, by %s%s", t->name, w->who, from);
	else if (w->op == COORD_TABLE_GROW)
		coord_event(c, EVENT_table, "table %s has %llu rows, by %s%s", t->name,
		    (unsigned long long)t->rows, w->who, from);
	else
		coord_event(c, EVENT_table, "table %s was added, %s, %llu x %u, by %s%s", t->name,
		    t->sparse ? "sparse" : "dense", (unsigned long long)t->rows, t->cols, w->who,
		    from);
}

void coord_table_decided(struct coord *c, uint64_t step)
{
	struct table_request *w = c->tables.request;
	struct err e = { 0 };
	uint32_t first;

	c->tables.request = NULL;
	/* The tables may have changed since the request, so the change is checked again. */
	if (check_table_change(c, w, &e)) {
		coord_ticket_refused(c, e.msg);
	} else {
		apply_table_change(c, &c->layout, w, step, &first, NULL);
		coord_place_drop_weights(c);
		coord_place_tables(c);
		c->layout.epoch++;
		coord_ticket_decided(c, step);
		report_table_change(c, w, step);
	}
	free(w);
	coord_changed(c);
	c->tables.changed = c->rev;
}

void coord_table_refused(struct coord *c, unsigned server, const char *why)
{
	char said[300];

	snprintf(said, sizeof said, "server-%u has no memory for it: %.240s", server, why);
	coord_event(c, EVENT_table_refused, "table %s, by %s: %s", c->tables.request->shape.name,
	    c->tables.request->who, said);
	coord_ticket_refused(c, said);
	free(c->tables.request);
	c->tables.request = NULL;
	coord_changed(c);
}

/* ---- over a restart ---- */

void coord_tables_save(const struct coord *c, struct state *out)
{
	const struct table_request *w = c->tables.request;

	if (!w)
		return;
	out->table = mem_alloc(sizeof *out->table);
	*out->table = (struct state_table){ .op = w->op,
		.shape = table_to_json(&w->shape),
		.who = w->who };
}

void coord_tables_load(struct coord *c, const struct state *state)
{
	const struct state_table *s = state->table;
	struct table_request w = { 0 };

	/* Which servers have acknowledged the last change is not saved: assume that none has. */
	c->tables.changed = c->rev;
	if (!s || s->op < 0 ||
	    (s->op == COORD_TABLE_ADD ? table_from_json(s->shape, &w.shape, NULL)
	                              : table_change_from_json(s->shape, &w.shape, NULL)))
		return;
	w.op = (enum coord_table_op)s->op;
	w.shape.added = true;
	snprintf(w.who, sizeof w.who, "%s", s->who);
	c->tables.request = mem_alloc(sizeof w);
	*c->tables.request = w;
}
