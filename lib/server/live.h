#ifndef SERVER_LIVE_H
#define SERVER_LIVE_H

#include "server/state.h"

/* Settings that change while a store is at work, as its views tell of them.  Of the agent's
 * thread. */

/* What has been decided since the last view.  ERR_CONFIG: this program does not know it. */
enum err_code live_take(struct server *s, const json_t *view, struct err *e);
/* A proposal that this server has no room for: it has said so. */
bool live_refuse(struct server *s, const json_t *proposal);
void live_free(struct server *s);

#endif
