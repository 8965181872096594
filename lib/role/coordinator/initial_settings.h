/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_INITIAL_SETTINGS_H
#define COORDINATOR_INITIAL_SETTINGS_H

#include "coordinator/coordinator.h"

/* Settings that a worker's program proposes when it joins (worker_join: settings, first). They
 * count only where the configuration leaves a key unset, and only until the partitions are placed;
 * later proposals are ignored. With the coordinator's lock held. ERR_CONFIG: the settings are not
 * possible; ERR_NOTREADY: the worker says that it brings initial parameters, and their file is not
 * here yet. */
enum err_code initial_settings(struct coordinator *coordinator, const struct coord_self *self,
    const struct message_worker_join *m, struct err *e);

#endif
