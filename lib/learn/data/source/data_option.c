/* SPDX-License-Identifier: ISC */
#include "data/source/data_option.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "data/source/data_uri.h"
#include "format/uri.h"

#define READER(name, title, help) FORMAT_##name,
enum format {
#include "data/reader/reader.def"
};
#undef READER

#define F(name) (1u << FORMAT_##name)
#define ANY     UINT32_MAX
#define TABLES  (F(csv) | F(jsonl))

#define OPTION(field, type, least, most, formats, use) \
	{ #field, DATA_OPTION_##type, offsetof(struct data_options, field), least, most, formats, \
		DATA_OPTION_##use },
const struct data_option data_option_list[] = {
#include "data/source/data_option.def"
};
#undef OPTION
const size_t data_option_count = sizeof data_option_list / sizeof data_option_list[0];

char *data_option_text(const struct data_options *o, const struct data_option *k)
{
	char *text;

	memcpy(&text, (const char *)o + k->at, sizeof text);
	return text;
}

/* The value of a number. */
static double number_of(const struct data_options *o, const struct data_option *k)
{
	double number;
	int whole;

	if (k->type == DATA_OPTION_WHOLE) {
		memcpy(&whole, (const char *)o + k->at, sizeof whole);
		return whole;
	}
	memcpy(&number, (const char *)o + k->at, sizeof number);
	return number;
}

/* Sets a number. */
static void set_number(struct data_options *o, const struct data_option *k, double value)
{
	int whole = (int)value;

	if (k->type == DATA_OPTION_WHOLE)
		memcpy((char *)o + k->at, &whole, sizeof whole);
	else
		memcpy((char *)o + k->at, &value, sizeof value);
}

/* Sets a text, which is copied. */
static void set_text(struct data_options *o, const struct data_option *k, const char *text)
{
	char *copy = mem_strdup(text);

	free(data_option_text(o, k));
	memcpy((char *)o + k->at, &copy, sizeof copy);
}

/* The bit of option i in data_options.given. */
static uint64_t given_bit(size_t i)
{
	return UINT64_C(1) << i;
}

static bool is_given(const struct data_options *o, size_t i)
{
	return o->given & given_bit(i);
}

/* The number of the option of this name, which exists. */
static size_t find_option(const char *name)
{
	size_t i = 0;

	while (strcmp(data_option_list[i].name, name) != 0)
		i++;
	return i;
}

bool data_option_is_given(const struct data_options *o, const char *name)
{
	return is_given(o, find_option(name));
}

const char *data_option_names_file(const struct data_options *o)
{
	for (size_t i = 0; i < data_option_count; i++)
		if (is_given(o, i) && data_option_list[i].type == DATA_OPTION_FILE)
			return data_option_list[i].name;
	return NULL;
}

void data_option_clear(struct data_options *o, const char *name)
{
	size_t i = find_option(name);
	char *none = NULL;

	memcpy((char *)o + data_option_list[i].at, &none, sizeof none);
	o->given &= ~given_bit(i);
}

/* Has the option a value in o, which a path gave or which was taken over? */
static bool is_set(const struct data_options *o, const struct data_option *k)
{
	static const struct data_options none = DATA_OPTIONS_INIT;

	return data_option_is_text(k)
	    ? data_option_text(o, k) != NULL
	    : number_of(o, k) < number_of(&none, k) || number_of(o, k) > number_of(&none, k);
}

/* The text of an option's value; for one that is not set, its default. Empty: there is none. */
static void format_value(const struct data_options *o, const struct data_option *k, struct buf *out)
{
	const char *text;
	static const struct {
		size_t at;
		const char *text;
	} by_default[] = { { offsetof(struct data_options, missing), "mean" },
		{ offsetof(struct data_options, text_weight), "none" } };

	if (!data_option_is_text(k)) {
		buf_printf(out, "%.10g", number_of(o, k));
		return;
	}
	text = data_option_text(o, k);
	for (size_t i = 0; !text && i < sizeof by_default / sizeof by_default[0]; i++)
		text = k->at == by_default[i].at ? by_default[i].text : NULL;
	buf_puts(out, text ? text : "");
}

bool data_option_value(const struct data_options *o, const char *name, struct buf *out)
{
	const struct data_option *k = &data_option_list[find_option(name)];

	if (is_set(o, k))
		format_value(o, k, out);
	return is_set(o, k);
}

/* Have a and b the same value of the option? */
static bool is_same(const struct data_options *a, const struct data_options *b,
    const struct data_option *k)
{
	struct buf x = BUF_INIT, y = BUF_INIT;
	bool same;

	format_value(a, k, &x);
	format_value(b, k, &y);
	same = x.len == y.len && (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
	buf_release(&x);
	buf_release(&y);
	return same;
}

static void copy_value(struct data_options *to, const struct data_options *from,
    const struct data_option *k)
{
	if (data_option_is_text(k))
		set_text(to, k, data_option_text(from, k));
	else
		set_number(to, k, number_of(from, k));
}

/* Refuses a value that differs from that of other data, which `whose` names. */
static enum err_code refuse_value(const struct data_options *o, const struct data_options *other,
    const struct data_option *k, const char *name, const char *whose, struct err *e)
{
	struct buf mine = BUF_INIT, theirs = BUF_INIT;
	enum err_code rc;

	format_value(o, k, &mine);
	format_value(other, k, &theirs);
	rc = theirs.len && (data_option_is_text(k) || number_of(other, k) > 0)
	    ? err_set(e, ERR_CONFIG, "%s: %s=%s, but %s read with %s=%s: give them the same value",
	          name, k->name, (const char *)mine.data, whose, k->name, (const char *)theirs.data)
	    : err_set(e, ERR_CONFIG, "%s: %s=%s, but %s read without it: remove it from the path",
	          name, k->name, (const char *)mine.data, whose);
	buf_release(&mine);
	buf_release(&theirs);
	return rc;
}

void data_option_take_format(struct data_options *o, const struct dataset *like)
{
	if (!o->format && like && like->options && like->options->format)
		o->format = mem_strdup(like->options->format);
}

/* Do files of this format take the option over from the data that `like` describes? */
static bool takes(const struct data_option *k, const struct dataset *like, size_t format,
    bool labels)
{
	switch (k->use) {
	case DATA_OPTION_TAKEN:
	case DATA_OPTION_SHARED:
	case DATA_OPTION_HELD:
		return k->at != offsetof(struct data_options, format);
	case DATA_OPTION_LABEL:
		return !like->schema && (labels || !like->feature_name);
	case DATA_OPTION_WEIGHT:
		return !(TABLES >> format & 1);
	case DATA_OPTION_OWN:
	case DATA_OPTION_COMPARED:
		break;
	}
	return false;
}

enum err_code data_option_take(struct data_options *o, const struct dataset *like, size_t format,
    bool labels, const char *name, struct err *e)
{
	const struct data_options *from = like ? like->options : NULL;

	for (size_t i = 0; from && i < data_option_count; i++) {
		const struct data_option *k = &data_option_list[i];

		if (!(k->formats >> format & 1))
			continue;
		if (is_given(o, i) &&
		    (k->use == DATA_OPTION_HELD || k->use == DATA_OPTION_COMPARED) &&
		    !is_same(o, from, k))
			return refuse_value(o, from, k, name, "the training data were", e);
		if (!is_given(o, i) && is_set(from, k) && takes(k, like, format, labels))
			copy_value(o, from, k);
	}
	return ERR_OK;
}

enum err_code data_option_check_file(const struct data_options *o, const char *path, struct err *e)
{
	static const char *const of_streams[] = { "from", "properties", "deleted", "head" };

	for (size_t i = 0; !o->follow && i < sizeof of_streams / sizeof of_streams[0]; i++)
		if (data_option_is_given(o, of_streams[i]))
			return err_set(e, ERR_CONFIG,
			    "%s: %s= is an option of streams, and this is none: remove it from the "
			    "path, or add follow=yes",
			    path, of_streams[i]);
	return ERR_OK;
}

enum err_code data_option_check(const struct data_options *o, size_t format, const char *name,
    struct err *e)
{
	const struct data_format *formats = data_formats();
	struct buf list = BUF_INIT;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < data_option_count; i++) {
		const struct data_option *k = &data_option_list[i];

		if (!is_given(o, i) || k->formats >> format & 1)
			continue;
		for (size_t f = 0; formats[f].name; f++)
			if (k->formats >> f & 1)
				buf_printf(&list, "%s%s", list.len ? ", " : "", formats[f].name);
		rc = err_set(e, ERR_CONFIG,
		    "%s: is %s, which has no option %s= (%s): remove it from the path, or name the "
		    "format of the file by format=",
		    name, formats[format].title, k->name, (const char *)list.data);
	}
	buf_release(&list);
	return rc;
}

char *data_option_path(const char *name, const char *path)
{
	char *dir, *beside, *whole;

	if (uri_is(path) || *path == '/')
		return mem_strdup(path);
	/* Standard input, which may be a descriptor of ps-ctl, requests and objects lie in no folder. */
	dir = strstr(name, "://") || strcmp(name, "-") == 0 || strncmp(name, "/proc/", 6) == 0
	    ? mem_strdup(".")
	    : path_dirname(name);
	beside = path_join(dir, path);
	whole = path_absolute(beside);
	free(dir);
	free(beside);
	return whole;
}

void data_option_complete(struct data_options *o, const char *name)
{
	char **path[] = { &o->user_features, &o->item_features };

	for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
		char *whole = *path[i] ? data_option_path(name, *path[i]) : NULL;

		free(*path[i]);
		*path[i] = whole;
	}
}

