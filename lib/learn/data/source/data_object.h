/* SPDX-License-Identifier: ISC */
#ifndef DATA_OBJECT_H
#define DATA_OBJECT_H

#include <stdbool.h>

#include "format/stream.h"

/* Opens data by name: a file, "-", or an object at s3:// or https://, which a ps-ctl process
 * downloads for us (core/helper.h). Errors as stream_open; errors of the object store appear when
 * the stream is read. */
enum err_code data_open(const char *name, struct stream **out, struct err *e);

/* The size of an object, its first bytes, whether parts of it can be read, and what the store tells
 * of its version. */
struct data_object_facts {
	uint64_t size;
	uint8_t first[4];
	size_t nfirst;
	bool ranges;
	char version[128]; /* "": nothing */
};
enum err_code data_object_stat(const char *name, struct data_object_facts *out, struct err *e);
/* Opens the bytes [begin, end) of an object of this size and version, of all of it when they are
 * all. plain: they are not decompressed, whatever they look like. Errors as data_open; reading an
 * object that has changed is an error. */
struct data_object_range {
	uint64_t begin, end, size;
	const char *version;
	bool plain;
};
enum err_code data_object_part(const char *name, const struct data_object_range *r,
    struct stream **out, struct err *e);

/* The names of the s3:// objects that match a pattern, sorted; free them with data_uri_free. */
enum err_code data_object_match(const char *pattern, char ***out, size_t *n, struct err *e);

#endif
