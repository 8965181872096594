#ifndef SERVER_TABLES_H
#define SERVER_TABLES_H

#include "server/host.h"

/* Tables that come, grow and go while the cluster runs. */

/* POST /v1/tables: {"add":{"name":"emb","rows":1000,"cols":16}}, {"grow":{"name":"emb","rows":2000}}
 * or {"drop":"emb"}; takes the host's lock.  *ticket: of coord_table, for settings_answer; *answer
 * stays NULL.  ERR_EXISTS while another change is being decided. */
enum err_code tables_change(struct host *h, const json_t *body, const char *who, uint64_t *ticket, json_t **answer, struct err *e);

#endif
