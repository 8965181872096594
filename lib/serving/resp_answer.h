/* SPDX-License-Identifier: ISC */
#ifndef SERVING_RESP_ANSWER_H
#define SERVING_RESP_ANSWER_H

#include "core/buf.h"
#include "serving/resp_parse.h"
#include "serving/served.h"

/* Answers of the look-ups in Redis' protocol, without sockets. All commands of a client that have arrived are
 * read first; then the rows of each table that they need are read together, and the answers are written in
 * their order. "Redis" in ps-serve(8) has the commands.
 *
 * Threads: an answerer and its clients belong to one thread. */
struct resp_answerer;
struct bearer_tokens;

/* A client, as far as its commands have described it. */
struct resp_client {
	struct resp_parser parser; /* at the beginning of the bytes that were not used */
	bool authenticated;
	uint64_t id;
	char name[64]; /* by CLIENT SETNAME */
};

/* Figures for INFO, counted by the answerer and by the server (resp_server.c). */
struct resp_figures {
	uint64_t commands, hits, misses; /* rows that were found, and that were not */
	uint64_t connections, received, refused;
	int64_t begun; /* clock_now */
};

/* text: rows are written as text. tokens: those that AUTH takes; NULL: no client needs one. All are
 * borrowed. */
struct resp_answerer *resp_answerer_new(struct resp_figures *figures, bool text,
    struct bearer_tokens *tokens);
void resp_answerer_free(struct resp_answerer *a);

/* Bytes that one call adds to the output before it leaves the other commands for the next call; a single
 * command may add as many again, which its own limits bound. */
#define RESP_OUTPUT (1u << 20)
/* Bytes of the answer to one command at most; for more it is an error. */
#define RESP_ANSWER_MAX (64u << 20)

/* Answers whole commands at the beginning of the n bytes at p, with the values of m, and appends the answers
 * to out. *used: bytes that they take; the others stay for the next call. *end: the connection is to be
 * closed after the output was sent. Returns true if whole commands may be left. */
bool resp_answer(struct resp_answerer *a, struct resp_client *c, struct served_model *m,
    const uint8_t *p, size_t n, size_t *used, struct buf *out, bool *end);

#endif
