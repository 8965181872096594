/* SPDX-License-Identifier: ISC */
#ifndef SIM_STATES_H
#define SIM_STATES_H

#include "tests/sim/sim.h"

/* Rare states of a cluster (states.def), counted from outside: by the events that the coordinator
 * writes, by what is on its way when a process dies, and by the injector. They are for people, and
 * change nothing in a run. */

enum state {
#define STATE(name, text) STATE_##name,
#include "tests/sim/states.def"
#undef STATE
	NSTATES
};

void states_note(enum state s);
/* Call it before a process dies. */
void states_note_death(const struct proc *p);
/* Count those of the coordinator's events, at the end of a world. */
void states_read_events(const char *path);
/* Print each state with its count, and then those that were never reached. */
void states_print(void);

#endif
