/* SPDX-License-Identifier: ISC */
#ifndef FAULT_LEDGER_H
#define FAULT_LEDGER_H

/* A worker whose pushes can be counted afterwards.  Step s of rank w adds to one cell of a dense
 * table, and to all floats of one row of a sparse table; cells are used again after `cells` steps.
 * The worker writes to its book before a push that the step begins, and after all receipts that it
 * is acknowledged and how much it added.  Then each cell must hold everything that was
 * acknowledged, and at most one unit more for each step that was begun but not acknowledged.
 *
 * In ssp and asp a push adds one unit.  In bsp it adds its share of the mean over the workers that
 * pushed to the partition.  All ranks push to the same partitions with one example each (and
 * announce no examples in CLOCK, which would count where they had not pushed), so each of n
 * contributors adds 1/n unit.  The unit is the least common multiple of all possible n: sums are
 * whole numbers, exact in float32.  A push of a single contributor that counted twice could not be
 * seen in bsp, as the mean of two equal values is that value; with several contributors, each
 * worker checks after every step that all shares are equal and add up to one unit.  The mode may
 * change during the run. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/log.h"
#include "session/identity.h"
#include "conf/conf.h"
#include "layout/layout.h"

#define LEDGER_RANKS   8
#define LEDGER_WIDTH   4u
#define LEDGER_DENSE   "ledger"
#define LEDGER_ROWS    "ledger-rows"
#define LEDGER_OUTSIDE "outside"

/* ---- geometry ---- */

/* Returns the id of the row that belongs to a cell of a rank.  The rows of all ranks for one cell
 * are in one partition. */
uint64_t ledger_row(const struct table *rows, uint32_t rank, uint32_t cell);
/* Returns what a push adds if it is the only one. */
uint32_t ledger_unit(const struct conf *c);

/* ---- the book: ledger_book.c ---- */

/* A book has one file for each incarnation of a rank.  Its lines are "begin STEP", synced before
 * the push, then "ack STEP DENSE SPARSE" with what was added to the two tables, or "doubt STEP"
 * when a receipt said late or refused. */
struct book;
enum err_code book_open(const char *dir, uint32_t rank, uint64_t incarnation, struct book **out,
    struct err *e);
void book_close(struct book *b);
enum err_code book_begin(struct book *b, uint64_t step, struct err *e);
enum err_code book_ack(struct book *b, uint64_t step, uint32_t dense, uint32_t sparse,
    struct err *e);
enum err_code book_not_applied(struct book *b, uint64_t step, struct err *e);

/* The sum of all books of a directory, by rank and cell: what was acknowledged, and how many steps
 * were begun but not acknowledged. */
struct tally_cell {
	uint64_t dense, sparse;
	uint32_t open;
};
struct tally {
	struct tally_cell *cell[LEDGER_RANKS];
	uint64_t begun, acked; /* steps */
	uint64_t beyond;       /* the first step after all that were begun */
};
/* The file "base" of the directory, if there is one, adds what the model had before the first step
 * (ledger_base). */
enum err_code tally_read(const char *dir, uint32_t cells, struct tally *out, struct err *e);
/* Reads the books as tally_read does, but an acknowledgement counts only if it is of a step before this one. Every
 * push that was begun counts. */
enum err_code tally_read_before(const char *dir, uint32_t cells, uint64_t step, struct tally *out,
    struct err *e);
void tally_release(struct tally *t);
/* Writes the file "base" of a directory: all cells of all ranks. */
enum err_code tally_write_base(const char *dir, uint32_t ranks, uint32_t cells, const float *dense,
    const float *rows, struct err *e);

/* ---- an observer ---- */

/* The values that a worker has pulled for a step, and its last pushes have receipts. */
struct ledger_pull {
	uint32_t rank, ranks, cells;
	uint64_t incarnation, step;
	const struct sync_mode *mode; /* that the worker has for this step */
	bool exact;                   /* without backup workers, for which no step waits */
	const float *seen;            /* the dense table, ranks x cells */
};
/* The simulator wraps these two, to compare what the workers see. They do nothing. */
void ledger_note_pull(const struct ledger_pull *p);
/* A push to one cell begins, in which the worker has seen `before`. */
void ledger_note_push(uint32_t rank, uint64_t incarnation, uint64_t step, float before);
/* A comparison has read the model after the job, ranks x cells of the dense table. */
void ledger_note_model(uint32_t ranks, uint32_t cells, const float *dense);

/* ---- the programs ---- */

struct ledger_config {
	const struct identity *id;
	const char *book, *zone; /* zone: NULL if none */
	const char *low, *high;  /* of ledger_base */
	uint32_t rank, cells;
	uint64_t steps;             /* stop after this many; 0: at a signal */
	bool stale, repeats, omits; /* of ledger_examples */
	int interrupt_fd;           /* when readable, stop after the step */
	struct log *log;
};
/* Joins, pushes until cfg->steps or the interrupt, and stays until the job is over. */
enum err_code ledger_work(const struct ledger_config *cfg, struct err *e);

struct ledger_sums {
	uint64_t begun, acked, lost, doubled, torn;
};
struct ledger_model {
	const struct table *dense, *rows;
	uint32_t ranks, cells;
	float *cell, *row;
	uint64_t strange; /* rows that belong to no cell */
};

/* Compares the cluster's model with the books.  May run while workers push. */
enum err_code ledger_check(const struct ledger_config *cfg, struct ledger_sums *out, struct err *e);

/* Compares a model that a job has gone back to with the books of before: it has all that the books of cfg->low
 * say was acknowledged, and of each rank, in each partition, the steps before some step and no later ones of the
 * books of cfg->high; with cfg->steps in all partitions those before that step. Writes the file "base" of
 * cfg->book, from which the pushes that follow count. */
enum err_code ledger_base(const struct ledger_config *cfg, struct ledger_sums *out, struct err *e);
/* Reads the two tables of the ledger: `cell` becomes ranks x cells, and `row` LEDGER_WIDTH for each. The caller
 * frees them, also after an error. */
struct admin_client;
enum err_code ledger_read_model(struct admin_client *tool, uint32_t cells, struct ledger_model *out,
    struct err *e);

/* A program outside of the job, and its count: ledger_outside.c. cfg->rank is the number of this run of
 * it. Pushes to the table LEDGER_OUTSIDE, of LEDGER_RANKS x cells, until cfg->steps or the interrupt. */
enum err_code ledger_outside(const struct ledger_config *cfg, struct err *e);
enum err_code ledger_outside_check(const struct ledger_config *cfg, struct ledger_sums *out,
    struct err *e);

/* A reader and its comparison: ledger_watch.c. What it has seen is written to the directory cfg->book at
 * the interrupt. */
enum err_code ledger_watch(const struct ledger_config *cfg, struct err *e);
enum err_code ledger_watch_check(const struct ledger_config *cfg, struct ledger_sums *out,
    struct err *e);

/* Counts the examples of a job that is done: ledger_examples.c. cfg->cells is the number of examples, cfg->steps
 * that of the epochs, and cfg->stale says that a push may have been computed before an earlier one of the same
 * example was applied. repeats: examples may count more often, omits: less often. The first example has the row LEDGER_FIRST_EXAMPLE. */
#define LEDGER_FIRST_EXAMPLE 9999u
enum err_code ledger_examples(const struct ledger_config *cfg, struct ledger_sums *out,
    struct err *e);

#endif
