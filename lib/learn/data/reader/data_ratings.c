/* SPDX-License-Identifier: ISC */
#include "data/reader/data_ratings.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/suggest.h"
#include "data/data_kinds.h"
#include "data/reader/data_cells.h"
#include "data/reader/data_features.h"
#include "data/table/data_form.h"
#include "data/reader/data_head.h"
#include "data/table/data_names.h"
#include "data/table/data_unseen.h"
#include "data/reader/data_num.h"
#include "data/source/data_option.h"
#include "data/reader/data_parts.h"
#include "data/reader/data_row.h"
#include "format/stream.h"

/* A line a rating: a user, an item and a rating among the cells of the line, by default the first
 * three; user=, item= and rating= name other columns, and weight= one more. Cells are separated by
 * "::" (MovieLens), tabs, semicolons, commas, bars or blanks, and may be quoted. The first line is
 * a header when the cell of its rating is not a number, or when an option names one of its cells. Where
 * ratings do not matter, lines may have none.
 *
 * User u is feature 2u in field 0 and item i is feature 2i + 1 in field 1, so that both share one
 * table, a row's number says what it belongs to, and neither number needs a known limit. A user or
 * an item that is a word has a hash of it as its number, and the word as its name (data_names.h). */

#define LARGEST (UINT64_C(1) << 62)
/* Hashes of words have this many bits: 10^6 words meet with a chance of 10^-7. */
#define WORD_BITS 61

/* The salts of the hashes, from 1 on. */
enum part { USER, ITEM, RATING, WEIGHT, PARTS };
static const char *const part_name[PARTS] = { "user", "item", "rating", "weight" };
#define COLUMNS_SHOWN 8        /* names of columns in an error */
#define NO_COLUMN     SIZE_MAX /* of weights, which are there only by the option, and of ratings */

struct ratings {
	char sep;                                 /* ':' stands for "::" */
	bool begun;                               /* the separator and the columns are known */
	size_t column[PARTS], width;              /* width: cells that a line has at least */
	bool found;                               /* an option names a cell of the first line */
	double positive;                          /* as the option says; NAN: without it */
	bool names;                               /* the words are kept as names */
	struct data_features *features[ITEM + 1]; /* of users and of items; NULL: they have none */
	size_t named[ITEM + 1]; /* the columns of users and items among the names */
};

/* ---- cells ---- */

static char find_separator(const char *line)
{
	return strstr(line, "::") ? ':' : data_cells_separator(line, NULL);
}

/* The next cell of *p, as data_cells_next. */
static char *next_cell(char **p, char sep)
{
	char *cell = *p, *end;

	if (sep != ':')
		return data_cells_next(p, sep);
	end = strstr(cell, "::");
	*p = end ? end + 2 : NULL;
	if (end)
		*end = '\0';
	return cell;
}

/* ---- columns ---- */

static const char *option_of(const struct data_options *o, enum part k)
{
	return k == USER ? o->user : k == ITEM ? o->item : k == RATING ? o->rating : o->weight;
}

/* Can an example not do without its rating? */
static bool needs_ratings(const struct data_row *r)
{
	const struct ratings *t = r->own;
	const struct data_label *label = r->b->label;

	return !data_label_is_ignored(label) &&
	    !(data_label_wants_pairs(label) && isnan(t->positive));
}

/* Does the cell begin as a number does? A faulty rating is not a name. */
static bool begins_number(const char *cell)
{
	double v;

	return data_num(cell, &v) != NULL;
}

/* There is no such column: suggests one, or lists the names of a line that has no number. */
static enum err_code fail_unknown_column(const struct data_row *r, enum part k, const char *word,
    const char *const *cell, size_t n, struct err *e)
{
	const char *near = suggest(word, cell, n);
	char shown[DATA_SHOWN];
	struct buf list = BUF_INIT;
	bool names = true;
	enum err_code rc;

	for (size_t i = 0; i < n; i++)
		names = names && !begins_number(cell[i]);
	for (size_t i = 0; names && i < n && i < COLUMNS_SHOWN; i++) {
		data_shown(shown, cell[i], strlen(cell[i]));
		buf_printf(&list, "\"%s\", ", shown);
	}
	if (near)
		rc = stream_fail(r->s, e,
		    "%s=%.60s: there is no such column; did you mean \"%.60s\"?", part_name[k],
		    word, near);
	else
		rc = stream_fail(r->s, e,
		    "%s=%.60s: there is no such column; user=, item= and rating= name columns by %s%sa "
		    "number from 1 to %zu",
		    part_name[k], word, list.len ? (char *)list.data : "", list.len ? "or " : "",
		    n);
	buf_release(&list);
	return rc;
}

