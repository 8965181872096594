#ifndef WIRE_NET_H
#define WIRE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Text of an address: "host:port", "[v6]:port", or "unix:PATH". */
#define NET_TEXT 160

/* A non-blocking listening socket.  addr as above; port 0 lets the system
 * choose, and bound[] tells what it chose.  A Unix socket whose file is left
 * over from a dead process is replaced; a living one is ERR_EXISTS.  Of a name's
 * addresses the first that can be had is taken. */
enum err_code net_listen(const char *addr, int backlog, int *fd, char bound[static NET_TEXT], struct err *e);

/* The address of a TCP socket that somebody else has bound. */
void net_bound(int fd, char bound[static NET_TEXT]);

/* A non-blocking connection under way (or made): poll for writing, then
 * net_connected says how it went.  Resolving a name may block, and so may a name
 * of several addresses: each but the last gets a second to answer. */
enum err_code net_connect(const char *addr, int *fd, struct err *e);
enum err_code net_connected(int fd, const char *addr, struct err *e);

/* Accept one; -1 when none is there (errno set). */
int net_accept(int listener);

/* TCP_NODELAY and large buffers, as suits records; an idle line whose other end has
 * vanished ends after 3 s.  Harmless on Unix sockets. */
void net_tune(int fd);

/* Nothing has come from the other end's host for 1.5 s at least, although it owes us
 * acknowledgements: three retransmissions (or probes of a full window) are unanswered.
 * A process that only stands still is not silent, its kernel answers.  Never so on
 * Unix sockets.  tcp(7), TCP_INFO. */
bool net_is_silent(int fd);
/* Of a read or write that failed: it tells of the line, and nothing of the peer. */
bool net_is_line_error(int why);
/* The address of this host from which addr ("host:port") is reached, with port 0. */
enum err_code net_source(const char *addr, char out[static NET_TEXT], struct err *e);
bool net_is_unix(int fd);
/* Is the other end on this host: a Unix socket or a loopback address? */
bool net_peer_is_local(int fd);
/* The peer in words, for logs: "127.0.0.1:4242", "unix". */
void net_peer_text(int fd, char out[static NET_TEXT]);

#endif
