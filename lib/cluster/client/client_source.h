/* SPDX-License-Identifier: ISC */
#ifndef CLIENT_CLIENT_SOURCE_H
#define CLIENT_CLIENT_SOURCE_H

#include "client/client.h"
#include "layout/param_source.h"

/* The servers of a living cluster as a source of parameters: each read is a pull at CLIENT_NOW. The
 * thread that owns the client owns the source, too. */
struct client_source {
	struct param_source source; /* must be first */
	struct client *client;
};

/* Makes the source of a client, which is borrowed. The caller sets source.config and source.facts,
 * if its users need them. There is nothing to release. */
void client_source_init(struct client_source *s, struct client *client);

#endif
