#ifndef DATA_URI_H
#define DATA_URI_H

#include "base/err.h"
#include "data/data.h"

/* Split "file?key=value&key=value" at the last "?" that a key and a "=" follow,
 * so that a "?" of a glob stays in the path.  %XX in values stands for a byte.
 * Unknown keys and formats are ERR_CONFIG with "did you mean".  On success the
 * caller owns *file and o's strings. */
enum err_code data_uri_parse(const char *path, char **file, struct data_options *o, struct err *e);
void data_uri_release(struct data_options *o);

/* The files that one path stands for, in sorted order: itself if it exists or
 * is no glob, else the glob's matches (ERR_IO when there are none).  Relative
 * ones are taken from base_dir (NULL: where we are).  Release with data_uri_free. */
enum err_code data_uri_expand(const char *file, const char *base_dir, char ***out, size_t *n,
                              struct err *e);
void data_uri_free(char **files, size_t n);

#endif