/* Finds the column of a part by the header's cells, or by its number. */
static enum err_code find_part(const struct data_row *r, struct ratings *t, enum part k,
    const char *const *cell, size_t n, struct err *e)
{
	const char *word = option_of(r->options, k);
	size_t found = n;
	uint64_t number;

	t->column[k] = k == WEIGHT || (k == RATING && n <= RATING && !needs_ratings(r)) ? NO_COLUMN
	                                                                                : k;
	if (!word)
		return ERR_OK;
	/* A number is never a name: the first line may be one of numbers. */
	if (num_uint(word, n, &number) && number > 0) {
		t->column[k] = (size_t)number - 1;
		return ERR_OK;
	}
	for (size_t i = 0; i < n; i++) {
		if (strcmp(cell[i], word) != 0)
			continue;
		if (found < n)
			return stream_fail(r->s, e,
			    "%s=%.60s: columns %zu and %zu have this name; give the number of the one "
			    "that is meant, as %s=%zu",
			    part_name[k], word, found + 1, i + 1, part_name[k], i + 1);
		found = i;
	}
	if (found < n) {
		t->column[k] = found;
		t->found = true;
		return ERR_OK;
	}
	/* A rating or a weight that the training data have may be missing where it is not needed. */
	if ((k == WEIGHT || (k == RATING && !needs_ratings(r))) &&
	    !data_option_is_given(r->options, part_name[k])) {
		t->column[k] = NO_COLUMN;
		return ERR_OK;
	}
	return fail_unknown_column(r, k, word, cell, n, e);
}

/* Refuses a header in which names of users, items or ratings stand in other columns than those that are
 * read. A name for ratings alone is none: a score may be anything. */
static enum err_code check_usual_names(const struct data_row *r, const char *const *cell, size_t n,
    struct err *e)
{
	const struct data_options *o = r->options;
	struct buf names = BUF_INIT, numbers = BUF_INIT, advice = BUF_INIT;
	size_t at[3], known = 0, seen = 0;
	enum err_code rc;

	if (o->user || o->item || o->rating)
		return ERR_OK;
	data_ratings_find(cell, n, at);
	if ((at[USER] == USER || at[USER] == DATA_RATINGS_NONE) &&
	    (at[ITEM] == ITEM || at[ITEM] == DATA_RATINGS_NONE) &&
	    (at[RATING] == RATING || at[USER] == DATA_RATINGS_NONE ||
	        at[ITEM] == DATA_RATINGS_NONE || at[RATING] == DATA_RATINGS_NONE))
		return ERR_OK;
	for (int k = USER; k <= RATING; k++)
		known += at[k] != DATA_RATINGS_NONE;
	for (int k = USER; k <= RATING; k++) {
		const char *between;

		if (at[k] == DATA_RATINGS_NONE)
			continue;
		between = !seen ? "" : seen + 1 == known ? " and " : ", ";
		buf_printf(&names, "%s\"%.60s\"", between, cell[at[k]]);
		buf_printf(&numbers, "%s%zu", between, at[k] + 1);
		buf_printf(&advice, "%c%s=%zu", seen ? '&' : '?', part_name[k], at[k] + 1);
		seen++;
	}
	rc = stream_fail(r->s, e,
	    "%s %s column%s %s, but without options the first three columns are the user, the item and "
	    "the rating: add %s to the path",
	    (char *)names.data, known == 1 ? "is" : "are", NUM_S(known), (char *)numbers.data,
	    (char *)advice.data);
	buf_release(&names);
	buf_release(&numbers);
	buf_release(&advice);
	return rc;
}

/* Are there names for a user and an item among the cells? Then a line without a rating is a header. */
static bool has_usual_names(const char *const *cell, size_t n)
{
	size_t at[3];

	data_ratings_find(cell, n, at);
	return at[USER] != DATA_RATINGS_NONE && at[ITEM] != DATA_RATINGS_NONE;
}

