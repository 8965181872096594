/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_TABLES_REQUEST_H
#define COORDINATOR_TABLES_REQUEST_H

#include "coordinator/coordinator.h"

/* Requests to add, grow and drop tables while the cluster runs. */

/* POST /v1/tables: {"add":{"name":"emb","rows":1000,"cols":16}},
 * {"grow":{"name":"emb","rows":2000}} or {"drop":"emb"}. Takes the coordinator's lock. *ticket is
 * the one of coord_table, for settings_request_answer; *answer stays NULL. ERR_EXISTS while another
 * change is being decided. */
enum err_code tables_request_change(struct coordinator *coordinator, const json_t *body,
    const char *who, uint64_t *ticket, json_t **answer, struct err *e);

#endif
