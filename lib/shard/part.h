#ifndef SHARD_PART_H
#define SHARD_PART_H

/* Inside of a shard: one partition, and the gate.  part_*() are called with
 * the partition's lock held and allocate only what a sparse row needs. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/hist.h"
#include "shard/rows.h"
#include "shard/shard.h"

struct shard_table {
	struct table shape;             /* runs not filled */
	struct part **part;             /* by partition; NULL: not ours */
};

struct part {
	pthread_mutex_t lock;
	const struct table *table;
	uint32_t index, n;              /* n: elements of a dense partition */
	uint64_t version;               /* updates applied */
	uint64_t step;                  /* bsp: the step that is open */
	uint64_t *last;                 /* by slot: highest step taken, plus 1 */
	size_t nlast;
	bool waited;                    /* somebody was told to hold */
	bool prev_same;                 /* the last step changed nothing: prev is w */

	/* dense: n parameters, then nslots * n of optimizer state */
	float *w, *state, *acc, *prev;
	/* sparse: rows of (1 + nslots) * cols; acc and prev by id */
	struct rows *rows, *acc_rows, *prev_rows;

	uint64_t acc_examples;          /* stated by the contributions in acc */
	unsigned contributions;         /* of the open step, refused ones not counted */
};

struct gate {
	pthread_mutex_t lock;
	struct sync sync;
	bool closing;                   /* one thread makes the updates of a step */
};

#define SHARD_TABLES 65536

struct shard {
	struct shard_config cfg;
	struct gate gate;
	struct shard_table *_Atomic *table;     /* SHARD_TABLES places; set once, then read freely */
	_Atomic uint32_t ntables;
	_Atomic uint64_t status[PUSH_SPLIT + 1], pulls;
	struct hist staleness, apply_time;
};

struct part *part_new(const struct shard_config *cfg, const struct table *t, uint32_t index, struct err *e);
void part_free(struct part *p);

/* acc += examples * gradient. */
bool part_accumulate(struct part *p, const struct shard_config *cfg, const struct push *push);
/* One update from the sum, divided by `examples`; prev keeps what was. */
bool part_close(struct part *p, const struct shard_config *cfg, uint64_t examples);
/* One update straight from a push. */
bool part_apply(struct part *p, const struct shard_config *cfg, const struct push *push);

/* Initial values: a function of table, seed and place alone. */
void init_fill(const struct table *t, uint64_t first, size_t n, float *out);
uint64_t init_row_place(const struct table *t, uint64_t id);

#endif
