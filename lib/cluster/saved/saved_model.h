/* SPDX-License-Identifier: ISC */
#ifndef SAVED_SAVED_MODEL_H
#define SAVED_SAVED_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/write.h"
#include "core/err.h"
#include "core/json.h"
#include "layout/layout.h"

/* A model that lies on the disk:
 *
 *   a file        written by ps-ctl export all, or by a run at its end. It has the values of all
 *                 tables, and no optimizer state. At s3:// or https:// it is downloaded first.
 *   a checkpoint  the directory, with optimizer state. At s3:// or https:// its name must end in step-N, and
 *                 it is downloaded first.
 *   a run         the run directory of a run that has ended: its newest checkpoint if that has the
 *                 last values, else its model.safetensors, else its newest checkpoint.
 *
 * saved_model_open finds out which of them a path names; its callers see no difference. An open
 * model stays readable when its files are renamed. Memory: of a file, 12 bytes for each row of the
 * sparse table that is read. No locks: one thread at a time. */
struct saved_model;

/* The facts about a model. All of it is borrowed from the model. */
struct saved_about {
	const char *path;      /* the file or the checkpoint */
	const json_t *config;  /* of the cluster, or what of it goes with a model */
	const json_t *facts;   /* of the training data (msg/training_facts.h); NULL: not known */
	const char *optimizer; /* the update rule whose state can be read; NULL: there is none */
	bool foreign;          /* there is, but of another version of pskit */
	/* The shapes of the tables, which no server has. Dropped tables are left out. */
	const struct layout *layout;
};

/* Could this path be meant as a model? True for a checkpoint, for a directory with a saved model or
 * checkpoints, for any name that ends in .safetensors (in a URL, before its "?"), and for a URL
 * that ends in step-N. */
bool saved_model_is_named(const char *path);
/* ERR_NOTFOUND: there is no such file, or no model in the directory. ERR_FORMAT: it is damaged, or
 * the file does not describe its model. ERR_UNSUPPORTED: a later version. The digests of a
 * checkpoint are compared with every byte. */
enum err_code saved_model_open(const char *path, struct saved_model **out, struct err *e);
/* As saved_model_open, but leaves the digests of a checkpoint to saved_model_check, which compares
 * the next `most` bytes: ERR_FORMAT, and what has been read is worthless. */
enum err_code saved_model_open_unchecked(const char *path, struct saved_model **out, struct err *e);
enum err_code saved_model_check(struct saved_model *m, uint64_t most, struct err *e);
/* NULL is fine. */
void saved_model_close(struct saved_model *m);
struct saved_about saved_model_about(const struct saved_model *m);

/* A partition of a table: n elements of a dense one, or n rows of a sparse one with ascending ids.
 * Optimizer state: nvectors arrays like w, but of vector_cols[k] floats for each row of a sparse
 * table. */
struct saved_part {
	uint64_t n;
	uint64_t *ids;
	float *w, *vector[CKPT_VECTORS_MAX];
	unsigned nvectors;
	uint32_t vector_cols[CKPT_VECTORS_MAX];
	uint64_t version, born; /* updates made, and made before the optimizer state began */
};
/* Reads a partition of a table of the model's layout; state false: without optimizer state.
 * saved_part_release frees *out, also after an error. ERR_FORMAT, ERR_IO, ERR_NOMEM. */
enum err_code saved_model_read(struct saved_model *m, const struct table *t, uint32_t part,
    bool state, struct saved_part *out, struct err *e);
void saved_part_release(struct saved_part *p);

/* Writes the model as the checkpoint of step 0 in the directory `checkpoints`, from which a cluster
 * with this configuration can begin. Without a job, or read_only, it gets no optimizer state;
 * otherwise that of the model if the update rule is the same, else the state that its rule begins
 * with. *path (to be freed) is the checkpoint. At most about 64 MiB of values are in memory at a
 * time. Errors as saved_model_read and ckpt_commit; ERR_CONFIG; ERR_NONFINITE: a dense table has a
 * value that is not a finite number. */
enum err_code saved_model_write(struct saved_model *m, const json_t *config,
    const char *checkpoints, char **path, struct err *e);

/* Commits a checkpoint of tables with this layout; c is freed in any case. config: of the cluster,
 * whose optimizer, mode and, where `name` is NULL, name the manifest gets. The caller frees *path.
 * Errors of ckpt_commit and conf_from_json. */
enum err_code saved_commit(struct ckpt *c, const struct layout *l, const char *name,
    const json_t *config, const struct manifest_data *data, char **path, struct err *e);

#endif
