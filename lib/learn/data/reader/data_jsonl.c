/* SPDX-License-Identifier: ISC */
#include <inttypes.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/log.h"
#include "core/map.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/suggest.h"
#include "core/utf8.h"
#include "data/reader/data_num.h"
#include "data/reader/data_parser.h"
#include "data/reader/data_parts.h"
#include "data/reader/data_row.h"
#include "data/table/data_schema.h"
#include "data/table/data_table.h"

/* JSON Lines: an object a line, whose members are the columns of a table (data_table.h).
 *
 * A member of an object within is named by both names with a dot, "user.city", and an element of an
 * array of numbers by its place, "x.0". Texts are categories, and an array of texts is several of
 * them; true and false are 1 and 0; null is as if the member were absent. Members may come in any
 * order.
 *
 * The columns of training data are the members in the first lines, up to SAMPLE bytes after the
 * first one; later members with other names are not features, like members of evaluation data that
 * the training data lack.
 *
 * jansson makes a tree of each line, which takes up to about 20 times its bytes: hence the
 * bound. */
#define LINE_MAX_BYTES ((size_t)4 << 20)
#define SAMPLE         ((size_t)1 << 20)
#define DEPTH_MAX      32
#define NAME_MAX_BYTES 1000u

/* A column, as the first lines show it. */
struct key {
	char *name;
	struct data_column_stats stats;
};

struct lines {
	struct data_build *b;
	struct stream *s;
	const struct data_options *o;
	struct key *key;
	size_t n, room;
	struct map *place; /* by name: the column's place, plus 1 */
	struct buf name;   /* of the member being looked at */
};

/* Handles the member with the name in l->name, whose value is neither an object nor an array that
 * is taken apart. */
typedef enum err_code (*member_fn)(struct lines *l, const json_t *v, struct err *e);

static const char *kind_of_value(const json_t *v)
{
	static const char *const name[] = { "an object", "an array", "a text", "a number",
		"a number", "true", "false", "null" };

	return name[json_typeof(v)];
}

/* The name of the member being looked at, for a message. */
static const char *shown_name(const struct lines *l, char out[static DATA_SHOWN])
{
	data_shown(out, (const char *)l->name.data, l->name.len);
	return out;
}

static size_t place_of(const struct lines *l)
{
	return (size_t)(uintptr_t)map_get(l->place, (const char *)l->name.data) - 1;
}

/* ---- a line ---- */

/* Is the line UTF-8, as JSON must be? */
static bool is_utf8(const char *line, size_t len)
{
	size_t n = 1;

	for (size_t i = 0; n && i < len; i += n)
		n = utf8_step(line + i, len - i);
	return n > 0;
}

/* Does the token that jansson has refused, which ends at byte `at`, spell a number that JSON
 * lacks? */
static bool is_nonfinite_token(const char *line, size_t at)
{
	static const char *const names[] = { "NaN", "Infinity" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t n = strlen(names[i]);

		if (at >= n && memcmp(line + at - n, names[i], n) == 0)
			return true;
	}
	return false;
}

/* The remedy for what jansson has found wrong with a line. */
static const char *remedy_for(const char *line, size_t len, const json_error_t *why)
{
	if (!is_utf8(line, len))
		return "; the line is not UTF-8, which iconv -t UTF-8 writes";
	switch (json_error_code(why)) {
	case json_error_premature_end_of_input:
		return "; a line must be a complete object, which jq -c . writes";
	case json_error_end_of_input_expected:
		return "; a line must be an object and nothing else";
	default:
		return why->position > 0 && (size_t)why->position <= len &&
		        is_nonfinite_token(line, (size_t)why->position)
		    ? "; JSON has no such number: write null"
		    : "";
	}
}

/* Parses a line. *out: NULL for a blank one. */
static enum err_code parse_line(struct lines *l, const char *line, size_t len, json_t **out,
    struct err *e)
{
	char near[2 * JSON_ERROR_TEXT_LENGTH];
	json_error_t why;

	*out = NULL;
	if (line[strspn(line, " \t\r")] == '\0' && strlen(line) == len) {
		l->b->left_out++;
		return ERR_OK;
	}
	if (len > LINE_MAX_BYTES)
		return stream_fail(l->s, e, "an object exceeds %zu MiB", LINE_MAX_BYTES >> 20);
	*out = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (!*out && line[strspn(line, " \t")] == '[')
		return stream_fail(l->s, e,
		    "a line must be an object, got the start of an array; convert it with jq -c "
		    "'.[]'");
	if (!*out) {
		log_escape(near, sizeof near, why.text, strlen(why.text));
		return stream_fail_at(l->s, why.column > 0 ? (size_t)why.column : 0, e, "%s%s",
		    near, remedy_for(line, len, &why));
	}
	if (json_is_object(*out))
		return ERR_OK;
	(void)stream_fail(l->s, e,
	    json_is_array(*out) ? "expected an object, got %s; convert an array with jq -c '.[]'"
	                        : "expected an object, got %s",
	    kind_of_value(*out));
	json_decref(*out);
	*out = NULL;
	return ERR_FORMAT;
}

