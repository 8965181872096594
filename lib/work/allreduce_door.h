#ifndef WORK_ALLREDUCE_DOOR_H
#define WORK_ALLREDUCE_DOOR_H

#include "work/allreduce.h"

/* Where other workers reach this one. */

enum err_code door_listen(const struct allreduce_config *cfg, char out[static NET_TEXT], struct err *e);
/* A Unix socket in the run directory; by_slot: under the slot's name, else the process's.
 * Without a run directory out stays as it is. */
void door_local(const struct allreduce_config *cfg, bool by_slot, char out[static NET_TEXT]);

#endif
