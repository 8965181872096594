/* SPDX-License-Identifier: ISC */
#ifndef CTL_CATALOG_H
#define CTL_CATALOG_H

#include <stddef.h>

#include "core/json.h"

/* The catalog behind ps-ctl list and ps-ctl show: everything that a user can choose from (options,
 * models, optimizers, codecs, ...). It is made from the same tables that the programs use, so it
 * cannot be out of date. Each kind is listed as a JSON array of objects whose first members are
 * "name" and "help". */
struct catalog {
	const char *plural, *kind; /* "options", "option" */
	json_t *(*list)(void);     /* a new reference */
};

/* Find a kind by its index, or by its plural. Return NULL past the last kind, or for an unknown
 * plural. */
const struct catalog *catalog_at(size_t i);
const struct catalog *catalog_find(const char *plural);
/* All plurals, in the order of the table in catalog.c. */
#define CATALOG_NAMES \
	"options|models|optimizers|codecs|modes|schedules|readers|subcommands|exit-codes"

#endif
