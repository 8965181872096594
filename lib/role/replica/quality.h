/* SPDX-License-Identifier: ISC */
#ifndef REPLICA_QUALITY_H
#define REPLICA_QUALITY_H

#include "conf/serve_if.h"
#include "session/identity.h"

/* The quality watch of a read replica (key serve_if). It asks the coordinator of the source for its
 * measures, over HTTP and at most once a second, and says whether new values may be taken over.
 * While they may not, the replica serves the last ones that it took over.
 *
 * One thread, the follower's. */
struct quality;

/* Makes the watch of a condition (serve_if_parse). Connects at the first question. id is borrowed.
 * ERR_CONFIG: the text is not a condition, or a join file has no address of the control plane. */
enum err_code quality_open(const char *condition, const struct identity *id, struct quality **out,
    struct err *e);
/* May values be taken over now? Asks the coordinator if the last answer is older than a second,
 * and waits for its answer at most three. why, of at least 160 bytes, gets a sentence without a
 * subject if they may not. NULL is a watch without a condition. */
bool quality_is_good(struct quality *q, char *why, size_t room);
/* NULL is fine. */
void quality_close(struct quality *q);

#endif
