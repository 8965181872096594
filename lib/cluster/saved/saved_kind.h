/* SPDX-License-Identifier: ISC */
#ifndef SAVED_SAVED_KIND_H
#define SAVED_SAVED_KIND_H

/* The kinds of saved models, for the files of saved/. Each has a struct of its own, which begins
 * with struct saved_model. */
#include "math/stored_rows.h"
#include "saved/saved_model.h"

/* Elements of a dense table, or rows of a sparse one, that lie together in a mapped file. */
struct saved_extent {
	uint64_t n; /* elements or rows */
	/* u64 in little-endian order, at any alignment; NULL: the table is dense */
	const uint8_t *ids;
	/* their values; none: they do not lie together, and must be read */
	struct stored_rows w;
};

struct saved_model_ops {
	/* as saved_model_read; *out is empty */
	enum err_code (*read)(struct saved_model *m, const struct table *t, uint32_t part,
	    bool state, struct saved_part *out, struct err *e);
	/* Maps the files of a table: *n extents in order, a new array. One has the whole table, or
	 * each has a partition. They stay until the model is closed. ERR_IO, ERR_NOMEM. */
	enum err_code (*map)(struct saved_model *m, const struct table *t,
	    struct saved_extent **out, size_t *n, struct err *e);
	/* As saved_model_check. NULL: there is nothing to compare. */
	enum err_code (*check)(struct saved_model *m, uint64_t most, struct err *e);
	/* Ids that do not ascend are damage. Otherwise rows may lie in any order. */
	bool rows_ascend;
	/* Frees all but `layout`. */
	void (*free)(struct saved_model *m);
};

struct saved_model {
	const struct saved_model_ops *ops;
	struct layout layout;
	struct saved_about about; /* `layout` in it is set by saved_model_open */
};

/* Fills the layout from the list "tables" of a manifest or a file. ERR_PROTO, ERR_CONFIG. */
enum err_code saved_layout_fill(const json_t *tables, struct layout *out, struct err *e);
/* Makes room for n elements or rows: w and nvectors arrays of n * cols floats, and for a sparse
 * table n ids. ERR_NOMEM. */
enum err_code saved_part_alloc(const struct table *t, uint64_t n, unsigned nvectors,
    struct saved_part *out, struct err *e);

/* Opens a file. run: its run directory, whose state describes the model of a file of an older
 * pskit; NULL: none. Errors as saved_model_open. */
enum err_code saved_file_open(const char *path, const char *run, struct saved_model **out,
    struct err *e);
/* As saved_file_open without a run; takes ownership of fd, also on failure. name is for
 * messages. */
enum err_code saved_file_open_fd(int fd, const char *name, struct saved_model **out, struct err *e);
/* Downloads and opens a model file or a checkpoint at s3:// or https://. Also returns the errors of
 * the object store and of files in $TMPDIR. */
enum err_code saved_remote_open(const char *url, struct saved_model **out, struct err *e);
/* Does the name end as that of a checkpoint, step-N? Pure. */
bool saved_remote_is_checkpoint(const char *url);
/* Opens a checkpoint. verified: every byte of it has been compared; else saved_model_check does
 * that. */
enum err_code saved_checkpoint_open(const char *path, bool verified, struct saved_model **out,
    struct err *e);
/* Opens a copy of a checkpoint, which may be removed as soon as it is open. name is what messages
 * call it. */
enum err_code saved_checkpoint_open_copy(const char *path, const char *name,
    struct saved_model **out, struct err *e);

#endif
