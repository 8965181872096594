#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* One authenticated unit on the wire: a 64-byte header with its own tag, then
 * a payload of at most 1 MiB with its tag.  ps-protocol(7) draws the bytes. */
#define RECORD_HEADER 64
#define RECORD_TAG 16
#define RECORD_HEAD (RECORD_HEADER + RECORD_TAG)
#define RECORD_MAX (1u << 20)

enum msg_type {
#define MSG(name, number, roles, limit) REC_##name = number,
#include "wire/messages.def"
#undef MSG
};

enum record_flag {
	RECORD_TO_CLIENT = 1,   /* direction: set by servers, refused from clients */
	RECORD_LAST = 2,        /* SCANNED: no rows lie behind these */
	RECORD_NOW = 4,         /* PULL: outside every wait; PUSH: applied on arrival */
	RECORD_REPLY = 8,       /* CTL: answers the request with this seq */
	RECORD_REFUSED = 16,    /* CLOCK of a worker that refused its own gradient */
	RECORD_DELTA = 32,      /* PULL: versions follow the run; PULLED: only what has changed since; SCAN: since a step */
	RECORD_KEYS = 64,       /* PULL_ROWS, PUSH_ROWS: row ids are a block (ps-protocol(7)) */
	RECORD_EARLY = 128,     /* PULL: each partition as soon as its own step is complete */
	RECORD_SAVING = 256,    /* PULLED, ROWS: a checkpoint of this step is being taken */
	RECORD_TELL = 512,      /* PULL, PULLED, SCAN: no values.  With EARLY: when they might be shown; else when all are at the step */
};

struct record {
	uint8_t type;
	uint16_t flags;
	uint32_t len;           /* payload bytes */
	uint16_t table, codec;
	uint32_t part;
	uint32_t epoch, generation;
	uint32_t examples;      /* answers: number of membership entries that the server knows of */
	uint64_t step, seq;
	uint64_t offset;        /* PULL: 0 the parameters, k the k-th vector that the update rule keeps */
	uint64_t total;         /* of what comes in pieces: bytes of the whole; PULLED, ROWS, SCANNED: version; PROBE: bytes wanted back */
};

/* The one encoder and the one decoder of the header.  record_decode checks
 * magic, version, type and the type's payload limit. */
void record_encode(const struct record *r, uint8_t out[static RECORD_HEADER]);
enum err_code record_decode(const uint8_t in[static RECORD_HEADER], struct record *r, struct err *e);

/* May a peer of this role (number of auth/role.def) send this type? */
bool record_role_may(uint8_t type, unsigned role);
/* "push_rows"; NULL for a number that is no type. */
const char *record_type_name(uint8_t type);

#endif
