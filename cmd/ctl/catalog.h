#ifndef CTL_CATALOG_H
#define CTL_CATALOG_H

#include <jansson.h>
#include <stddef.h>

/* What there is to choose from, from the tables that the programs themselves
 * go by: each kind is a JSON array of objects with "name" and "help" first. */
struct catalog {
	const char *plural, *kind;      /* "options", "option" */
	json_t *(*list)(void);          /* a new reference */
};

/* NULL past the last, or for an unknown plural. */
const struct catalog *catalog_at(size_t i);
const struct catalog *catalog_find(const char *plural);
/* "options|models|..." as it stands in catalog.c. */
#define CATALOG_NAMES "options|models|optimizers|codecs|modes|schedules|readers|subcommands|exit-codes"

#endif
