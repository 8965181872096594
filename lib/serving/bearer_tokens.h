/* SPDX-License-Identifier: ISC */
#ifndef SERVING_BEARER_TOKENS_H
#define SERVING_BEARER_TOKENS_H

#include <stdbool.h>

#include "core/err.h"

/* The bearer tokens of a file: one a line; blank lines and lines that begin with # are not. Only
 * hashes are kept. A reader and bearer_tokens_load may be different threads: a lock covers the
 * list. */
struct bearer_tokens;

#define BEARER_TOKEN_MIN 16 /* characters */

/* ERR_CONFIG: the file cannot be read, may be read by other users, has no token, or one that is
 * too short. */
enum err_code bearer_tokens_open(const char *path, struct bearer_tokens **out, struct err *e);
/* Reads the file again. After an error the old tokens stay. */
enum err_code bearer_tokens_load(struct bearer_tokens *t, struct err *e);
void bearer_tokens_free(struct bearer_tokens *t); /* NULL is fine */
/* Is this one of the tokens? Takes the same time whichever it is, if any. */
bool bearer_tokens_have(struct bearer_tokens *t, const char *token);

#endif
