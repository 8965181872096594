/* SPDX-License-Identifier: ISC */
#ifndef SIM_EXAMPLES_H
#define SIM_EXAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/sim.h"

/* Jobs whose workers are those of the product: `ps-work train`, which leases ranges of examples from the
 * coordinator, reads them, and trains on them. Each example counts exactly once an epoch
 * (ps-consistency(7), Data).
 *
 * The worker of the ledger pushes what it likes, and so cannot show that a range is leased twice or lost. Two ways
 * were weighed to let the simulator see that. A worker of its own, which leases by the library's client and agent
 * and pushes a column for each range, would need the rules of role/worker once more: when a range is reported, which
 * batches of a lost worker are repeated, and where a push is left out because a partition has it. Those rules are
 * the ones that failed (tests/RECORD.md, Examples). So ps-work itself is linked into the simulated programs, and
 * only the data are invented: each example has a feature of its own, so that its weight tells how often it was
 * trained on. */
/* needs_blocks: examples in memory are not enough, because they are divided by the steps of bsp. */
void examples_draw(bool needs_blocks);
void examples_leave_out(void);
/* After examples_draw, for bsp: the job is deterministic. It must end in the same bits as one on a single server
 * without any fault, which is run once for each kind of job. */
void examples_draw_deterministic(void);
bool examples_are_deterministic(void);
/* Is this a deterministic job with this number of workers, whose kind has not been run yet? */
bool examples_need_undisturbed(unsigned workers);
/* The undisturbed job is done: keep the digest of its model. */
void examples_note_undisturbed(void);
bool examples_are_drawn(void);
bool examples_are_in_blocks(void);
void examples_write_data(void);
/* Writes the job of the configuration, an object of JSON. */
void examples_job(char *out, size_t size);
struct proc *examples_start_worker(unsigned slot, const char *name, const char *rank,
    const char *zone);
/* After examples_draw: the data are a stream, a file that grows while the job runs. Such a job does not end by itself. */
void examples_draw_stream(void);
bool examples_are_a_stream(void);
/* Half of the jobs that are no stream request the rows of later batches ahead, as the seed decides without
 * a draw. Returns the setting lookahead. */
unsigned examples_lookahead(uint64_t seed);
/* The war begins: the file grows. */
void examples_begin(void);
/* Peace: the rest of the file is written, and the job has to train on it. False: it has not. */
bool examples_await_stream(bool (*is_over)(void *ctx));
/* Compares the model of the job that is done. Returns how many examples were counted. */
uint64_t examples_check(void);

#endif
