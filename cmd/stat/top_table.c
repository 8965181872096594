/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <string.h>

#include "cmd/stat/rows.h"
#include "cmd/stat/top.h"
#include "core/json.h"
#include "term/bars.h"

/* Draws the tables of ps-stat top. */

#define SLOW 1.5
/* Width of the bar of phases: the least, the most while further columns need room, and the most. */
#define BAR_LEAST 16u
#define BAR_USUAL 40u
#define BAR_MOST  60u

/* The columns, by priority, as far as there is room. The bar is placed at the empty name. */
static const char *const shown[TOP_VIEWS][TOP_COLUMNS] = {
	[TOP_WORKERS] = { "id", "state", "step", "loss", "ex/s", "slow", "data%", "comp%", "enc%",
	    "push%", "wait%", "pull%", "", "tx/s", "rx/s", "rss", "seen" },
	[TOP_SERVERS] = { "id", "state", "step", "params", "bytes", "applied/s", "merged/s",
	    "pull/s", "rx/s", "tx/s", "stale", "rss", "late", "refused", "seen", "sessions",
	    "apply-p99" },
	[TOP_TABLES] = { "id", "type", "rows", "cols", "parts" },
};
static const struct stat_view *const view_of[TOP_VIEWS] = { &stat_view_workers, &stat_view_servers,
	&stat_view_tables };

/* In the order of view_phase_key. */
static const unsigned colour[PHASES] = { SCREEN_BLUE, SCREEN_GREEN, SCREEN_CYAN, SCREEN_YELLOW,
	SCREEN_RED, SCREEN_MAGENTA };
static const char *const phase[2][PHASES] = {
	{ "data", "compute", "encode", "push", "wait", "pull" },
	{ "Data", "Compute", "Encode", "Push", "Wait", "puLl" }, /* without colours */
};
static const char letter[PHASES] = "DCEPWL";

static json_t *sample_rows(const struct sample *s, enum top_view v)
{
	return v == TOP_WORKERS ? s->workers : v == TOP_SERVERS ? s->servers : s->tables;
}

size_t top_count_rows(const struct top *t, enum top_view v)
{
	return json_array_size(sample_rows(&t->now, v));
}

/* ---- cells ---- */

static double seconds_between_samples(const struct top *t)
{
	return t->before.at ? (double)(t->now.at - t->before.at) / 1e9
	                    : json_num(t->now.status, "seconds", 0);
}

static void format_top_cell(const struct top *t, const struct column *c, const json_t *row,
    const json_t *before, char out[static CELL_BYTES])
{
	static const struct table_style style = { .format = FORMAT_TABLE };
	const char *text;
	double v;

	/* Percentages are shown without decimals. */
	if (c->kind == COL_SHARE && table_column_value(c, row, before, 0, &v, &text))
		snprintf(out, CELL_BYTES, "%.0f", v);
	else
		table_cell(&style, c, row, before, seconds_between_samples(t), out);
}

static int column_phase(const struct column *c)
{
	for (int i = 0; c->kind == COL_SHARE && i < PHASES; i++)
		if (strcmp(c->key, view_phase_key[i]) == 0)
			return i;
	return -1;
}

static unsigned cell_attribute(const struct top *t, const struct column *c, const json_t *row)
{
	const char *state = json_str(row, "state", "");
	bool well = strcmp(state, "active") == 0 || strcmp(state, "live") == 0;

	if (top_is_stale(t) || (*state && !well && strcmp(state, "lost") != 0))
		return SCREEN_DIM;
	if (strcmp(c->name, "slow") == 0 && json_num(row, c->key, 0) > SLOW)
		return SCREEN_BOLD | SCREEN_RED;
	if (strcmp(c->name, "state") == 0)
		return well ? SCREEN_GREEN : SCREEN_BOLD | SCREEN_RED;
	return 0;
}

/* ---- columns ---- */

static const char *top_heading(const struct column *c)
{
	return table_heading(&(struct table_style){ .format = FORMAT_TABLE }, c);
}

/* Widen a column to its present contents. It never shrinks, so that the table does not jump. */
static unsigned widen_column(struct top *t, enum top_view v, size_t i, const struct column *c)
{
	unsigned *width = &t->width[v][i], longest = (unsigned)strlen(top_heading(c));
	char text[CELL_BYTES];
	const json_t *row;
	size_t k;

	json_array_foreach(sample_rows(&t->now, v), k, row) {
		format_top_cell(t, c, row, rows_find_same(sample_rows(&t->before, v), row), text);
		if (strlen(text) > longest)
			longest = (unsigned)strlen(text);
	}
	if (longest > *width)
		*width = longest;
	return *width;
}

struct layout {
	const struct column *column[TOP_COLUMNS];
	unsigned width[TOP_COLUMNS];
	size_t n;
	unsigned bar; /* 0: there is no room */
};

/* Choose the columns that fit on the screen, and the width of the bar. */
static void choose_layout(struct top *t, enum top_view v, struct layout *l)
{
	unsigned left = screen_width(t->screen), kept = 0, width;

	*l = (struct layout){ 0 };
	for (size_t i = 0; i < TOP_COLUMNS && shown[v][i]; i++) {
		const char *name = shown[v][i];

		if (!*name) {
			/* Reserve room for the bar before the columns that follow. */
			kept = left > BAR_LEAST + 2 ? left < BAR_USUAL + 2 ? left : BAR_USUAL + 2
			                            : 0;
			left -= kept;
			continue;
		}
		l->column[l->n] = plan_column(view_of[v], name, strlen(name));
		width = widen_column(t, v, i, l->column[l->n]) + (l->n ? 1 : 0);
		if (width > left)
			break;
		left -= width;
		l->width[l->n++] = width;
	}
	if (kept)
		l->bar = left + kept - 2 < BAR_MOST ? left + kept - 2 : BAR_MOST;
}

