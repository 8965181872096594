/* SPDX-License-Identifier: ISC */
#ifndef SIM_TENURES_H
#define SIM_TENURES_H

#include <stdbool.h>
#include <stdint.h>

/* The book of the owners of the state. A process is named by its pid and by how often it has begun again. */
void tenures_reset(void);
/* The state is in the files of the run directory. */
void tenures_watch_files(void);
/* A process becomes the owner; it reads the state; a write of a process is accepted. */
void tenures_take(int pid, unsigned life, unsigned slot);
void tenures_begin(int pid, unsigned life);
void tenures_write(int pid, unsigned life, const char *what);
/* Leases may end early, so that members may follow two owners in turn. */
void tenures_may_end_early(void);
/* Was there more than one tenure, or is the only one that of another process? */
bool tenures_are_contested(int pid);
/* This process lets members in, or goes on with the members that it has. It looked at its clock last at
 * that time. */
void tenures_let_in(int64_t looked_at);

#endif