static bool is_scalar(const json_t *v)
{
	return !json_is_object(v) && !json_is_array(v);
}

static bool is_array_of_numbers(const json_t *v)
{
	const json_t *x;
	size_t i;

	json_array_foreach(v, i, x)
		if (!json_is_number(x) && !json_is_null(x))
			return false;
	return json_array_size(v) > 0;
}

static enum err_code visit_object(struct lines *l, const json_t *o, unsigned depth, member_fn fn,
    struct err *e);

/* Appends ".7"; snprintf would take as long as all the rest of an element. */
static void append_index(struct buf *name, size_t i)
{
	char text[24], *end = text + sizeof text, *at = end;

	do
		*--at = (char)('0' + i % 10);
	while (i /= 10);
	*--at = '.';
	buf_append(name, at, (size_t)(end - at));
}

/* Calls fn for each element of an array of numbers, under the names "x.0", "x.1", ... */
static enum err_code visit_numbers(struct lines *l, const json_t *a, member_fn fn, struct err *e)
{
	size_t before = l->name.len, i;
	enum err_code rc = ERR_OK;
	const json_t *x;

	json_array_foreach(a, i, x) {
		l->name.len = before;
		append_index(&l->name, i);
		rc = fn(l, x, e);
		if (rc)
			break;
	}
	return rc;
}

/* Calls fn for a member, or for the members within it. What the options name is not taken apart. */
static enum err_code visit_member(struct lines *l, const json_t *v, unsigned depth, member_fn fn,
    struct err *e)
{
	const char *name = (const char *)l->name.data;
	char text[DATA_SHOWN];

	if (l->name.len > NAME_MAX_BYTES || depth > DEPTH_MAX)
		return stream_fail(l->s, e,
		    "the name of \"%s\" exceeds %u bytes, or it is nested deeper than %d objects",
		    shown_name(l, text), NAME_MAX_BYTES, DEPTH_MAX);
	if (is_scalar(v) || (l->o->ignore && names_has(l->o->ignore, name)))
		return fn(l, v, e);
	if (json_is_object(v))
		return visit_object(l, v, depth + 1, fn, e);
	if (is_array_of_numbers(v) && place_of(l) == SIZE_MAX &&
	    !(l->o->categories && names_has(l->o->categories, name)) &&
	    !(l->o->lists && names_has(l->o->lists, name)))
		return visit_numbers(l, v, fn, e);
	return fn(l, v, e);
}

/* Calls fn for each member of an object within another one, or of the line. */
static enum err_code visit_object(struct lines *l, const json_t *o, unsigned depth, member_fn fn,
    struct err *e)
{
	size_t before = l->name.len;
	enum err_code rc = ERR_OK;
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, key, v) {
		l->name.len = before;
		if (before)
			buf_puts(&l->name, ".");
		buf_puts(&l->name, key);
		/* A name may be empty, and an empty buffer has no NUL. */
		*buf_reserve(&l->name, 1) = '\0';
		rc = visit_member(l, v, depth, fn, e);
		if (rc)
			break;
	}
	l->name.len = before;
	return rc;
}

/* ---- the columns ---- */

static size_t add_member_name(struct lines *l, const char *name)
{
	l->key = mem_grow(l->key, &l->room, l->n + 1, sizeof *l->key);
	l->key[l->n] = (struct key){ .name = mem_strdup(name) };
	map_put(l->place, name, (void *)(uintptr_t)(l->n + 1));
	return l->n++;
}

/* Counts a value of the first lines for its column, which is new or known. */
static enum err_code count_value(struct lines *l, const json_t *v, struct err *e)
{
	const char *name = (const char *)l->name.data;
	size_t at = place_of(l);

	if (at == SIZE_MAX && l->o->columns)
		return ERR_OK;
	if (at == SIZE_MAX && l->n == DATA_SCHEMA_COLUMNS)
		return stream_fail(l->s, e,
		    "an object has more than %u members; choose some by ?columns=",
		    DATA_SCHEMA_COLUMNS);
	if (at == SIZE_MAX)
		at = add_member_name(l, name);
	if (json_is_array(v))
		data_column_stats_add_word(&l->key[at].stats, "");
	else if (json_is_string(v))
		data_column_stats_add(&l->key[at].stats, json_string_value(v));
	else if (json_is_number(v) || json_is_boolean(v))
		data_column_stats_add_number(&l->key[at].stats);
	return ERR_OK;
}

/* Counts the members of `first` and of the whole lines after it, as far as they have been read
 * ahead. A line there that is not an object is left for the reader to report. */
