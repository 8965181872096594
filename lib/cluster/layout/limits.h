/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_LIMITS_H
#define LAYOUT_LIMITS_H

/* Limits on the number of processes of a cluster. */
#define COORD_SERVERS_MAX 1024u
#define COORD_WORKERS_MAX 4096u
#define COORD_RELAYS_MAX  256u
#define COORD_RING_MAX    256 /* workers of a ring: each has a session with every other one */

#endif
