/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_LAYOUT_H
#define LAYOUT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "layout/row_policy.h"

/* Tables, how their shapes cut them into partitions, and which servers hold which partitions.
 * Pure data: no clock, thread or lock; the owner locks (the coordinator: coordinator.lock).
 * place.h changes a layout that is in use.
 *
 * The replicas of a partition form a chain: the head is the primary, the tail answers pulls. A
 * run is a row of partitions with the same chain. States of a run:
 *
 *   state     event                                                      next state
 *   settled   place_repair or place_balance names a server to join         joining
 *   joining   place_copied: the tail has sent the server all its replicas  copied
 *   copied    place_joined: the server becomes the tail, `leaving` goes  settled
 *   joining   the joining server is lost, or place_cut_link: the tail      settled
 *   or copied cannot reach it
 *   copied    the tail is lost or unlinked: another server must send them     joining
 *   copied    the layout gets its next epoch: the tail must say so again      joining
 *   any       place_drop takes the last server out of the chain          without a replica
 */

/* Elements of a dense partition (256 KiB): it stays in the L2 cache from the socket to the sum. */
#define PART_ELEMENTS 65536u
/* Elements of a table that is not cut: its values fit into one record (RECORD_MAX). */
#define WHOLE_ELEMENTS     262144u
#define CHAIN_MAX          3
#define NO_SERVER          UINT16_MAX
#define TABLE_NAME         64
#define TABLE_PIECES       32u
#define TABLE_ELEMENTS_MAX (UINT64_C(1) << 40)

/* Consecutive partitions on the same servers. A push goes to the first server of the chain and from
 * there along it. The last server answers pulls: it has only changes that every server before it
 * has, too, so an answer contains no push that a failover could lose. */
struct run {
	uint32_t first, count; /* partitions */
	uint16_t chain[CHAIN_MAX];
	uint8_t nchain;   /* 0: no replica is left */
	uint16_t joining; /* gets a replica from the tail; or NO_SERVER */
	uint16_t leaving; /* leaves when `joining` has joined; or NO_SERVER */
	/* The layout epoch in which the tail said that `joining` has its replica; 0: it has not. It
	 * says nothing in a later epoch: a server that missed a layout between the two begins the
	 * copy again. Only the coordinator knows, not in JSON. */
	uint32_t copied;
};

/* How the rows of a sparse table are kept. */
enum row_store_kind {
#define ROW_STORE(name) ROW_STORE_##name,
#include "layout/row_store.def"
#undef ROW_STORE
	ROW_STORES
};

enum table_init { TABLE_ZEROS, TABLE_UNIFORM, TABLE_FILE, TABLE_CONSTANT };

/* A dense table that has grown is cut again from this partition on; the partition before it keeps
 * its short length. */
struct table_piece {
	uint32_t part;
	uint64_t element; /* the partition's first element */
};

struct table {
	uint16_t id;
	char name[TABLE_NAME];
	bool sparse, decay; /* decay: l1 and l2 apply to it */
	/* The workers sum its gradients, and push only their mean */
	bool reduced;
	/* Dense: it is one partition, because its update rule acts on whole tables. The coordinator
	 * decides it when the table is made. */
	bool whole;
	uint64_t rows; /* sparse: a hint for the number of partitions, no bound */
	uint32_t cols; /* sparse: the row's width */
	uint32_t nparts;
	enum table_init init;
	float init_limit; /* uniform in -limit .. limit; constant: the value */
	uint64_t seed;
	struct row_policy policy;      /* sparse: admission, width and expiry of its rows */
	enum row_store_kind row_store; /* sparse */
	/* added: made while the cluster ran, not by the job's model. dropped: it does not exist any
	 * more, but its number stays taken. since: the step from which on its newest partitions
	 * count steps. */
	bool added, dropped;
	uint64_t since;
	/* Ascending; without the one at partition 0 */
	struct table_piece piece[TABLE_PIECES];
	unsigned npieces;
	struct run *run;
	size_t nruns;
};

struct layout {
	uint32_t epoch, generation;
	/* By server: the number of its zone; replicas are put in different zones. NULL: all servers
	 * are in one zone. Borrowed; not in JSON. */
	const uint16_t *zone;
	struct table *table;
	size_t ntables, cap;
	/* Hash index of the names: a table's number plus 1; 0: empty. nindex is a power of two. */
	uint16_t *index;
	size_t nindex;
};

/* Free the contents of a layout, and leave it empty. */
void layout_release(struct layout *l);
/* Reserve address space for as many tables as there can be, so that none moves when others are
 * added. Memory is used only for tables that exist. */
