#ifndef CLIENT_PROBE_H
#define CLIENT_PROBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/conn.h"

/* Try a line to a server as a peer would use it: connect, shake hands, ask for an empty
 * answer, send a few large records, have as many sent back.  At most 2 MiB in all, and fewer
 * where the line is slow. */
enum probe_stage { PROBE_CONNECT, PROBE_HANDSHAKE, PROBE_TRANSFER, PROBE_DONE };

struct probe_result {
	enum probe_stage stage;         /* what went wrong; PROBE_DONE: nothing */
	double rtt;                     /* seconds, of the shortest of a few empty questions; from PROBE_TRANSFER on */
	double up, down;                /* bytes a second; 0: not measured */
	struct err why;
};

/* addr: "host:port" or "unix:PATH".  `stop`, when true, ends it within 0.1 s.  On the calling
 * thread, which it blocks; bounded by the waits of conn_check and of 5 s where nothing moves. */
void probe_line(const char *addr, const struct conn_identity *id, const uint8_t key[static 32], const struct hs_client_info *info,
    const atomic_bool *stop, struct probe_result *out);
/* "connect", "handshake", "transfer", "done" */
const char *probe_stage_name(enum probe_stage s);

#endif
