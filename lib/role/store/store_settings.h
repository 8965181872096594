/* SPDX-License-Identifier: ISC */
#ifndef STORE_STORE_SETTINGS_H
#define STORE_STORE_SETTINGS_H

#include "store/store_state.h"

/* Settings that change while a store runs. The coordinator proposes a change, the stores vote, and
 * a view brings each decided settings epoch with the step at which it takes effect; the shard
 * applies it at that step. The agent's thread makes all calls but store_settings_free. */

/* Hand the settings epochs that were decided since the last view to the shard. ERR_CONFIG: this
 * program does not know one of the settings. */
enum err_code store_settings_apply(struct server *server, const struct view *view, struct err *e);
/* Vote against the proposal if this server has no room for it. True: it has voted. */
bool store_settings_refuse(struct server *server, const struct message_propose *proposal);
void store_settings_free(struct server *server);

#endif
