#ifndef DATA_OBJECT_H
#define DATA_OBJECT_H

#include "format/stream.h"

/* A file, "-", or an object of s3:// or https://, which a ps-ctl reads for us (object/helper.h).
 * As stream_open; what the store says comes as its error. */
enum err_code data_open(const char *name, struct stream **out, struct err *e);

/* The names of the objects that a pattern of s3:// fits, in order; for data_uri_free. */
enum err_code data_object_match(const char *pattern, char ***out, size_t *n, struct err *e);

#endif
