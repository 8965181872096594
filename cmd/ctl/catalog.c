/* SPDX-License-Identifier: ISC */
#include "catalog.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "conf/conf_key.h"
#include "conf/conf_rule.h"
#include "core/err.h"
#include "ctl.h"
#include "model/model.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "sync/sync_ops.h"

/* Adds the range of a numeric key. conf.def writes "greater than 0" as a minimum just above 0, and
 * "less than 1" as a maximum just below 1; the catalog shows these as "above" and "below". */
static void add_option_bounds(json_t *o, const struct conf_key *k)
{
	if (k->min == k->max)
		return;
	if (k->min > 0 && k->min < DBL_MIN)
		json_object_set_new(o, "above", json_integer(0));
	else
		json_object_set_new(o, "min", json_real(k->min));
	if (k->max < 1 && k->max > 1 - DBL_EPSILON)
		json_object_set_new(o, "below", json_integer(1));
	else
		json_object_set_new(o, "max", json_real(k->max));
}

static json_t *list_options(void)
{
	json_t *list = json_array();
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; i < n; i++) {
		json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:b}", "name", k[i].path, "help",
		    k[i].help, "type", conf_type_name(k[i].type), "default", k[i].deflt, "live",
		    k[i].live != CONF_FIXED);

		add_option_bounds(o, &k[i]);
		if (k[i].choices)
			json_object_set_new(o, "choices", json_string(k[i].choices));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *list_models(void)
{
	static const char *const target[] = {
		[MODEL_REAL] = "a real number",
		[MODEL_TWO] = "0 or 1",
		[MODEL_CLASSES] = "a class",
		[MODEL_WORDS] = "nearby words",
		[MODEL_PAIRS] = "observed items before others",
		[MODEL_OUTSIDE] = "defined by the program",
	};
	const struct model_info *m;
	json_t *list = json_array();

	for (size_t i = 0; (m = model_info_at(i)) != NULL; i++)
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", m->name, "help", m->help,
		        "target", target[m->task], "tables", m->tables, "defaults", m->defaults));
	return list;
}

static json_t *list_optimizers(void)
{
	static const char *const uses[] = { "momentum", "beta1", "beta2", "eps", "rho", "ftrl_beta",
		"l1", "initial_accumulator" };
	const struct optim_rule *r;
	json_t *list = json_array();
	char *defaults;

	for (size_t i = 0; (r = optim_at(i)) != NULL; i++) {
		json_t *keys = json_pack("[s, s]", "lr", "l2"), *vectors = json_array();

		for (size_t u = 0; u < CTL_COUNT(uses); u++)
			if (r->uses & 1u << u)
				json_array_append_new(keys, json_string(uses[u]));
		for (unsigned s = 0; s < r->nvectors; s++)
			json_array_append_new(vectors, json_string(r->vector_name[s]));
		defaults = conf_rule_defaults(r);
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "name", r->name, "help", r->help,
		        "use", r->when, "defaults", defaults, "keys", keys, "vectors", vectors));
		free(defaults);
	}
	return list;
}

static json_t *list_codecs(void)
{
	const struct codec *c;
	json_t *list = json_array();

	for (size_t i = 0; (c = codec_at(i)) != NULL; i++)
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:i}", "name", c->name, "help", c->help, "number",
		        (int)c->id));
	return list;
}

static json_t *list_schedules(void)
{
	json_t *list = json_array();

	for (int i = 0; schedule_name(i) != NULL; i++)
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:s}", "name", schedule_name(i), "help", schedule_help(i),
		        "form", schedule_form(i)));
	return list;
}

static void add_catalog_item(json_t *list, const char *name, const char *help)
{
	json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "help", help));
}

static json_t *list_modes(void)
{
	json_t *list = json_array();

	for (size_t i = 0; sync_ops_at(i) != NULL; i++)
		add_catalog_item(list, sync_ops_at(i)->name, sync_ops_at(i)->help);
	return list;
}

static json_t *list_readers(void)
{
	json_t *list = json_array();

#define READER(name, title, help) add_catalog_item(list, #name, help);
#include "data/reader/reader.def"
#undef READER
	return list;
}

static json_t *list_subcommands(void)
{
	json_t *list = json_array();
	const struct ctl_cmd *cmd;

	for (size_t i = 0; (cmd = ctl_at(i)) != NULL; i++)
		add_catalog_item(list, cmd->name, cmd->usage.about);
	return list;
}

/* Lists the documented exit codes: every code of err.def up to ERR_STOPPED (later ones are
 * internal), and 128+N, which the shell reports for a process that a signal ended. */
static json_t *list_exit_codes(void)
{
	json_t *list = json_array();
	char number[16];

#define ERR(id, name, code_number, exit_code, text) \
	if (ERR_##id <= ERR_STOPPED) { \
		snprintf(number, sizeof number, "%d", exit_code); \
		add_catalog_item(list, number, exit_code == 0 ? "done, or true" : text); \
	}
#include "core/err.def"
#undef ERR
	add_catalog_item(list, "128+N", "ended by signal N");
	return list;
}

static const struct catalog table[] = {
	{ "options", "option", list_options },
	{ "models", "model", list_models },
	{ "optimizers", "optimizer", list_optimizers },
	{ "codecs", "codec", list_codecs },
	{ "modes", "mode", list_modes },
	{ "schedules", "schedule", list_schedules },
	{ "readers", "reader", list_readers },
	{ "subcommands", "subcommand", list_subcommands },
	{ "exit-codes", "exit_code", list_exit_codes },
};

const struct catalog *catalog_at(size_t i)
{
	return i < CTL_COUNT(table) ? &table[i] : NULL;
}

const struct catalog *catalog_find(const char *plural)
{
	for (size_t i = 0; i < CTL_COUNT(table); i++)
		if (strcmp(table[i].plural, plural) == 0)
			return &table[i];
	return NULL;
}
