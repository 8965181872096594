/* SPDX-License-Identifier: ISC */
#ifndef DATA_CACHE_H
#define DATA_CACHE_H

#include "core/log.h"
#include "data/data.h"

/* A cache of parsed data in a directory, which processes and threads share: what one has parsed, in
 * this epoch or in an earlier job, the others need not parse again.
 *
 *   DIR/KEY.lock            held by the process that parses whole data, while others wait for it
 *   DIR/KEY-STATE.parsed/   the parsed data of one list of paths
 *     lock                  held by all that use the directory, shared
 *     BLOCK-CHUNK           a chunk (format: data_store.h). Data that are loaded as a whole are one
 *                           chunk; others have the chunks of their blocks (data_blocks.h)
 *
 * KEY is a digest of all that determines what is parsed: the paths, their options, what the model
 * wants, the size of blocks, and the version of the parsers and of the format. STATE is a digest of
 * that, and of sizes and times of the files. So files of other versions are never read.
 *
 * A file appears whole or not at all; two processes may write the same one, with the same contents.
 * Data with skipped lines are not stored, because everybody must count these. A damaged file is
 * made again. A file that cannot be read, because the disk fails for example, may be whole: reading
 * it is tried again for a moment, and then the data are parsed, and the file stays. Where nothing
 * can be stored, training continues without. Each is logged once. */
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

/* The data that are stored: arguments of data_load, or those of data_blocks_open. */
struct data_cache_source {
	const char *const *paths;
	size_t npaths;
	const char *base_dir;
	const struct data_want *want;
	const struct dataset *like; /* or the head of the blocks */
	uint64_t block;             /* bytes of a block; 0: the data are one chunk */
	const char *const *name;    /* with blocks: the nfiles files that they are cut from */
	size_t nfiles;
};

/* The parsed data of a source. Any thread may load and store between open and close. */
struct data_cache_entry;

/* Makes their directory, and removes directories of earlier states of the same data. `from` is
 * borrowed for the call, and c->log until the end. NULL: there is no cache for these data: none is
 * wanted, they are objects, other files match the paths now, or the directory cannot be made, which
 * is logged. */
struct data_cache_entry *data_cache_open(const struct data_cache *c,
    const struct data_cache_source *from);
void data_cache_close(struct data_cache_entry *k); /* NULL is fine */

/* Looks for a chunk of a block. True: it is there; *out becomes the caller's, or NULL when the
 * block has no more examples; *last: no chunk follows. */
bool data_cache_load(struct data_cache_entry *k, uint32_t block, uint32_t chunk,
    struct dataset **out, bool *last);
/* Stores a chunk of a block, read from the file of this number; d NULL: the block has no more
 * examples. Does nothing for data with skipped lines, and when the file has changed. */
void data_cache_store(struct data_cache_entry *k, size_t file, uint32_t block, uint32_t chunk,
    const struct dataset *d, bool last);

/* Removes the directory of a cache and its files. Processes that have mapped them keep their
 * data. */
void data_cache_remove(const char *dir);

#endif
