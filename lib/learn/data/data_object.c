/* SPDX-License-Identifier: ISC */
#include "data/data_object.h"

#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "data/data_uri.h"
#include "format/source.h"
#include "core/helper.h"
#include "format/uri.h"

#define LINE_MAX_BYTES 65536u

/* Reads from the helper process; at the end its exit status says whether the object was
 * complete. */
static enum err_code read_object(void *ctx, void *p, size_t n, size_t *got, struct err *e)
{
	struct helper **h = ctx;
	enum err_code rc = ERR_OK;

	*got = 0;
	if (*h)
		rc = helper_read(*h, p, n, got, e);
	if (rc == ERR_OK && *h && *got == 0) {
		rc = helper_end(*h, e);
		*h = NULL;
	}
	return rc;
}

static void close_object(void *ctx)
{
	struct helper **h = ctx;

	if (*h)
		helper_end(*h, NULL);
	free(h);
}

/* The name goes to ps-ctl by standard input, because a URL may contain a signature. On success the
 * stream owns the child, and closing it ends the child. */
enum err_code data_open(const char *name, struct stream **out, struct err *e)
{
	static const char *const args[] = { "object", "cat", "-", NULL };
	struct source_reader r = { .read = read_object, .close = close_object };
	struct helper *h;
	enum err_code rc;
	char *shown;

	if (!uri_is(name))
		return stream_open(name, out, e);
	*out = NULL;
	rc = helper_start(args, name, &h, e);
	if (rc)
		return rc;
	r.ctx = mem_alloc(sizeof h);
	*(struct helper **)r.ctx = h;
	shown = uri_shown(name);
	rc = stream_from(&r, shown, out, e);
	free(shown);
	return rc;
}

/* The pattern goes to ps-ctl by standard input, so that the list of processes does not show it.
 * Each line of the answer is a JSON object with a name. */
enum err_code data_object_match(const char *pattern, char ***out, size_t *n, struct err *e)
{
	static const char *const args[] = { "object", "ls", "-", "--json", NULL };
	struct buf text = BUF_INIT;
	enum err_code rc = helper_run(args, pattern, &text, e);
	size_t len;

	*out = NULL;
	*n = 0;
	for (const char *p = (const char *)text.data; !rc && p && *p; p += len + 1) {
		const char *name = "";
		json_t *line;

		len = strcspn(p, "\n");
		line = json_parse(p, len, LINE_MAX_BYTES, e);
		if (line) {
			json_want_str(line, "", "name", &name, NULL);
			*out = mem_regrow(*out, *n + 1, sizeof **out);
			(*out)[(*n)++] = mem_strdup(name);
		} else {
			rc = ERR_PROTO;
		}
		json_decref(line);
	}
	if (rc) {
		data_uri_free(*out, *n);
		*out = NULL;
		*n = 0;
	}
	buf_release(&text);
	return rc;
}
