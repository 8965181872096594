/* SPDX-License-Identifier: ISC */
#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

/* A server process as a relay (ps-serve --relay): see server/server_role.h. */
#include "server/server_role.h"

struct uplink;

extern const struct server_role relay_role;

/* The state of the role. */
struct relay {
	struct uplink *uplink; /* the client of the servers above */
	unsigned number;       /* of this relay in the view; the agent's thread owns it */
};

static inline struct relay *relay_of(const struct server *s)
{
	return s->role_state;
}

#endif
