/* SPDX-License-Identifier: ISC */
#ifndef CORE_FIELDS_H
#define CORE_FIELDS_H

/* Typed documents: how the members of a JSON object lie in a struct. The tables come from .def
 * files such as net/msg/view.def, which give the struct as well. Each member takes 8 bytes in the
 * struct, a list 16 (pointer and count), in the order of the table. The functions are pure and may
 * run on any thread. */
#include "core/err.h"
#include "core/json.h"

enum field_type {
	FIELD_INT,
	FIELD_NUM, /* a double; NAN when absent */
	FIELD_ID,
	FIELD_FLAG,
	FIELD_TEXT,
	FIELD_WORD,   /* a text that stands for an int64_t; -1: absent, or not among the words */
	FIELD_DOC,    /* a document that another struct holds */
	FIELD_TUPLES, /* such a document that is a list of tuples: arrays of integers within bounds */
	FIELD_MAP,    /* such a document that is an object: integers within bounds by number */
	FIELD_HELD,   /* a document with a reference of the struct's own */
	FIELD_INTS,
	FIELD_LIST,
	FIELD_OBJECT
};

/* The encoding of a member without a value (0, NAN, false, NULL or an empty
 * list). */
enum field_write {
	WRITE_VALUE,  /* the value; nothing for a text, document or object that is NULL */
	WRITE_IF_SET, /* nothing; a text that is absent is decoded to NULL */
	WRITE_NULL,   /* null */
	WRITE_HEAD    /* nothing, nor anything of the members that follow it */
};

struct field {
	const char *key; /* on the wire; NULL ends the table */
	enum field_type type;
	/* bounds of an integer, and its value when it is absent */
	int64_t least, most, missing;
	/* of a list: the greatest number of items; of a map: its keys are below it */
	size_t longest;
	const struct field *of; /* the table of one object of a list, of an object, or of a tuple */
	enum field_write write;
	const char *const *words; /* of a word: the texts by enumerator, NULL-ended */
};

#define FIELDS_INT(member, least, most, missing, write) \
	{ \
#member, FIELD_INT, least, most, missing, 0, NULL, write, NULL \
	}
#define FIELDS_INTS(member, least, most, longest) \
	{ \
#member, FIELD_INTS, least, most, 0, longest, NULL, WRITE_VALUE, NULL \
	}
#define FIELDS_LIST(key, longest, of, write) \
	{ \
		key, FIELD_LIST, 0, 0, 0, longest, of, write, NULL \
	}
#define FIELDS_TUPLES(key, longest, of) \
	{ \
		key, FIELD_TUPLES, 0, 0, 0, longest, of, WRITE_VALUE, NULL \
	}
#define FIELDS_MAP(member, least, most, keys) \
	{ \
#member, FIELD_MAP, least, most, 0, keys, NULL, WRITE_VALUE, NULL \
	}
#define FIELDS_WORD(member, words) \
	{ \
#member, FIELD_WORD, 0, 0, 0, 0, NULL, WRITE_VALUE, words \
	}
#define FIELDS_OTHER(key, type, of, write) \
	{ \
		key, type, 0, 0, 0, 0, of, write, NULL \
	}

/* Decodes an object. json may be anything. Texts and documents belong to `json`. *out must be
 * released with fields_release, also after an error. ERR_PROTO: a member has the wrong type or is
 * out of bounds; the message begins with "its", so that the caller can put the object's name before
 * it. */
enum err_code fields_decode(const struct field *f, const json_t *json, void *out, struct err *e);
/* Decodes an array of objects; *list is freed by fields_release_list. */
enum err_code fields_decode_list(const struct field *f, const json_t *json, void **list,
    uint64_t *n, struct err *e);
/* Reads the n integers of a tuple, which was decoded as one of a list of tuples. */
void fields_read_tuple(const json_t *tuple, int64_t *out, size_t n);
/* Encodes an object; a new reference. Documents in it get one more. Builds with -DLOCK_CHECK decode
 * the object again, and abort when that fails: a program must never write what it would refuse. */
json_t *fields_encode(const struct field *f, const void *object);
/* Adds the members to `json`, which has others already. */
void fields_encode_to(const struct field *f, const void *object, json_t *json);
/* Frees the lists and objects in a struct, decoded or filled by hand, and gives back the references
 * of documents that it holds. */
void fields_release(const struct field *f, void *object);
void fields_release_list(const struct field *f, void *list, uint64_t n);

#endif
