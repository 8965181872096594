/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "data/reader/data_num.h"
#include "data/reader/data_parts.h"
#include "data/reader/data_row.h"

/* Criteo's click logs: a label, 13 integers and 26 categories, separated by tabs; an empty cell is
 * a missing value. Integer j becomes feature j with the value log(1 + x), or -log(1 - x) if
 * negative. A category becomes one of 2^bits features after those, by a hash of its column and
 * text, with value 1. Columns are the fields. */

#define NUMBERS 13
#define COLUMNS 39
#define BITS    20

/* Takes the cell at *p and ends it with a NUL; *p moves past it, or becomes NULL at the end. */
static char *take_cell(char **p)
{
	char *cell = *p, *tab = strchr(cell, '\t');

	*p = tab ? tab + 1 : NULL;
	if (tab)
		*tab = '\0';
	return cell;
}

/* Messages count columns from 1 with the label, hence the 2. */
static enum err_code add_criteo_number(struct data_row *r, unsigned column, const char *cell,
    struct err *e)
{
	char text[DATA_SHOWN];
	double x;

	if (!data_num_all(cell, &x)) {
		data_shown(text, cell, strlen(cell));
		return stream_fail(r->s, e, "column %u: expected a number, got \"%s\"", column + 2,
		    text);
	}
	data_row_add(r, column, (float)copysign(log1p(fabs(x)), x), (uint16_t)column);
	return ERR_OK;
}

/* Is the line one column shorter, because it has no label? */
static bool has_no_label(const char *p)
{
	unsigned tabs = 0;

	for (; *p; p++)
		tabs += *p == '\t';
	return tabs == COLUMNS - 1;
}

/* Empty cells give no entry, but their columns are counted: a line must have all of them. */
static enum err_code parse_criteo_line(struct data_row *r, char *p, struct err *e)
{
	int bits = r->options->bits;
	unsigned column = 0;
	enum err_code rc;
	char *cell;

	if (!*p) {
		r->b->left_out++;
		return ERR_OK;
	}
	rc = data_label_is_ignored(r->b->label) && has_no_label(p)
	    ? data_label_number(r->b->label, r->s, 0, e)
	    : data_label_text(r->b->label, r->s, take_cell(&p), e);
	for (; !rc && p && column < COLUMNS; column++) {
		cell = take_cell(&p);
		if (!*cell)
			continue;
		if (column < NUMBERS)
			rc = add_criteo_number(r, column, cell, e);
		else
			data_row_add(r,
			    NUMBERS + (data_hash(column, cell, strlen(cell)) >> (64 - bits)), 1,
			    (uint16_t)column);
	}
	if (!rc && (p || column < COLUMNS))
		return stream_fail(r->s, e,
		    "expected a label and %d columns, separated by tabs, got %s%u", COLUMNS,
		    p ? "more than " : "", column);
	return rc ? rc : data_row_end(r, true, e);
}

static enum err_code begin_criteo(struct data_parser *p, struct err *e)
{
	(void)e;
	p->build->index_base = 0;
	data_row_begin(p, 0, parse_criteo_line);
	return ERR_OK;
}

static const struct data_text_format criteo_lines = { .begin = begin_criteo,
	.line = data_row_line,
	.release = data_row_release };

const struct data_reader data_reader_criteo = { .text = &criteo_lines,
	.parts = &data_parts_lines,
	.bits = BITS };
