#ifndef OBJECT_XML_H
#define OBJECT_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* What S3 answers with, read by expat. */

/* An element that holds no others: its name, that of the one around it ("" for none), its text. */
typedef void xml_leaf_fn(void *ctx, const char *around, const char *name, const char *text);
/* In the order of the document.  ERR_FORMAT: it is not XML. */
enum err_code xml_read(const void *p, size_t n, xml_leaf_fn *fn, void *ctx, struct err *e);

/* The text of the first element of that name, fresh; NULL: there is none, or it is not XML. */
char *xml_value(const void *p, size_t n, const char *name);

#endif