enum err_code data_option_agree(const struct data_options *o, const struct data_options *first,
    size_t format, const char *name, struct err *e)
{
	for (size_t i = 0; first && !(TABLES >> format & 1) && i < data_option_count; i++) {
		const struct data_option *k = &data_option_list[i];

		if ((k->use == DATA_OPTION_HELD || k->use == DATA_OPTION_SHARED) &&
		    k->formats >> format & 1 && !is_same(o, first, k))
			return refuse_value(is_set(o, k) ? o : first, is_set(o, k) ? first : o, k,
			    name, "other files of these data are", e);
	}
	return ERR_OK;
}

struct data_options *data_option_note(const struct data_options *o, size_t format,
    const char *scale)
{
	static const struct data_options none = DATA_OPTIONS_INIT;
	struct data_options *note = mem_alloc(sizeof *note);

	*note = none;
	for (size_t i = 0; i < data_option_count; i++) {
		const struct data_option *k = &data_option_list[i];

		if (k->use == DATA_OPTION_OWN || !(k->formats >> format & 1) || !is_set(o, k) ||
		    (k->at == offsetof(struct data_options, format) && !is_given(o, i)))
			continue;
		copy_value(note, o, k);
		note->given |= given_bit(i);
	}
	if (TABLES >> format & 1 && !note->scale) {
		note->scale = mem_strdup(o->norm || !scale ? "none" : scale);
		note->given |= given_bit(find_option("scale"));
	}
	return note;
}

