/* SPDX-License-Identifier: ISC */
#ifndef MSG_SETTING_H
#define MSG_SETTING_H

#include <stdint.h>

#include "core/fields.h"
#include "core/json.h"

/* A live change of the settings, from the request to the step at which it takes effect: the one
 * value for it in the coordinator, in servers and in workers. The cluster view has a list of them,
 * ordered by number; conf_at (conf/conf_live.h) computes the configuration that they make.
 *
 * In a decoded message the pointers belong to the document. A copy (setting_copy) owns what it
 * points to. The functions are pure and may run on any thread. */
struct setting {
	/* The first step for which it holds; while it is only requested, the earliest step that it
	 * may get */
	int64_t step;
	int64_t number;    /* its settings epoch; 0: not decided yet */
	const json_t *set; /* {"job.lr":"0.01"}: texts, as for --set */
	const char *who;   /* its origin: a key's name, "adapt", "default"; NULL: not known here */
};

/* How it lies in a view, for LIST(changes, setting, ...). */
extern const struct field fields_setting[];

/* A copy with texts and documents of its own, for setting_release. */
struct setting setting_copy(const struct setting *from);
/* Frees what a copy owns, and leaves zeros; may be called on zeros. */
void setting_release(struct setting *s);
/* The change as a view has it, without its origin. A new reference. */
json_t *setting_to_json(const struct setting *s);
/* The changed keys as a person reads them, "codec=topk:0.01 feedback=off", in a fresh string. */
char *setting_sentence(const json_t *set);

#endif
