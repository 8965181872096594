/* SPDX-License-Identifier: ISC */
#ifndef CKPT_WRITE_H
#define CKPT_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/read.h"
#include "core/err.h"
#include "core/json.h"
#include "math/element.h"
#include "msg/manifest.h"

/* Making a checkpoint, the directory CHECKPOINTS/step-000000001000.
 *
 *   ckpt_begin --> ckpt_base (delta only) --> files are written --> ckpt_add for each server
 *      --> ckpt_commit, which renames the temporary directory, or ckpt_abort, which removes it
 *
 * One process begins it and gives the temporary directory to servers that can write there
 * (ckpt_write_server). It receives the files of the others (ckpt_send_server there,
 * ckpt_receive_... here), adds the description that each server gave, and commits. Readers see
 * nothing before the rename in ckpt_commit, and a failure removes everything: earlier
 * checkpoints are never touched.
 *
 * Every file is allocated before it is written, so that a full disk shows early, and synced; a
 * file whose sync failed is dropped, never synced again. Only one process at a time makes
 * checkpoints in a directory. A file-size limit must not kill it (ignore SIGXFSZ). */

struct ckpt_part;

/* The rows of a partition that are not in memory. `load` sets the arrays ids, seen, w and vector of the
 * part, and `unload` frees them; it is called for several parts one after another, and for each several
 * times. Errors of `load` are those of ckpt_send_server. */
struct ckpt_rows {
	enum err_code (*load)(struct ckpt_rows *rows, struct ckpt_part *part, struct err *e);
	void (*unload)(struct ckpt_rows *rows, struct ckpt_part *part);
	bool dated; /* the part has the array `seen` */
};

/* A partition, which must not change while it is written. */
struct ckpt_part {
	const char *table;
	bool sparse;
	uint32_t part, cols; /* cols: of a sparse row */
	/* The type of the values in the file; w has only values that this type has. Optimizer state
	 * is float32. */
	enum element_type values;
	uint64_t n;          /* elements of a dense partition, rows of a sparse one */
	const uint64_t *ids; /* sparse: n ids, ascending */
	/* Sparse tables with a row policy: the step of each row's last update (NULL: not known),
	 * and npolicy_words words of the policy's state. */
	const uint64_t *seen, *policy_words;
	size_t npolicy_words;
	/* Delta checkpoints: only the rows that have changed since the checkpoint given to
	 * ckpt_base. If rows were removed since then, live has the ids of all remaining rows,
	 * ascending. */
	bool changes;
	const uint64_t *live;
	size_t nlive;
	const float *w;                        /* n values, or n * cols */
	const float *vector[CKPT_VECTORS_MAX]; /* optimizer state: nvectors arrays like w, but of */
	uint32_t vector_cols[CKPT_VECTORS_MAX]; /* sparse: floats of a row in each, cols or 1 */
	unsigned nvectors;                      /* the same for all partitions of a table */
	/* Sparse: how the arrays above are read; NULL: they are in memory. */
	struct ckpt_rows *rows;
	uint64_t version, step;
	uint64_t born; /* updates before the update rule's state began */
	/* nlast numbers, by rank: the last push applied; detects duplicates */
	const uint64_t *last;
	size_t nlast;
};

/* Receives the bytes of a server's files. For each file: begin, then put in order with pieces of
 * any size, then end. A begin that succeeded is always followed by end, with the file's BLAKE2b
 * in hexadecimal, or with an error (which end returns) when the file is to be dropped. */
struct ckpt_sink {
	void *ctx;
	enum err_code (*begin)(void *ctx, const char *name, uint64_t size, struct err *e);
	enum err_code (*put)(void *ctx, const void *p, size_t n, struct err *e);
	enum err_code (*end)(void *ctx, enum err_code rc, const char *blake2b, struct err *e);
};

