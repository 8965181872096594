/* SPDX-License-Identifier: ISC */
#ifndef DATA_DATA_KINDS_H
#define DATA_DATA_KINDS_H

#include "data/data.h"

/* The kinds of features of a format in which features stand for different things: users and items of
 * ratings, words as the given ones and as those to be predicted. Feature f is of kind f % n. All functions
 * are pure. */

#define DATA_KINDS 2 /* kinds of a format at most */
/* The kinds of ratings. */
enum { DATA_KIND_USER, DATA_KIND_ITEM };

struct data_kinds {
	size_t n;
	const char *name[DATA_KINDS];
	/* By kind: the kind of the features that one of this kind is compared with, unless the user says
	 * another one. */
	size_t beside[DATA_KINDS];
	/* A feature without a name is called by its kind and its number there: "item=7" is 7 n + 1. */
	bool numbered;
	/* Finds the feature of a kind by the text that data have for it. False: there is none. */
	bool (*find)(const struct dataset *d, size_t kind, const char *text, uint64_t *feature);
};

/* The kinds of the features of data, or of data that are only described; NULL: all are of one kind. */
const struct data_kinds *data_kinds_of(const struct dataset *d);
/* The kind of this name; SIZE_MAX: there is none. */
size_t data_kinds_find(const struct data_kinds *k, const char *name);

/* The feature of a name as data_kinds_name gives it: "city=Paris", "user=alice", "item=7", a word. False:
 * there is none, as far as the description of the data tells. */
bool data_kinds_feature(const struct dataset *d, const char *name, uint64_t *feature);
/* The name of a feature: that of data_feature_name, or by its kind and number. A new string; NULL: it has
 * none. */
char *data_kinds_name(const struct dataset *d, uint64_t feature);

#endif
