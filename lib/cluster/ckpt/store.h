/* SPDX-License-Identifier: ISC */
#ifndef CKPT_STORE_H
#define CKPT_STORE_H

#include "ckpt/dirs.h"
#include "object/client.h"

/* Checkpoints in an object store. AT is "s3://BUCKET/PREFIX/NAME"; a checkpoint is the objects
 * AT/step-000000001000/FILE. MANIFEST.json is put last and removed first: a checkpoint without
 * it, or with files of other sizes than it states, does not count. Errors are as in
 * object/client.h. One thread at a time for each client. */

/* Like ckpt_list, with object names as paths. Digests are not compared. */
enum err_code ckpt_store_list(struct object_client *c, const char *at, struct ckpt_entry **out,
    size_t *n, struct err *e);

/* Upload the whole checkpoints of directory dir that the store lacks, newest first. Then remove
 * from the store unfinished uploads and checkpoints that `keep` does not keep (as in
 * ckpt_prune). A checkpoint that is pruned from dir meanwhile may be skipped. stored is called
 * when a checkpoint is complete in the store. */
typedef void ckpt_stored_fn(void *ctx, const char *name, const struct ckpt_entry *entry);
enum err_code ckpt_store_push(struct object_client *c, const char *dir, const char *at,
    const struct ckpt_keep *keep, ckpt_stored_fn *stored, void *ctx, struct err *e);

struct ckpt_fetching {
	ckpt_passed_fn *passed;
	void (*begins)(void *ctx, const char *name, uint64_t bytes);
	void *ctx;
};
/* Download a checkpoint into directory dir, as ckpt_commit would make it, and compare every byte
 * with the manifest's digests. from: a checkpoint (s3:// or https://), or an AT, which means its
 * newest whole one. newer: download nothing (*path is NULL) when dir has that checkpoint or a
 * later one. tell->passed is called for each damaged checkpoint, tell->begins before the
 * download. ERR_NOTFOUND: there is none. */
enum err_code ckpt_store_fetch(struct object_client *c, const char *from, const char *dir,
    bool newer, const struct ckpt_fetching *tell, char **path, struct err *e);

/* Remove the checkpoint with this object name. ERR_NOTFOUND; ERR_USAGE: not named like a
 * checkpoint. */
enum err_code ckpt_store_remove(struct object_client *c, const char *name, struct err *e);

#endif
