/* SPDX-License-Identifier: ISC */
#ifndef LAB_CURVE_SET_H
#define LAB_CURVE_SET_H

#include "core/buf.h"
#include "lab/curve.h"

/* The curves of several runs in one plot, with a legend of the settings in which the runs differ, and a
 * table of what each run took until its metric reached a target. ps-ctl compare and ps-ctl sweep make
 * them. One thread. */

#define CURVE_SET_MAX 16 /* runs */

/* A request for a plot. */
struct curve_options {
	enum curve_axis across;
	const char
	    *metric; /* NULL: the evaluation's loss where there is one, else the training loss */
	const char *target; /* a number; NULL: the worst of the runs' best values */
	/* A file that becomes the plot, of the format that its name ends in (.svg, .html or .tsv). NULL: the
	 * plot is printed with the table. */
	const char *file;
	bool json; /* print the table as JSON Lines, and no plot */
};

struct curve_of_run {
	const struct report_run *run;
	char *label; /* "lr=0.1 sync=bsp": the settings that differ, or the run's name */
	struct curve curve;
	const struct curve_point *best, *reached; /* in the curve; NULL: none */
};

struct curve_set {
	enum curve_axis across;
	struct curve_metric metric;
	double target; /* NaN when no run has a point */
	bool target_is_given;
	json_t *differing; /* names of settings */
	struct curve_of_run *of;
	size_t n;
};

/* Checks the options as far as it is possible without runs. ERR_USAGE. */
enum err_code curve_options_check(const struct curve_options *o, struct err *e);

/* Reads the curves, writes o->file, and prints the table and, without a file, the plot. Runs that
 * lack the metric are named on stderr. ERR_NOTFOUND: no run has the metric. ERR_USAGE as
 * curve_options_check(). ERR_IO. */
enum err_code curve_set_show(const struct curve_options *o, const struct report_run *run,
    char **const *dirs, size_t n, struct err *e);

/* curve_draw.c: formats of a file. Each appends a complete document. */
void curve_draw_svg(struct buf *out, const struct curve_set *s);
void curve_draw_html(struct buf *out, const struct curve_set *s);
void curve_draw_tsv(struct buf *out, const struct curve_set *s);
/* curve_terminal.c: prints the plot with its legend on stdout. */
void curve_terminal(const struct curve_set *s);
/* The letter that stands for curve i in a plot in the terminal, and in the table. */
#define CURVE_LETTER(i) ((char)('a' + (i)))

/* Describes the target, as "loss <= 0.61". The string must be freed. */
char *curve_set_target_text(const struct curve_set *s);
/* The table as cells, row by row, the first row being the header: texts for people. *columns becomes their
 * number. The array ends with NULL; it and the texts must be freed. */
char **curve_set_table(const struct curve_set *s, size_t *columns);

#endif
