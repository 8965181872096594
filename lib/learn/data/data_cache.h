/* SPDX-License-Identifier: ISC */
#ifndef DATA_CACHE_H
#define DATA_CACHE_H

#include "core/log.h"
#include "data/data.h"

/* A cache of parsed data in a directory that several processes may share. There is one file for
 * each list of paths (format: data_store.h), named by a digest of all that determines its contents:
 * the paths, their options, what the model wants, sizes and times of the files, and the version of
 * the parsers. A file appears whole or not at all. One process parses while the others wait for it.
 * Data with skipped lines are not
 * stored. A damaged file is made again; where nothing can be stored, training goes on without. Both are
 * logged once. */
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

#endif
