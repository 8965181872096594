/* SPDX-License-Identifier: ISC */
#ifndef DATA_WALK_H
#define DATA_WALK_H

#include "data/data_build.h"
#include "data/reader/data_parts.h"

/* The walk over data says which bytes come next. It goes from place to place, where a place is a
 * whole file, a block of a file, or a stream, and reads each place in chunks. Examples of some
 * chunks become a dataset.
 *
 *     next place -> open -> chunk -> chunk -> ... -> close -> next place
 *                            `-- dataset --'
 *
 *   who walks                   places                       a dataset has
 *   data_load (data.c)          files in their order         all chunks; a chunk is a file
 *   data_blocks_walk            the blocks of a range        chunks, as long as memory allows
 *   data_sequence_open          files in their order         one chunk that has examples
 *
 * Three words: a block is the unit of leasing and shuffling, a chunk is what is parsed at once,
 * and a range is what a worker has leased. One thread at a time. */

/* The source of bytes: a part of `file`, which was cut; else `stream`, which becomes the walk's;
 * else the file `name`, which is opened. */
struct data_place {
	const char *name;
	struct stream *stream;
	const struct data_options *options; /* of `name` and `stream` */
	const struct data_file *file;
	const struct data_part *part;
	bool whole;        /* the file `name` is one chunk */
	uint32_t multiple; /* data_cursor.multiple */
};

struct data_walk;

/* How to walk. ctx is that of data_walk_new. */
struct data_walk_policy {
	/* Sets *out to the place of this number, from 0 on; all of it is borrowed until the walk
	 * opens another one. */
	void (*place)(void *ctx, size_t number, struct data_place *out);
	/* Bytes of the next chunk of a place that is open. NULL: all places are whole files. */
	uint64_t (*chunk)(void *ctx, const struct data_cursor *c);
	/* A new build for the next dataset, or, with `chunk_only`, for one chunk of it. */
	struct data_build *(*begin)(void *ctx, bool chunk_only);
	/* Is the dataset complete, so that the next chunk belongs to the one after it? */
	bool (*is_full)(void *ctx, const struct data_build *b);
	/* Looks for a parsed chunk, by the numbers of its place and in its place. True: *out
	 * becomes the walk's, or is NULL where the chunk has no example; *last: it is the last
	 * one of the place. NULL: none is kept. */
	bool (*load)(void *ctx, size_t place, uint32_t chunk, struct dataset **out, bool *last);
	/* Keeps a chunk that was parsed, for `load`. d NULL: it has no example. */
	void (*store)(void *ctx, size_t place, uint32_t chunk, const struct dataset *d, bool last);
	/* Changes a dataset that is complete, and may remove examples; one without examples is
	 * passed over. NULL: datasets are as they were read. */
	enum err_code (*finish)(void *ctx, struct dataset *d, struct err *e);
	/* Frees ctx. NULL: it is borrowed. */
	void (*free)(void *ctx);
};

/* A walk over n places. */
struct data_walk *data_walk_new(const struct data_walk_policy *policy, void *ctx, size_t n);
void data_walk_free(struct data_walk *w); /* NULL is fine */
void *data_walk_context(const struct data_walk *w);

/* Reads the next dataset, which becomes the caller's; NULL: the rest has no example. *last: no
 * chunk follows. It is not called again after that, nor after an error. Errors as data_load. */
enum err_code data_walk_next(struct data_walk *w, struct dataset **out, bool *last, struct err *e);
/* Reads all chunks into one build, whatever is_full says. Errors as data_load. */
enum err_code data_walk_all(struct data_walk *w, struct data_build *b, struct err *e);
/* Returns a dataset that is no longer needed, whose memory a later one takes. Not while
 * data_walk_next runs. */
void data_walk_reuse(struct data_walk *w, struct dataset *used);
/* Places that were read to their ends, and the share of the one after them that was read, about;
 * 0: not known. Not while data_walk_next runs. */
size_t data_walk_done(const struct data_walk *w, double *share);

/* Calls fn for each file that the paths stand for, in their order, with its options; path: the
 * one that it is from. Ends with the first error. ERR_CONFIG: an option is not one of files;
 * errors of data_uri_parse, data_uri_expand and fn. */
typedef enum err_code (*data_walk_file_fn)(void *ctx, const char *name, const char *path,
    const struct data_options *o, struct err *e);
enum err_code data_walk_files(const char *const *paths, size_t npaths, const char *base_dir,
    data_walk_file_fn fn, void *ctx, struct err *e);

#endif
