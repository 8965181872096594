/* SPDX-License-Identifier: ISC */
#include "msg/heartbeat.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "msg/message.h"

/* A number out of bounds counts as absent. */
static int64_t decode_count(const json_t *v, int64_t missing)
{
	return message_is_count(v) ? json_integer_value(v) : missing;
}

/* Decode [[rank, number], ...]. Pairs without a rank and a number are skipped. */
static struct heartbeat_rank *decode_ranks(const json_t *list, size_t *n)
{
	size_t longest = json_array_size(list), i;
	struct heartbeat_rank *ranks;
	const json_t *pair;

	*n = 0;
	if (!longest || longest > HEARTBEAT_RANKS_MAX)
		return NULL;
	ranks = mem_array(longest, sizeof *ranks);
	json_array_foreach(list, i, pair) {
		int64_t rank = decode_count(json_array_get(pair, 0), -1);
		const json_t *number = json_array_get(pair, 1);

		if (rank < 0 || rank > UINT32_MAX || !json_is_number(number) ||
		    json_number_value(number) < 0)
			continue;
		ranks[(*n)++] = (struct heartbeat_rank){ (uint32_t)rank,
			json_number_value(number) };
	}
	return ranks;
}

/* Decode {"le":[..],"counts":[..],"sum":x}; *out holds zeros. A longer one counts as absent. */
static void decode_hist(const json_t *json, struct heartbeat_hist *out)
{
	const json_t *counts = json_object_get(json, "counts"), *count;
	size_t i;

	if (json_array_size(counts) > HEARTBEAT_BOUNDS_MAX)
		return;
	json_array_foreach(counts, i, count)
		out->count[out->n++] = decode_count(count, 0);
	out->le = json_incref(json_object_get(json, "le"));
	out->sum = json_number_value(json_object_get(json, "sum"));
}

#define BEGIN(name) \
	void heartbeat_##name##_decode(const json_t *stats, struct heartbeat_##name *out) \
	{ \
		heartbeat_##name##_release(out);
#define INT(member, missing) out->member = decode_count(json_object_get(stats, #member), missing);
#define INT_IF(member) \
	out->member = decode_count(json_object_get(stats, #member), -1); \
	out->has_##member = out->member >= 0; \
	out->member = out->has_##member ? out->member : 0;
#define NUM(member) out->member = json_number_value(json_object_get(stats, #member));
#define NUM_IF(member) \
	NUM(member) \
	out->has_##member = json_is_number(json_object_get(stats, #member));
#define DOC(member)  out->member = json_incref(json_object_get(stats, #member));
#define HIST(member) decode_hist(json_object_get(stats, #member), &out->member);
#define TEXT(member, size) \
	snprintf(out->member, sizeof out->member, "%s", json_str(stats, #member, ""));
#define RANKS(member) out->member = decode_ranks(json_object_get(stats, #member), &out->n##member);
#define END(name)     }
#include "msg/heartbeat.def"

#define BEGIN(name) \
	void heartbeat_##name##_release(struct heartbeat_##name *f) \
	{
#define INT(member, missing)
#define INT_IF(member)
#define NUM(member)
#define NUM_IF(member)
#define TEXT(member, size)
#define RANKS(member) free(f->member);
#define DOC(member)   json_decref(f->member);
#define HIST(member)  json_decref(f->member.le);
#define END(name) \
	*f = (struct heartbeat_##name){ 0 }; \
	}
#include "msg/heartbeat.def"
