/* SPDX-License-Identifier: ISC */
#ifndef MEMBERS_H
#define MEMBERS_H

#include "shard/shard.h"

/* One that comes, or goes, alone. */
static inline void admit(struct shard *s, uint32_t slot, uint64_t incarnation, uint64_t from)
{
	shard_take_members(s,
	    &(struct member){ .slot = slot,
	        .state = MEMBER_ACTIVE,
	        .incarnation = incarnation,
	        .at = from },
	    1);
}

static inline void dismiss(struct shard *s, uint32_t slot, uint64_t until)
{
	shard_take_members(s, &(struct member){ .slot = slot, .state = MEMBER_GONE, .at = until },
	    1);
}

#endif