void layout_reserve(struct layout *l);
/* Update `l` to `fresh`, whose contents it takes. Tables that both have stay at their addresses;
 * they may have grown or been dropped. False: a table of `l` is another one in `fresh`, or missing;
 * then `l` is unchanged. Tables keep their numbers forever. */
bool layout_update(struct layout *l, struct layout *fresh);
/* Add a table; sets its id, and nparts unless a sparse shape has it. The same shape again is not an
 * error: *out is the existing table. ERR_EXISTS: the name is taken by another shape. ERR_LIMIT: too
 * many tables. */
enum err_code layout_add(struct layout *l, const struct table *shape, struct table **out,
    struct err *e);
/* Find a table that is not dropped by its name; NULL: there is none. */
const struct table *layout_find(const struct layout *l, const char *name);
/* As layout_find. ERR_NOTFOUND: there is no such table; the message lists those that exist. */
enum err_code layout_find_or_fail(const struct layout *l, const char *name,
    const struct table **out, struct err *e);
/* Append rows to a dense table, up to `rows`. Existing partitions stay as they are. ERR_NOTFOUND;
 * ERR_CONFIG: the table is sparse, whole, or not smaller; ERR_LIMIT: it has grown too often. */
enum err_code layout_grow(struct layout *l, const char *name, uint64_t rows, uint64_t since,
    struct err *e);
/* Drop a table: its name becomes free, its number stays taken. False: there is no such table. */
bool layout_drop(struct layout *l, const char *name);
/* Place the partitions that have no run yet on the n servers, each on `replicas` of them (or on
 * all, if there are fewer): evenly by elements, in long runs, beginning each table at the server
 * with the least load. */
void layout_place(struct layout *l, const uint16_t *server, size_t n, unsigned replicas);

/* Number of elements of a dense partition, and its first element. */
uint32_t table_part_elements(const struct table *t, uint32_t part);
uint64_t table_part_begin(const struct table *t, uint32_t part);
/* The number of partitions that follows from the table's shape. */
uint32_t table_count_parts(const struct table *t);
/* The partition of one sparse row id. */
uint32_t table_part_of(const struct table *t, uint64_t id);
/* The partitions of n row ids. A sparse table has few enough partitions for a u16. */
void table_parts_of(const struct table *t, const uint64_t *ids, size_t n, uint16_t *part);
/* The run of a partition; NULL: it is not placed. */
const struct run *table_run(const struct table *t, uint32_t part);
/* The servers that take a partition's pushes and answer its pulls; NO_SERVER: none. */
uint16_t table_head(const struct table *t, uint32_t part);
uint16_t table_tail(const struct table *t, uint32_t part);
/* The server's position in the chain; -1: it is not in it. */
int run_chain_index(const struct run *r, unsigned server);
/* The number of partitions of which the server holds the only replica. */
uint32_t layout_count_sole_replicas(const struct layout *l, unsigned server);
/* The number of replicas of the partition that has the fewest; 0 without tables. */
unsigned layout_least_replicas(const struct layout *l);
/* Does any partition move from this server to another one? */
bool layout_moves_from(const struct layout *l, unsigned server);
uint64_t table_elements(const struct table *t); /* dense: rows * cols */

/* Write a layout as JSON (a new reference), and read it. */
json_t *layout_to_json(const struct layout *l);
/* The tables that are not dropped, as in a checkpoint's manifest: table_to_json and "parts". */
json_t *layout_tables(const struct layout *l);
/* ERR_PROTO, ERR_CONFIG: j was not written by layout_to_json; *out is empty then. */
enum err_code layout_from_json(const json_t *j, struct layout *out, struct err *e);
/* The epoch and the generation of a layout in JSON form; 0: none. */
uint32_t layout_json_epoch(const json_t *o);
uint32_t layout_json_generation(const json_t *o);
/* One table's shape, as a worker proposes it ("name", "sparse", "rows", "cols", ...). */
json_t *table_to_json(const struct table *t);
enum err_code table_from_json(const json_t *j, struct table *out, struct err *e);
/* Only the name and the number of rows: all that is written of a table that is to grow or to be
 * dropped. */
enum err_code table_change_from_json(const json_t *j, struct table *out, struct err *e);
/* The changes of a table since it was added, written by table_to_json, and the number of partitions
 * of a sparse table, which a table keeps in its life, also where this program would make others.
 * Only trusted documents of the cluster itself have them. ERR_PROTO. */
enum err_code table_past_from_json(const json_t *j, struct table *t, struct err *e);

#endif
