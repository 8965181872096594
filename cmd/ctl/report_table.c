#include "report_table.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/plain.h"

#define CELL_MAX 40

void text_table_add(struct text_table *t, char *text)
{
	size_t n;

	if (!text)
		text = mem_strdup("-");
	n = strlen(text);
	plain_text(text);
	if (n > CELL_MAX) {
		char *cut;

		/* Not within a character. */
		for (n = CELL_MAX - 3; n > 0 && (text[n] & 0xc0) == 0x80; n--)
			;
		cut = mem_printf("%.*s...", (int)n, text);
		free(text);
		text = cut;
	}
	t->cell = mem_regrow(t->cell, t->ncells + 1, sizeof *t->cell);
	t->cell[t->ncells++] = text;
}

/* In characters, as UTF-8 has them. */
static size_t width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static bool is_number(const char *s)
{
	return *s == '-' || (*s >= '0' && *s <= '9');
}

static void measure(const struct text_table *t, size_t column, size_t *wide, bool *right)
{
	*wide = 0;
	*right = t->ncells > t->ncols;
	for (size_t i = column; i < t->ncells; i += t->ncols) {
		size_t w = width(t->cell[i]);

		*wide = w > *wide ? w : *wide;
		if (i >= t->ncols)
			*right &= is_number(t->cell[i]);
	}
}

void text_table_print(struct text_table *t)
{
	size_t *wide = mem_array(t->ncols, sizeof *wide);
	bool *right = mem_array(t->ncols, sizeof *right);

	for (size_t c = 0; c < t->ncols; c++)
		measure(t, c, &wide[c], &right[c]);
	for (size_t i = 0; i < t->ncells; i++) {
		size_t c = i % t->ncols;
		int pad = (int)(wide[c] - width(t->cell[i]));
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

/* ---- figures ------------------------------------------------------------------------- */

static const char *const figures[] = { "state", "seconds", "steps", "examples", "examples_per_second", "pushed_bytes",
	"pulled_bytes", "train_loss" };

json_t *figure_names(const struct run_info *list, size_t n)
{
	json_t *names = json_array(), *seen = json_object();

	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		json_array_append_new(names, json_string(figures[i]));
	for (size_t i = 0; i < n; i++) {
		json_t *eval = json_object_get(list[i].result, "eval"), *v;
		const char *key;

		json_object_foreach(eval, key, v) {
			char *name = mem_printf("eval.%s", key);

			if (strcmp(key, "examples") != 0 && !json_object_get(seen, name)) {
				json_array_append_new(names, json_string(name));
				json_object_set_new(seen, name, json_true());
			}
			free(name);
		}
	}
	json_decref(seen);
	return names;
}

const json_t *figure_of(const json_t *result, const char *name)
{
	if (strncmp(name, "eval.", 5) == 0)
		return json_object_get(json_object_get(result, "eval"), name + 5);
	return json_object_get(result, name);
}

char *figure_text(const json_t *v)
{
	if (!v || json_is_null(v))
		return mem_strdup("-");
	return json_is_real(v) ? mem_printf("%.4g", json_real_value(v)) : run_value_text(v);
}
