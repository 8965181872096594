/* SPDX-License-Identifier: ISC */
#include "msg/state_part.h"

#include <string.h>

#include "msg/state.h"

const char *const state_part_name[STATE_PARTS] = {
#define PART(name) #name,
#define MEMBER(part, member)
#include "msg/state_part.def"
};

/* Refuses a member that state.def does not have. */
#define PART(name)
#define MEMBER(part, member) \
	_Static_assert(sizeof((struct state *)0)->member > 0, "state.def has no such member");
#include "msg/state_part.def"

static enum state_part part_of_member(const char *key)
{
	static const struct {
		const char *member;
		enum state_part part;
	} members[] = {
#define PART(name)
#define MEMBER(part, member) { #member, STATE_PART_##part },
#include "msg/state_part.def"
	};

	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		if (strcmp(members[i].member, key) == 0)
			return members[i].part;
	return STATE_PART_membership;
}

void state_split(const json_t *state, char *text[static STATE_PARTS])
{
	json_t *part[STATE_PARTS], *v;
	struct description_reference r;
	const char *key;

	for (size_t i = 0; i < STATE_PARTS; i++)
		part[i] = json_object();
	json_object_foreach((json_t *)(uintptr_t)state, key, v)
		json_object_set(part[part_of_member(key)], key, v);
	for (size_t i = 0; i < STATE_PARTS; i++)
		text[i] = i == STATE_PART_description ? NULL : json_text(part[i]);
	v = json_object_get(state, "facts");
	if (json_is_object(v) && !large_description_is_reference(v, &r))
		text[STATE_PART_description] = json_text(v);
	for (size_t i = 0; i < STATE_PARTS; i++)
		json_decref(part[i]);
}

/* Adds the description to the state, which refers to a large one. */
static enum err_code join_description(struct buf *text, json_t *state,
    struct large_description **large, struct err *e)
{
	json_t *facts;

	if (text->len > DESCRIPTION_INLINE) {
		*large = large_description_of_text((char *)text->data, text->len);
		*text = (struct buf)BUF_INIT;
		facts = large_description_refer(*large);
	} else {
		facts = json_parse((const char *)text->data, text->len, STATE_PART_MAX, e);
	}
	return facts ? (json_object_set_new(state, "facts", facts), ERR_OK) : e->code;
}

static enum err_code join_part(const struct buf *text, json_t *state, struct err *e)
{
	json_t *part = json_parse((const char *)text->data, text->len, STATE_PART_MAX, e);
	enum err_code rc = ERR_OK;

	if (!part)
		return e->code;
	if (json_is_object(part))
		json_object_update(state, part);
	else
		rc = err_set(e, ERR_FORMAT, "it is not an object");
	json_decref(part);
	return rc;
}

enum err_code state_join(struct buf part[static STATE_PARTS], json_t **state,
    struct large_description **large, struct err *e)
{
	enum err_code rc = ERR_OK;

	*large = NULL;
	*state = json_object();
	for (size_t i = 0; !rc && i < STATE_PARTS; i++) {
		if (!part[i].len)
			continue;
		rc = i == STATE_PART_description ? join_description(&part[i], *state, large, e)
		                                 : join_part(&part[i], *state, e);
		if (rc)
			err_prefix(e, "the part \"%s\"", state_part_name[i]);
	}
	if (!rc)
		return ERR_OK;
	json_decref(*state);
	large_description_release(*large);
	*state = NULL;
	*large = NULL;
	return rc;
}
