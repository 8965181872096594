/* SPDX-License-Identifier: ISC */
#include "coordinator/http/tables_request.h"

#include "core/clock.h"
#include "core/json.h"

/* The shape and the initial values of a new table. */
static enum err_code parse_add(const struct coordinator *coordinator, const json_t *o,
    struct table *out, struct err *e)
{
	static const char *const keys[] = { "name", "sparse", "decay", "rows", "cols", "init",
		"init_limit", "policy", NULL };
	const json_t *job = json_object_get(coord_present_config(coordinator->coord), "job");
	enum err_code rc = json_only(o, "add", keys, e) ? table_from_json(o, out, e) : e->code;

	if (rc)
		return rc;
	out->seed = (uint64_t)json_int(job, "seed", 0);
	if (out->init != TABLE_ZEROS && out->init != TABLE_UNIFORM)
		return err_set(e, ERR_CONFIG, "add.init: must be zeros or uniform");
	if ((out->init == TABLE_UNIFORM) != (out->init_limit > 0))
		return err_set(e, ERR_CONFIG,
		    "add.init_limit: must be above 0 with init uniform, and absent otherwise");
	return ERR_OK;
}

static enum err_code parse_table_name(const char *name, struct table *out, struct err *e)
{
	if (strlen(name) >= sizeof out->name)
		return err_set(e, ERR_NOTFOUND, "there is no table \"%.80s\"", name);
	snprintf(out->name, sizeof out->name, "%s", name);
	return ERR_OK;
}

static enum err_code parse_grow(const json_t *o, struct table *out, struct err *e)
{
	static const char *const keys[] = { "name", "rows", NULL };
	struct err why = { 0 };
	const char *name = "";
	int64_t rows = 0;

	if (!json_only(o, "grow", keys, e))
		return e->code;
	json_want_str(o, "grow", "name", &name, &why);
	json_want_int(o, "grow", "rows", 1, (int64_t)TABLE_ELEMENTS_MAX, &rows, &why);
	out->rows = (uint64_t)rows;
	return why.code ? err_set(e, ERR_CONFIG, "%s", why.msg) : parse_table_name(name, out, e);
}

enum err_code tables_request_change(struct coordinator *coordinator, const json_t *body,
    const char *who, uint64_t *ticket, json_t **answer, struct err *e)
{
	const json_t *add = json_object_get(body, "add"), *grow = json_object_get(body, "grow");
	struct table shape = { 0 };
	struct coord_table t = { .shape = &shape,
		.who = who,
		.op = add  ? COORD_TABLE_ADD
		    : grow ? COORD_TABLE_GROW
		           : COORD_TABLE_DROP };
	const char *drop = "";
	enum err_code rc;

	*answer = NULL;
	*ticket = 0;
	coordinator_lock(coordinator);
	if (add)
		rc = parse_add(coordinator, add, &shape, e);
	else if (grow)
		rc = parse_grow(grow, &shape, e);
	else
		rc = json_want_str(body, "", "drop", &drop, e) ? parse_table_name(drop, &shape, e)
		                                               : e->code;
	if (!rc)
		rc = coord_table(coordinator->coord, &t, clock_now(), ticket, e);
	coordinator_commit_wait_unlock(coordinator);
	return rc;
}
