/* SPDX-License-Identifier: ISC */
/* The colour of a run: chosen once, kept, and different from those of the runs beside it. */
#include "rundir/run_colour.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/mem.h"
#include "tap.h"

int main(void)
{
	char folder[] = "/tmp/pskit-unit.XXXXXX", *dir[RUN_COLOURS + 1], *moved, *old;
	bool different = true;
	unsigned seen = 0;

	if (!mkdtemp(folder))
		return 1;
	for (unsigned i = 0; i <= RUN_COLOURS; i++) {
		dir[i] = mem_printf("%s/lin-%u.run", folder, i);
		mkdir(dir[i], 0700);
		run_colour_choose(dir[i]);
		different &= i == RUN_COLOURS || !(seen & 1u << run_colour_of(dir[i]));
		seen |= 1u << run_colour_of(dir[i]);
	}
	ok(different, "runs in a folder have different colours");
	ok(run_colour_of(dir[RUN_COLOURS]) == run_colour_of(dir[0]), "until all are taken");
	moved = mem_printf("%s/lin.run.1", folder);
	seen = run_colour_of(dir[3]);
	ok(rename(dir[3], moved) == 0 && run_colour_of(moved) == seen,
	    "a run that is moved away keeps its own");
	old = mem_printf("%s/old.run", folder);
	ok(run_colour_of(old) < RUN_COLOURS && run_colour_of(old) == run_colour_of(old),
	    "a run without the file has one by its name");
	file_remove_tree(folder, NULL);
	for (unsigned i = 0; i <= RUN_COLOURS; i++)
		free(dir[i]);
	free(moved);
	free(old);
	return tap_done();
}
