/* SPDX-License-Identifier: ISC */
#ifndef SOCKET_NET_H
#define SOCKET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Sockets: addresses, listening, connecting, options. No state and no locks; any thread. */

/* Room for the text of an address: "host:port", "[v6]:port", or "unix:PATH". A PATH may be longer
 * than this, and than a socket address. */
#define NET_TEXT 160

/* A list of addresses is a text "ADDR,ADDR,...", without blanks; "unix:PATH" is always one address.
 * They are addresses of processes of which any may serve, such as the coordinators of a cluster,
 * and are tried in turn. Copies address number i, cut to NET_TEXT; false: the list has fewer. NULL
 * is an empty list. */
bool net_list_at(const char *list, size_t i, char out[static NET_TEXT]);

/* Make a non-blocking listening socket. With port 0 the system chooses a port; bound[] is the
 * actual address. If a name has several addresses, the first one that can be bound is used. The
 * file of a Unix socket is replaced if no process listens on it any more. ERR_EXISTS: another
 * process listens there. ERR_CONFIG, ERR_UNREACH, ERR_IO. Resolving a name may block. */
enum err_code net_listen(const char *addr, int backlog, int *fd, char bound[static NET_TEXT],
    struct err *e);

/* As net_listen, but connections are still refused. */
enum err_code net_reserve(const char *addr, int *fd, char bound[static NET_TEXT], struct err *e);
/* Begins to listen on a socket of net_reserve, or goes on with one that listens. backlog: 0: that of the
 * control plane. ERR_EXISTS: another process listens there. */
enum err_code net_listen_reserved(int fd, int backlog, struct err *e);
/* As net_listen, for the control plane. A Unix socket is for this user alone: its directory must
 * belong to us or root and must not be writable by others (ERR_CONFIG). On TCP, [::] is
 * IPv6 alone. */
enum err_code net_listen_control(const char *addr, int *fd, struct err *e);

/* Gives a name by which bind(2) and connect(2) reach the Unix socket at path, of any length: the
 * path itself when it fits, else the file by way of its directory's descriptor under /proc/self/fd,
 * which needs no temporary file and is valid in this process only. *dirfd is that descriptor, to be
 * closed when the name is no longer needed, or -1. ERR_CONFIG when the last component alone does
 * not fit; ERR_NOTFOUND or ERR_IO when the directory cannot be opened. */
#define NET_UNIX_PATH 108 /* sizeof sun_path */
enum err_code net_unix_path(const char *path, char name[static NET_UNIX_PATH], int *dirfd,
    struct err *e);

/* The local address of a bound TCP socket. */
void net_bound(int fd, char bound[static NET_TEXT]);

/* Begin a non-blocking connection: poll *fd for writing, then net_connected tells whether it
 * succeeded. May block to resolve a name, and for a name with several addresses: each but the last
 * gets a second to answer. ERR_CONFIG, ERR_UNREACH. */
enum err_code net_connect(const char *addr, int *fd, struct err *e);
/* Asks the socket for the outcome when poll has reported it; `addr` is in the message.
 * ERR_UNREACH. */
enum err_code net_connected(int fd, const char *addr, struct err *e);

/* Accept one connection, non-blocking and tuned; -1 with errno. Like net_connect, it lets a TCP
 * connection within one host have small sending buffers, which stay in a core's cache. */
int net_accept(int listener);

/* Set the options for sockets with records: TCP_NODELAY, and keep-alive, which ends an idle
 * connection to a vanished host after 3 s; on Unix sockets large buffers. */
void net_tune(int fd);

/* Is the other end's host silent? It is, when it owes us TCP acknowledgements and either three
 * retransmissions (or probes of a full window) are unanswered and nothing has arrived for 1.5 s, or
 * the bytes in flight have been unacknowledged for 4 s. The second rule is for connections that
 * were made over a lossy link: they wait for seconds before the first retransmission (RFC 6298,
 * 5.7), and twice as long before each further one. A stopped process is not silent, because its
 * kernel acknowledges. False for Unix sockets. tcp(7), TCP_INFO.
 *
 * now: clock_now(). *in_flight: state for this socket, 0 at first: since when bytes have been in
 * flight without any acknowledgement. */
bool net_is_silent(int fd, int64_t now, int64_t *in_flight);
/* Is this errno of a failed read or write a fault of the network, not of the other process? */
bool net_is_line_error(int why);
/* The local address from which addr ("host:port") is reached, with port 0. Sends nothing, but
 * resolving a name may block. ERR_UNREACH. */
enum err_code net_source(const char *addr, char out[static NET_TEXT], struct err *e);
/* Is the descriptor a Unix socket? */
bool net_is_unix(int fd);
/* The address of the other end's host, as IPv6; all zeroes for a Unix socket. */
void net_peer_address(int fd, uint8_t out[static 16]);
/* Is the other end on this host: a Unix socket or a loopback address? */
bool net_peer_is_local(int fd);
/* The address of the other end, for logs: "127.0.0.1:4242", "unix". */
void net_peer_text(int fd, char out[static NET_TEXT]);

#endif
