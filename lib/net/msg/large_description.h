/* SPDX-License-Identifier: ISC */
#ifndef MSG_LARGE_DESCRIPTION_H
#define MSG_LARGE_DESCRIPTION_H

/* The description of training data (training_facts.h) may have millions of names. One of more than
 * DESCRIPTION_INLINE bytes is not part of messages, manifests, metadata and states: they have a
 * reference, {"size":N,"blake2b":DIGEST}, and its text lies beside them:
 *
 *   checkpoint   the file description.json           state     the part "description" (state_part.h)
 *   model file   the tensor DESCRIPTION_TENSOR       sessions  messages with pieces of the text
 *
 * Each reader compares the text with the size and the digest of the reference. A large_description
 * is constant and counts its references, so that threads may share it. Functions are pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "format/digest.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define TEXT(member)                      const char *member;
#define END(name) \
	} \
	;
#include "msg/large_description.def"

#define DESCRIPTION_INLINE ((size_t)64 << 10)
/* The longest text: what a process can parse in some gigabytes of memory. */
#define DESCRIPTION_MAX ((size_t)1 << 30)
/* Bytes of text in one message at most. */
#define DESCRIPTION_PIECE ((size_t)1 << 20)
/* A tensor of bytes. No table can have this name. */
#define DESCRIPTION_TENSOR "pskit:description"

struct large_description {
	_Atomic unsigned references;
	size_t size;
	char blake2b[DIGEST_HEX];
	char *text; /* a NUL follows it */
};

/* The text of a description, if it is large; *out is NULL if it is not, or if `facts` is NULL.
 * ERR_LIMIT: it is longer than DESCRIPTION_MAX. */
enum err_code large_description_of(const json_t *facts, struct large_description **out,
    struct err *e);
/* Takes a text of n bytes, which was allocated. */
struct large_description *large_description_of_text(char *text, size_t n);
/* One more reference of d, which may be NULL; and one less. */
struct large_description *large_description_hold(struct large_description *d);
void large_description_release(struct large_description *d);

/* The reference to d. A new document. */
json_t *large_description_refer(const struct large_description *d);
/* Is this document a reference? Then *out, which borrows from it, has a digest and a size up to
 * DESCRIPTION_MAX. */
bool large_description_is_reference(const json_t *doc, struct description_reference *out);
/* Has a reference a digest, and a size that a description can have? */
bool large_description_may_be(const struct description_reference *r);
/* Is d the description that is referred to? False for NULL. */
bool large_description_is(const struct large_description *d, const struct description_reference *r);

/* Takes a text that was read for a reference. `where` is for messages. ERR_FORMAT: it is not the
 * text that is referred to, and is freed. */
enum err_code large_description_check(char *text, size_t n, const struct description_reference *r,
    const char *where, struct large_description **out, struct err *e);
/* Parses the text. A new document; ERR_FORMAT. */
enum err_code large_description_parse(const struct large_description *d, const char *where,
    json_t **out, struct err *e);

/* ---- pieces ---- */

/* The piece of the text at byte `at` as a JSON string, which ends with a complete character. A new
 * reference; NULL: the text ends before it, or no character begins there. */
json_t *large_description_piece(const struct large_description *d, size_t at);

/* A text that arrives in pieces. All zeroes: none. */
struct description_pieces {
	size_t size;
	char blake2b[DIGEST_HEX];
	struct buf text;
};
void description_pieces_begin(struct description_pieces *p, const struct description_reference *r);
/* Appends a piece, if it is the next one. ERR_PROTO: it is not a string, or longer than what is
 * missing. */
enum err_code description_pieces_add(struct description_pieces *p, size_t at, const json_t *piece,
    struct err *e);
/* Has the text all its bytes? */
bool description_pieces_are_complete(const struct description_pieces *p);
/* Ends a complete text; p is empty afterwards. ERR_FORMAT: it has another digest. */
enum err_code description_pieces_end(struct description_pieces *p, struct large_description **out,
    struct err *e);
void description_pieces_release(struct description_pieces *p);

#endif
