/* SPDX-License-Identifier: ISC */
#include "tests/sim/examples.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/parts.h"
#include "tests/sim/states.h"

int ps_work_main(int argc, char **argv);
int ledger_main(int argc, char **argv);

#define CHECK_SLOT 15

/* Each example has a feature of its own (ledger_examples.c), from FIRST_EXAMPLE on. Those that are to be read in
 * blocks also have common ones, which are 0 and change nothing, so that fewer examples need more memory than the
 * least that job.data_memory may be. */
#define FIRST_EXAMPLE 10000u
#define DATA          "examples.svm"
#define IN_BLOCKS     9600u
#define COMMON        " 1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0 11:0 12:0"

static struct {
	bool any, blocks;
	unsigned rows, batch, epochs;
} g;

void examples_leave_out(void)
{
	memset(&g, 0, sizeof g);
}

void examples_draw(bool needs_blocks)
{
	examples_leave_out();
	g.any = true;
	g.blocks = needs_blocks || sim_chance(30);
	g.epochs = g.blocks ? 1 : 1 + sim_below(2);
	g.batch = g.blocks ? 64 : 4 + sim_below(12);
	g.rows = g.blocks ? IN_BLOCKS : 500 + sim_below(500);
}

bool examples_are_drawn(void)
{
	return g.any;
}

bool examples_are_in_blocks(void)
{
	return g.blocks;
}

void examples_write_data(void)
{
	static char text[IN_BLOCKS * 64];
	size_t n = 0;

	for (unsigned i = 0; i < g.rows; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "1%s %u:1\n",
		    g.blocks ? COMMON : "", FIRST_EXAMPLE + i);
	disk_put(DATA, text, n);
	sim_trace("judge      > %u examples in %s, %u epochs, batches of %u", g.rows,
	    g.blocks ? "blocks" : "memory", g.epochs, g.batch);
}

void examples_job(char *out, size_t size)
{
	snprintf(out, size,
	    "{ \"model\": \"linear\", \"data\": \"" DATA
	    "\", \"data_memory\": \"1M\", \"cache\": \"none\", "
	    "\"epochs\": %u, \"batch\": %u, \"optimizer\": \"adagrad\", \"lr\": 0.1, "
	    "\"initial_accumulator\": 1, \"frozen\": \"b\" }",
	    g.epochs, g.batch);
}

struct proc *examples_start_worker(unsigned slot, const char *name, const char *rank,
    const char *zone)
{
	return proc_start(slot, name, ps_work_main,
	    (const char *[]){ "ps-work", "train", "-C", "c.run", "--rank", rank,
	        zone ? "--zone" : NULL, zone, NULL });
}

uint64_t examples_check(void)
{
	char rows[16], epochs[16];
	bool stale = !scenario_is_bsp();

	snprintf(rows, sizeof rows, "%u", g.rows);
	snprintf(epochs, sizeof epochs, "%u", g.epochs);
	return scenario_run_ledger("the examples",
	    (const char *[]){ "ledger", "examples", "-C", "c.run", "--book", "none", "--cells",
	        rows, "--steps", epochs, stale ? "--stale" : NULL, NULL });
}
