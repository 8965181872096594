#ifndef COORD_LAYOUT_H
#define COORD_LAYOUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coord/policy.h"

/* Tables, how their shapes cut them into partitions, and which servers hold
 * which partitions.  Pure data; the owner locks. */

/* A dense table is cut into runs of this many elements (256 KiB), so that a
 * partition stays in the L2 cache from the socket to the sum. */
#define PART_ELEMENTS 65536u
#define CHAIN_MAX 3
#define NO_SERVER UINT16_MAX
#define TABLE_NAME 64
#define TABLE_PIECES 32u
#define TABLE_ELEMENTS_MAX (UINT64_C(1) << 40)

/* Partitions that lie on the same servers.  Pushes go to the chain's first
 * server and along it; pulls are answered by its last, which has only what all
 * before it have. */
struct run {
	uint32_t first, count;          /* partitions */
	uint16_t chain[CHAIN_MAX];
	uint8_t nchain;                 /* 0: no copy is left */
	uint16_t joining;               /* is being given a copy by the last; or NO_SERVER */
	uint16_t leaving;               /* goes when `joining` has its copy; or NO_SERVER */
	bool copied;                    /* it has; the coordinator's note, not in JSON */
};

enum table_init { TABLE_ZEROS, TABLE_UNIFORM, TABLE_FILE };

/* From this partition on a dense table is cut anew: it has grown, and the partition before stays
 * as short as it was. */
struct table_piece {
	uint32_t part;
	uint64_t element;               /* where it begins */
};

struct table {
	uint16_t id;
	char name[TABLE_NAME];
	bool sparse, decay;             /* decay: l1 and l2 act on it */
	bool reduced;                   /* the workers sum its gradients: of each step one push comes, of their mean */
	uint64_t rows;                  /* sparse: a hint, cuts the table, bounds nothing */
	uint32_t cols;                  /* sparse: the row's width */
	uint32_t nparts;
	enum table_init init;
	float init_limit;               /* uniform in -limit .. limit */
	uint64_t seed;
	struct row_policy policy;       /* sparse: which ids get a row, how wide, and for how long */
	/* Made while the cluster ran, not by the job's model; it is no more, and its number stays
	 * taken; the step at which its newest partitions begin to count steps. */
	bool added, dropped;
	uint64_t since;
	struct table_piece piece[TABLE_PIECES];       /* ascending; the table's beginning is none of them */
	unsigned npieces;
	struct run *run;
	size_t nruns;
};

/* Columns that a row of a sparse table has from the beginning. */
static inline uint32_t table_first_cols(const struct table *t)
{
	return t->policy.narrow && t->policy.narrow < t->cols ? t->policy.narrow : t->cols;
}

struct layout {
	uint32_t epoch, generation;
	/* By server: a number for its zone, of which copies are put in different ones.  NULL:
	 * all are in one.  Borrowed; not in JSON. */
	const uint16_t *zone;
	struct table *table;
	size_t ntables, cap;
	/* By the hash of a name: a table's number, plus 1; 0: none.  nindex is a power of two. */
	uint16_t *index;
	size_t nindex;
};

void layout_release(struct layout *l);
/* Room for all tables that there may ever be, so that none moves when others
 * are added; costs memory only for those that are there. */
void layout_reserve(struct layout *l);
/* Make `l` what `fresh` is; tables that both have stay where they are, and may have grown or be
 * dropped now.  Takes fresh's contents.  False, with `l` as it was, when a table of `l` is another
 * one in `fresh`, or not there: tables keep their numbers for good. */
bool layout_update(struct layout *l, struct layout *fresh);
/* Add a table by shape: sets id and nparts.  ERR_EXISTS when the name is there
 * with another shape; the same shape again is fine (*out is the old one). */
enum err_code layout_add(struct layout *l, const struct table *shape, struct table **out, struct err *e);
const struct table *layout_find(const struct layout *l, const char *name);
/* A dense table gets rows behind those that it has: the partitions that are there stay as they
 * are, others come.  ERR_NOTFOUND, ERR_CONFIG: it is sparse, or not smaller; ERR_LIMIT. */
enum err_code layout_grow(struct layout *l, const char *name, uint64_t rows, uint64_t since, struct err *e);
/* Its name is free, its number is not; false: there is none of that name. */
bool layout_drop(struct layout *l, const char *name);
/* Deal the partitions that have no run yet over the n servers that are named, each to `replicas`
 * of them (or to all, when there are fewer): evenly by elements and in long runs, starting each
 * table where least lies. */
void layout_place(struct layout *l, const uint16_t *server, size_t n, unsigned replicas);

/* Elements of one dense partition, and where it begins. */
uint32_t table_part_elements(const struct table *t, uint32_t part);
uint64_t table_part_begin(const struct table *t, uint32_t part);
/* Into how many its shape cuts it. */
uint32_t table_cut(const struct table *t);
/* The partition of a sparse row. */
uint32_t table_part_of(const struct table *t, uint64_t id);
/* Those of n rows; a sparse table has no more of them than a u16 tells apart. */
void table_parts_of(const struct table *t, const uint64_t *ids, size_t n, uint16_t *part);
/* Where a partition lies; NULL when placed nowhere. */
const struct run *table_run(const struct table *t, uint32_t part);
/* The servers that take its pushes and answer its pulls; NO_SERVER: none. */
uint16_t table_head(const struct table *t, uint32_t part);
uint16_t table_tail(const struct table *t, uint32_t part);
/* The server's place in the chain, or -1. */
int run_place(const struct run *r, unsigned server);
/* Of how many partitions it has the only copy. */
uint32_t layout_only(const struct layout *l, unsigned server);
uint64_t table_elements(const struct table *t);         /* dense: rows * cols */

json_t *layout_to_json(const struct layout *l);
/* The tables that there are, as table_to_json, each with "parts": as checkpoints have them. */
json_t *layout_tables(const struct layout *l);
/* ERR_PROTO, ERR_CONFIG: not what layout_to_json writes; *out is then empty. */
enum err_code layout_from_json(const json_t *j, struct layout *out, struct err *e);
/* One table's shape as a worker proposes it ("name","sparse","rows","cols",...). */
json_t *table_to_json(const struct table *t);
enum err_code table_from_json(const json_t *j, struct table *out, struct err *e);
void table_past_to_json(const struct table *t, json_t *o);
/* What has become of it since, as table_to_json tells: of the cluster's own documents only.
 * ERR_PROTO. */
enum err_code table_past_from_json(const json_t *j, struct table *t, struct err *e);

#endif
