#ifndef CKPT_STORE_H
#define CKPT_STORE_H

#include "ckpt/dirs.h"
#include "object/client.h"

/* Checkpoints in an object store.  AT is "s3://BUCKET/PREFIX/NAME": a checkpoint is the objects
 * AT/step-000000001000/FILE.  MANIFEST.json is put last and removed first: without it, or with
 * files of other sizes than it states, there is none.  Errors as of object/client.h. */

/* As ckpt_list, with names of objects as paths; digests are not compared. */
enum err_code ckpt_store_list(struct object_client *c, const char *at, struct ckpt_entry **out, size_t *n, struct err *e);

/* The whole ones of directory dir that are not there, the newest first; then those that are there
 * and not to be kept are removed (keep as of ckpt_prune), and what was left half-written.  One that
 * is pruned from dir meanwhile may be left out.  stored hears of each when its manifest is there. */
typedef void ckpt_stored_fn(void *ctx, const char *name, const struct ckpt_entry *entry);
enum err_code ckpt_store_push(struct object_client *c, const char *dir, const char *at, const struct ckpt_keep *keep,
                              ckpt_stored_fn *stored, void *ctx, struct err *e);

struct ckpt_fetching {
	ckpt_passed_fn *passed;
	void (*begins)(void *ctx, const char *name, uint64_t bytes);
	void *ctx;
};
/* One into directory dir, as ckpt_commit makes them, every byte compared with the manifest's
 * digests.  from: one checkpoint (of s3:// or https://), or an AT: then the newest whole one.
 * newer: but nothing (*path NULL) when dir has that, or a later one; passed hears of each that is damaged,
 * and begins of the one that is fetched.  ERR_NOTFOUND: there is none. */
enum err_code ckpt_store_fetch(struct object_client *c, const char *from, const char *dir, bool newer,
                               const struct ckpt_fetching *tell, char **path, struct err *e);

/* One that is named.  ERR_NOTFOUND; ERR_USAGE when it is not named like a checkpoint. */
enum err_code ckpt_store_remove(struct object_client *c, const char *name, struct err *e);

#endif
