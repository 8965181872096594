/* SPDX-License-Identifier: ISC */
#include "tool/row_text.h"

#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "core/mem.h"
#include "data/data.h"
#include "model/model.h"
#include "worker/data_facts.h"

struct row_text {
	const struct model_info *model; /* NULL: not known */
	struct dataset *data;           /* without examples; NULL: not known */
	/* The table and the row of the last line, and the name of that row (NULL: it has none). */
	char *table;
	struct model_axes axes;
	uint64_t row;
	char *name;
};

struct row_text *row_text_new(const json_t *config, const json_t *facts)
{
	struct row_text *x = mem_alloc(sizeof *x);
	struct err e;
	struct conf conf;

	if (config && !conf_from_json(config, &conf, &e)) {
		x->model = conf.job.model ? model_info_find(conf.job.model) : NULL;
		conf_release(&conf);
	}
	if (facts && data_of_facts(facts, &x->data, &e))
		x->data = NULL;
	return x;
}

void row_text_free(struct row_text *x)
{
	if (!x)
		return;
	dataset_free(x->data);
	free(x->table);
	free(x->name);
	free(x);
}

/* The name of element i of an axis, as a new string; NULL: it has none. */
static char *name_element(const struct row_text *x, enum model_axis axis, uint64_t i)
{
	switch (axis) {
	case MODEL_AXIS_INTERCEPT:
		return mem_strdup("intercept");
	case MODEL_AXIS_FEATURES:
		return x->data ? data_feature_name(x->data, i) : NULL;
	case MODEL_AXIS_CLASSES:
		return x->data && i < x->data->classes ? mem_strdup(x->data->class_name[i]) : NULL;
	default:
		return NULL;
	}
}

/* Finds out the name of the row, unless it is that of the last line. */
static void name_row(struct row_text *x, const char *table, uint64_t row)
{
	bool same = x->table && strcmp(x->table, table) == 0;

	if (same && x->row == row)
		return;
	if (!same) {
		free(x->table);
		x->table = mem_strdup(table);
		x->axes = x->model ? model_info_axes(x->model, table) : (struct model_axes){ 0 };
	}
	free(x->name);
	x->row = row;
	x->name = name_element(x, x->axes.rows, row);
}

static void put_row_name(const char *name, struct buf *out)
{
	static const char special[] = "\t\n\r\\", letter[] = "tnr\\";

	buf_puts(out, "\t");
	while (*name) {
		size_t n = strcspn(name, special);

		buf_append(out, name, n);
		name += n;
		if (*name)
			buf_printf(out, "\\%c", letter[strchr(special, *name++) - special]);
	}
}

void row_text_put(struct row_text *x, const char *table, uint64_t row, uint64_t column, float value,
    struct buf *out)
{
	buf_printf(out, "%s[%llu,%llu]\t%.9g", table, (unsigned long long)row,
	    (unsigned long long)column, (double)value);
	name_row(x, table, row);
	if (x->name) {
		char *class = name_element(x, x->axes.columns, column);

		put_row_name(x->name, out);
		if (class)
			put_row_name(class, out);
		free(class);
	}
	buf_puts(out, "\n");
}
