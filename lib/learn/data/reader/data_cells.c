/* SPDX-License-Identifier: ISC */
#include "data/reader/data_cells.h"

#include <string.h>

#include "core/mem.h"
#include "data/table/data_form.h"

static const char separators[] = { '\t', ';', ',', '|' };

static bool is_separator(char c, char sep)
{
	return sep == DATA_CELLS_ANY ? memchr(separators, c, sizeof separators) != NULL : c == sep;
}

/* Is the character at p, which is not a blank, the first one of a cell of the text that begins at `from`? */
static bool begins_cell(const char *from, const char *p, char sep)
{
	if (sep == ' ')
		return p == from || p[-1] == ' ' || p[-1] == '\t';
	while (
	    p > from && (p[-1] == ' ' || (p[-1] == '\t' && sep != '\t' && sep != DATA_CELLS_ANY)))
		p--;
	return p == from || p[-1] == '\n' || is_separator(p[-1], sep);
}

/* The quotes of a text, followed from its begin on. */
struct quotes {
	const char *from;
	char sep;
	bool open;          /* a quoted cell is open */
	const char *closed; /* the quote that closed the last one */
};

/* Takes the next quote of the text. A doubled one within a cell closes and opens it. */
static void take_quote(struct quotes *q, const char *p)
{
	if (q->open)
		q->closed = p;
	q->open = !q->open &&
	    (begins_cell(q->from, p, q->sep) || (q->closed && q->closed + 1 == p));
}

bool data_cells_open(const char *line, char sep, bool open)
{
	struct quotes q = { .from = line, .sep = sep, .open = open };

	for (const char *p = strchr(line, '"'); p; p = strchr(p + 1, '"'))
		take_quote(&q, p);
	return q.open;
}

size_t data_cells_record(const char *p, size_t n, char sep)
{
	struct quotes q = { .from = p, .sep = sep };

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '"')
			take_quote(&q, p + i);
		else if (p[i] == '\n' && !q.open)
			return i;
	}
	return n;
}

/* The place after the bracket that closes the one at p; p + 1 if no bracket of this record does. */
static const char *skip_brackets(const char *p)
{
	const char *end = p + strcspn(p, "]\n");

	return *end == ']' ? end + 1 : p + 1;
}

/* Counts outside of quotes. lists: the separators in a list such as [1;2;3] count, too. */
static size_t count_char(const char *p, char sep, bool lists)
{
	struct quotes q = { .from = p, .sep = sep };
	size_t n = 0;

	while (*p) {
		if (*p == '[' && !lists && !q.open) {
			p = skip_brackets(p);
			continue;
		}
		if (*p == '"')
			take_quote(&q, p);
		else if (*p == sep && !q.open)
			n++;
		p++;
	}
	return n;
}

/* Runs of blanks outside of quotes, between words. */
static size_t count_words(const char *p)
{
	struct quotes q = { .from = p, .sep = ' ' };
	bool word = false;
	size_t n = 0;

	for (; *p; p++) {
		bool blank = !q.open && (*p == ' ' || *p == '\t');

		n += !blank && !word;
		word = !blank;
		if (*p == '"')
			take_quote(&q, p);
	}
	return n;
}

size_t data_cells_count(const char *record, char sep)
{
	return sep == ' ' ? count_words(record) : count_char(record, sep, true) + 1;
}

/* The separator that is most frequent in `first`, and in `second` equally often, unless that is NULL;
 * 0: none. */
static char find_frequent(const char *first, const char *second, bool lists)
{
	size_t best = 0, n;
	char sep = 0;

	for (size_t i = 0; i < sizeof(separators); i++) {
		n = count_char(first, separators[i], lists);
		if (n > best && (!second || n == count_char(second, separators[i], lists))) {
			best = n;
			sep = separators[i];
		}
	}
	return sep;
}

/* Is the cell a number or a time, perhaps with a unit? */
static bool is_measure(const char *cell)
{
	const char *unit = cell +
	    strcspn(cell, " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%");
	char number[64];
	double v;

	for (int f = 0; f < DATA_FORMS; f++)
		if (data_form_number((enum data_form)f, NULL, cell, &v))
			return true;
	if (unit == cell || (size_t)(unit - cell) >= sizeof number)
		return false;
	memcpy(number, cell, (size_t)(unit - cell));
	number[unit - cell] = '\0';
	return data_form_number(DATA_PLAIN, NULL, number, &v);
}