static enum err_code sample_lines(struct lines *l, const json_t *first, struct err *e)
{
	const uint8_t *p, *nl;
	size_t n, at = 0;
	enum err_code rc = visit_object(l, first, 1, count_value, e);

	if (!rc)
		rc = stream_peek(l->s, SAMPLE, &p, &n, e);
	for (; !rc && at < n && (nl = memchr(p + at, '\n', n - at)); at = (size_t)(nl - p) + 1) {
		json_t *v = json_loadb((const char *)p + at, (size_t)(nl - (p + at)),
		    JSON_REJECT_DUPLICATES, NULL);

		if (json_is_object(v))
			rc = visit_object(l, v, 1, count_value, e);
		json_decref(v);
	}
	return rc;
}

/* The place of a member's name; SIZE_MAX: no line has it. */
static size_t member_named(const struct lines *l, const char *name)
{
	return (size_t)(uintptr_t)map_get(l->place, name) - 1;
}

static enum err_code fail_unknown_label(const struct lines *l, const char *word, struct err *e)
{
	const char **names = mem_array(l->n + 1, sizeof *names), *near;

	for (size_t i = 0; i < l->n; i++)
		names[i] = l->key[i].name;
	near = suggest(word, names, l->n);
	(void)stream_fail(l->s, e, "label=%.60s: there is no such member%s%.60s%s", word,
	    near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
	free(names);
	return ERR_FORMAT;
}

/* Appends the column of the label that `word` names, which it takes over. */
static enum err_code add_label_key(const struct lines *l, char *word, size_t *label, size_t *n,
    struct err *e)
{
	size_t place = member_named(l, word);
	enum err_code rc = place == SIZE_MAX ? fail_unknown_label(l, word, e) : ERR_OK;

	for (size_t i = 0; !rc && i < *n; i++)
		if (label[i] == place)
			rc = stream_fail(l->s, e, "label=%.60s names \"%.60s\" twice", l->o->label,
			    word);
	label[(*n)++] = place;
	free(word);
	return rc;
}

/* The columns of labels, in a new array: the columns of ?label=, which may be one whose name has
 * commas; or the first of some usual names. */
static enum err_code find_label_keys(const struct lines *l, size_t **out, size_t *n, struct err *e)
{
	static const char *const usual[] = { "label", "target", "class", "y" };
	const char *option = l->o->label;
	size_t *label = *out = mem_array((option ? strlen(option) : 0) + 1, sizeof *label);
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !option && i < sizeof usual / sizeof usual[0]; i++)
		if (member_named(l, usual[i]) != SIZE_MAX)
			return add_label_key(l, mem_strdup(usual[i]), label, n, e);
	if (!option)
		return stream_fail(l->s, e,
		    "there is no member label, target, class or y; name the label by ?label=");
	if (member_named(l, option) != SIZE_MAX)
		return add_label_key(l, mem_strdup(option), label, n, e);
	for (const char *at = names_first(option); at && !rc; at = names_next(at))
		rc = add_label_key(l, mem_printf("%.*s", (int)strcspn(at, ","), at), label, n, e);
	return rc || *n ? rc : stream_fail(l->s, e, "label= names no member");
}

static void free_keys(struct lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->key[i].name);
	free(l->key);
	map_free(l->place);
	buf_release(&l->name);
}

/* Finds the columns by the first lines, with those of labels in a new array, or takes those of the
 * training data or the files before. */
static enum err_code find_columns(struct lines *l, const json_t *first, size_t **label,
    size_t *nlabels, struct err *e)
{
	const struct data_schema *m = data_table_schema(l->b);
	enum err_code rc = ERR_OK;

	for (size_t i = 0; m && i < m->ncolumns; i++)
		add_member_name(l, m->column[i].name);
	if (m)
		return ERR_OK;
	for (const char *at = l->o->columns ? names_first(l->o->columns) : NULL; at;
	     at = names_next(at)) {
		char *name = mem_printf("%.*s", (int)strcspn(at, ","), at);

		if (!map_get(l->place, name))
			add_member_name(l, name);
		free(name);
	}
	rc = sample_lines(l, first, e);
	return rc ? rc : find_label_keys(l, label, nlabels, e);
}

static enum err_code begin_file(struct lines *l, const json_t *first, struct err *e)
{
	struct data_table_shape shape = { .keyed = true };
	size_t *label = NULL;
	enum err_code rc = find_columns(l, first, &label, &shape.nlabels, e);
	char **names = mem_array(l->n + 1, sizeof *names);
	struct data_column_decision *decision = mem_array(l->n + 1, sizeof *decision);

