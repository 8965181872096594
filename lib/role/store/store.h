/* SPDX-License-Identifier: ISC */
#ifndef STORE_STORE_H
#define STORE_STORE_H

/* A server process that holds partitions (ps-serve without --relay): see server/server_role.h. */
struct server_role;
extern const struct server_role store_role;

#endif