/* The share of the cells of both records that are numbers. */
static double share_of_numbers(const char *first, const char *second, char sep)
{
	size_t numbers = 0, all = 0, n;
	const char *const record[2] = { first, second };

	for (size_t i = 0; i < 2; i++) {
		char *copy = mem_strdup(record[i]), **cell = data_cells_split(copy, sep, &n);

		for (size_t k = 0; cell && k < n; k++)
			numbers += is_measure(cell[k]);
		all += n;
		free(cell);
		free(copy);
	}
	return (double)numbers / (double)all;
}

/* Are the commas of both records decimal commas between semicolons, which are less frequent? */
static bool has_decimal_commas(const char *first, const char *second)
{
	size_t n = count_char(first, ';', false);

	return n && second && n == count_char(second, ';', false) &&
	    share_of_numbers(first, second, ';') >= 1;
}

/* Do blanks separate the cells of both records? R writes quoted names, and none for the column of the row's
 * name. */
static bool has_words(const char *first, const char *second)
{
	size_t n = count_words(first), words = second ? count_words(second) : n;

	return n > 1 && (words == n || (words == n + 1 && *first == '"'));
}

/* The first pass accepts a character only when both records contain it equally often, since text in
 * cells contains commas at random. The second pass decides by the first record alone. If blanks make
 * more numbers, the characters are in lists within cells, as in "1 a;b 5". At last those in brackets
 * count, too. A comma is the answer when none occurs, as in a file with a single column. */
char data_cells_separator(const char *first, const char *second)
{
	char sep = find_frequent(first, second, false);
	bool words = has_words(first, second);

	if (!sep)
		sep = find_frequent(first, NULL, false);
	if (sep == ',' && has_decimal_commas(first, second))
		sep = ';';
	if (sep && second && words && count_words(first) == count_words(second) &&
	    share_of_numbers(first, second, ' ') > share_of_numbers(first, second, sep))
		return ' ';
	if (!sep && words)
		return ' ';
	if (!sep)
		sep = find_frequent(first, NULL, true);
	return sep ? sep : ',';
}

const char *data_cells_width_remedy(size_t n, size_t width, uint64_t line)
{
	if (line == 2 && n == width + 1)
		return "if the first column has no name (as the row names that R writes), add one "
		       "at the start of the first line; else put a cell that contains the "
		       "separator into double quotes";
	return "put a cell that contains the separator into double quotes";
}

static char *skip_blanks(char *p, char sep)
{
	while (*p == ' ' || (*p == '\t' && sep != '\t'))
		p++;
	return p;
}

/* Returns the end of the quoted text whose first quote is before p: the place after its last quote.
 * NULL: the text has no last quote. */
static char *quoted_end(char *p)
{
	for (; (p = strchr(p, '"')); p++)
		if (*++p != '"')
			return p;
	return NULL;
}

/* Unquotes a cell in place, which begins after its first quote and has a last one. The text gets shorter by
 * at least that quote, whose place its NUL takes. */
static void unquote_cell(char *cell)
{
	char *to = cell;

	for (char *q = cell; *q != '"' || *++q == '"'; q++)
		*to++ = *q;
	*to = '\0';
}

/* A quoted cell keeps its blanks, and only blanks may stand between its closing quote and the
 * separator. An unquoted cell loses blanks at both ends. Many programs write tabs between cells that they
 * never quote, so that text after a closing quote makes the quotes a part of the cell there, unless they
 * enclose lines; elsewhere it is an error. NUL bytes are written into the record. */
char *data_cells_next(char **p, char sep)
{
	char *cell = skip_blanks(*p, sep), *end = cell, *next;

	if (*cell == '"') {
		end = quoted_end(cell + 1);
		if (!end)
			return NULL;
		next = skip_blanks(end, sep);
		if (!*next || *next == sep || (sep == ' ' && next > end)) {
			unquote_cell(++cell);
			*p = !*next ? NULL : sep == ' ' ? next : next + 1;
			return cell;
		}
		if (sep != '\t' || memchr(cell, '\n', (size_t)(end - cell)))
			return NULL;
	}
	end = sep == ' ' ? cell + strcspn(cell, " \t") : strchrnul(end, sep);
	next = sep == ' ' ? skip_blanks(end, sep) : *end ? end + 1 : NULL;
	*p = sep == ' ' && !*next ? NULL : next;
	while (end > cell && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	return cell;
}

char **data_cells_split(char *record, char sep, size_t *n)
{
	size_t most = data_cells_count(record, sep) + 1;
	char **cells = mem_array(most, sizeof(*cells));

	for (*n = 0; record && *n < most; ++*n) {
		cells[*n] = data_cells_next(&record, sep);
		if (!cells[*n]) {
			free(cells);
			return NULL;
		}
	}
	return cells;
}