	for (size_t i = 0; i < l->n; i++) {
		names[i] = l->key[i].name;
		decision[i] = data_column_stats_decide(&l->key[i].stats, false);
	}
	shape.width = l->n;
	shape.name = names;
	shape.decision = decision;
	shape.label = label;
	if (!rc)
		rc = data_table_open(l->b, l->s, l->o, &shape, e);
	free(names);
	free(decision);
	free(label);
	return rc;
}

/* ---- examples ---- */

static enum err_code fail_member(const struct lines *l, const json_t *v, struct err *e)
{
	char text[DATA_SHOWN];

	shown_name(l, text);
	return stream_fail(l->s, e,
	    "\"%s\" is %s; a column has numbers, texts, true, false, null, or arrays of texts; "
	    "?ignore=%s leaves it out",
	    text, json_is_array(v) ? "an array with other items" : kind_of_value(v), text);
}

/* Gives one value to the table. */
static enum err_code give_value(const struct lines *l, size_t place, const json_t *v, struct err *e)
{
	switch (json_typeof(v)) {
	case JSON_STRING:
		return data_table_text(l->b, l->s, place, json_string_value(v), e);
	case JSON_INTEGER:
		return data_table_integer(l->b, l->s, place, json_integer_value(v), e);
	case JSON_REAL:
		return data_table_number(l->b, l->s, place, json_real_value(v), e);
	case JSON_TRUE:
	case JSON_FALSE:
		return data_table_number(l->b, l->s, place, json_is_true(v), e);
	case JSON_NULL:
		return ERR_OK;
	default:
		return fail_member(l, v, e);
	}
}

static enum err_code take_value(struct lines *l, const json_t *v, struct err *e)
{
	size_t place = place_of(l), i;
	char text[DATA_SHOWN];
	enum err_code rc = ERR_OK;
	const json_t *x;

	if (place == SIZE_MAX || !data_table_uses(l->b, place))
		return ERR_OK;
	if (data_table_has(l->b, place))
		return stream_fail(l->s, e, "\"%s\" occurs twice, once in a nested object",
		    shown_name(l, text));
	if (!json_is_array(v))
		return give_value(l, place, v, e);
	if (!data_table_takes_several(l->b, place))
		return fail_member(l, v, e);
	json_array_foreach(v, i, x) {
		rc = give_value(l, place, x, e);
		if (rc)
			break;
	}
	return rc;
}

static enum err_code take_object(struct data_parser *p, const json_t *v, struct err *e)
{
	struct lines *l = p->own;
	enum err_code rc = ERR_OK;

	if (p->deciding) {
		rc = begin_file(l, v, e);
		/* A line that decides the columns, and fails, is wrong about all of them. */
		p->fatal = rc != ERR_OK;
	}
	p->deciding = false;
	if (!rc) {
		data_table_begin(l->b);
		rc = visit_object(l, v, 1, take_value, e);
	}
	return rc ? rc : data_table_end(l->b, l->s, e);
}

static enum err_code take_json_line(struct data_parser *p, char *line, size_t len, struct err *e)
{
	json_t *v;
	enum err_code rc = parse_line(p->own, line, len, &v, e);

	if (rc || !v)
		return rc;
	rc = take_object(p, v, e);
	json_decref(v);
	return rc;
}

static void release_jsonl(struct data_parser *p)
{
	struct lines *l = p->own;

	if (l)
		free_keys(l);
	free(l);
}

static enum err_code begin_jsonl(struct data_parser *p, struct err *e)
{
	struct lines *l = mem_alloc(sizeof *l);

	(void)e;
	release_jsonl(p);
	*l = (struct lines){ .b = p->build, .s = p->stream, .o = p->options, .place = map_new() };
	p->own = l;
	p->deciding = true;
	return ERR_OK;
}

/* Does the first line with text begin as an object, or as a list of objects, which is reported? */
static bool begins_json(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && strchr(" \t\r\n", p[i]) && p[i])
		i++;
	if (i < n && p[i] == '[') {
		for (i++; i < n && strchr(" \t\r\n", p[i]) && p[i]; i++)
			;
		return i < n && p[i] == '{';
	}
	if (i == n || p[i++] != '{')
		return false;
	while (i < n && strchr(" \t\r\n", p[i]) && p[i])
		i++;
	return i == n || p[i] == '"' || p[i] == '}';
}

static int score_jsonl(const struct data_sample *s)
{
	return begins_json(s->bytes, s->n) ? DATA_SCORE_SURE : DATA_SCORE_NONE;
}

static const struct data_text_format jsonl_lines = { .begin = begin_jsonl,
	.line = take_json_line,
	.release = release_jsonl,
	.ahead = SAMPLE };

const struct data_reader data_reader_jsonl = { .score = score_jsonl,
	.text = &jsonl_lines,
	.parts = &data_parts_lines,
	.to_ratings = "make a table of them, as by jq -r '[.user, .item, .rating] | @csv'" };
