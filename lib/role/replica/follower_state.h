/* SPDX-License-Identifier: ISC */
#ifndef REPLICA_FOLLOWER_STATE_H
#define REPLICA_FOLLOWER_STATE_H

/* The inside of a follower, shared by follower.c, follower_save.c and follower_take.c. From
 * follower_start on the follower's thread owns all of it, but for `end`. */
#include <pthread.h>

#include "ckpt/write.h"
#include "replica/follower.h"
#include "replica/quality.h"
#include "session/identity.h"
#include "shard/shard.h"
#include "tool/tool.h"

/* A table of the source, with the shape that it had in follower_open. */
struct follower_table {
	char name[TABLE_NAME];
	bool sparse;
	uint64_t rows;
	uint32_t cols, nparts;
	int here; /* its number in our server; -1: not known yet */
	/* The table has another shape now, or is dropped: our values stay as they are. */
	bool changed;
	/* Dense: all values, and the version of each partition that our server has (or UNKNOWN). */
	float *w;
	uint64_t *version;
	bool asked; /* dense: in the present turn */
	/* The present connection has brought `w`: changes alone may be pulled. */
	bool based;
	/* Sparse: the first step whose updates we may not have; CLIENT_ALL: we have nothing. */
	uint64_t since;
	/* Sparse, and the source does not know what has changed: when to fetch all again
	 * (clock_now). */
	int64_t due;
};
#define UNKNOWN UINT64_MAX
/* The number of partitions of a sparse table that are pulled together, and are in memory
 * together. */
#define FOLLOWER_GROUP 32u

struct follower {
	struct log *log;
	struct identity id;
	struct admin_client tool;
	bool connected;
	/* The generation of the source's layout, to which our versions and steps belong. */
	uint32_t generation;
	struct follower_table *table;
	size_t ntables;

	struct follower_target target;
	int64_t fresh, last;     /* last: when the source had the values that are here */
	struct interrupt end;    /* follower_close makes it readable */
	struct quality *quality; /* NULL: serve_if is not set */
	/* lost: the source is unreachable, held: its values are not good enough; that has been
	 * logged. */
	bool running, lost, held;
	pthread_t thread;
};

/* follower_save.c: save all parameters as a checkpoint in this directory. The caller frees *path. */
enum err_code follower_save(struct follower *m, const char *checkpoints, char **path,
    struct err *e);
/* follower_take.c: does our server have all tables of the source by now? */
bool follower_has_tables(struct follower *m, struct shard *shard);
/* follower_take.c: pull everything that has changed, and assign it to the shard. */
enum err_code follower_update(struct follower *m, struct shard *shard, struct err *e);

#endif
