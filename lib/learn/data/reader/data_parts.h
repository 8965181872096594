/* SPDX-License-Identifier: ISC */
#ifndef DATA_PARTS_H
#define DATA_PARTS_H

#include "data/data_build.h"
#include "data/source/data_file.h"

/* How the examples of a format are read part by part, for data that are larger than the memory for
 * them. Every example of a file belongs to one part. A part is read by a cursor, some examples at a
 * time, so that a large part never needs to be in memory at once. */

/* [begin, end): what is counted is of the format, as bytes or rows. bytes: its share of the stored file. */
struct data_part {
	uint64_t begin, end, bytes;
};

/* The beginning of each cursor. */
struct data_cursor {
	const struct data_parts *parts;
	double done; /* the share of the part that was read, about; 1 at its end; 0: not known */
	bool ended;  /* no example is left */
	/* Lines: each read but the last one appends a multiple of this many examples, unless they are very
	 * long. Set after `open`; 0: any number. */
	uint32_t multiple;
};

struct data_parts {
	/* Cuts a file into parts of about `bytes` bytes of data, in a new array. The list depends
	 * on the file and on `bytes` alone. want and like are as in data_load: where labels are ignored, the
	 * file may have none. It may keep what it found out in f->own. One thread. *n
	 * 0: the file cannot be cut, and has to be read as a whole. Errors as data_load. */
	enum err_code (*cut)(struct data_file *f, const char *base_dir,
	    const struct data_want *want, const struct dataset *like, uint64_t bytes,
	    struct data_part **out, size_t *n, struct err *e);
	/* Frees f->own, which may be NULL. */
	void (*release)(struct data_file *f);
	/* Begins to read a part; f and p are borrowed, and so is `text`, whose memory serves all
	 * parts that are read one after another. Any thread, as the following ones. */
	enum err_code (*open)(const struct data_file *f, const struct data_part *p,
	    struct buf *text, struct data_cursor **out, struct err *e);
	/* Appends the next examples to the build: about `bytes` bytes of data, and none where a part has no
	 * example. Errors as data_load. */
	enum err_code (
	    *read)(struct data_cursor *c, size_t bytes, struct data_build *b, struct err *e);
	void (*close)(struct data_cursor *c);
	/* The bytes of each example of a file that was cut, of which the file may be a single part. NULL: the
	 * examples of this format are lines. */
	uint64_t (*row_bytes)(const struct data_file *f);
};

/* Each line is an example by itself (data_lines.c). */
extern const struct data_parts data_parts_lines;
/* A cursor over the lines of a stream, which becomes the cursor's: of what can be read once, from its
 * beginning. o: copied; text: as of `open`. */
struct data_cursor *data_lines_of_stream(struct stream *s, const struct data_options *o,
    struct buf *text);

#endif
