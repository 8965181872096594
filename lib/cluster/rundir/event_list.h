/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_EVENT_LIST_H
#define RUNDIR_EVENT_LIST_H

#include <stddef.h>

#include "core/json.h"

/* Shortens a list of events, the oldest first, to at most `most`: the oldest event of the kind that
 * is most frequent in it goes first, so that evaluations and checkpoints do not push out the loss
 * of a worker. Returns how many were left out. Pure. */
size_t event_list_trim(json_t *list, size_t most);

#endif
