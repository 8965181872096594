#ifndef FAULT_LEDGER_H
#define FAULT_LEDGER_H

/* A worker whose pushes can be counted afterwards.  Step s of slot w adds to one
 * cell of a dense table, and to all floats of a row of a sparse one; cells are
 * used again after `cells` steps.  Before the push it writes to its book that
 * the step begins, after the receipts that it is acknowledged, and what it has
 * added.  Then a cell must hold all that was acknowledged, and at most one unit
 * more for each step that was begun only.
 *
 * In ssp and asp a push adds one unit.  In bsp it adds its part of a
 * mean over those who pushed to the partition: all slots push to the same ones
 * with one example (and state none in CLOCK, which would count where they had
 * not pushed), so n contributors add 1/n unit each, and the unit is the least
 * common multiple of all n: sums are whole numbers, exact in float32.  A lone
 * contributor's double could not be seen, being the mean of two equal ones; for
 * several, each worker looks after every step whether all parts are equal and
 * make one unit.  The mode may change meanwhile. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "client/identity.h"
#include "conf/conf.h"
#include "coord/layout.h"

#define LEDGER_SLOTS 8
#define LEDGER_WIDTH 4u
#define LEDGER_DENSE "ledger"
#define LEDGER_ROWS "ledger-rows"

/* ---- geometry ------------------------------------------------------------------ */

/* The row of a cell of a slot; those of a cell lie in one partition. */
uint64_t ledger_row(const struct table *rows, uint32_t slot, uint32_t cell);
/* What one push alone adds. */
uint32_t ledger_unit(const struct conf *c);

/* ---- the book: ledger_book.c ---------------------------------------------------- */

/* One file an incarnation: lines "begin STEP", synced before the push, and "ack
 * STEP DENSE SPARSE" with what was added to the two tables, or "doubt STEP" when
 * a receipt was late or refused. */
struct book;
enum err_code book_open(const char *dir, uint32_t slot, uint64_t incarnation, struct book **out, struct err *e);
void book_close(struct book *b);
enum err_code book_begin(struct book *b, uint64_t step, struct err *e);
enum err_code book_ack(struct book *b, uint64_t step, uint32_t dense, uint32_t sparse, struct err *e);
enum err_code book_doubt(struct book *b, uint64_t step, struct err *e);

/* All that the files of a directory say, by slot and cell: the sums that were
 * acknowledged, and how many steps were begun and were not. */
struct tally_cell {
	uint64_t dense, sparse;
	uint32_t open;
};
struct tally {
	struct tally_cell *cell[LEDGER_SLOTS];
	uint64_t begun, acked;          /* steps */
};
enum err_code tally_read(const char *dir, uint32_t cells, struct tally *out, struct err *e);
void tally_release(struct tally *t);

/* ---- the two programs -------------------------------------------------------------- */

struct ledger_config {
	const struct identity *id;
	const char *book, *zone;        /* zone NULL: none */
	uint32_t slot, cells;
	uint64_t steps;                 /* after so many it is done; 0: at a signal */
	int interrupt_fd;               /* readable: end the step and be done */
	struct log *log;
};
/* Join, push until the end, and see the job through to it. */
enum err_code ledger_work(const struct ledger_config *cfg, struct err *e);

struct ledger_sums {
	uint64_t begun, acked, lost, doubled, torn;
};
/* Compare the cluster's model with the book, also while workers are at it. */
enum err_code ledger_check(const struct ledger_config *cfg, struct ledger_sums *out, struct err *e);

#endif
