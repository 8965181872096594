/* SPDX-License-Identifier: ISC */
#ifndef SHARD_CHANGE_LOG_H
#define SHARD_CHANGE_LOG_H

#include <stddef.h>
#include <stdint.h>

/* A log of changes: the version at which each of n values (n at most 65536) was last changed, in
 * two bytes a value, so that a puller that has an older version gets only the values that changed
 * since. No locks: the partition's lock covers it.
 *
 * Versions are stored relative to a base. When they would not fit any more, the older half of them
 * is merged into "changed before the base", which makes older pulls complete again instead of
 * wrong. */
struct change_log;

/* Makes a log of n values that knows nothing of changes before `version`. NULL: no memory. */
struct change_log *change_log_new(size_t n, uint64_t version);
/* Frees the log. NULL is fine. */
void change_log_free(struct change_log *s);
/* Bytes that a log of n values takes. */
size_t change_log_bytes(size_t n);
/* Forgets all changes: the present values count as made by this version. Costs a pass over all n
 * stamps. */
void change_log_reset(struct change_log *s, uint64_t version);
/* Notes the update that makes this version (not less than the last one): it has turned the n values
 * `old`, from place `at` on, into `now`. Values are compared bit by bit. */
void change_log_note(struct change_log *s, uint64_t version, size_t at, size_t n, const float *old,
    const float *now);
/* Writes the places of the values that changed after version `since`, in ascending order. Returns
 * their number, or SIZE_MAX when it is more than `most` or not known. */
size_t change_log_since(const struct change_log *s, uint64_t since, size_t most, uint32_t *place);

#endif
