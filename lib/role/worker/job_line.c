/* SPDX-License-Identifier: ISC */
#include "worker/job_line.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/utf8_bytes.h"
#include "data/source/data_log.h"
#include "data/table/data_schema.h"
#include "data/batch/data_words.h"

/* The part of the configuration that names the label. */
static const char *origin_of_label(const struct job *j)
{
	const struct dataset *d = j->train;

	if (conf_is_named(j->conf.job.label))
		return "job.label";
	if (d->options && d->options->label)
		return "label= of the path";
	return strcmp(d->format, "CSV") == 0 ? "the last column, by default" : "by its name";
}

/* Appends the names of the columns of labels. */
static void put_label_names(const struct data_schema *s, struct buf *out)
{
	const struct data_column *c;

	for (unsigned i = 0; (c = data_schema_label(s, i)) != NULL; i++)
		buf_printf(out, "%s%s", i ? ", " : "", c->name);
}

/* Appends what the model predicts. */
static void put_target(const struct job *j, struct buf *out)
{
	const struct dataset *d = j->train;
	bool column = d->schema && data_schema_label(d->schema, 0);

	if (dataset_words(d)) {
		buf_printf(out, "learns vectors of %zu words", dataset_words(d)->n);
		return;
	}
	if (d->roles) {
		buf_printf(out, "learns %s", d->roles);
		return;
	}
	buf_puts(out, "predicts ");
	if (column) {
		buf_puts(out, d->targets > 1 ? "columns " : "column ");
		put_label_names(d->schema, out);
	}
	if (d->classes)
		buf_printf(out, "%s%zu class%s", column ? ", " : "", d->classes,
		    d->classes == 1 ? "" : "es");
	else if (!column)
		buf_puts(out, "a number");
	if (column)
		buf_printf(out, " (%s)", origin_of_label(j));
}

/* Appends the number of columns or features. */
static void put_columns(const struct dataset *d, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; d->schema && i < d->schema->ncolumns; i++)
		n += data_schema_gives_features(&d->schema->column[i]);
	if (d->schema)
		buf_printf(out, "%zu column%s", n, NUM_S(n));
	else
		buf_printf(out, "%zu feature%s", d->cols, NUM_S(d->cols));
}

/* Appends how many examples there are, and where. */
static void put_rows(const struct job *j, struct buf *out)
{
	const char *source = j->train->source ? j->train->source : "",
	           *slash = strrchr(source, '/');
	char bytes[16];

	source = slash && slash[1] ? slash + 1 : source;
	if (j->stream) {
		buf_printf(out, "the events of %s", data_log_name(j->stream));
		return;
	}
	if (j->blocks) {
		num_count((double)data_blocks_bytes(j->blocks), bytes);
		buf_printf(out, "%sB in %zu blocks", bytes, data_blocks_count(j->blocks));
	} else {
		buf_printf(out, "%zu row%s", j->train->rows, NUM_S(j->train->rows));
	}
	buf_printf(out, " (job.data: %s)", source);
}

char *job_line(const struct job *j)
{
	const struct dataset *d = j->train;
	struct buf out = BUF_INIT;
	char *text;

	buf_printf(&out, "%s (job.model) ", j->conf.job.model);
	if (d->numbered) {
		buf_printf(&out, "trains on %zu example%s (%s)", d->rows, NUM_S(d->rows),
		    j->conf.job.examples ? "job.examples" : "job.data");
	} else {
		put_target(j, &out);
		buf_puts(&out, " from ");
		if (!dataset_words(d) && !d->roles) {
			put_columns(d, &out);
			buf_puts(&out, " of ");
		}
		put_rows(j, &out);
	}
	text = utf8_escape_bytes((const char *)out.data);
	buf_release(&out);
	return text;
}
