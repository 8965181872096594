/* SPDX-License-Identifier: ISC */
#include "shard/part.h"
#include "shard/repl.h"
#include "shard/settings_epoch.h"
#include "shard/step_ops.h"

/* Makes an update from the push and a record of it, by the settings of the open step. */
static enum shard_answer apply_push(struct shard *s, struct part *p, const struct push *push,
    bool acceptable)
{
	mutex_assert_held(&p->lock);
	if (!repl_may_send(p))
		return SHARD_WAIT;
	if (acceptable) {
		if (atomic_load(&s->snaps.on))
			snapshot_before_update(s, p, p->step);
		settings_epoch_set(s, p, settings_epoch_at(s, p->step));
		if (!part_apply_push(p, push, 1))
			return SHARD_BAD;
	}
	repl_queue_push(s, p, push, 1, !acceptable);
	return SHARD_OK;
}

const struct step_ops step_on_arrival = {
	.takes_late = true,
	.used = PUSH_APPLIED,
	.use_push = apply_push,
};
