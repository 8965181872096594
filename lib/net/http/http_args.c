/* SPDX-License-Identifier: ISC */
#include "http/args.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Decode in place; false for a bad escape or a control byte. */
static bool decode_escapes(char *s)
{
	char *out = s;

	for (; *s != '\0'; s++) {
		int v = (uint8_t)*s;

		if (*s == '%') {
			int hi = hex_digit(s[1]), lo = hi < 0 ? -1 : hex_digit(s[2]);

			if (lo < 0)
				return false;
			v = hi * 16 + lo;
			s += 2;
		}
		if (v < 0x20 || v == 0x7f)
			return false;
		*out++ = (char)v;
	}
	*out = '\0';
	return true;
}

/* Decodes one "key=value" in place and adds it to a, which keeps pointers into it. Keys are
 * compared after decoding, so an escape cannot hide a repeated key. ERR_USAGE. */
static enum err_code add_arg(struct http_args *a, char *pair, struct err *e)
{
	char *eq = strchr(pair, '=');
	const char *value = "";

	if (eq != NULL) {
		*eq = '\0';
		value = eq + 1;
	}
	if (a->n == HTTP_ARGS_MAX)
		return err_set(e, ERR_USAGE, "the query has more than %d keys", HTTP_ARGS_MAX);
	if (!decode_escapes(pair) || (eq != NULL && !decode_escapes(eq + 1)))
		return err_set(e, ERR_USAGE, "the query has a bad %%-escape or a control byte");
	if (pair[0] == '\0')
		return err_set(e, ERR_USAGE, "the query has an empty key");
	if (http_args_get(a, pair) != NULL)
		return err_set(e, ERR_USAGE, "the query has the key \"%s\" twice", pair);
	a->key[a->n] = pair;
	a->value[a->n++] = value;
	return ERR_OK;
}

enum err_code http_args_parse(struct http_args *a, const char *query, struct err *e)
{
	char *rest, *pair;
	enum err_code rc = ERR_OK;

	memset(a, 0, sizeof(*a));
	if (query[0] == '\0')
		return ERR_OK;
	a->text = mem_strdup(query);
	rest = a->text;
	while (rc == ERR_OK && (pair = strsep(&rest, "&")) != NULL)
		rc = add_arg(a, pair, e);
	if (rc != ERR_OK)
		http_args_release(a);
	return rc;
}

const char *http_args_get(const struct http_args *a, const char *key)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->key[i], key) == 0)
			return a->value[i];
	return NULL;
}

void http_args_release(struct http_args *a)
{
	free(a->text);
	memset(a, 0, sizeof(*a));
}
