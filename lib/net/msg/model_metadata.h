/* SPDX-License-Identifier: ISC */
#ifndef MSG_MODEL_METADATA_H
#define MSG_MODEL_METADATA_H

/* The description of a model in a safetensors file, as a struct: all that is needed, beside the
 * tensors, to score examples. model_metadata.def has the members, and this module is the only one
 * that knows their keys and the entry's name. The functions are pure and may run on any thread. */
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "format/safetensors.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define DOC(member)                       const json_t *member;
#define END(name) \
	} \
	;
#include "msg/model_metadata.def"

#define MODEL_METADATA_VERSION 1

/* Adds the description to a file that is about to be written (before safetensors_begin). Its
 * version is set here. A large description of the training data becomes the file's last tensor
 * (large_description.h). ERR_LIMIT. */
enum err_code model_metadata_add(const struct model_metadata *m, struct safetensors_writer *w,
    struct err *e);
/* Reads the description of an open file. *document holds what *out borrows; json_decref it when
 * done. name: the file's, for messages. ERR_NOTFOUND: the file has none. ERR_UNSUPPORTED: its
 * version is later than this program's. ERR_FORMAT: it is damaged, or the tensor of a large
 * description of the training data is not the one that it refers to. ERR_NOMEM, ERR_IO. *document
 * is NULL after an error. */
enum err_code model_metadata_read(const struct safetensors *file, const char *name,
    struct model_metadata *out, json_t **document, struct err *e);

#endif
