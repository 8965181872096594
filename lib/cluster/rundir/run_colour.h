/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_RUN_COLOUR_H
#define RUNDIR_RUN_COLOUR_H

/* The colour of a run: the same in all pictures of it, whatever other runs are drawn beside it, so
 * that people find it again. Its number is the file RUN/colour, which is chosen when the run
 * directory is made. */

#define RUN_COLOURS 6u

/* Hues that people with any colour vision can tell apart, for a light and a dark background, and
 * the colour of a terminal (30 + this is the SGR sequence). */
struct run_colour {
	const char *light, *dark;
	unsigned terminal;
};
extern const struct run_colour run_colour[RUN_COLOURS];

/* Choose the colour of a new run: the first one of those that the fewest runs in the same folder
 * have. Without room for the file it is left out. */
void run_colour_choose(const char *dir);
/* The number of a run's colour, below RUN_COLOURS. A run of an earlier version has one by its
 * name. */
unsigned run_colour_of(const char *dir);

#endif
