/* SPDX-License-Identifier: ISC */
#ifndef MSG_STATE_PART_H
#define MSG_STATE_PART_H

/* The parts of the coordinator's saved state (state.h). A state is one document for those who make
 * and read it. It is kept in parts, so that a change of the layout does not write the settings and
 * the description of the data again, and no value becomes too long for where it is kept.
 *
 * The text of a part is a JSON object with the members that state_part.def names. That of the
 * description is the description itself, of whatever size (large_description.h); a state without
 * one has no such part. A state of version 1 has all its members in the first part.
 *
 * Functions are pure and may run on any thread. */
#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "msg/large_description.h"

enum state_part {
#define PART(name) STATE_PART_##name,
#define MEMBER(part, member)
#include "msg/state_part.def"
	STATE_PARTS
};

extern const char *const state_part_name[STATE_PARTS];

/* The longest text of a part, other than the description. */
#define STATE_PART_MAX ((size_t)64 << 20)

/* The texts of a state's parts, as new strings. That of a description is NULL if there is none, and
 * if the state only refers to a large one. */
void state_split(const json_t *state, char *text[static STATE_PARTS]);
/* The state with these parts, a new document. *large: the description that it refers to, which
 * takes over the text of that part; NULL: none. ERR_FORMAT. */
enum err_code state_join(struct buf part[static STATE_PARTS], json_t **state,
    struct large_description **large, struct err *e);

#endif
