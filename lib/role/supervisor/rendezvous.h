/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_RENDEZVOUS_H
#define SUPERVISOR_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "http/client.h"

/* The rendezvous of the ranks that ps-ctl launch starts: the directory RUN/launch/RUN_ID, which
 * all of them see. Rank 0, which runs the coordinator, writes a join file ID.join there for
 * each other rank, and at the end a file "over" with the reason; the other ranks poll for their
 * file. */

/* The directory's path, to be freed. */
char *rendezvous_path(const char *dir, const char *run_id);

/* Rank 0: make the directory empty, removing an earlier run of that id. */
enum err_code rendezvous_create(const char *dir, struct err *e);
/* Is that process started by another rank, so that it needs a join file? Not without a rendezvous
 * (dir NULL). */
bool rendezvous_expects(const char *dir, const char *id);
/* Write the join file of the process, which the coordinator makes. */
enum err_code rendezvous_invite(const char *dir, struct http_client *client, const char *id,
    struct err *e);
/* Remove the join files, and leave the reason for ranks that come later. */
void rendezvous_close(const char *dir, const char *why);

/* The other ranks: wait for the join file of id; *join is its path, to be freed. ERR_TIMEOUT after
 * `timeout` ns; ERR_FAILED when the run is over. */
enum err_code rendezvous_await_join(const char *dir, const char *id, int64_t timeout, char **join,
    struct err *e);

#endif
