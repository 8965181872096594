#include "base/clock.h"
#include "server/state.h"

/* A line is tried (client/probe.h): what comes has been read, and as much as is asked for
 * goes back.  One answer at a time: they are within what a session may have queued. */

#define PROBED_MAX (256u << 10)

enum conn_verdict peer_probe(struct peer *p, const struct record *r)
{
	struct record out = { .type = REC_PROBED, .seq = r->seq, .len = (uint32_t)r->total };

	if (r->total > PROBED_MAX || conn_queued(p->conn)) {
		peer_nack(p, r, ERR_LIMIT, "a probe asks for at most %u bytes, and when the last are sent", PROBED_MAX);
		return CONN_TAKEN;
	}
	memset(conn_reserve(p->conn, out.len), 0, out.len);
	conn_commit(p->conn, &out);
	return CONN_TAKEN;
}
