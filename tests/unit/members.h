/* SPDX-License-Identifier: ISC */
#ifndef MEMBERS_H
#define MEMBERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/shard.h"

/* One that comes, or goes, alone. */
static inline void admit(struct shard *s, uint32_t rank, uint64_t incarnation, uint64_t from)
{
	shard_take_members(s,
	    &(struct member){ .rank = rank,
	        .state = MEMBER_ACTIVE,
	        .incarnation = incarnation,
	        .at = from },
	    1);
}

static inline void dismiss(struct shard *s, uint32_t rank, uint64_t until)
{
	shard_take_members(s, &(struct member){ .rank = rank, .state = MEMBER_GONE, .at = until },
	    1);
}

/* Sets the mode, and from a second word the pattern of tables whose pushes are applied on arrival:
 * "asp", "bsp rows". Call it when the configuration has its rule and hyperparameters. */
static inline void mode_of(const char *text, struct shard_config *cfg)
{
	size_t n = strcspn(text, " ");
	char mode[32];

	snprintf(mode, sizeof mode, "%.*s", (int)n, text);
	if (sync_parse(mode, &cfg->mode, NULL))
		abort();
	if (!text[n])
		return;
	cfg->tables.n = 1;
	cfg->tables.of[0].rule = cfg->rule;
	cfg->tables.of[0].hyper = cfg->hyper;
	cfg->tables.of[0].on_arrival = true;
	snprintf(cfg->tables.of[0].pattern, sizeof cfg->tables.of[0].pattern, "%s", text + n + 1);
}

/* What a receipt would say of the partition now. */
static inline struct shard_outcome outcome_of(struct shard *s, uint16_t table, uint32_t part,
    uint64_t step, enum push_status status)
{
	return shard_outcome(s, table, part, step, status, &(struct receipt_condition){ 0 });
}

static inline uint64_t version_of(struct shard *s, uint16_t table, uint32_t part)
{
	return outcome_of(s, table, part, 0, PUSH_MERGED).version;
}

static inline unsigned replicas_of(struct shard *s, uint16_t table, uint32_t part)
{
	return outcome_of(s, table, part, 0, PUSH_MERGED).replicas;
}

#endif
