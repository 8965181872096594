#ifndef SERVER_REPL_H
#define SERVER_REPL_H

#include "server/state.h"

/* Links to the servers that hold the next copies of this one's partitions.
 * One thread of their own; the calls may come from any other. */

enum err_code repl_start(struct server *s, struct err *e);
/* Its thread ends; then, when nobody forwards any more, the rest. */
void repl_stop(struct repl *r);
void repl_free(struct repl *r);

/* Places for the servers of a view; then, when the shard has taken its layout,
 * their addresses and the epoch. */
void repl_prepare(struct repl *r, const json_t *view);
void repl_view(struct repl *r, const json_t *view, const struct layout *layout);

/* Does the line to this server still not work?  What is so is reported. */
void repl_ask(struct repl *r, int64_t server);

/* shard_config.forward; ctx is the server. */
void repl_forward(void *server, uint16_t index, uint16_t table, uint32_t part);

#endif
