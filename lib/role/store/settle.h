/* SPDX-License-Identifier: ISC */
#ifndef STORE_SETTLE_H
#define STORE_SETTLE_H

#include "store/replicate.h"

/* This module answers the coordinator's questions about the pushes of a lost or replaced worker
 * that this server has (coord/coord_settle.c). A question waits until none of these pushes can be
 * lost with this server. A newer question about a rank replaces the older one.
 *
 * The replication thread owns the questions, because most of them wait for acknowledgements of the
 * next replicas; store_on_settle passes them on from the agent's thread. */

/* The replication thread, at each tick: answers what can be answered. */
void settle_answer(struct repl *r);
/* Drops all questions. Call it when that thread has ended. */
void settle_release(struct repl *r);

#endif
