/* SPDX-License-Identifier: ISC */
#include "object/xml.h"

#include <expat.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"

#define DEPTH_MAX      16
#define NAME_MAX_BYTES 64

struct reading {
	XML_Parser parser;
	xml_leaf_fn *fn;
	void *ctx;
	char name[DEPTH_MAX][NAME_MAX_BYTES];
	size_t depth;
	bool leaf; /* the open element has had no child so far */
	struct buf text;
};

static void XMLCALL on_start(void *ctx, const XML_Char *name, const XML_Char **attributes)
{
	struct reading *r = ctx;

	(void)attributes;
	if (r->depth == DEPTH_MAX) {
		XML_StopParser(r->parser, XML_FALSE);
		return;
	}
	snprintf(r->name[r->depth++], NAME_MAX_BYTES, "%s", name);
	r->leaf = true;
	buf_clear(&r->text);
}

static void XMLCALL append_element_text(void *ctx, const XML_Char *s, int n)
{
	struct reading *r = ctx;

	buf_append(&r->text, s, (size_t)n);
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
	struct reading *r = ctx;

	(void)name;
	r->depth--;
	if (r->leaf)
		r->fn(r->ctx, r->depth ? r->name[r->depth - 1] : "", r->name[r->depth],
		    (const char *)r->text.data);
	r->leaf = false;
}

enum err_code object_xml_read(const void *p, size_t n, xml_leaf_fn *fn, void *ctx, struct err *e)
{
	struct reading r = { .parser = XML_ParserCreate("UTF-8"), .fn = fn, .ctx = ctx };
	enum err_code rc = ERR_OK;

	if (!r.parser)
		return err_set(e, ERR_NOMEM, "no memory to read XML");
	buf_puts(&r.text, "");
	XML_SetUserData(r.parser, &r);
	XML_SetElementHandler(r.parser, on_start, on_end);
	XML_SetCharacterDataHandler(r.parser, append_element_text);
	if (n > INT32_MAX || XML_Parse(r.parser, p, (int)n, 1) != XML_STATUS_OK)
		rc = err_set(e, ERR_FORMAT, "it is not XML: %s in line %lu",
		    XML_ErrorString(XML_GetErrorCode(r.parser)),
		    XML_GetCurrentLineNumber(r.parser));
	XML_ParserFree(r.parser);
	buf_release(&r.text);
	return rc;
}

struct wanted {
	const char *name;
	char *value;
};

static void keep_if_named(void *ctx, const char *around, const char *name, const char *text)
{
	struct wanted *w = ctx;

	(void)around;
	if (!w->value && strcmp(name, w->name) == 0)
		w->value = mem_strdup(text);
}

char *object_xml_value(const void *p, size_t n, const char *name)
{
	struct wanted w = { .name = name };

	if (object_xml_read(p, n, keep_if_named, &w, NULL) == ERR_OK)
		return w.value;
	free(w.value);
	return NULL;
}
