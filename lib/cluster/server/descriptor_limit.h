/* SPDX-License-Identifier: ISC */
#ifndef SERVER_DESCRIPTOR_LIMIT_H
#define SERVER_DESCRIPTOR_LIMIT_H

#include "server/server_state.h"

/* The file descriptors that a server process may open, and how they are divided. Each session and
 * each connection that is still in its handshake has one. FILES_RESERVE of them are kept for the
 * files of checkpoints, for logs and for the control plane: a connection that would take one of
 * these is refused, unless another one in its handshake can be closed for it. */
#define FILES_RESERVE 64u

/* Raise the soft limit to the hard limit, and store it in s->files_most. */
void descriptor_limit_raise(struct server *s);
/* ERR_CONFIG, with a message that says what to set, if the limit is too low for the workers and
 * servers of this configuration. */
enum err_code descriptor_limit_check(const struct server *s, const struct conf *conf,
    struct err *e);
/* The number of connections that may be in their handshake at once, in all and from one address. */
unsigned descriptor_limit_half_open(const struct server *s);
/* Returns the bound for one address; several workers of one host count together. */
unsigned descriptor_limit_half_open_host(const struct server *s);
/* Does this descriptor lie in the reserve? The system gives out the lowest free number. */
bool descriptor_limit_in_reserve(const struct server *s, int fd);

#endif
