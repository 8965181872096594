/* SPDX-License-Identifier: ISC */
#ifndef MSG_HEARTBEAT_H
#define MSG_HEARTBEAT_H

/* The figures of a heartbeat as structs, struct heartbeat_worker and struct heartbeat_server.
 * heartbeat.def has their members.
 *
 * Figures are hints: a member with the wrong type or out of bounds counts as absent, so that a
 * worker with wrong figures stays a member.  Whoever uses them must not believe more of them than
 * that.  The functions are pure and may run on any thread. */
#include <stddef.h>
#include <stdint.h>

#include "core/json.h"

#define HEARTBEAT_RANKS_MAX 4096u

/* A rank, and its number. */
struct heartbeat_rank {
	uint32_t rank;
	double number;
};

#define BEGIN(name)          struct heartbeat_##name {
#define INT(member, missing) int64_t member;
#define NUM(member)          double member;
#define TEXT(member, size)   char member[size];
#define RANKS(member) \
	struct heartbeat_rank *member; \
	size_t n##member;
#define END(name) \
	} \
	;
#include "msg/heartbeat.def"

/* Decode "stats"; NULL gives every member its value when absent.  *out owns its lists: it must hold
 * zeros or figures decoded before, which are released. */
void heartbeat_worker_decode(const json_t *stats, struct heartbeat_worker *out);
void heartbeat_server_decode(const json_t *stats, struct heartbeat_server *out);
/* Free the lists; all members become zeros. */
void heartbeat_worker_release(struct heartbeat_worker *f);
void heartbeat_server_release(struct heartbeat_server *f);

#endif
