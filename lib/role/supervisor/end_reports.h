/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_END_REPORTS_H
#define SUPERVISOR_END_REPORTS_H

#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"

struct http_client;

/* Reports to the coordinator of how processes ended. The coordinator itself sees only that a
 * process is silent. A report is kept until the coordinator has answered it, because processes
 * also end while no coordinator runs. Used by one thread; zeroed it is empty. */
struct end_reports {
	json_t *pending; /* an array of bodies of POST /v1/ended, the oldest first; or NULL */
	unsigned count;  /* of all reports so far; numbers them */
};

/* Adds a report that the process `id` ended as `how` says. returns: it is started again. */
void end_reports_add(struct end_reports *r, const char *id, const char *how, enum err_cause cause,
    bool returns);
/* Sends the pending reports in order, until one is not answered; waits for at most `timeout` ns
 * for each. A report that the coordinator refuses is dropped, and the error is its reason; ERR_OK
 * otherwise. */
enum err_code end_reports_send(struct end_reports *r, struct http_client *client, int64_t timeout,
    struct err *e);
void end_reports_release(struct end_reports *r);

#endif
