/* SPDX-License-Identifier: ISC */
#ifndef DATA_FILE_H
#define DATA_FILE_H

#include <time.h>

#include "data/data.h"

/* A file of training data whose bytes are read in parts. A part of a plain file is any range of its
 * bytes. A part of a compressed file is a range of its stored bytes that begins and ends where
 * independently compressed pieces do (format/frames.h), or the whole file; its decompressed bytes
 * are what is read.
 *
 * Life: data_file_open; data_file_part any number of times; data_file_release. After the first
 * nothing changes but what the format's reader keeps (data_parts.h), so that all threads may read. */
struct data_file_ops;
struct data_parts;
struct data_file {
	char *name;
	struct data_options options;
	const struct data_file_ops *ops; /* how its bytes are reached */
	uint64_t size;                   /* stored bytes */
	bool plain;                      /* not compressed */
	/* of its contents when it was opened: the time of the last change of a local file, the
	 * store's word for an object ("": it has none) */
	struct timespec changed;
	char *version;
	/* of a compressed file: where its pieces begin, ascending, the first one at 0; at least
	 * one */
	uint64_t *piece;
	size_t npieces;
	void *own; /* of the format: released by parts->release */
	const struct data_parts *parts;
};

/* How the bytes of a kind of file are reached. */
struct data_file_ops {
	/* Finds out size, plain and pieces of f, whose name is set. *fit is false for what has no
	 * parts, as a pipe. */
	enum err_code (*open)(struct data_file *f, bool *fit, struct err *e);
	/* Opens the bytes [begin, end) of the file, decompressed. Any thread. */
	enum err_code (*part)(const struct data_file *f, uint64_t begin, uint64_t end,
	    struct stream **out, struct err *e);
	/* Each part costs an opening: bytes of a part that are worth one, and the parts that may be
	 * read for the head. */
	uint64_t worth;
	unsigned places;
};

/* Opens a file by its name and the path that it is from, whose options it gets (NULL: none). *fit:
 * it can be read in parts; false for standard input and pipes. Release f in any case. Errors as
 * data_open. */
enum err_code data_file_open(const char *name, const char *path, struct data_file *f, bool *fit,
    struct err *e);
void data_file_release(struct data_file *f);
/* Is this a local, regular file that is not compressed? */
bool data_file_is_plain(const char *name);

/* The first place at or after `at` where a part may begin or end; the size is one. */
uint64_t data_file_cut(const struct data_file *f, uint64_t at);
/* Opens a part: its bytes are the range [begin, end), decompressed; stream_progress tells how much
 * of it was read. Errors as data_open; ERR_IO: the file has changed since it was opened. Any
 * thread. */
enum err_code data_file_part(const struct data_file *f, uint64_t begin, uint64_t end,
    struct stream **out, struct err *e);

#endif
