/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "model/model.h"

/* In an object of its own, so that programs which only name models do not link the arithmetic, and
 * with it BLAS. */
static const struct model_info infos[] = {
#define MODEL(name, task, help, tables) { #name, help, tables, task },
#include "model/model.def"
#undef MODEL
};

enum { NINFOS = sizeof infos / sizeof infos[0] };

const struct model_info *model_info_at(size_t i)
{
	return i < NINFOS ? &infos[i] : NULL;
}

const struct model_info *model_info_find(const char *name)
{
	for (size_t i = 0; i < NINFOS; i++)
		if (strcmp(infos[i].name, name) == 0)
			return &infos[i];
	return NULL;
}
