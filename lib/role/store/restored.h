/* SPDX-License-Identifier: ISC */
#ifndef STORE_RESTORED_H
#define STORE_RESTORED_H

/* The checkpoint that the partitions of this server begin from. The coordinator has read its
 * manifest only. While a view says "checking", this server compares its share of the files with
 * their digests, reports the result, and makes no shard yet: if a server finds damage, the next
 * view names an older checkpoint. The checkpoint stays open from the check until the partitions
 * have been filled, also if it is removed meanwhile.
 *
 * So a file is read twice, but only once from the disk if the page cache has room for it. One pass
 * would have to hold the share in memory beside the tables, beyond the bound of P6, because no
 * partition has a place before all of the checkpoint is verified.
 *
 * A server without access to the run directory gets all files over the network, and compares each
 * as it arrives. All functions run on the agent's thread. */
#include "core/err.h"
#include "msg/view.h"
#include "server/server_role.h"

/* Compares the share of view->restore, unless that has been done, and reports the result to the
 * coordinator. Sends heartbeats meanwhile. ERR_NOMEM, ERR_STOPPED; the error of a connection, or of
 * this server's own disk. */
enum err_code restored_check(struct server *s, const struct view *view, struct err *e);
/* Opens view->restore as store_agent(s)->restored.reader, unless it is open; NULL if the job does
 * not resume. */
enum err_code restored_open(struct server *s, const struct view *view, struct err *e);
/* Closes it, which frees disk space or memory. */
void restored_close(struct server *s);

#endif
