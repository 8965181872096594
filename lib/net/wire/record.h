/* SPDX-License-Identifier: ISC */
#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/* A record is one authenticated unit on the wire: a 64-byte header with its own tag, then a payload
 * of at most 1 MiB with its tag. ps-protocol(7) draws the bytes; records.def lists the types.
 * The functions have no state and may be called by any thread. */
#define RECORD_HEADER 64
#define RECORD_TAG    16
#define RECORD_HEAD   (RECORD_HEADER + RECORD_TAG)
#define RECORD_MAX    (1u << 20)

enum record_type {
#define RECORD(name, number, roles, limit) REC_##name = number,
#include "wire/records.def"
#undef RECORD
};

enum record_flag {
	RECORD_TO_CLIENT = 1, /* direction: set by servers, refused from clients */
	RECORD_LAST = 2,      /* SCANNED: no rows follow */
	/* PULL: answered without waiting for any step; PUSH: applied on arrival. */
	RECORD_NOW = 4,
	RECORD_REPLY = 8,    /* CTL: answers the request with this seq */
	RECORD_REFUSED = 16, /* CLOCK of a worker that refused its own gradient */
	RECORD_DELTA =
	    32, /* PULL: versions follow the run; PULLED: only what has changed since; SCAN: since a step */
	RECORD_ROW_IDS = 64, /* PULL_ROWS, PUSH_ROWS: row ids are a block (ps-protocol(7)) */
	RECORD_EARLY =
	    128, /* PULL, PULL_ROWS: each partition as soon as its own step is complete */
	RECORD_CHECKPOINT = 256, /* PULLED, ROWS: a checkpoint of this step is being taken */
	/* PULL, PULLED, SCAN: no values. With EARLY: when they might be shown; else when all are at
	 * the step */
	RECORD_NO_VALUES = 512,
	RECORD_VIEW = 1024, /* CTL: the text is a view, which a later one may supersede unread */
	/* PUSH_ROWS: counts of the examples that touch each row follow the rows */
	RECORD_TOUCHING = 2048,
	/* PULLED, ROWS: a worker has stated examples at the steps that this one waits for, or
	 * later */
	RECORD_TRAINED = 4096,
	/* PULL: an answer may name a place in published memory; PULLED: this one does */
	RECORD_BY_REFERENCE = 8192,
	/* SHARE of a server: it reads the memory that the client lends. Other records, in shared
	 * memory alone: the payload lies in lent memory (socket/lent.h) */
	RECORD_LENT = 16384,
};

struct record {
	uint8_t type;
	uint16_t flags;
	uint32_t len; /* payload bytes */
	uint16_t table, codec;
	uint32_t part;
	/* epoch: of the layout; in records of all-reduce, of the ring. generation: of the layout */
	uint32_t epoch, generation;
	/* answers: the number of membership entries that the server knows. */
	uint32_t examples;
	uint64_t step, seq;
	/* In several pieces: where this one begins. PULL: 0 for the parameters, k for vector k of
	 * the optimizer state. */
	uint64_t offset;
	/* In several pieces: bytes of the whole. PULLED, ROWS, SCANNED: the version. PROBE: bytes
	 * of the answer. */
	uint64_t total;
};

/* The one encoder and the one decoder of the header. record_decode checks
 * magic, version, type and the type's payload limit. */
void record_encode(const struct record *r, uint8_t out[static RECORD_HEADER]);
/* Add flags to an encoded header. */
void record_add_flags(uint8_t head[static RECORD_HEADER], uint16_t flags);
/* ERR_PROTO with a sentence for anything else; *r is then of no use. The direction and the role
 * are checked by the callers. */
enum err_code record_decode(const uint8_t in[static RECORD_HEADER], struct record *r,
    struct err *e);

/* May a client with this role (a number of auth/role.def) send this type? */
bool record_role_may(uint8_t type, unsigned role);
/* Does the record name a step that no job can reach (STEPS_END or later)? Records with RECORD_NOW
 * name no step, and in other types `step` has another meaning. */
bool record_step_is_absurd(const struct record *r);
/* The name of a type, as in records.def ("PUSH_ROWS"); NULL for a number that is not a type. */
const char *record_type_name(uint8_t type);

#endif
