#ifndef SHARD_STAMPS_H
#define SHARD_STAMPS_H

#include <stddef.h>
#include <stdint.h>

/* When each of n values (n at most 65536) was changed last: two bytes a value, so that
 * who has them as of a version is told no more than what has changed since.  No locks:
 * the partition's covers it. */
struct stamps;

/* NULL: no memory.  Nothing is known of before `version`. */
struct stamps *stamps_new(size_t n, uint64_t version);
void stamps_free(struct stamps *s);
size_t stamps_bytes(size_t n);
/* Forget: what there is now is of this version. */
void stamps_reset(struct stamps *s, uint64_t version);
/* The update that makes this version (none less than the last) has made `now` of
 * `old`, n values from place `at` on. */
void stamps_note(struct stamps *s, uint64_t version, size_t at, size_t n, const float *old, const float *now);
/* The places of what has been changed after `since`, ascending; SIZE_MAX when they are
 * more than `most`, or not known. */
size_t stamps_since(const struct stamps *s, uint64_t since, size_t most, uint32_t *place);

#endif
