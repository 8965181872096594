/* SPDX-License-Identifier: ISC */
#ifndef DATA_PARSER_H
#define DATA_PARSER_H

#include "core/buf.h"
#include "data/data_build.h"
#include "data/reader/data_head.h"

/* A push parser of text, whose examples are lines or words: whoever has the bytes feeds them as
 * they come, and examples go to a build. Files, blocks, streams and bodies of requests are all read
 * by it.
 *
 *   data_parser_new --> data_parser_begin (a build) --> data_parser_feed, any number of times -+
 *                        ^                                                                      |
 *                        +------------ data_parser_end, the text goes on <----------------------+
 *                                                                                               |
 *                                      data_parser_end, the text has ended <--------------------+
 *
 * The parser keeps what lies between two pieces: the beginning of a line, a record of CSV whose
 * quoted cell has several lines, and the first bytes of the text until the format and the columns
 * can be told from them. What those have decided (data_head.h) holds for the whole text, also for
 * builds that begin later. So the builds get the same examples, whatever the pieces are.
 *
 * Nothing here blocks or reads. One thread at a time. After an error, only data_parser_free may be
 * called. */

struct data_parser;

/* A format of text, in struct data_reader. The parser is the caller of all functions. */
struct data_text_format {
	/* Begins to append examples to p->build, as p->options says. Called for each build,
	 * before its first line. It may allocate p->own, which stays for the builds after this
	 * one; or set p->deciding. ERR_CONFIG, ERR_FORMAT. */
	enum err_code (*begin)(struct data_parser *p, struct err *e);
	/* Takes the next line, without its end and without a byte order mark, as stream_line:
	 * the view is valid for this call, may be written to, and may contain NUL bytes. The
	 * line becomes an example, or is counted in p->build->left_out, or begins a record that
	 * goes on (p->open). ERR_FORMAT: the line is bad, and may be skipped
	 * (data_build_bad_line) unless p->fatal is set. ERR_NOMEM, ERR_LIMIT. */
	enum err_code (*line)(struct data_parser *p, char *line, size_t len, struct err *e);
	/* Instead of `line`, where lines mean nothing: takes the next n bytes, and keeps in p->own
	 * what goes on. Errors are not of a line that may be skipped. */
	enum err_code (*bytes)(struct data_parser *p, const char *bytes, size_t n, struct err *e);
	/* The text has ended: p->open must not stay set. NULL: there is nothing to do. Errors as
	 * of `line`. */
	enum err_code (*end)(struct data_parser *p, struct err *e);
	/* Frees p->own, which may be NULL. NULL: the format has none. */
	void (*release)(struct data_parser *p);
	/* With p->deciding: `line` and `begin` can see this many bytes after the line with
	 * stream_peek, or all that there are. At most 1 MiB. */
	size_t ahead;
};

/* The members of a parser that a format uses. */
struct data_parser {
	struct data_build *build;
	struct stream *stream; /* the lines: for look-ahead, and for the places in errors */
	const struct data_options *options; /* of the build (data_build.options) */
	void *own;                          /* of the format */
	/* The format is not sure yet how to read the lines, and needs to look ahead. */
	bool deciding;
	bool open;  /* the last line begins or continues a record that has not ended */
	bool fatal; /* the error is about more than the line */
	/* The rest is the parser's own. */
	const struct data_text_format *format; /* NULL: not chosen yet */
	struct data_options given; /* as the caller gave them, and what the head has decided */
	char *name;
	uint64_t first_line; /* lines before the lines of the build */
	bool chosen;         /* the build has begun the text itself */
	bool begun;          /* `begin` of the format was called for the build */
	bool was_open;       /* p->open at that time */
	bool decided;        /* the head has decided */
	uint64_t limit;      /* rows of the build at which no further line is taken */
	/* Bytes that wait: they have no whole line, or cannot be decided about yet. */
	struct buf held;
	bool held_line; /* they have a newline */
	/* lines of the text, and lines of the build that count, when the build began */
	uint64_t lines_before, handled_before;
};

/* Begins a text. name: for messages; both are copied. */
struct data_parser *data_parser_new(const char *name, const struct data_options *o);
void data_parser_free(struct data_parser *p); /* NULL is fine */

/* The text is what follows `lines` lines, which are not fed. */
void data_parser_skip_lines(struct data_parser *p, uint64_t lines);
/* The text begins at this byte of a file, so that errors name bytes (stream_is_part). */
void data_parser_is_part(struct data_parser *p, uint64_t offset);

/* The examples of the bytes that are fed from now on go to this build, which is borrowed until
 * data_parser_end. */
void data_parser_begin(struct data_parser *p, struct data_build *b);
/* Does what data_parser_begin does, for a build that has begun this text itself (data_build_begin)
 * and has chosen the format. */
void data_parser_begin_chosen(struct data_parser *p, struct data_build *b);
/* About this many bytes are going to be fed to the build; a hint for its memory. 0: not known. */
void data_parser_expect(struct data_parser *p, double bytes);
/* Takes lines until the build has this many rows; further lines are held. UINT64_MAX: no limit,
 * which each data_parser_begin sets. */
void data_parser_limit(struct data_parser *p, uint64_t rows);

/* Parses n bytes more, in place: the bytes from bytes[0] to bytes[n + STREAM_PAD] may be written
 * to, and are not looked at afterwards. Where more bytes must be seen first, their examples come
 * with a later call. Errors as data_load; of lines, with the line's number or place. */
enum err_code data_parser_feed(struct data_parser *p, char *bytes, size_t n, struct err *e);

/* Completes the examples of the build. last: the text has ended, and its last line needs no
 * newline; else lines that were held until more bytes would come are parsed, and the beginning
 * of a line stays. A build that was fed nothing stays as it is. Errors as data_parser_feed;
 * ERR_FAILED: a line was lost, which is a fault of the format. */
enum err_code data_parser_end(struct data_parser *p, bool last, struct err *e);

/* Bytes that are held. */
size_t data_parser_held(const struct data_parser *p);
/* Has a whole line been there since data_parser_begin, parsed or held? */
bool data_parser_has_line(const struct data_parser *p);

#endif
