#ifndef CKPT_WRITE_H
#define CKPT_WRITE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Making a checkpoint, the directory CHECKPOINTS/step-000000001000.
 *
 * One process begins it, hands the temporary directory to those that can write
 * there (ckpt_write_server), receives the files of those that cannot
 * (ckpt_send_server there, ckpt_receive_... here), adds the description that
 * each of them gave, and commits.  Until the one rename in ckpt_commit readers
 * see nothing, and what failed is taken away: earlier checkpoints are never
 * touched.  Every file is allocated before it is written (a full disk shows
 * early) and synced; a file whose sync failed is never tried again, but
 * dropped.  One process at a time makes checkpoints in a directory; a file-size
 * limit must not kill it (ignore SIGXFSZ). */

#define CKPT_SLOTS_MAX 4
/* In a word of `width`: the row is wide, and the lower bits are its number in `rest`. */
#define CKPT_WIDE (UINT64_C(1) << 63)

/* A partition as it lies in memory, which stays as it is meanwhile. */
struct ckpt_part {
	const char *table;
	bool sparse;
	uint32_t part, cols;            /* cols: of a sparse row */
	uint64_t n;                     /* elements of a dense partition, rows of a sparse one */
	const uint64_t *ids;            /* sparse: n, ascending */
	/* Of a sparse table with a policy: the step at which each row was updated last (NULL: not known),
	 * and what the policy goes by; nlife words. */
	const uint64_t *seen, *life;
	size_t nlife;
	/* It has but the rows that have changed since the checkpoint that ckpt_base names.  live, where rows have
	 * gone since: the ids of all that there are, ascending. */
	bool changes;
	const uint64_t *live;
	size_t nlive;
	const float *w;                 /* n, or n * cols */
	const float *slot[CKPT_SLOTS_MAX];      /* of the update rule; nslots, each like w */
	/* Of a sparse table with rows that may be narrow (else NULL): of each row how often it was updated, or CKPT_WIDE and
	 * its number, in order, among the nwide wide ones; w and slot have `narrow` columns of each row, rest and
	 * rest_slot the others of the wide ones. */
	const uint64_t *width;
	uint32_t narrow;
	uint64_t nwide;
	const float *rest, *rest_slot[CKPT_SLOTS_MAX];
	unsigned nslots;                /* the same for all partitions */
	uint64_t version, step;
	uint64_t born;                  /* updates of before its rule began */
	const uint64_t *last;           /* nlast: by worker slot, what was taken; against doubles */
	size_t nlast;
};

/* Where the bytes of a server's files go: for each file begin, put in order and
 * in pieces of any size, end.  begin that succeeded is always followed by end,
 * with the file's BLAKE2b in hexadecimal digits, or with an error to be passed
 * on when the file is to be dropped. */
struct ckpt_sink {
	void *ctx;
	enum err_code (*begin)(void *ctx, const char *name, uint64_t size, struct err *e);
	enum err_code (*put)(void *ctx, const void *p, size_t n, struct err *e);
	enum err_code (*end)(void *ctx, enum err_code rc, const char *blake2b, struct err *e);
};

/* All of one server's partitions, as tensors TABLE.PART, of rows TABLE.PART.ids, and TABLE.PART.seen,
 * TABLE.PART.width, TABLE.PART.rest and TABLE.PART.life where there are such: as server-N.params.safetensors and, when they
 * have slots, server-N.state.safetensors.  *description is what ckpt_add wants:
 * {"files":[{"name","size","blake2b"}],"parts":[[table,part,file,"version","step",["last"...],"born",1]]}; born
 * is left out where it is 0, but before the 1, which only those with changes have.
 * ERR_FAILED for ids that do not ascend or slots that are not as many in all;
 * else errors of the sink.  No locks; any thread. */
enum err_code ckpt_send_server(unsigned server, const struct ckpt_part *parts, size_t nparts,
                               const struct ckpt_sink *to, json_t **description, struct err *e);
/* The same into directory dir.  ERR_IO. */
enum err_code ckpt_write_server(const char *dir, unsigned server, const struct ckpt_part *parts,
                                size_t nparts, json_t **description, struct err *e);

/* A file that comes in pieces.  name and size are believed only so far: ERR_PROTO
 * for a name that no server's file has, ERR_LIMIT for bytes beyond size.  check:
 * the digest is taken, to be compared at the end.  One thread at a time. */
struct ckpt_receive;
enum err_code ckpt_receive_begin(const char *dir, const char *name, uint64_t size, bool check,
                                 struct ckpt_receive **out, struct err *e);
enum err_code ckpt_receive_put(struct ckpt_receive *r, const void *p, size_t n, struct err *e);
/* Frees r.  With rc ERR_OK the file is made durable; ERR_FORMAT when bytes are
 * missing or it was to be checked and blake2b is another.  With an error the
 * file is dropped, and the error returned. */
enum err_code ckpt_receive_end(struct ckpt_receive *r, enum err_code rc, const char *blake2b,
                               struct err *e);

/* ---- the directory ----------------------------------------------------------------- */

struct ckpt;

/* Make checkpoints_dir where it is not, remove what earlier writers left
 * unfinished, and make a temporary directory.  ERR_IO. */
enum err_code ckpt_begin(const char *checkpoints_dir, uint64_t step, struct ckpt **out, struct err *e);
/* The temporary directory: absolute when checkpoints_dir is. */
const char *ckpt_tmp(const struct ckpt *c);
/* Partitions of which only changes are written have the rest in this checkpoint, which has all of its own: its
 * files become part of this one, by links.  Before ckpt_commit.  Errors of ckpt_open, ERR_IO. */
enum err_code ckpt_base(struct ckpt *c, const char *path, struct err *e);
/* Believes nothing: ERR_PROTO for a description that is none, ERR_FORMAT when a
 * file of it is not there or has another size; c is as before then. */
enum err_code ckpt_add(struct ckpt *c, const json_t *description, struct err *e);
/* head has "generation", "epoch" and "tables" (each with "name", "sparse",
 * "rows", "cols" and "parts", the number of its partitions), and may have
 * "name", "config", "optimizer", "mode", "slots", "data" and "eval"; others are
 * left out.  Every partition must have been added once: else ERR_FAILED.  A
 * checkpoint of the same step is replaced.  *path (may be NULL) is the
 * checkpoint, fresh.  Frees c, also on failure, when all is taken away. */
enum err_code ckpt_commit(struct ckpt *c, const json_t *head, char **path, struct err *e);
/* The same of one that was made elsewhere: its files are in the temporary directory, and this is the
 * text of its manifest. */
enum err_code ckpt_adopt(struct ckpt *c, const void *manifest, size_t n, char **path, struct err *e);
void ckpt_abort(struct ckpt *c);

/* What "digest_of_config" is: of the compact text with sorted keys. */
void ckpt_config_digest(const json_t *config, char hex[static 65]);

#endif
