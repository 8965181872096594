/* SPDX-License-Identifier: ISC */
#include "data/source/data_uri.h"

#include <glob.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/suggest.h"
#include "data/reader/data_num.h"
#include "data/source/data_object.h"
#include "data/source/data_option.h"
#include "format/uri.h"

static bool is_key_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

/* Does text begin with one of our options? Otherwise it belongs to a URL. */
static bool is_ours(const char *text)
{
	for (size_t i = 0; i < data_option_count; i++) {
		size_t n = strlen(data_option_list[i].name);

		if (strncmp(text, data_option_list[i].name, n) == 0 && text[n] == '=')
			return true;
	}
	return false;
}

/* The "?" that begins the options, or NULL: it may also be part of a name. */
static const char *options_of(const char *path)
{
	const char *q = strrchr(path, '?'), *p;

	if (q && uri_is(path) && !uri_is_s3(path))
		return is_ours(q + 1) ? q : NULL;
	if (!q || (q > path && q[-1] == '\\') || access(path, F_OK) == 0)
		return NULL;
	for (p = q + 1; is_key_char(*p); p++)
		;
	return p > q + 1 && *p == '=' ? q : NULL;
}

static int hex_digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Decodes %XX in n bytes at p into a new string. */
static char *decode_percent(const char *p, size_t n)
{
	char *out = mem_alloc(n + 1);
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '%' && i + 2 < n && hex_digit_value(p[i + 1]) >= 0 &&
		    hex_digit_value(p[i + 2]) >= 0) {
			out[len++] = (char)(hex_digit_value(p[i + 1]) << 4 |
			    hex_digit_value(p[i + 2]));
			i += 2;
		} else {
			out[len++] = p[i];
		}
	}
	return out;
}

static enum err_code fail_unknown(const char *path, const char *what, const char *word,
    const char *const *names, size_t n, struct err *e)
{
	const char *near = suggest(word, names, n);
	struct buf list = BUF_INIT;
	enum err_code rc;

	if (near) {
		rc = err_set(e, ERR_CONFIG, "%s: unknown %s \"%s\"; did you mean \"%s\"?", path,
		    what, word, near);
	} else {
		for (size_t i = 0; i < n; i++)
			buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
		rc = err_set(e, ERR_CONFIG, "%s: unknown %s \"%s\"; there are %s", path, what, word,
		    (const char *)list.data);
	}
	buf_release(&list);
	return rc;
}

static enum err_code check_format(const char *path, const char *name, struct err *e)
{
	const char *names[16];
	size_t n = 0;

	for (const struct data_format *f = data_formats(); f->name && n < 16; f++) {
		if (strcmp(f->name, name) == 0)
			return ERR_OK;
		names[n++] = f->name;
	}
	return fail_unknown(path, "format", name, names, n, e);
}

/* "auto" leaves the default of DATA_OPTIONS_INIT. */
static enum err_code set_number_option(struct data_options *o, const char *path,
    const struct data_option *k, const char *value, struct err *e)
{
	char *field = (char *)o + k->at;
	double v;
	int whole;

	if (strcmp(value, "auto") == 0)
		return ERR_OK;
	if (!data_num_all(value, &v) || v < k->least || v > k->most ||
	    (k->type == DATA_OPTION_WHOLE && v != floor(v)))
		return err_set(e, ERR_CONFIG,
		    "%s: %s must be %s from %.10g to %.10g, or auto, got \"%s\"", path, k->name,
		    k->type == DATA_OPTION_WHOLE ? "a whole number" : "a number", k->least, k->most,
		    value);
	whole = (int)v;
	if (k->type == DATA_OPTION_WHOLE)
		memcpy(field, &whole, sizeof(whole));
	else
		memcpy(field, &v, sizeof(v));
	return ERR_OK;
}

/* Takes value over. */
static void set_text_option(struct data_options *o, const struct data_option *k, char *value)
{
	char *field = (char *)o + k->at, *old;

	memcpy(&old, field, sizeof(old));
	free(old);
	memcpy(field, &value, sizeof(value));
}

