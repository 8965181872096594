/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "model/model.h"

/* In an object of its own, so that programs which only name models do not link the arithmetic, and
 * with it BLAS. */
static const struct model_info infos[] = {
#define MODEL(name, task, loss, takes, reads, vectors, help, tables, defaults, enough, ...) \
	{ #name, help, tables, defaults, enough, task, loss, takes, reads, vectors, \
		{ __VA_ARGS__ } },
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

/* The task that a user of a model with these targets of the loss has to name. */
static enum model_task task_of(enum loss_target target)
{
	static const enum model_task task[] = {
		[LOSS_REAL] = MODEL_REAL,
		[LOSS_TWO] = MODEL_TWO,
		[LOSS_CLASSES] = MODEL_CLASSES,
	};

	return task[target];
}

enum err_code model_info_loss(const struct model_info *info, const char *text,
    struct loss_spec *loss, enum model_task *task, struct err *e)
{
	bool own = text == NULL || strcmp(text, "auto") == 0;
	enum err_code rc;

	*task = info->task;
	*loss = (struct loss_spec){ 0 };
	if (info->loss == NULL)
		return own ? ERR_OK
		           : err_set(e, ERR_CONFIG, "job.loss: model %s has a loss of its own",
		                 info->name);
	rc = loss_parse(own ? info->loss : text, loss, e);
	if (rc != ERR_OK)
		return err_prefix(e, "job.loss");
	if (!(info->takes & 1u << loss->ops->target))
		return err_set(e, ERR_CONFIG,
		    "job.loss: model %s cannot use the loss %s; see LOSSES in ps-work(1)",
		    info->name, loss->ops->name);
	*task = task_of(loss->ops->target);
	return ERR_OK;
}
