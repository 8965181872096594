/* SPDX-License-Identifier: ISC */
#ifndef DATA_URI_H
#define DATA_URI_H

#include "core/buf.h"
#include "core/err.h"
#include "data/data.h"

/* Data paths with options, and the files that they stand for. Pure except for globbing.
 *
 * data_uri_parse splits "file?key=value&key=value" at the last "?" that a key and a "=" follow, so
 * that a "?" of a glob stays in the path. %XX in values stands for a byte. ERR_CONFIG for unknown
 * keys and formats, with "did you mean". On success the caller owns *file and o's strings. */
enum err_code data_uri_parse(const char *path, char **file, struct data_options *o, struct err *e);
void data_uri_release(struct data_options *o);
/* A copy whose strings are its own. */
struct data_options data_uri_copy(const struct data_options *o);
/* Appends all options that are set, and their values: equal options give equal texts, others other ones. */
void data_uri_list(const struct data_options *o, struct buf *out);

/* The files that one path stands for, sorted: the path itself if it exists or is not a glob, else
 * the matches (ERR_NOTFOUND when there are none). Relative paths are relative to base_dir (NULL: the
 * current directory). Free with data_uri_free. */
enum err_code data_uri_expand(const char *file, const char *base_dir, char ***out, size_t *n,
    struct err *e);
void data_uri_free(char **files, size_t n);

#endif
