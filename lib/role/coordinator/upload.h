/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_UPLOAD_H
#define COORDINATOR_UPLOAD_H

#include "coordinator/coordinator.h"

/* Uploads each checkpoint to the object store that checkpoint_to names. A thread runs ps-ctl
 * checkpoint push as a child (core/helper.h), so the job does not wait for the upload and
 * continues without it. An upload that is under way at the end is abandoned; the owner of the
 * run directory may repeat it. */
struct offsite;

/* Call after checkpoint_schedule_start. Starts nothing without checkpoint_to or without a run
 * directory. ERR_IO. */
enum err_code upload_start(struct coordinator *coordinator, const struct conf *c, struct err *e);
/* Stop the child and join the thread. Call without the coordinator's lock. */
void upload_stop(struct coordinator *coordinator);
/* Call after upload_stop. o may be NULL. */
void upload_free(struct offsite *o);

#endif