struct data_options *data_option_copy(const struct data_options *o)
{
	struct data_options *copy = o ? mem_alloc(sizeof *copy) : NULL;

	if (copy)
		*copy = data_uri_copy(o);
	return copy;
}

void data_option_free(struct data_options *o)
{
	if (o)
		data_uri_release(o);
	free(o);
}

json_t *data_option_to_json(const struct data_options *o)
{
	json_t *json = json_object();

	for (size_t i = 0; i < data_option_count; i++) {
		const struct data_option *k = &data_option_list[i];

		if (!is_given(o, i))
			continue;
		json_object_set_new(json, k->name,
		    data_option_is_text(k)             ? json_of_text(data_option_text(o, k))
		        : k->type == DATA_OPTION_WHOLE ? json_integer((json_int_t)number_of(o, k))
		                                       : json_of_num(number_of(o, k)));
	}
	return json;
}

enum err_code data_option_from_json(const json_t *json, struct data_options **out, struct err *e)
{
	static const struct data_options none = DATA_OPTIONS_INIT;
	struct data_options *o = mem_alloc(sizeof *o);

	*o = none;
	*out = NULL;
	for (size_t i = 0; i < data_option_count; i++) {
		const struct data_option *k = &data_option_list[i];
		const json_t *v = json_object_get(json, k->name);
		double number = json_number_value(v);

		if (!v)
			continue;
		if (data_option_is_text(k)
		        ? !json_is_string(v) || !*json_string_value(v)
		        : !json_is_number(v) || number < k->least || number > k->most ||
		            (k->type == DATA_OPTION_WHOLE && number != floor(number))) {
			data_option_free(o);
			return err_set(e, ERR_FORMAT,
			    "the description of the training data is damaged: its option %s",
			    k->name);
		}
		if (data_option_is_text(k))
			set_text(o, k, json_string_value(v));
		else
			set_number(o, k, number);
		o->given |= given_bit(i);
	}
	*out = o;
	return ERR_OK;
}
