/* SPDX-License-Identifier: ISC */
#include "shard/part.h"
#include "shard/step_ops.h"

static enum shard_answer add_push(struct shard *s, struct part *p, const struct push *push,
    bool acceptable)
{
	mutex_assert_held(&p->lock);
	return acceptable && push->examples && !part_accumulate(p, s, push) ? SHARD_BAD : SHARD_OK;
}

const struct step_ops step_summed = {
	.holds_pushes = true,
	.used = PUSH_MERGED,
	.use_push = add_push,
};