/* Writes down which column was taken for what, for the description of the data. Observations of a user and an
 * item have no rating, whatever the third column is. */
static void describe_columns(struct data_row *r, const char *const *cell, bool header)
{
	const struct ratings *t = r->own;
	bool rated = !data_label_wants_pairs(r->b->label) || !isnan(t->positive);
	struct buf text = BUF_INIT;
	char shown[DATA_SHOWN];

	for (int k = 0; k < PARTS; k++) {
		if (t->column[k] == NO_COLUMN || (k == RATING && !rated))
			continue;
		buf_printf(&text, "%s%s: column %zu", text.len ? ", " : "", part_name[k],
		    t->column[k] + 1);
		if (header) {
			data_shown(shown, cell[t->column[k]], strlen(cell[t->column[k]]));
			buf_printf(&text, " \"%.24s\"", shown);
		}
	}
	for (int k = USER; k <= ITEM; k++) {
		char *features = t->features[k] ? data_features_describe(t->features[k]) : NULL;

		if (features)
			buf_printf(&text, ", %s", features);
		free(features);
	}
	free(r->b->d->roles);
	r->b->d->roles = (char *)text.data;
}

/* Refuses one column as two things, where options name columns. */
static enum err_code check_parts_differ(const struct data_row *r, struct err *e)
{
	const struct ratings *t = r->own;

	for (int k = 1; k < PARTS; k++)
		for (int i = 0; i < k; i++) {
			bool named = option_of(r->options, (enum part)k) != NULL;

			if (t->column[i] == NO_COLUMN || t->column[i] != t->column[k] ||
			    (!named && !option_of(r->options, (enum part)i)))
				continue;
			return stream_fail(r->s, e,
			    "column %zu is the %s and the %s; name another column by %s=",
			    t->column[k] + 1, part_name[i], part_name[k], part_name[named ? i : k]);
		}
	return ERR_OK;
}

/* Finds separator and columns by the first line. *header: it has only names. */
static enum err_code find_columns(struct data_row *r, const char *line, bool *header, struct err *e)
{
	struct ratings *t = r->own;
	const struct data_decided *decided = &r->options->decided;
	bool above = decided->heading == DATA_HEADING_ABOVE,
	     bare = data_head_is_bare(r->b, r->options, line);
	char *copy = mem_strdup(above ? decided->names : bare ? r->b->heading : line), *rest = copy;
	const char **cell = mem_array(strlen(copy) + 2, sizeof *cell);
	enum err_code rc = ERR_OK;
	size_t n = 0;

	t->sep = decided->separator ? decided->separator
	    : bare                  ? r->b->separator
	                            : find_separator(line);
	while (rest && (cell[n] = next_cell(&rest, t->sep)))
		n++;
	for (int k = 0; !rc && k < PARTS; k++) {
		rc = find_part(r, t, (enum part)k, cell, n, e);
		if (t->column[k] != NO_COLUMN && t->column[k] >= t->width)
			t->width = t->column[k] + 1;
	}
	if (!rc)
		rc = check_parts_differ(r, e);
	/* A line with too few cells is reported with its rows. */
	*header = !rc && t->width <= n &&
	    (t->column[RATING] == NO_COLUMN ? t->found || has_usual_names(cell, n)
	                                    : !begins_number(cell[t->column[RATING]]));
	for (int k = 0; *header && k < PARTS; k++)
		*header = t->column[k] == NO_COLUMN || *cell[t->column[k]] != '\0';
	if (bare)
		*header = false;
	if (decided->heading != DATA_HEADING_GUESSED)
		*header = !rc && decided->heading == DATA_HEADING_GIVEN;
	if (*header)
		rc = check_usual_names(r, cell, n, e);
	if (!rc && t->width <= n && !decided->known && decided->heading != DATA_HEADING_NONE)
		describe_columns(r, cell, *header);
	t->begun = true;
	r->b->d->reading.heading = *header ? stream_lineno(r->s) : 0;
	r->b->d->reading.separator = t->sep;
	if (*header || above)
		data_head_keep(r->b, above ? decided->names : line);
	free(cell);
	free(copy);
	return rc;
}

/* ---- rows ---- */

