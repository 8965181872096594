/* SPDX-License-Identifier: ISC */
#include "msg/large_description.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/fields.h"
#include "core/json_bytes.h"
#include "core/mem.h"
#include "core/utf8.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/large_description.def"

struct large_description *large_description_of_text(char *text, size_t n)
{
	struct large_description *d = mem_alloc(sizeof *d);

	atomic_init(&d->references, 1);
	d->size = n;
	d->text = text;
	digest_of(text, n, d->blake2b);
	return d;
}

enum err_code large_description_of(const json_t *facts, struct large_description **out,
    struct err *e)
{
	char *text = facts ? json_text(facts) : NULL;
	size_t n = text ? strlen(text) : 0;

	*out = NULL;
	if (n > DESCRIPTION_INLINE && n <= DESCRIPTION_MAX) {
		*out = large_description_of_text(text, n);
		return ERR_OK;
	}
	free(text);
	return n <= DESCRIPTION_INLINE
	    ? ERR_OK
	    : err_set(e, ERR_LIMIT,
	          "the description of the training data has %zu bytes, and a model can have at most "
	          "%zu: hash the values of categories (option bits of the path)",
	          n, DESCRIPTION_MAX);
}

struct large_description *large_description_hold(struct large_description *d)
{
	if (d)
		atomic_fetch_add(&d->references, 1);
	return d;
}

void large_description_release(struct large_description *d)
{
	if (!d || atomic_fetch_sub(&d->references, 1) > 1)
		return;
	free(d->text);
	free(d);
}

json_t *large_description_refer(const struct large_description *d)
{
	return fields_encode(fields_description_reference,
	    &(struct description_reference){ .size = (int64_t)d->size, .blake2b = d->blake2b });
}

bool large_description_may_be(const struct description_reference *r)
{
	return r->size > 0 && (uint64_t)r->size <= DESCRIPTION_MAX &&
	    strlen(r->blake2b) == DIGEST_HEX - 1 &&
	    strspn(r->blake2b, "0123456789abcdef") == DIGEST_HEX - 1;
}

bool large_description_is_reference(const json_t *doc, struct description_reference *out)
{
	return json_object_size(doc) == 2 &&
	    !fields_decode(fields_description_reference, doc, out, NULL) &&
	    large_description_may_be(out);
}

bool large_description_is(const struct large_description *d, const struct description_reference *r)
{
	return d && d->size == (uint64_t)r->size && strcmp(d->blake2b, r->blake2b) == 0;
}

enum err_code large_description_check(char *text, size_t n, const struct description_reference *r,
    const char *where, struct large_description **out, struct err *e)
{
	struct large_description *d = large_description_of_text(text, n);

	*out = NULL;
	if (!large_description_is(d, r)) {
		large_description_release(d);
		return err_set(e, ERR_FORMAT,
		    "the description of the training data in %s is damaged: its digest differs from "
		    "the one that refers to it",
		    where);
	}
	*out = d;
	return ERR_OK;
}

enum err_code large_description_parse(const struct large_description *d, const char *where,
    json_t **out, struct err *e)
{
	struct err why = { 0 };

	*out = json_parse(d->text, d->size, DESCRIPTION_MAX, &why);
	return *out
	    ? ERR_OK
	    : err_because(e, ERR_FORMAT, why.cause,
	          "the description of the training data in %s is damaged: %s", where, why.msg);
}

/* ---- pieces ---- */

json_t *large_description_piece(const struct large_description *d, size_t at)
{
	size_t n;

	/* Not in the middle of a character, either. */
	if (at >= d->size || ((unsigned char)d->text[at] & 0xc0) == 0x80)
		return NULL;
	n = d->size - at < DESCRIPTION_PIECE ? d->size - at
	                                     : utf8_whole(d->text + at, DESCRIPTION_PIECE);
	return json_of_exact_bytes(d->text + at, n);
}

void description_pieces_begin(struct description_pieces *p, const struct description_reference *r)
{
	description_pieces_release(p);
	p->size = (size_t)r->size;
	snprintf(p->blake2b, sizeof p->blake2b, "%s", r->blake2b);
}

enum err_code description_pieces_add(struct description_pieces *p, size_t at, const json_t *piece,
    struct err *e)
{
	size_t n = json_string_length(piece);

	if (!json_is_string(piece) || n == 0)
		return err_set(e, ERR_PROTO, "a piece of a description has no text");
	/* Another worker may have sent it already. */
	if (at != p->text.len)
		return ERR_OK;
	if (n > p->size - at)
		return err_set(e, ERR_PROTO, "a description has more than its %zu bytes", p->size);
	buf_append(&p->text, json_string_value(piece), n);
	return ERR_OK;
}

bool description_pieces_are_complete(const struct description_pieces *p)
{
	return p->size > 0 && p->text.len == p->size;
}

enum err_code description_pieces_end(struct description_pieces *p, struct large_description **out,
    struct err *e)
{
	const struct description_reference r = { .size = (int64_t)p->size, .blake2b = p->blake2b };
	enum err_code rc = large_description_check((char *)p->text.data, p->text.len, &r,
	    "a message", out, e);

	*p = (struct description_pieces){ 0 };
	return rc;
}

void description_pieces_release(struct description_pieces *p)
{
	buf_release(&p->text);
	*p = (struct description_pieces){ 0 };
}
