/* SPDX-License-Identifier: ISC */
#ifndef DATA_CACHE_H
#define DATA_CACHE_H

#include "core/log.h"
#include "data/data.h"
#include "format/digest.h"

/* A cache of parsed data in a directory that several processes may share. There is one file for
 * each list of paths (format: data_store.h), named by a digest of all that determines its contents:
 * the paths, their options, what the model wants, sizes and times of the files, and the version of
 * the parsers. A file appears whole or not at all. One process parses while the others wait for it.
 * Data with skipped lines are not stored. A damaged file is made again; where nothing can be
 * stored, training goes on without. Both are logged once. */
struct data_cache {
	const char *dir; /* created if its parent exists; NULL: no cache */
	struct log *log;
};

/* As data_load, but from the cache when the data are in it; the result is the same in every bit.
 * Standard input, objects and words are never cached. May wait for another process that parses the
 * same data. */
enum err_code data_load_cached(const struct data_cache *c, const char *const *paths, size_t npaths,
    const char *base_dir, const struct data_want *want, const struct dataset *like,
    struct dataset **out, struct err *e);

/* The data that are stored: arguments of data_load. kind: a text that differs for each form in
 * which the same data are stored; NULL: as a whole. */
struct data_cache_load {
	const char *const *paths;
	size_t npaths;
	const char *base_dir;
	const struct data_want *want;
	const struct dataset *like;
	const char *kind;
};
/* Makes a directory of the cache for files that belong to these data and to `key` (data_store.h),
 * and removes those of earlier states of the same data. Its path, as a new string; NULL: there is
 * no cache for them, which is logged when the directory cannot be made. */
char *data_cache_directory(const struct data_cache *c, const struct data_cache_load *l,
    const char *suffix, char key[static DIGEST_HEX]);

/* Removes the directory of a cache and its files. Processes that have mapped them keep their data. */
void data_cache_remove(const char *dir);

#endif
