/* SPDX-License-Identifier: ISC */
#ifndef MSG_MANIFEST_H
#define MSG_MANIFEST_H

/* The manifest of a checkpoint, its head, and the servers' descriptions of their files, as structs.
 * This module is the only one that knows their keys; manifest.def has the members. The seal of a
 * manifest, and the rules that its members must keep together, are ckpt's.
 *
 * Texts, documents and lists in a struct belong to it or to the document that it was decoded from.
 * The functions are pure and may run on any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define NUM(member)                       double member;
#define FLAG(member)                      _Alignas(8) bool member;
#define TEXT(member)                      const char *member;
#define DOC(member)                       const json_t *member;
#define LIST(member, name, most) \
	const struct name *member; \
	uint64_t n##member;
#define OBJECT(member, name)         const struct name *member;
#define OBJECT_AS(member, key, name) const struct name *member;
#define END(name) \
	} \
	;
#include "msg/manifest.def"

#define MANIFEST_VERSION 1

/* The version of the format that a manifest is written in; 0: it does not say. */
int64_t manifest_version(const json_t *json);
/* Decodes a manifest of MANIFEST_VERSION, and takes a reference of the document. ERR_PROTO: a
 * member has the wrong type or is out of bounds, or there is no step or no generation. */
enum err_code manifest_decode(const json_t *json, struct manifest **out, struct err *e);
/* NULL is fine. */
void manifest_free(struct manifest *m);
/* The document that the manifest was decoded from, borrowed. */
const json_t *manifest_document(const struct manifest *m);
/* The document of its tables, with members that only cluster/layout knows; borrowed. */
const json_t *manifest_tables(const struct manifest *m);
/* The sum of the sizes of its files. */
uint64_t manifest_bytes(const struct manifest *m);

/* ---- partitions ---- */

/* The values of a partition, in a manifest or a description. */
struct manifest_state {
	uint64_t version, step;
	uint64_t born;        /* updates before the update rule's state began */
	const uint64_t *last; /* by rank: the last push applied */
	size_t nlast;
};
/* Frees the list of one that was decoded. */
void manifest_state_release(struct manifest_state *s);

/* A partition in a manifest: the numbers of its table and of its file there. delta: the file has
 * changes only, and `base` is the number of the file that has the other rows. */
struct manifest_part {
	uint64_t table, part, file, base;
	bool delta;
	struct manifest_state state;
};
/* A partition in a description, which names the table and the file. */
struct manifest_described {
	const char *table, *file;
	uint64_t part;
	bool delta;
	struct manifest_state state;
};
/* Decodes one entry of `parts`. False: it is malformed. Release out->state with
 * manifest_state_release in either case. */
bool manifest_decode_part(const json_t *entry, struct manifest_part *out);
bool manifest_decode_described(const json_t *entry, struct manifest_described *out);

/* ---- making a manifest ---- */

/* Decodes a description; manifest_description_release frees its lists, also after an error.
 * ERR_PROTO. */
enum err_code manifest_description_decode(const json_t *json, struct manifest_description *out,
    struct err *e);
void manifest_description_release(struct manifest_description *d);
/* Encodes the description of these files and partitions. A new reference. */
json_t *manifest_description_encode(const struct manifest_file *files, size_t nfiles,
    const struct manifest_described *parts, size_t nparts);

/* Decodes a head, which borrows from `json` and owns nothing. ERR_PROTO. */
enum err_code manifest_head_decode(const json_t *json, struct manifest_head *out, struct err *e);
/* Encodes the member "data" of a head; what is NULL is left out. A new reference. */
json_t *manifest_data_encode(const struct manifest_data *data);
/* Decodes the tables of a head; free() the list. ERR_PROTO. */
enum err_code manifest_decode_tables(const json_t *tables, struct manifest_table **out, uint64_t *n,
    struct err *e);

/* The members of a manifest beside its head. */
struct manifest_body {
	uint64_t step;
	const char *created, *digest_of_config;
	unsigned state_version; /* of the optimizer's state */
	bool delta;
	uint64_t base_step; /* of a delta checkpoint */
	const struct manifest_part *part;
	size_t nparts;
	const struct manifest_file *file;
	size_t nfiles;
};
/* Encodes a manifest without its seal. Members of the head that are NULL become null. A new
 * reference. */
json_t *manifest_encode(const struct manifest_head *head, const struct manifest_body *body);

#endif
