/* SPDX-License-Identifier: ISC */
#ifndef SERVING_RESP_PARSE_H
#define SERVING_RESP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"

/* Commands of Redis' protocol, version 2 (RESP2), from a stream of bytes: arrays of bulk strings, or lines of
 * words ("inline commands"). The parser goes on where it stopped, so bytes are looked at once, however
 * slowly they arrive.
 *
 *   LENGTH --"*2"--> BULK --"$3"--> DATA --"GET\r\n"--> BULK ... --the last one--> a command
 *   LENGTH --"GET v:1\r\n"--> a command
 *   any    --what the protocol does not allow--> an error, after which the connection must be closed
 *
 * One thread. */

/* Arguments of a command, bytes of one, and bytes of a command, at most. */
#define RESP_ARGS  16384u
#define RESP_ARG   4096u
#define RESP_BYTES (1u << 20)
/* A client that is not authenticated may send this number, as in Redis. */
#define RESP_ARGS_EARLY 10u

struct resp_arg {
	size_t at, n; /* place in the input, and bytes */
};

struct resp_parser {
	size_t at;     /* the next byte to look at, from the beginning of the command */
	uint32_t left; /* arguments that are missing; 0: the command has not begun */
	int64_t bulk;  /* bytes of the next argument; -1: its length has not been read */
	struct resp_arg *arg;
	size_t n, room;
};

enum resp_result { RESP_MORE, RESP_COMMAND, RESP_ERROR };

/* Looks for a command at the beginning of the n bytes at p, of which earlier calls have seen a part, at the
 * same place. RESP_COMMAND: it is in parser->arg (parser->n may be 0: an empty line), and takes *used bytes;
 * the next call is about the bytes after them. RESP_MORE: more bytes are needed. RESP_ERROR: *why says so in
 * Redis' words. early: the client is not authenticated. */
enum resp_result resp_parse(struct resp_parser *parser, const uint8_t *p, size_t n, bool early,
    size_t *used, const char **why);
/* Frees what the parser owns. */
void resp_parser_release(struct resp_parser *parser);

#endif
