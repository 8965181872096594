/* SPDX-License-Identifier: ISC */
#ifndef OBJECT_XML_H
#define OBJECT_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

/* Reads the XML documents of S3, with expat. Pure; no locks. */

/* Called for an element without children: its name, its parent's name ("" for none) and its
 * text. */
typedef void xml_leaf_fn(void *ctx, const char *around, const char *name, const char *text);
/* Call fn for each such element, in the order of the document. ERR_FORMAT: it is not XML. */
enum err_code object_xml_read(const void *p, size_t n, xml_leaf_fn *fn, void *ctx, struct err *e);

/* The text of the first element with that name, a fresh string; NULL: there is none, or it is
 * not XML. */
char *object_xml_value(const void *p, size_t n, const char *name);

#endif
