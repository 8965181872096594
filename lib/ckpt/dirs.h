#ifndef CKPT_DIRS_H
#define CKPT_DIRS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The checkpoints of a run, directory CHECKPOINTS.  Directories that are being
 * made or removed, and names that are no checkpoint's, are not seen.  No locks:
 * one that is removed meanwhile is damaged, or not there. */
struct ckpt_entry {
	uint64_t step, generation;
	char *path;
	bool readable;                  /* the manifest: else no field below but why */
	bool whole;
	char *why;                      /* not whole: what is damaged; else NULL */
	uint64_t bytes;
	char *created;                  /* RFC 3339 */
	json_t *eval;                   /* NULL when there was none */
};

/* Oldest first: by generation, then step; behind them those whose manifest is
 * damaged.  every_byte: whole after ckpt_verify, else after ckpt_open, which
 * looks at the manifest and at sizes and shapes of all files.  A directory that
 * is not there has no checkpoints.  ERR_IO, ERR_NOMEM. */
enum err_code ckpt_list(const char *dir, bool every_byte, struct ckpt_entry **out, size_t *n, struct err *e);
void ckpt_list_free(struct ckpt_entry *list, size_t n);
/* One of them, which may be anywhere: fills out, to be given to
 * ckpt_entry_release.  ERR_NOMEM; damage is no error. */
enum err_code ckpt_look(const char *path, bool every_byte, struct ckpt_entry *out, struct err *e);
void ckpt_entry_release(struct ckpt_entry *entry);

/* The newest whole one, every byte compared; passed (may be NULL) hears of each
 * newer one that is damaged, and why.  *path is fresh.  ERR_NOTFOUND when none
 * is whole; ERR_IO, ERR_NOMEM. */
typedef void ckpt_passed_fn(void *ctx, const char *path, const char *why);
enum err_code ckpt_newest(const char *dir, ckpt_passed_fn *passed, void *ctx, char **path, struct err *e);

/* Which whole ones are kept: the last keep_last, those whose step is a multiple
 * of keep_every (0: none for that), and the keep_best of the lowest evaluation
 * loss, and `also`.  The newest whole one (every byte compared) always is; damaged ones are
 * kept only while they are newer (by the name, where the manifest is damaged).  When none is whole nothing is removed.
 * removed (may be NULL) hears of each. */
struct ckpt_keep {
	size_t last, best;
	uint64_t every;
	const char *also;               /* the path of one more; NULL: none */
};
typedef void ckpt_removed_fn(void *ctx, const char *path);
enum err_code ckpt_prune(const char *dir, const struct ckpt_keep *keep, ckpt_removed_fn *removed, void *ctx,
                         struct err *e);

/* Which of a list as ckpt_list has it ckpt_prune would remove when list[newest] is the newest whole
 * one: indices, the newest first, at out (n of them); how many there are. */
size_t ckpt_surplus(const struct ckpt_entry *list, size_t n, size_t newest, const struct ckpt_keep *keep, size_t *out);
/* What a manifest tells, to an entry that has its path; and the order of ckpt_list. */
void ckpt_entry_fill(struct ckpt_entry *entry, const json_t *manifest);
void ckpt_sort(struct ckpt_entry *list, size_t n);

/* Remove one, as a whole to all readers: renamed first.  A rest that a crash
 * leaves is removed by the next writer.  ERR_NOTFOUND; ERR_USAGE when path is
 * not named like a checkpoint; ERR_IO. */
enum err_code ckpt_remove(const char *path, struct err *e);

#endif
