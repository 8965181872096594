#ifndef CLIENT_KEPT_H
#define CLIENT_KEPT_H

#include "client/client.h"

/* What a client has still to push: residuals and momenta of codecs, rows that filters
 * hold back. */

/* Is there anything? */
bool client_has_kept(const struct client *c);
/* To a safetensors file, which appears whole or not at all: TABLE.residual, TABLE.velocity
 * (dense tables, flat), TABLE.rows and TABLE.ids (sparse ones). */
enum err_code client_save_kept(const struct client *c, const char *path, struct err *e);
/* Before the first push.  ERR_NOTFOUND: there is no such file; ERR_CONFIG: it is of other
 * tables. */
enum err_code client_load_kept(struct client *c, const char *path, struct err *e);
/* The step of the last answer whose server was taking a checkpoint of that step; UINT64_MAX:
 * none yet. */
uint64_t client_saving(const struct client *c);

#endif