bool data_ratings_number(const char *cell, bool item, uint64_t *out, bool *word)
{
	enum part k = item ? ITEM : USER;
	const char *q = cell;

	*word = false;
	/* data_take_index is faster, and num_uint takes numbers of 19 digits, too. */
	if ((data_take_index(&q, out) && !*q) || num_uint(cell, UINT64_MAX, out))
		return *out < LARGEST;
	if (cell[strspn(cell, "+-.0123456789")] == '\0')
		return false;
	*word = true;
	*out = data_hash((uint64_t)k + 1, cell, strlen(cell)) >> (64 - WORD_BITS);
	return true;
}

/* Says what is wrong with a line. column: the bad one, from 0; cell: its text, NULL: the line has too
 * few columns. */
static enum err_code bad_line(const struct data_row *r, const char *line, size_t column,
    const char *cell, enum part k, struct err *e)
{
	char text[DATA_SHOWN];

	data_shown(text, line, strlen(line));
	if (!cell && *line == '{')
		return stream_fail(r->s, e,
		    "expected a user, an item and a rating, got \"%s\"; convert JSON Lines with jq -r "
		    "'[.user, .item, .rating] | @csv'",
		    text);
	if (!cell && column == RATING && !r->options->user && !r->options->item)
		return stream_fail(r->s, e,
		    "expected a user, an item and a rating, got \"%s\"; without ratings, use model bpr or warp, "
		    "which learns from users and items alone",
		    text);
	if (!cell) {
		return stream_fail(r->s, e,
		    "expected a user, an item and a rating, got \"%s\"; user=, item= and rating= name "
		    "other columns",
		    text);
	}
	data_shown(text, cell, strlen(cell));
	return err_set(e, ERR_FORMAT, "%s:%" PRIu64 ":%zu: expected %s, got \"%s\"%s%s",
	    stream_name(r->s), stream_lineno(r->s), column + 1,
	    k == WEIGHT       ? "a number of at least 0 as weight"
	        : k == RATING ? "a number as rating"
	        : k == USER   ? "a user, a whole number below 2^62 or a word"
	                      : "an item, a whole number below 2^62 or a word",
	    text, *text ? "" : "; remove the line",
	    *text && !option_of(r->options, k) ? "; user=, item= and rating= name other columns"
	                                       : "");
}

static void find_name_columns(struct ratings *t, struct dataset *d)
{
	for (int k = USER; k <= ITEM; k++)
		t->named[k] = data_names_column(d->names, part_name[k]);
}

/* Takes the names of the files before, or of the data that these extend. */
static void begin_names(struct ratings *t, struct data_build *b)
{
	if (t->names && !b->d->names && b->like && b->like->names)
		b->d->names = data_names_copy(b->like->names);
	if (b->d->names)
		find_name_columns(t, b->d);
}

/* Names a feature by its word. */
static void name_word(struct data_row *r, enum part k, const char *word, uint64_t feature)
{
	struct ratings *t = r->own;
	struct dataset *d = r->b->d;

	if (!t->names)
		return;
	if (!d->names) {
		d->names = data_names_new();
		find_name_columns(t, d);
	}
	data_names_add(d->names, t->named[k], word, feature);
}

/* Names the features of users and items. */
static void name_features(struct data_row *r)
{
	struct ratings *t = r->own;
	struct dataset *d = r->b->d;

	for (int k = USER; k <= ITEM; k++) {
		if (!t->names || !t->features[k])
			continue;
		if (!d->names) {
			d->names = data_names_new();
			find_name_columns(t, d);
		}
		data_features_name(t->features[k], d->names);
	}
}

/* Parses a cell as a number, perhaps with a decimal comma. */
static bool parse_rating_number(const struct ratings *t, const char *cell, double *out)
{
	return data_num_all(cell, out) ||
	    (t->sep != ',' && data_form_number(DATA_COMMA, NULL, cell, out));
}

/* Notes a feature that the model lacks. */
static void note_unseen(struct data_row *r, enum part k, uint64_t feature)
{
	const struct ratings *t = r->own;
	char *name = data_features_find_name(t->features[k], feature), *text = strchr(name, '=');

	*text = '\0';
	data_unseen_category(r->b->want.unseen, name, text + 1);
	free(name);
}

/* The target that a rating becomes. */
static double target_of(const struct data_row *r, double rating)
{
	const struct ratings *t = r->own;

	if (!isnan(t->positive))
		return rating >= t->positive;
	return data_label_wants_pairs(r->b->label) ? 1 : rating;
}

