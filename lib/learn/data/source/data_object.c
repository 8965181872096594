/* SPDX-License-Identifier: ISC */
#include "data/source/data_object.h"

#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "data/source/data_uri.h"
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

/* Opens what ps-ctl with these arguments writes. The name goes to it by standard input, because a URL may
 * contain a signature. On success the stream owns the child, and closing it ends the child. */
static enum err_code open_helper(const char *const *args, const char *name, uint64_t size,
    bool plain, struct stream **out, struct err *e)
{
	struct source_reader r = { .size = size,
		.plain = plain,
		.read = read_object,
		.close = close_object };
	struct helper *h;
	enum err_code rc = helper_start(args, name, &h, e);
	char *shown;

	*out = NULL;
	if (rc)
		return rc;
	r.ctx = mem_alloc(sizeof h);
	*(struct helper **)r.ctx = h;
	shown = uri_shown(name);
	rc = stream_from(&r, shown, out, e);
	free(shown);
	return rc;
}

enum err_code data_open(const char *name, struct stream **out, struct err *e)
{
	static const char *const args[] = { "object", "cat", "-", NULL };

	return uri_is(name) ? open_helper(args, name, 0, false, out, e) : stream_open(name, out, e);
}

enum err_code data_object_part(const char *name, const struct data_object_range *r,
    struct stream **out, struct err *e)
{
	char range[48];
	const char *args[] = { "object", "cat", "-", NULL, NULL, NULL, NULL, NULL };
	size_t n = 3;

	snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)r->begin,
	    (unsigned long long)r->end);
	if (r->begin || r->end != r->size) {
		args[n++] = "--range";
		args[n++] = range;
	}
	if (*r->version) {
		args[n++] = "--if-match";
		args[n++] = r->version;
	}
	return open_helper(args, name, r->end - r->begin, r->plain, out, e);
}

static bool take_hex(const char *text, struct data_object_facts *f)
{
	for (f->nfirst = 0; f->nfirst < sizeof f->first && text[2 * f->nfirst]; f->nfirst++) {
		unsigned byte;

		if (sscanf(text + 2 * f->nfirst, "%2x", &byte) != 1)
			return false;
		f->first[f->nfirst] = (uint8_t)byte;
	}
	return true;
}

enum err_code data_object_stat(const char *name, struct data_object_facts *out, struct err *e)
{
	static const char *const args[] = { "object", "stat", "-", "--json", NULL };
	struct buf text = BUF_INIT;
	enum err_code rc = helper_run(args, name, &text, e);
	const char *first = "", *version = "";
	int64_t size = 0;
	json_t *line;

	*out = (struct data_object_facts){ 0 };
	if (rc) {
		buf_release(&text);
		return rc;
	}
	line = json_parse((const char *)text.data, text.len, LINE_MAX_BYTES, e);
	if (!line) {
		rc = ERR_PROTO;
	} else if (!json_want_int(line, "", "size_bytes", 0, INT64_MAX, &size, e) ||
	    !json_want_bool(line, "", "ranges", &out->ranges, e) ||
	    !json_want_str(line, "", "first", &first, e) || !take_hex(first, out) ||
	    !json_want_str(line, "", "version", &version, e)) {
		rc = ERR_PROTO;
	}
	out->size = (uint64_t)size;
	snprintf(out->version, sizeof out->version, "%s", version);
	json_decref(line);
	buf_release(&text);
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
