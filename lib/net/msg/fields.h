/* SPDX-License-Identifier: ISC */
#ifndef MSG_FIELDS_H
#define MSG_FIELDS_H

/* For the files of msg/: how the members of a JSON object lie in a struct. The tables come from
 * message.def and view.def. Each member takes 8 bytes in the struct, a list 16 (pointer and count),
 * in the order of the table. */
#include "core/err.h"
#include "core/json.h"

enum field_type {
	FIELD_INT,
	FIELD_ID,
	FIELD_FLAG,
	FIELD_TEXT,
	FIELD_DOC,
	FIELD_LIST,
	FIELD_OBJECT
};

struct field {
	const char *key; /* on the wire; NULL ends the table */
	enum field_type type;
	int64_t least, most,
	    missing;            /* of an integer: bounds, and its value when it is absent; of a
	                               * list, most: the greatest number of objects */
	const struct field *of; /* of a list or an object: the table of one object */
};

#define FIELDS_INT(member, least, most, missing) \
	{ \
#member, FIELD_INT, least, most, missing, NULL \
	}
#define FIELDS_LIST(key, most, of) \
	{ \
		key, FIELD_LIST, 0, most, 0, of \
	}
#define FIELDS_OTHER(key, type, of) \
	{ \
		key, type, 0, 0, 0, of \
	}

/* Decodes an object; what: its name, for errors. json may be anything. Texts and documents belong to `json`. *out must be
 * released with fields_release, also after an error. ERR_PROTO: a member has the wrong type or is out
 * of bounds. */
enum err_code fields_decode(const char *what, const struct field *f, const json_t *json, void *out,
    struct err *e);
/* Decodes an array of objects; *list is freed by fields_release_list. */
enum err_code fields_decode_list(const char *what, const struct field *f, const json_t *json,
    void **list, uint64_t *n, struct err *e);
/* Frees the lists and objects in a decoded struct, which has none of its own otherwise. */
void fields_release(const struct field *f, void *object);
void fields_release_list(const struct field *f, void *list, uint64_t n);

#endif
