/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/num.h"
#include "msg/heartbeat.h"

/* A process that has used this share of the memory of its control group when it was last heard has
 * probably been killed because of that. Nothing else tells the coordinator: the kernel ends it
 * without a word, and a container that is started again begins to count at 0. */
#define MEMORY_SHORT 0.9

bool coord_memory_was_short(const json_t *about, char out[static COORD_MEMORY_NOTE])
{
	struct heartbeat_about last = { 0 };
	char used[16], limit[16];

	out[0] = '\0';
	heartbeat_about_decode(about, &last);
	if (!last.has_memory_limit_bytes || !last.has_memory_used_bytes ||
	    last.memory_used_bytes < last.memory_limit_bytes * MEMORY_SHORT)
		return false;
	num_human(last.memory_used_bytes, used);
	num_human(last.memory_limit_bytes, limit);
	snprintf(out, COORD_MEMORY_NOTE,
	    "; it was probably killed for lack of memory: its control group had used %sB of %sB",
	    used, limit);
	return true;
}