/* Does the model use a feature? In training it does if several users or items have the feature. Later it does
 * if the training data have it, as the names in their description tell. Where the description has no room for
 * all names, the rule of training holds. A feature that the model lacks is noted. */
static bool uses_feature(struct data_row *r, enum part k, uint64_t feature)
{
	const struct ratings *t = r->own;
	const struct data_build *b = r->b;
	const struct data_names *known = b->like && !b->extends ? b->like->names : NULL;

	if (!b->like || b->extends ||
	    (known && data_names_are_full(known, k == USER ? "user." : "item.")))
		return data_features_is_shared(t->features[k], feature);
	if (known && data_names_have(known, 2 * feature + k))
		return true;
	if (data_features_is_shared(t->features[k], feature))
		note_unseen(r, k, feature);
	return false;
}

/* Adds the user or the item to the row, and its features. */
static void add_side(struct data_row *r, enum part k, uint64_t number)
{
	const struct ratings *t = r->own;
	const uint64_t *feature;
	size_t n;

	data_row_add(r, 2 * number + k, 1, (uint16_t)k);
	if (!t->features[k])
		return;
	feature = data_features_of(t->features[k], number, &n);
	if (!feature)
		r->b->d->reading.unlisted++;
	for (size_t i = 0; i < n; i++)
		if (uses_feature(r, k, feature[i]))
			data_row_add(r, 2 * feature[i] + k, 1, (uint16_t)k);
}

/* Observations with the target 0 are none, and are left out. */
static enum err_code take_rating(struct data_row *r, char *const *cell, const char *line,
    struct err *e)
{
	const struct ratings *t = r->own;
	uint64_t user, item;
	bool user_word, item_word;
	double rating = 0, weight;
	enum err_code rc = ERR_OK;

	if (!data_ratings_number(cell[USER], false, &user, &user_word))
		return bad_line(r, line, t->column[USER], cell[USER], USER, e);
	if (!data_ratings_number(cell[ITEM], true, &item, &item_word))
		return bad_line(r, line, t->column[ITEM], cell[ITEM], ITEM, e);
	if (cell[RATING] && !parse_rating_number(t, cell[RATING], &rating))
		return bad_line(r, line, t->column[RATING], cell[RATING], RATING, e);
	if (cell[WEIGHT] &&
	    !(parse_rating_number(t, cell[WEIGHT], &weight) && weight >= 0 &&
	        isfinite((float)weight)))
		return bad_line(r, line, t->column[WEIGHT], cell[WEIGHT], WEIGHT, e);
	rating = target_of(r, rating);
	if (rating == 0 && data_label_wants_pairs(r->b->label)) {
		r->b->left_out++;
		return ERR_OK;
	}
	if (cell[WEIGHT])
		rc = data_build_weight(r->b, r->s, weight, e);
	if (!rc)
		rc = data_label_number(r->b->label, r->s, rating, e);
	add_side(r, USER, user);
	add_side(r, ITEM, item);
	if (!rc)
		rc = data_row_end(r, true, e);
	if (!rc && user_word)
		name_word(r, USER, cell[USER], 2 * user);
	if (!rc && item_word)
		name_word(r, ITEM, cell[ITEM], 2 * item + 1);
	return rc;
}

/* Reads the cells of a line as far as they are needed. */
static enum err_code parse_rating_line(struct data_row *r, char *first, struct err *e)
{
	struct ratings *t = r->own;
	char *line = (char *)(uintptr_t)data_skip_blanks(first), *rest = line,
	     *found[PARTS] = { NULL };
	char shown[2 * DATA_SHOWN];
	bool header = false;
	enum err_code rc;

	if (!*line) {
		r->b->left_out++;
		return ERR_OK;
	}
	if (!t->begun) {
		rc = find_columns(r, line, &header, e);
		r->b->left_out += !rc && header;
		if (rc || header)
			return rc;
	}
	snprintf(shown, sizeof shown, "%.*s", (int)sizeof shown - 1, line);
	for (size_t i = 0; i < t->width; i++) {
		char *cell = rest ? next_cell(&rest, t->sep) : NULL;

		if (!cell)
			return bad_line(r, shown, i, NULL, USER, e);
		for (int k = 0; k < PARTS; k++)
			if (t->column[k] == i)
				found[k] = cell;
	}
	return take_rating(r, found, shown, e);
}