/* Write all partitions of one server to a sink: as server-N.params.safetensors with tensors
 * TABLE.PART and, where they exist, TABLE.PART.ids, .seen and .life; and, if they
 * have optimizer state, as server-N.state.safetensors. *description is for ckpt_add:
 * {"files":[{"name","size","blake2b"}],
 *  "parts":[[table,part,file,"version","step",["last"...],"born",1]]}.
 * born is left out where it is 0, unless the 1 follows, which marks a partition with changes
 * only. ERR_FAILED: ids do not ascend, or partitions differ in their number of vectors; else
 * errors of the sink. No locks; any thread. */
enum err_code ckpt_send_server(unsigned server, const struct ckpt_part *parts, size_t nparts,
    const struct ckpt_sink *to, json_t **description, struct err *e);
/* Write the files into directory dir instead. ERR_IO. */
enum err_code ckpt_write_server(const char *dir, unsigned server, const struct ckpt_part *parts,
    size_t nparts, json_t **description, struct err *e);

/* Receive a file in pieces. name and size come from outside and are checked: ERR_PROTO for a
 * name that no server's file has, ERR_LIMIT for bytes beyond size. check: compute the digest and
 * compare it at the end. One thread at a time. */
struct ckpt_receive;
enum err_code ckpt_receive_begin(const char *dir, const char *name, uint64_t size, bool check,
    struct ckpt_receive **out, struct err *e);
enum err_code ckpt_receive_put(struct ckpt_receive *r, const void *p, size_t n, struct err *e);
/* Finish and free r. With rc ERR_OK the file is made durable; ERR_FORMAT when bytes are missing
 * or the digest is not blake2b. With any other rc the file is dropped and rc returned. */
enum err_code ckpt_receive_end(struct ckpt_receive *r, enum err_code rc, const char *blake2b,
    struct err *e);

/* ---- the directory ---- */

struct ckpt;

/* Make checkpoints_dir if it is missing, remove what earlier writers left unfinished, and make a
 * temporary directory. ERR_IO. */
enum err_code ckpt_begin(const char *checkpoints_dir, uint64_t step, struct ckpt **out,
    struct err *e);
/* The temporary directory: an absolute path when checkpoints_dir is one. */
const char *ckpt_tmp(const struct ckpt *c);
/* Name the full checkpoint that has the unchanged rows of a delta checkpoint. Its files become
 * part of this one, as hard links. Call before ckpt_commit. Errors of ckpt_open; ERR_IO. */
enum err_code ckpt_base(struct ckpt *c, const char *path, struct err *e);
/* Write a large description of the training data (msg/large_description.h) as a file of the
 * checkpoint. Its manifest must refer to it. At most once. ERR_IO. */
struct large_description;
enum err_code ckpt_describe(struct ckpt *c, const struct large_description *d, struct err *e);
/* Add a server's description, after checking it: ERR_PROTO when it is malformed, ERR_FORMAT when
 * one of its files is missing or has another size. c is unchanged after an error. */
enum err_code ckpt_add(struct ckpt *c, const json_t *description, struct err *e);
/* Do the partitions that were added have the values of the checkpoint's step? They must in bsp; in
 * other modes each has a step of its own. ERR_FAILED names one that has not. */
enum err_code ckpt_check_step(const struct ckpt *c, struct err *e);
/* Write the manifest and publish the checkpoint. head must have the generation, the epoch and the
 * tables; other members that it lacks are null in the manifest. ERR_FAILED unless every partition
 * was added once. A checkpoint of the same step is replaced. *path (may be NULL) is a fresh string.
 * Frees c in any case; after an error everything is removed. */
enum err_code ckpt_commit(struct ckpt *c, const struct manifest_head *head, char **path,
    struct err *e);
/* Publish a checkpoint that was made elsewhere: its files are in the temporary directory, and
 * `manifest` is the text of its manifest. Otherwise like ckpt_commit. */
enum err_code ckpt_adopt(struct ckpt *c, const void *manifest, size_t n, char **path,
    struct err *e);
/* Remove everything and free c, which may be NULL. */
void ckpt_abort(struct ckpt *c);

/* The manifest's "digest_of_config": the digest of the compact text with sorted keys. */
void ckpt_config_digest(const json_t *config, char hex[static 65]);

#endif
