/* SPDX-License-Identifier: ISC */
#ifndef CLIENT_SAVED_RESIDUALS_H
#define CLIENT_SAVED_RESIDUALS_H

#include "client/client.h"

/* The values that a client still has to push: the residuals and velocities of lossy codecs,
 * and the rows that filters hold back. They are saved beside a checkpoint and loaded before
 * the first push. Thread rule as in client.h. */

/* Is there any residual, velocity or held-back row? */
bool client_has_residuals(const struct client *c);
/* Write them to a safetensors file, which appears whole or not at all: TABLE.residual and
 * TABLE.velocity (dense tables, flat), TABLE.rows and TABLE.ids (sparse tables). */
enum err_code client_save_residuals(const struct client *c, const char *path, struct err *e);
/* Load them, before the first push. ERR_NOTFOUND: there is no such file; ERR_CONFIG: it
 * belongs to other tables. After an error nothing is loaded. */
enum err_code client_load_residuals(struct client *c, const char *path, struct err *e);
/* The newest step for which an answer said that its server was taking a checkpoint;
 * UINT64_MAX: none yet. */
uint64_t client_checkpoint_step(const struct client *c);

#endif
