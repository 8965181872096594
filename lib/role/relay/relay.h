/* SPDX-License-Identifier: ISC */
#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

/* A server process as a relay (ps-serve --relay): see store/server_role.h. */
struct server_role;
extern const struct server_role relay_role;

#endif
