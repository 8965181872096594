#ifndef DATA_CACHE_H
#define DATA_CACHE_H

#include "base/log.h"
#include "data/data.h"

/* Parsed data kept between runs, in a directory that processes may share: a file for
 * each list of paths (data_store.h), under a digest of what it was made of: the paths,
 * their options, what the model wants, sizes and times of the files, and the version of
 * all this.  A file appears whole, or not at all; one process parses while the others
 * wait for it.  What is damaged is made anew; where nothing can be kept, training goes
 * on without: both are said, once. */
struct data_cache {
	const char *dir;        /* is made if its parent is there; NULL: nothing is kept */
	struct log *log;
};

/* As data_load, from the cache where that has it; standard input is never kept.  The
 * same dataset, in every bit. */
enum err_code data_load_cached(const struct data_cache *c, const char *const *paths, size_t npaths,
                               const char *base_dir, const struct data_want *want, const struct dataset *like,
                               struct dataset **out, struct err *e);

#endif