/* ---- drawing ---- */

static void draw_phase_legend(struct top *t, unsigned row, unsigned col, unsigned width)
{
	for (int i = 0; i < PHASES; i++) {
		const char *name = phase[!screen_has_colours(t->screen)][i];
		unsigned len = (unsigned)strlen(name) + 1;

		if (len > width + 1)
			return;
		col = screen_put(t->screen, row, col, colour[i], name) + 1;
		width -= len < width ? len : width;
	}
}

static void draw_table_header(struct top *t, enum top_view v, const struct layout *l, unsigned row,
    bool keys)
{
	unsigned col = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct column *c = l->column[i];
		int p = column_phase(c);
		unsigned len = (unsigned)strlen(top_heading(c)),
		         at = i ? col + l->width[i] - len : 0;

		screen_put(t->screen, row, at,
		    (p < 0 ? 0 : colour[p]) | SCREEN_BOLD |
		        (keys && c == t->sort[v] ? SCREEN_REVERSE : 0),
		    top_heading(c));
		col += l->width[i];
	}
	if (l->bar)
		draw_phase_legend(t, row, col + 2, l->bar);
}

/* Draw the shares of the phases in the time of a worker as one bar. */
static void draw_phase_bar(struct top *t, unsigned row, unsigned col, unsigned width,
    const json_t *o, const json_t *before)
{
	double share[PHASES] = { 0 };
	unsigned cells[PHASES];
	const char *text;

	for (size_t i = 0; i < PHASES; i++) {
		struct column c = { .key = view_phase_key[i], .kind = COL_SHARE };

		if (!table_column_value(&c, o, before, 0, &share[i], &text))
			return;
		share[i] = fmax(share[i] / 100, 0);
	}
	bars_split(share, PHASES, width, cells);
	for (size_t i = 0; i < PHASES; i++)
		for (unsigned k = 0; k < cells[i] && k < width; k++)
			col = screen_has_colours(t->screen)
			    ? screen_put(t->screen, row, col, colour[i],
			          screen_is_unicode(t->screen) ? "\u2588" : "#")
			    : screen_printf(t->screen, row, col, 0, "%c", letter[i]);
}

static void draw_table_row(struct top *t, enum top_view v, const struct layout *l, unsigned row,
    const json_t *o)
{
	const json_t *before = rows_find_same(sample_rows(&t->before, v), o);
	char text[CELL_BYTES];
	unsigned col = 0;

	for (size_t i = 0; i < l->n; i++) {
		format_top_cell(t, l->column[i], o, before, text);
		screen_put(t->screen, row, i ? col + l->width[i] - (unsigned)strlen(text) : 0,
		    cell_attribute(t, l->column[i], o), text);
		col += l->width[i];
	}
	if (l->bar && strcmp(json_str(o, "state", ""), "active") == 0)
		draw_phase_bar(t, row, col + 2, l->bar, o, before);
}

static void reverse_rows(json_t *rows)
{
	size_t n = json_array_size(rows);

	for (size_t i = 0; i + 1 < n; i++) {
		json_t *last = json_incref(json_array_get(rows, n - 1));

		json_array_remove(rows, n - 1);
		json_array_insert_new(rows, i, last);
	}
}

/* Draws at most `height` rows from row `first` on, the header included, and returns their number.
 * keys: this table has the keyboard, so it scrolls, may be reversed, and its columns are remembered
 * for choosing the one to sort by. The array is copied, since sorting must not change the
 * sample. */
unsigned top_table(struct top *t, enum top_view v, unsigned first, unsigned height, bool keys)
{
	json_t *rows = json_copy(sample_rows(&t->now, v));
	size_t n = json_array_size(rows), from = 0, drawn;
	struct layout l;

	if (height < 2 || !rows) {
		json_decref(rows);
		return 0;
	}
	choose_layout(t, v, &l);
	if (t->sort[v])
		rows_sort(rows, t->sort[v], sample_rows(&t->before, v), seconds_between_samples(t));
	if (keys) {
		if (t->reverse)
			reverse_rows(rows);
		if (t->scroll + height - 1 > n)
			t->scroll = n + 1 > height ? (unsigned)n + 1 - height : 0;
		from = t->scroll;
		memcpy((void *)t->drawn, (void *)l.column, sizeof l.column);
		t->ndrawn = l.n;
	}
	draw_table_header(t, v, &l, first, keys);
	drawn = n - from < height - 1 ? n - from : height - 1;
	for (size_t i = 0; i < drawn; i++)
		draw_table_row(t, v, &l, first + 1 + (unsigned)i, json_array_get(rows, from + i));
	/* The last row says how many rows are shown. */
	if (drawn < n)
		screen_printf(t->screen, first + height - 1, 0, SCREEN_DIM, "%-*s",
		    (int)screen_width(t->screen), "");
	if (drawn < n)
		screen_printf(t->screen, first + height - 1, 0, SCREEN_DIM,
		    "%zu of %zu are shown%s", drawn - 1, n, keys ? "; the arrow keys move" : "");
	json_decref(rows);
	return (unsigned)drawn + 1;
}
