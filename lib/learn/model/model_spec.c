/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "model/model.h"

/* Limits: beyond them a table does not fit memory, and counts would overflow. */
#define ROWS_MAX (INT64_C(1) << 40)
#define COLS_MAX (INT64_C(1) << 20)

/* Copies the text up to one of `ends` and moves past it; false: it is empty or too long. */
static bool take_word(const char **at, const char *ends, char *out, size_t room)
{
	size_t n = strcspn(*at, ends);

	if (!n || n >= room)
		return false;
	memcpy(out, *at, n);
	out[n] = 0;
	*at += n;
	return true;
}

/* Takes a decimal number from 1 to `most`; its text has at most 23 characters. */
static bool take_number(const char **at, const char *ends, int64_t most, size_t *out)
{
	char text[24];
	int64_t v;

	if (!take_word(at, ends, text, sizeof text) || !num_int(text, 1, most, &v))
		return false;
	*out = (size_t)v;
	return true;
}

static bool parse_option(const char *name, struct model_table *t)
{
	if (strcmp(name, "nodecay") == 0)
		t->decay = false;
	else if (strcmp(name, "glorot") == 0)
		t->init = INIT_GLOROT;
	else if (strcmp(name, "sparse") == 0)
		t->sparse = true;
	else
		return false;
	t->domain = t->sparse ? &row_domain_features : NULL;
	return true;
}

/* Parses one table up to the next comma. */
static enum err_code parse_table_spec(const char **at, struct model_table *t, struct err *e)
{
	const char *begin = *at;
	int n = (int)strcspn(begin, ",");
	char name[16];

	*t = (struct model_table){ .cols = 1, .decay = true };
	if (!take_word(at, ":,", t->name, sizeof t->name) || *(*at)++ != ':' ||
	    !take_number(at, "x:,", ROWS_MAX, &t->rows))
		return err_set(e, ERR_CONFIG,
		    "job.tables: must be NAME:ROWS or NAME:ROWSxCOLS, a name of at most %zu letters, got \"%.*s\"",
		    sizeof t->name - 1, n, begin);
	if (**at == 'x' && (++*at, !take_number(at, ":,", COLS_MAX, &t->cols)))
		return err_set(e, ERR_CONFIG,
		    "job.tables: a row must have 1 to %lld values, got \"%.*s\"",
		    (long long)COLS_MAX, n, begin);
	if (t->rows > (size_t)ROWS_MAX / t->cols)
		return err_set(e, ERR_CONFIG,
		    "job.tables: a table must have at most 2^40 values, got \"%.*s\"", n, begin);
	while (**at == ':')
		if (++*at, !take_word(at, ":,", name, sizeof name) || !parse_option(name, t))
			return err_set(e, ERR_CONFIG,
			    "job.tables: only glorot, nodecay and sparse can follow the shape, "
			    "got \"%.*s\"",
			    n, begin);
	return ERR_OK;
}

/* An error frees the tables parsed so far, so *out needs no care of the caller. */
enum err_code model_spec_parse(const char *text, struct model_table **out, size_t *n, struct err *e)
{
	const char *at = text;
	enum err_code rc = ERR_OK;

	*out = NULL;
	*n = 0;
	do {
		struct model_table t;

		rc = parse_table_spec(&at, &t, e);
		for (size_t i = 0; !rc && i < *n; i++)
			if (strcmp((*out)[i].name, t.name) == 0)
				rc = err_set(e, ERR_CONFIG,
				    "job.tables: there are two tables \"%s\"", t.name);
		if (rc)
			break;
		*out = mem_regrow(*out, *n + 1, sizeof **out);
		(*out)[(*n)++] = t;
	} while (*at++ == ',');
	if (!rc)
		return ERR_OK;
	free(*out);
	*out = NULL;
	*n = 0;
	return rc;
}
