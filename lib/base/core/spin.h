/* SPDX-License-Identifier: ISC */
#ifndef CORE_SPIN_H
#define CORE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* Polling for a while before sleeping, because waking up often costs more than the remaining wait.
 * It yields the core to other threads; when that has happened, it does not poll for some time, up
 * to a second when it happens repeatedly.
 *
 * spin_begin, then look and spin_again in turn until something is found or spin_again says no; then
 * sleep. One thread for each struct spin. */
struct spin {
	int64_t span;                /* longest time of polling, ns; 0: never */
	int64_t now, end, rest, nap; /* private */
	long displaced;
};

/* In one round a caller looks at memory this many times, and calls the system once. */
#define SPIN_LOOKS 64

/* A wait begins. */
void spin_begin(struct spin *s);
/* Nothing was found: shall the caller look again? False: sleep. */
bool spin_again(struct spin *s);

#endif
