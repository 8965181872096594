/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_STAT_H
#define CMD_STAT_STAT_H

#include "cmd/stat/plan.h"
#include "session/identity.h"

/* Common declarations of ps-stat: the connection, the stream of reports, and histograms. */

/* A connection to a cluster's control plane. */
struct stat_link {
	struct identity id;
	struct http_client *http;
	char *dir; /* the run directory; NULL: on another host */
};

/* Connect to the control socket of the run directory or, with signed requests, to the control
 * plane named in a join file. stop (http/client.h) may be NULL. Call stat_disconnect even after
 * a failure. */
enum err_code stat_connect(const struct stat_options *o, const atomic_bool *stop,
    struct stat_link *l, struct err *e);
void stat_disconnect(struct stat_link *l);

/* Print reports as the plan says. Returns the exit code. */
int stream_run(const struct plan *p);
/* Sleep until a time of clock_now(). */
void stream_pause(int64_t until);

/* Fetch and print histograms instead of rows. before: those of the last report, or NULL. */
json_t *hists_fetch(const struct plan *p, struct http_client *c, struct err *e);
void hists_print(const struct plan *p, const json_t *hists, const json_t *before);

#endif
