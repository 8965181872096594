/* SPDX-License-Identifier: ISC */
#ifndef SESSION_DESCRIPTION_EXCHANGE_H
#define SESSION_DESCRIPTION_EXCHANGE_H

#include "session/agent.h"

/* Descriptions of training data between a process and the coordinator. A large one
 * (msg/large_description.h) goes in pieces, one call each, and other messages refer to it; callers
 * see whole documents. Each call waits `timeout` ns at most. Errors of agent_call; not on the
 * agent's thread. */

/* Sends a description, if it is large and the coordinator wants it. *doc (a new reference) is what
 * messages to the coordinator have in its place; NULL for NULL. ERR_LIMIT: it is longer than a
 * model can have. */
enum err_code description_send(struct agent *a, const json_t *facts, int64_t timeout, json_t **doc,
    struct err *e);
/* Asks for the description that the coordinator has. *facts: a new reference, or NULL. *given: the
 * job began with it, and its workers read their data by it. */
enum err_code description_ask(struct agent *a, int64_t timeout, bool *given, json_t **facts,
    struct err *e);
/* Offers a description (NULL: none) and asks which one holds. *facts: a new reference, or NULL. */
enum err_code description_offer(struct agent *a, const json_t *offer, int64_t timeout,
    json_t **facts, struct err *e);

#endif
