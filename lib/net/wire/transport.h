/* SPDX-License-Identifier: ISC */
#ifndef WIRE_TRANSPORT_H
#define WIRE_TRANSPORT_H

#include <stdbool.h>

#include "core/err.h"

/* A transport says how the records of a session go between two processes: by TCP, by a Unix socket,
 * or by memory that both share beside a Unix socket (conn_share). The records are the same, and
 * between hosts all transports use TCP. Variants are lines of transport.def.
 *
 * Contract: the functions have no state and take no lock; any thread may call them at any time.
 * takes_socket may look at the file system, and nothing else blocks. */
struct transport {
	const char *name;
	/* For the process that dials: shall it use the Unix socket at `path`, which the other
	 * process names for this host? Else it uses TCP. */
	bool (*takes_socket)(const char *path);
	/* The process that has dialled a Unix socket: offer shared memory? failed: the last session
	 * ended with an offer that had no answer. */
	bool (*offers_memory)(bool failed);
	/* The process that was dialled: accept such offers? limited: its memory is limited by the
	 * setting mem_limit. */
	bool (*accepts_memory)(bool limited);
	/* The user wants shared memory: offer it even to a process that does not accept it, and
	 * warn when there is none. */
	bool insists;
	/* The process that has begun to connect: replace *fd by a descriptor whose bytes take
	 * another way to the same process; *fd then belongs to that way. NULL: they take none. On
	 * an error *fd stays the caller's. */
	enum err_code (*carry)(const struct transport *t, int *fd, struct err *e);
};

/* The transport of this name; NULL: there is none. */
const struct transport *transport_find(const char *name);

#endif
