/* SPDX-License-Identifier: ISC */
#ifndef CKPT_DIRS_H
#define CKPT_DIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

/* The checkpoints of a run: list, inspect, prune and remove the directories below CHECKPOINTS.
 * Directories that are being made or removed, and names that no checkpoint has, are skipped. No
 * locks: a checkpoint that another process removes meanwhile appears damaged or missing. */
struct ckpt_entry {
	uint64_t step, generation;
	char *path;
	bool readable; /* the manifest is sound; if not, only path, step and why are set */
	bool whole;
	/* It could not be read (ERR_IO: the disk failed, no descriptor was free), so nobody knows
	 * whether it is whole. It must not be removed or passed over like a damaged one: the next
	 * attempt may succeed. */
	bool unread;
	char *why; /* what is damaged, or why it could not be read; NULL when whole */
	uint64_t bytes;
	char *created; /* time in RFC 3339 */
	json_t *eval;  /* the evaluation at that step, or NULL */
	double loss;   /* the loss in it, or NAN */
};

/* Does the directory `path` have a manifest, as a checkpoint has? */
bool ckpt_is_there(const char *path);

/* All checkpoints in dir, oldest first: by generation, then step; after them all whose
 * manifest is damaged. `whole` means that ckpt_verify succeeds (every_byte) or that ckpt_open
 * does, which checks the manifest and the sizes and shapes of all files. A missing dir has no
 * checkpoints. ERR_IO, ERR_NOMEM. */
enum err_code ckpt_list(const char *dir, bool every_byte, struct ckpt_entry **out, size_t *n,
    struct err *e);
void ckpt_list_free(struct ckpt_entry *list, size_t n);
/* Inspect one checkpoint at any place; release *out with ckpt_entry_release. Damage is reported
 * in *out and is not an error. ERR_NOMEM. */
enum err_code ckpt_look(const char *path, bool every_byte, struct ckpt_entry *out, struct err *e);
/* Free the members and zero the entry. */
void ckpt_entry_release(struct ckpt_entry *entry);

/* The newest checkpoint of which every byte is right. passed (may be NULL) is called for each newer
 * one that is damaged, with the reason. *path is a fresh string. ERR_NOTFOUND: there are no
 * checkpoints; ERR_FORMAT: all are damaged; ERR_NOMEM; ERR_IO: the directory, or the checkpoint
 * *path, which may be the newest, cannot be read. */
typedef void ckpt_passed_fn(void *ctx, const char *path, const char *why);
enum err_code ckpt_newest(const char *dir, ckpt_passed_fn *passed, void *ctx, char **path,
    struct err *e);
/* Does what ckpt_newest does, but reads only manifests, and the sizes and shapes of files: other
 * bytes of *path may be damaged. known (may be NULL) returns why a checkpoint counts as damaged
 * already, or NULL. */
typedef const char *ckpt_known_fn(void *ctx, const char *path);
enum err_code ckpt_newest_by_manifest(const char *dir, ckpt_known_fn *known, ckpt_passed_fn *passed,
    void *ctx, char **path, struct err *e);

/* Which checkpoints pruning keeps: the newest `last`, those whose step is a multiple of `every` (0:
 * none), the `best` ones with the lowest evaluation loss, the one at `step` (0: none), and `also`.
 * The newest whole one is always kept. Damaged ones are kept only while they are newer than it (by
 * their name, if the manifest is damaged), and those that cannot be read. If none is whole nothing
 * is removed. removed (may be NULL) is called for each removal. */
struct ckpt_keep {
	size_t last, best;
	uint64_t every, step;
	const char *also; /* path of one more checkpoint to keep, or NULL */
	/* path of one that the caller has just written, and need not be read to find out whether it
	 * is whole, or NULL */
	const char *written;
};
typedef void ckpt_removed_fn(void *ctx, const char *path);
enum err_code ckpt_prune(const char *dir, const struct ckpt_keep *keep, ckpt_removed_fn *removed,
    void *ctx, struct err *e);

/* The entries of a sorted list that ckpt_prune would remove if list[newest] were the newest
 * whole one: their indices, newest first, in out (room for n). Returns how many. */
size_t ckpt_surplus(const struct ckpt_entry *list, size_t n, size_t newest,
    const struct ckpt_keep *keep, size_t *out);
/* Fill in the members that a manifest gives, for an entry that has its path. Sort a list as
 * ckpt_list does. */
struct manifest;
void ckpt_entry_fill(struct ckpt_entry *entry, const struct manifest *manifest);
void ckpt_sort(struct ckpt_entry *list, size_t n);

/* Remove a checkpoint. It is renamed first, so that readers never see a part of it; the next
 * writer removes what a crash leaves. ERR_NOTFOUND; ERR_USAGE: path is not named like a
 * checkpoint; ERR_IO. */
enum err_code ckpt_remove(const char *path, struct err *e);

#endif