/* Gets the table of features of users or items where an option names one. */
static enum err_code read_features(struct ratings *t, enum part k, const char *path, struct err *e)
{
	struct data_features *before = t->features[k];
	enum err_code rc = ERR_OK;

	t->features[k] = NULL;
	if (path)
		rc = data_features_read(path, k == USER ? DATA_FEATURES_USERS : DATA_FEATURES_ITEMS,
		    &t->features[k], e);
	data_features_free(before);
	return rc ? err_prefix(e, k == USER ? "user_features" : "item_features") : ERR_OK;
}

static enum err_code begin_ratings(struct data_parser *p, struct err *e)
{
	struct data_build *b = p->build;
	struct data_row *r = data_row_begin(p, sizeof(struct ratings), parse_rating_line);
	struct ratings *t = r->own, before = *t;
	enum err_code rc;

	*t = (struct ratings){ .names = !b->like || b->extends, .positive = (double)NAN };
	memcpy(t->features, before.features, sizeof t->features);
	if (p->options->positive && !data_num_all(p->options->positive, &t->positive))
		return err_set(e, ERR_CONFIG, "%s: positive=%.60s: expected a number",
		    stream_name(p->stream), p->options->positive);
	b->index_base = 0;
	b->d->grouped_by_first = true;
	begin_names(t, b);
	if (p->options->norm && data_label_wants_pairs(b->label))
		return err_set(e, ERR_CONFIG,
		    "%s: norm= cannot be used with a model that ranks items, which has the value 1 for each "
		    "user, item and feature",
		    stream_name(p->stream));
	rc = read_features(t, USER, p->options->user_features, e);
	if (!rc)
		rc = read_features(t, ITEM, p->options->item_features, e);
	if (!rc)
		name_features(r);
	return rc;
}

/* A user, an item and a rating between "::", as MovieLens has them, or a user and an item alone. */
static int score_line(const char *line)
{
	const char *first = strstr(line, "::"), *second = first ? strstr(first + 2, "::") : NULL,
	           *end;

	if (!first || first == line || first[2] == '\0' || strchr(line, '\t'))
		return DATA_SCORE_NONE;
	if (!second)
		return strpbrk(line, " ,;|") ? DATA_SCORE_NONE : DATA_SCORE_TABLE;
	end = strstr(second + 2, "::");
	if (second == first + 2)
		return DATA_SCORE_NONE;
	end = end ? end : second + strlen(second);
	return data_word_is_number((struct data_word){ second + 2, (size_t)(end - second - 2) })
	    ? DATA_SCORE_SURE
	    : DATA_SCORE_TEXT;
}

static int score_ratings(const struct data_sample *s)
{
	return data_sample_score(s, score_line);
}

/* A rated item is compared with items, and so is a user, for whom the model ranks them. */
static bool find_user_or_item(const struct dataset *d, size_t kind, const char *text,
    uint64_t *feature)
{
	size_t n = strlen(text);
	/* Numbers are read as in a line, which has STREAM_PAD bytes after it. */
	char *padded = memcpy(mem_alloc(n + 1 + STREAM_PAD), text, n);
	uint64_t number;
	bool word, found = data_ratings_number(padded, kind == DATA_KIND_ITEM, &number, &word);

	(void)d;
	if (found)
		*feature = 2 * number + kind;
	free(padded);
	return found;
}

static const struct data_kinds kinds = { .n = 2,
	.name = { [DATA_KIND_USER] = "user", [DATA_KIND_ITEM] = "item" },
	.beside = { DATA_KIND_ITEM, DATA_KIND_ITEM },
	.numbered = true,
	.find = find_user_or_item };

static void release_ratings(struct data_parser *p)
{
	struct data_row *r = p->own;
	struct ratings *t = r ? r->own : NULL;

	for (int k = USER; t && k <= ITEM; k++)
		data_features_free(t->features[k]);
	data_row_release(p);
}

static const struct data_text_format ratings_lines = { .begin = begin_ratings,
	.line = data_row_line,
	.release = release_ratings };

const struct data_reader data_reader_ratings = { .score = score_ratings,
	.text = &ratings_lines,
	.parts = &data_parts_lines,
	.kinds = &kinds };
