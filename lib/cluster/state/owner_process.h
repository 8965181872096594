/* SPDX-License-Identifier: ISC */
#ifndef STATE_OWNER_PROCESS_H
#define STATE_OWNER_PROCESS_H

/* Which process is the coordinator: the record of an owner (msg/owner.h), in whatever store it is.
 * A process of this host is known by its id and the time when it began. No state; any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "msg/owner.h"

/* The record of the calling process, with this incarnation: a new document. */
json_t *owner_describe_self(uint64_t incarnation);
/* Is the process of the record alive, on this host, and not the calling one? */
bool owner_lives_here(const struct owner *o);
/* Is it known that the process of the record has ended? It is known only on this host: a process that
 * has replaced itself (exec) counts as one that has ended. */
bool owner_died_here(const struct owner *o);

#endif
