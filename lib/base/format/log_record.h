/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_LOG_RECORD_H
#define FORMAT_LOG_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"

/* How the process that reads a topic (ps-ctl topic read) and the worker that trains on it talk.
 *
 * The worker writes lines to its standard input:
 *
 *   seek PARTITION PLACE SERIAL N BYTES
 *                                   read from this place on, and send up to N events of up to BYTES bytes
 *                                   in all, the last of which may exceed that; -1: from where a new job
 *                                   begins; -2: from the oldest event on. SERIAL is repeated in the
 *                                   records of the partition from now on
 *   more PARTITION N BYTES          send up to N more events, and up to BYTES more bytes
 *   drop PARTITION                  read it no more
 *   commit PARTITION PLACE          tell the broker that the group has all events before this place
 *
 * It answers by records: a header of 32 bytes, all numbers little-endian, and `len` bytes. */
enum log_record_kind {
	LOG_RECORD_PARTITIONS = 1, /* the topic has `partition` partitions; the first record */
	LOG_RECORD_SEEK = 2,       /* it reads from `place` on */
	LOG_RECORD_EVENT = 3,      /* an event at `place`; the next one is at `next` or after it */
	LOG_RECORD_SKIP = 4,       /* there is no event from `place` up to `next` */
	LOG_RECORD_END = 5         /* the log ends at `place` now */
};

struct log_record {
	enum log_record_kind kind;
	uint32_t partition, serial, len;
	int64_t place, next;
};
#define LOG_RECORD_BYTES 32u
/* No event is longer. */
#define LOG_RECORD_LEN_MAX ((uint32_t)64 << 20)

/* Appends a record with r->len bytes at p. */
void log_record_put(struct buf *out, const struct log_record *r, const void *p);
/* Decodes a header. False: it is none. */
bool log_record_get(const uint8_t header[static LOG_RECORD_BYTES], struct log_record *out);

#endif
