#ifndef WIRE_CHOOSE_H
#define WIRE_CHOOSE_H

#include "base/err.h"
#include "wire/net.h"

/* Which address of this host to listen on, so that others reach it.  The first that is told
 * counts; all may be NULL:
 *   listen  "host:port", as it is
 *   iface   an interface that is up and matches one of these patterns ("eth*,ib0"): IPv4
 *           before IPv6, others before loopback; any port
 *   towards "host:port" of another: the address from which this host reaches it; any port
 *   deflt   as it is
 * why: a few words for the log.  ERR_CONFIG when no interface matches (the sentence names those that
 * there are), ERR_UNREACH when there is no way. */
struct choice {
	const char *listen, *iface, *towards, *deflt;
};
enum err_code choose_listen(const struct choice *c, char out[static NET_TEXT], const char **why, struct err *e);

/* "0.0.0.0:4242" or "[::]:4242": an address to listen on, and none to tell others. */
bool choose_is_any(const char *addr);
/* The same with the port of another: "10.0.0.2:0" and "0.0.0.0:4242" make "10.0.0.2:4242". */
void choose_with_port(const char *host, const char *port, char out[static NET_TEXT]);

#endif
