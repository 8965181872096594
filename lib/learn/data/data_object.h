/* SPDX-License-Identifier: ISC */
#ifndef DATA_OBJECT_H
#define DATA_OBJECT_H

#include "format/stream.h"

/* Opens data by name: a file, "-", or an object at s3:// or https://, which a ps-ctl process
 * downloads for us (core/helper.h). Errors as stream_open; those of the object store appear when
 * the stream is read. */
enum err_code data_open(const char *name, struct stream **out, struct err *e);

/* The names of the s3:// objects that match a pattern, sorted; free them with data_uri_free. */
enum err_code data_object_match(const char *pattern, char ***out, size_t *n, struct err *e);

#endif
