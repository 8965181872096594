#ifndef SERVER_SAVE_H
#define SERVER_SAVE_H

#include "server/state.h"

/* A store's side of a checkpoint, on a thread of its own.  Calls from any
 * thread. */
struct save;

enum err_code save_start(struct server *s, struct err *e);
/* Its thread ends; then, when nobody wakes it any more, the rest. */
void save_stop(struct save *s);
void save_free(struct save *s);
/* "snapshot", "save", "snapshot_end", as the coordinator sends them; false for
 * any other message. */
bool save_notice(struct save *s, const json_t *msg);
/* Something has changed in the shard. */
void save_wake(struct save *s);

#endif
