/* SPDX-License-Identifier: ISC */
#ifndef MSG_HEARTBEAT_H
#define MSG_HEARTBEAT_H

/* The figures of a heartbeat as structs, struct heartbeat_worker and struct heartbeat_server, and
 * what is in them. heartbeat.def has their members.
 *
 * Figures are hints: a member with the wrong type or out of bounds counts as absent, so that a
 * worker with wrong figures stays a member. Code that uses them must not rely on them for more
 * than that. The functions are pure and may run on any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/json.h"

#define HEARTBEAT_RANKS_MAX 4096u

/* A rank, and its number. */
struct heartbeat_rank {
	uint32_t rank;
	double number;
};

#define HEARTBEAT_BOUNDS_MAX 64u

/* A histogram: `count` has, for each of the bounds in the list `le`, how many values are at or
 * below it, and last the number of all values. n: how many counts; 0: there is no histogram. */
struct heartbeat_hist {
	json_t *le;
	int64_t count[HEARTBEAT_BOUNDS_MAX];
	size_t n;
	double sum;
};

#define BEGIN(name)          struct heartbeat_##name {
#define INT(member, missing) int64_t member;
#define INT_IF(member) \
	int64_t member; \
	bool has_##member;
#define NUM(member) double member;
#define NUM_IF(member) \
	double member; \
	bool has_##member;
#define DOC(member)        json_t *member;
#define HIST(member)       struct heartbeat_hist member;
#define TEXT(member, size) char member[size];
#define RANKS(member) \
	struct heartbeat_rank *member; \
	size_t n##member;
#define END(name) \
	} \
	;
#include "msg/heartbeat.def"

/* Decode "stats"; NULL gives every member its value when absent. *out owns its lists and references
 * of documents: it must hold zeros or figures decoded before, which are released. */
void heartbeat_worker_decode(const json_t *stats, struct heartbeat_worker *out);
void heartbeat_server_decode(const json_t *stats, struct heartbeat_server *out);
/* As those above, for the members in them and for "about". */
void heartbeat_table_decode(const json_t *json, struct heartbeat_table *out);
void heartbeat_probe_decode(const json_t *json, struct heartbeat_probe *out);
void heartbeat_about_decode(const json_t *about, struct heartbeat_about *out);
/* Free the lists and give the references back; all members become zeros. */
void heartbeat_worker_release(struct heartbeat_worker *f);
void heartbeat_server_release(struct heartbeat_server *f);
void heartbeat_table_release(struct heartbeat_table *f);
void heartbeat_probe_release(struct heartbeat_probe *f);
void heartbeat_about_release(struct heartbeat_about *f);

#endif