/* Options that are one of some words. */
static enum err_code check_word(const char *path, const struct data_option *k, const char *value,
    struct err *e)
{
	static const struct {
		size_t at;
		const char *word[4];
	} known[] = {
		{ offsetof(struct data_options, norm), { "l2" } },
		{ offsetof(struct data_options, missing), { "mean", "zero", "category" } },
		{ offsetof(struct data_options, scale), { "none", "standard", "minmax", "auto" } },
		{ offsetof(struct data_options, text_weight), { "none", "tfidf" } },
		{ offsetof(struct data_options, follow), { "yes" } },
		{ offsetof(struct data_options, deleted), { "fail", "skip" } },
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		size_t n = 0;

		if (known[i].at != k->at)
			continue;
		while (n < 4 && known[i].word[n] && strcmp(known[i].word[n], value) != 0)
			n++;
		if (n == 4 || !known[i].word[n])
			return fail_unknown(path, k->name, value, known[i].word, n < 4 ? n : 4, e);
	}
	return ERR_OK;
}

/* The beginning of a stream: a word or a whole number. */
static enum err_code check_from(const char *path, const char *value, struct err *e)
{
	static const char *const words[] = { "begin", "end", "group" };

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strcmp(words[i], value) == 0)
			return ERR_OK;
	if (*value && strspn(value, "0123456789") == strlen(value) && strlen(value) <= 18)
		return ERR_OK;
	return fail_unknown(path, "from", value, words, sizeof words / sizeof words[0], e);
}

/* Takes value over. */
static enum err_code set_option(struct data_options *o, const char *path, const char *key,
    char *value, struct err *e)
{
	const char **names = mem_array(data_option_count, sizeof *names);
	const struct data_option *k = NULL;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < data_option_count; i++) {
		names[i] = data_option_list[i].name;
		if (strcmp(key, names[i]) == 0)
			k = &data_option_list[i];
	}
	if (!k)
		rc = fail_unknown(path, "option", key, names, data_option_count, e);
	else if (!*value)
		rc = err_set(e, ERR_CONFIG, "%s: %s= needs a value", path, key);
	else if (o->given >> (k - data_option_list) & 1)
		rc = err_set(e, ERR_CONFIG, "%s: %s= is given twice; remove one of them", path,
		    key);
	else if (!data_option_is_text(k))
		rc = set_number_option(o, path, k, value, e);
	else if (k->at == offsetof(struct data_options, format))
		rc = check_format(path, value, e);
	else if (k->at == offsetof(struct data_options, from))
		rc = check_from(path, value, e);
	else
		rc = check_word(path, k, value, e);
	free(names);
	if (!rc)
		o->given |= UINT64_C(1) << (k - data_option_list);
	if (rc || !data_option_is_text(k))
		free(value);
	else
		set_text_option(o, k, value);
	return rc;
}

/* Options are set one by one over DATA_OPTIONS_INIT. set_option takes ownership of the decoded value. */
enum err_code data_uri_parse(const char *path, char **file, struct data_options *o, struct err *e)
{
	const char *q = options_of(path), *p, *end, *eq;
	enum err_code rc = ERR_OK;
	char *key;

	*o = (struct data_options)DATA_OPTIONS_INIT;
	*file = q ? mem_printf("%.*s", (int)(q - path), path) : mem_strdup(path);
	for (p = q ? q + 1 : ""; *p && rc == ERR_OK; p = *end ? end + 1 : end) {
		end = strchrnul(p, '&');
		eq = memchr(p, '=', (size_t)(end - p));
		if (!eq) {
			rc = err_set(e, ERR_CONFIG,
			    "%s: options must have the form key=value, separated by &", path);
			break;
		}
		key = mem_printf("%.*s", (int)(eq - p), p);
		rc = set_option(o, path, key, decode_percent(eq + 1, (size_t)(end - eq - 1)), e);
		free(key);
	}
	/* Only ratings have these. */
	if (rc == ERR_OK && !o->format &&
	    (o->user || o->item || o->rating || o->user_features || o->item_features))
		o->format = mem_strdup("ratings");
	if (rc == ERR_OK && !**file)
		rc = err_set(e, ERR_CONFIG, "%s: names no file", path);
	if (rc != ERR_OK) {
		free(*file);
		*file = NULL;
		data_uri_release(o);
	}
	return rc;
}

