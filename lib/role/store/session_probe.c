/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "store/server_state.h"

/* PROBE measures a link (session/probe.h).  The payload is discarded, and the answer has as many
 * bytes as the record asks for.  One answer at a time: it counts as queued for the session. */

#define PROBED_MAX (256u << 10)

enum conn_verdict session_probe(struct peer *p, const struct record *r)
{
	struct record out = { .type = REC_PROBED, .seq = r->seq, .len = (uint32_t)r->total };

	if (r->total > PROBED_MAX || conn_queued(p->conn)) {
		session_refuse(p, r, ERR_LIMIT,
		    "a probe asks for at most %u bytes, and when the last are sent", PROBED_MAX);
		return CONN_TAKEN;
	}
	memset(conn_reserve(p->conn, out.len), 0, out.len);
	conn_commit(p->conn, &out);
	return CONN_TAKEN;
}
