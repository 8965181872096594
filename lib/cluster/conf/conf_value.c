/* SPDX-License-Identifier: ISC */
/* Reading and writing the value of one key in struct conf. A scalar has one grammar, that of its
 * text: JSON numbers are turned into text first. A list has one grammar, too, that of JSON
 * (conf_list.c). */
#include "conf/conf_value.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/num.h"
#include "core/utf8.h"
#include "format/uri.h"

static void store_value(const struct conf_key *k, struct conf *c, const union conf_value *v)
{
	size_t n, i = (size_t)(k - conf_keys(&n));

	conf_value_release(k, c);
	memcpy((char *)c + k->offset, v, conf_type_ops(k->type)->size);
	c->given[i / 64] |= UINT64_C(1) << (i % 64);
	c->automatic[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* Records that the stored value came from the word "auto". */
static void mark_automatic(const struct conf_key *k, struct conf *c)
{
	size_t n, i = (size_t)(k - conf_keys(&n));

	c->automatic[i / 64] |= UINT64_C(1) << (i % 64);
}

enum err_code conf_value_parse(const struct conf_key *k, const char *text, const char *dir,
    struct conf *c, struct err *e)
{
	union conf_value v = { 0 };
	json_t *list;
	enum err_code rc;

	if (!utf8_is_clean(text, strlen(text)))
		return err_set(e, ERR_CONFIG,
		    "%s: must be UTF-8 without control characters, as a cluster file", k->path);
	if (conf_type_ops(k->type)->accepts & CONF_JSON_ARRAY) {
		list = conf_list_parse(k, text, e);
		rc = list ? conf_value_read(k, list, dir, c, e) : ERR_CONFIG;
		json_decref(list);
		return rc;
	}
	if (!conf_type_ops(k->type)->parse(k, text, &v, e))
		return ERR_CONFIG;
	if (k->type == CONF_FILE && !conf_among(k->choices, text) && !uri_is(text)) {
		free(v.s);
		v.s = path_join(dir ? dir : "", text);
	}
	store_value(k, c, &v);
	if (strcmp(text, "auto") == 0)
		mark_automatic(k, c);
	return ERR_OK;
}

/* Returns the CONF_JSON_ bit of a JSON value, to be compared with the kinds that a key accepts.
 * null and objects have no bit and give 0. */
static unsigned json_kind(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_STRING:
		return CONF_JSON_STRING;
	case JSON_INTEGER:
		return CONF_JSON_INTEGER;
	case JSON_REAL:
		return CONF_JSON_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		return CONF_JSON_BOOLEAN;
	case JSON_ARRAY:
		return CONF_JSON_ARRAY;
	default:
		return 0;
	}
}

/* Appends the value as --set would take it. Call it for a string, a number or a boolean:
 * anything else is written as false. */
static void append_scalar_text(const json_t *v, struct buf *out)
{
	char num[32];

	if (json_is_string(v)) {
		buf_puts(out, json_string_value(v));
	} else if (json_is_integer(v)) {
		buf_printf(out, "%lld", (long long)json_integer_value(v));
	} else if (json_is_real(v)) {
		num_format(json_real_value(v), num);
		buf_puts(out, num);
	} else {
		buf_puts(out, json_is_true(v) ? "true" : "false");
	}
}

enum err_code conf_value_read(const struct conf_key *k, const json_t *v, const char *dir,
    struct conf *c, struct err *e)
{
	const struct conf_type_ops *op = conf_type_ops(k->type);
	union conf_value value = { 0 };
	struct buf text = BUF_INIT;
	enum err_code rc;

	if (!(json_kind(v) & op->accepts))
		return conf_must_json(k, op->what, v, e);
	if (op->accepts & CONF_JSON_ARRAY) {
		if (!(k->type == CONF_INTS          ? conf_ints_read(k, v, &value, e)
		            : k->type == CONF_HOSTS ? conf_hosts_read(k, v, &value, e)
		                                    : conf_strs_read(k, v, dir, &value, e)))
			return ERR_CONFIG;
		store_value(k, c, &value);
		return ERR_OK;
	}
	append_scalar_text(v, &text);
	rc = conf_value_parse(k, (char *)text.data, dir, c, e);
	buf_release(&text);
	return rc;
}

json_t *conf_value_json(const struct conf_key *k, const struct conf *c)
{
	union conf_value v = { 0 };

	memcpy(&v, (const char *)c + k->offset, conf_type_ops(k->type)->size);
	return conf_type_ops(k->type)->json(&v);
}

void conf_value_release(const struct conf_key *k, struct conf *c)
{
	union conf_value v = { 0 };

	memcpy(&v, (const char *)c + k->offset, conf_type_ops(k->type)->size);
	if (k->type == CONF_PATHS || k->type == CONF_HOSTS)
		conf_strs_release(&v.strs);
	else if (k->type == CONF_INTS)
		free(v.ints.item);
	else if (k->type == CONF_STR || k->type == CONF_CHOICE || k->type == CONF_ADDR ||
	    k->type == CONF_FILE)
		free(v.s);
	memset((char *)c + k->offset, 0, conf_type_ops(k->type)->size);
}
