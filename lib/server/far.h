#ifndef SERVER_FAR_H
#define SERVER_FAR_H

#include "ckpt/read.h"
#include "ckpt/write.h"
#include "server/state.h"

/* What a server without the run directory has of it: over a session of its own
 * with the coordinator (ps-protocol(7), FILE_PUT), on a thread that may wait.
 * ERR_UNREACH, ERR_TIMEOUT, ERR_IO, and what the coordinator says. */

/* Our part of checkpoint number id; the description is for ckpt_add, there. */
enum err_code far_save(struct server *s, uint64_t id, const struct ckpt_part *parts, size_t n, json_t **description,
    struct err *e);
/* The checkpoint that the job goes on from, every byte compared.  On the agent's
 * thread: it goes on telling that we live. */
enum err_code far_restore(struct server *s, struct ckpt_reader **out, struct err *e);
/* job.init, as the path of a file that no other process sees. */
enum err_code far_init(struct server *s, char **path, struct err *e);

#endif
