/* SPDX-License-Identifier: ISC */
#ifndef MSG_VIEW_H
#define MSG_VIEW_H

/* The cluster view: members, layout, settings and phase, as the coordinator publishes them. It
 * travels as JSON (ps-protocol(7)); this module is the only one that knows its keys, and view.def
 * has its members. The layout and the configuration in it stay documents, which cluster/layout and
 * cluster/conf decode.
 *
 * A decoded view does not change. It is shared by reference: view_ref and view_release may be
 * called by any thread; the last release frees it. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "msg/setting.h"
#include "msg/words.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define ID(member)                        uint64_t member;
#define FLAG(member)                      _Alignas(8) bool member;
#define TEXT(member)                      const char *member;
#define WORD(member, words)               int64_t member;
#define TEXT_AS(member, key)              const char *member;
#define DOC(member)                       const json_t *member;
#define LIST(member, name, most) \
	const struct name *member; \
	uint64_t n##member;
#define OBJECT(member, name) const struct name *member;
#define END(name) \
	} \
	;
#include "msg/view.def"

/* Decodes a view; takes a reference of the document. The result has one reference. ERR_PROTO: a
 * member has the wrong type or is out of bounds. */
enum err_code view_decode(const json_t *json, const struct view **out, struct err *e);
/* Takes another reference, and returns it; gives one back. NULL is fine. */
const struct view *view_ref(const struct view *v);
void view_release(const struct view *v);
/* The document that the view was decoded from, borrowed. */
const json_t *view_document(const struct view *v);
/* Is the phase this one? False for NULL. */
bool view_phase_is(const struct view *v, enum phase phase);

/* For the sender: a document of the whole view without what only some receivers get. */
struct view_cut {
	uint64_t rev;
	json_t *workers; /* the list of its workers */
	json_t *common;  /* the members for every worker, without the revision */
	json_t *guest;   /* the same without the ring */
};
/* Cuts a document, which stays as it is. view_cut_release gives the references back. */
void view_cut(const json_t *view, struct view_cut *out);
void view_cut_release(struct view_cut *c);
/* Completes the text of view_cut.common or .guest with the revision and the text of the receiver's
 * own row (NULL: it has none). A fresh string. This copies text, because a view goes to thousands
 * of workers at once. */
char *view_complete_text(const char *cut, uint64_t rev, const char *worker);

/* Decodes a list of keys, as in the view and in the message "keys". free() it. ERR_PROTO. */
enum err_code view_decode_keys(const json_t *json, struct view_key **out, uint64_t *n,
    struct err *e);

#endif
