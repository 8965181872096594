/* SPDX-License-Identifier: ISC */
#ifndef SOCKET_LISTEN_ADDRESS_H
#define SOCKET_LISTEN_ADDRESS_H

#include "core/err.h"
#include "socket/net.h"

/* The choice of an address of this host to listen on, so that other hosts can reach it. The first
 * member that is not NULL decides. No state and no locks. */
struct choice {
	/* "host:port", which is taken as it is. */
	const char *listen;
	/* Patterns ("eth*,ib0"): the address of an interface that is up and matches one, IPv4
	 * before IPv6 and others before loopback, with port 0. */
	const char *iface;
	/* "host:port" of another process: the address from which this host reaches it, with port
	 * 0. */
	const char *towards;
	/* "host:port", which is taken as it is. */
	const char *deflt;
};
/* Writes the address to out, and points *why to a few words for the log. Resolving a name may
 * block. ERR_CONFIG: no interface matches; the message lists those that there are. ERR_UNREACH:
 * there is no route. */
enum err_code listen_address_choose(const struct choice *c, char out[static NET_TEXT],
    const char **why, struct err *e);

/* Writes the address that other processes use for a socket that is bound to `bound`: `want` (host, which
 * gets the bound port, or host:port), or, if that is NULL, the bound address. */
void listen_address_advertise(const char *want, const char *bound, char out[static NET_TEXT]);

/* Is it a wildcard, as "0.0.0.0:4242" or "[::]:4242"? It can be listened on, but not
 * advertised. */
bool listen_address_is_any(const char *addr);
/* Combine the host of one address with the port of another: "10.0.0.2:0" and "0.0.0.0:4242" make
 * "10.0.0.2:4242". */
void listen_address_with_port(const char *host, const char *port, char out[static NET_TEXT]);

#endif
