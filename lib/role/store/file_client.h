/* SPDX-License-Identifier: ISC */
#ifndef STORE_FILE_CLIENT_H
#define STORE_FILE_CLIENT_H

#include "ckpt/read.h"
#include "ckpt/write.h"
#include "store/store_state.h"

/* Files of the run directory, for a server that does not have the directory: they are uploaded and
 * downloaded over a session of their own with the coordinator (ps-protocol(7), FILE_PUT and
 * FILE_GET). The functions wait, and give up when the server stops. ERR_UNREACH, ERR_TIMEOUT,
 * ERR_IO, ERR_STOPPED, and the errors that the coordinator answers. */

/* Upload this server's part of checkpoint `id`. *description (a new reference) is for ckpt_add,
 * which the coordinator calls. The checkpoint thread; given up when the checkpoint is. */
enum err_code file_client_save(struct server *s, uint64_t id, const struct ckpt_part *parts,
    size_t n, json_t **description, struct err *e);
/* Download the checkpoint that the job continues from, and verify its checksums. The agent's
 * thread: heartbeats are sent meanwhile. */
enum err_code file_client_restore(struct server *s, struct ckpt_reader **out, struct err *e);
/* Download job.init. *path (the caller frees it) names an unlinked file of this process. The
 * agent's thread. */
enum err_code file_client_init(struct server *s, char **path, struct err *e);

#endif
