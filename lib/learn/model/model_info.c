/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "model/model.h"

/* In an object of its own, so that programs which only name models do not link the arithmetic, and
 * with it BLAS. */
static const struct model_info infos[] = {
#define MODEL(name, task, help, tables, defaults, ...) { #name, help, tables, defaults, task, { __VA_ARGS__ } },
#define AXES(table, rows, columns) \
	{ \
		table, MODEL_AXIS_##rows, MODEL_AXIS_##columns \
	}
#define NO_AXES \
	{ \
		.table = NULL \
	}
#include "model/model.def"
#undef MODEL
#undef AXES
#undef NO_AXES
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

struct model_axes model_info_axes(const struct model_info *info, const char *table)
{
	for (size_t i = 0; i < MODEL_AXES && info->axes[i].table; i++)
		if (strcmp(info->axes[i].table, table) == 0)
			return info->axes[i];
	return (struct model_axes){ .table = table };
}
