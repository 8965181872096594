/* SPDX-License-Identifier: ISC */
#include "lab/report_table.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/plain.h"

#define CELL_MAX 40

/* A text longer than CELL_MAX bytes is cut and ends in "...". */
void report_text_table_add(struct report_text_table *t, char *text)
{
	size_t n;

	if (!text)
		text = mem_strdup("-");
	n = strlen(text);
	plain_text(text);
	if (n > CELL_MAX) {
		char *cut;

		/* Do not cut within a UTF-8 character. */
		for (n = CELL_MAX - 3; n > 0 && (text[n] & 0xc0) == 0x80; n--)
			;
		cut = mem_printf("%.*s...", (int)n, text);
		free(text);
		text = cut;
	}
	t->cell = mem_regrow(t->cell, t->ncells + 1, sizeof *t->cell);
	t->cell[t->ncells++] = text;
}

/* Returns the number of characters in UTF-8 text. */
static size_t count_characters(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static bool looks_numeric(const char *s)
{
	return *s == '-' || (*s >= '0' && *s <= '9');
}

static void measure_column(const struct report_text_table *t, size_t column, size_t *wide,
    bool *right)
{
	*wide = 0;
	*right = t->ncells > t->ncols;
	for (size_t i = column; i < t->ncells; i += t->ncols) {
		size_t w = count_characters(t->cell[i]);

		*wide = w > *wide ? w : *wide;
		if (i >= t->ncols)
			*right &= looks_numeric(t->cell[i]);
	}
}

/* Widths count characters and not bytes. The last column is not padded, so that lines have no
 * blanks at their end. */
void report_text_table_print(struct report_text_table *t)
{
	size_t *wide = mem_array(t->ncols, sizeof *wide);
	bool *right = mem_array(t->ncols, sizeof *right);

	for (size_t c = 0; c < t->ncols; c++)
		measure_column(t, c, &wide[c], &right[c]);
	for (size_t i = 0; i < t->ncells; i++) {
		size_t c = i % t->ncols;
		int pad = (int)(wide[c] - count_characters(t->cell[i]));
		bool last = c + 1 == t->ncols;

		printf("%s%*s%s", c ? "  " : "", right[c] ? pad : 0, "", t->cell[i]);
		if (last)
			putchar('\n');
		else
			printf("%*s", right[c] ? 0 : pad, "");
		free(t->cell[i]);
	}
	fflush(stdout);
	free(wide);
	free(right);
	free(t->cell);
	t->cell = NULL;
	t->ncells = 0;
}

/* ---- figures ---- */

static const char *const figures[] = { "state", "seconds", "steps", "examples",
	"examples_per_second", "pushed_bytes", "pulled_bytes", "ring_bytes", "train_loss" };

static bool is_above_zero(const struct report_run *list, size_t n, const char *figure)
{
	for (size_t i = 0; i < n; i++)
		if (json_int(list[i].result, figure, 0) > 0)
			return true;
	return false;
}

/* The number of evaluated examples measures no model and is left out. Bytes of all-reduce and failed
 * checkpoints are worth a column only if there are any. */
json_t *report_figure_names(const struct report_run *list, size_t n)
{
	json_t *names = json_array(), *seen = json_object();

	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		if (strcmp(figures[i], "ring_bytes") != 0 || is_above_zero(list, n, figures[i]))
			json_array_append_new(names, json_string(figures[i]));
	for (size_t i = 0; i < n; i++) {
		json_t *eval = json_object_get(list[i].result, "eval"), *v;
		const char *key;

		json_object_foreach(eval, key, v) {
			char *name = mem_printf("eval.%s", key);

			/* Figures of the held-out rows and of the constant prediction are objects. */
			if (!json_is_number(v)) {
				free(name);
				continue;
			}

			if (strcmp(key, "examples") != 0 && !json_object_get(seen, name)) {
				json_array_append_new(names, json_string(name));
				json_object_set_new(seen, name, json_true());
			}
			free(name);
		}
	}
	if (is_above_zero(list, n, "checkpoints_failed"))
		json_array_append_new(names, json_string("checkpoints_failed"));
	json_decref(seen);
	return names;
}

const json_t *report_figure(const json_t *result, const char *name)
{
	if (strncmp(name, "eval.", 5) == 0)
		return json_object_get(json_object_get(result, "eval"), name + 5);
	return json_object_get(result, name);
}

char *report_figure_text(const json_t *v)
{
	char figure[32];

	if (!v || json_is_null(v))
		return mem_strdup("-");
	if (!json_is_real(v))
		return report_value_text(v);
	num_digits(json_real_value(v), 4, figure);
	return mem_strdup(figure);
}