void data_uri_release(struct data_options *o)
{
	for (size_t i = 0; i < data_option_count; i++)
		if (data_option_is_text(&data_option_list[i]))
			free(data_option_text(o, &data_option_list[i]));
	free(o->decided.names);
	*o = (struct data_options)DATA_OPTIONS_INIT;
}

struct data_options data_uri_copy(const struct data_options *o)
{
	struct data_options copy = *o;

	for (size_t i = 0; i < data_option_count; i++) {
		const struct data_option *k = &data_option_list[i];
		char *text = data_option_is_text(k) ? data_option_text(o, k) : NULL;

		if (!text)
			continue;
		text = mem_strdup(text);
		memcpy((char *)&copy + k->at, &text, sizeof(text));
	}
	copy.decided.names = o->decided.names ? mem_strdup(o->decided.names) : NULL;
	return copy;
}

void data_uri_list(const struct data_options *o, struct buf *out)
{
	for (size_t i = 0; i < data_option_count; i++) {
		const struct data_option *k = &data_option_list[i];
		const char *text = data_option_is_text(k) ? data_option_text(o, k) : NULL;
		double number = 0;
		int whole = 0;

		if (k->type == DATA_OPTION_WHOLE)
			memcpy(&whole, (const char *)o + k->at, sizeof(whole));
		if (k->type == DATA_OPTION_NUMBER)
			memcpy(&number, (const char *)o + k->at, sizeof(number));
		if (text)
			buf_printf(out, "%s=%zu:%s\n", k->name, strlen(text), text);
		else if (!data_option_is_text(k))
			buf_printf(out, "%s=%.17g\n", k->name,
			    k->type == DATA_OPTION_WHOLE ? whole : number);
	}
}

/* dir/pattern, with glob's special characters in dir escaped. */
static char *pattern_in(const char *dir, const char *pattern)
{
	struct buf b = BUF_INIT;

	if (dir && pattern[0] != '/') {
		for (const char *p = dir; *p; p++) {
			if (strchr("*?[]\\", *p))
				buf_puts(&b, "\\");
			buf_append(&b, p, 1);
		}
		buf_puts(&b, "/");
	}
	buf_puts(&b, pattern);
	return (char *)b.data;
}

static enum err_code one_file(char *name, char ***out, size_t *n)
{
	*out = mem_array(1, sizeof(**out));
	(*out)[0] = name;
	*n = 1;
	return ERR_OK;
}

/* The order of the tests matters: s3 patterns are matched by the store; other URIs may contain "?"
 * and are not globs; and a file that exists under the literal name wins over a glob. */
enum err_code data_uri_expand(const char *file, const char *base_dir, char ***out, size_t *n,
    struct err *e)
{
	char *whole, *pattern;
	enum err_code rc = ERR_OK;
	glob_t g = { 0 };
	int r;

	*out = NULL;
	*n = 0;
	if (uri_is_pattern(file))
		return data_object_match(file, out, n, e);
	if (strcmp(file, "-") == 0 || uri_is(file))
		return one_file(mem_strdup(file), out, n);
	whole = base_dir ? path_join(base_dir, file) : mem_strdup(file);
	if (!strpbrk(file, "*?[") || access(whole, F_OK) == 0)
		return one_file(whole, out, n);
	pattern = pattern_in(base_dir, file);
	r = glob(pattern, 0, NULL, &g);
	free(pattern);
	if (r != 0)
		rc = err_set(e, r == GLOB_NOSPACE ? ERR_NOMEM : ERR_NOTFOUND,
		    "no file matches \"%s\"", whole);
	free(whole);
	if (r != 0)
		return rc;
	*out = mem_array(g.gl_pathc, sizeof(**out));
	for (*n = 0; *n < g.gl_pathc; ++*n)
		(*out)[*n] = mem_strdup(g.gl_pathv[*n]);
	globfree(&g);
	return ERR_OK;
}

void data_uri_free(char **files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(files[i]);
	free(files);
}
