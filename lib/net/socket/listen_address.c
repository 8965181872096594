/* SPDX-License-Identifier: ISC */
#include "socket/listen_address.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "core/names.h"

/* Does the name match one of these patterns ("eth*,ib0")? */
static bool matches_interface(const char *patterns, const char *name)
{
	bool found = false;

	for (const char *at = patterns; at && !found; at = names_next(at)) {
		char *pattern = mem_printf("%.*s", (int)strcspn(at, ","), at);

		found = fnmatch(pattern, name, 0) == 0;
		free(pattern);
	}
	return found;
}

/* Link-local IPv6 addresses are left out: they mean nothing without the interface's name. */
static bool is_usable_address(const struct ifaddrs *at, int family)
{
	if (!at->ifa_addr || at->ifa_addr->sa_family != family || !(at->ifa_flags & IFF_UP))
		return false;
	return family == AF_INET ||
	    !IN6_IS_ADDR_LINKLOCAL(
	        &((const struct sockaddr_in6 *)(const void *)at->ifa_addr)->sin6_addr);
}

static void format_interface_address(const struct sockaddr *addr, char out[static NET_TEXT])
{
	char ip[INET6_ADDRSTRLEN] = "";

	if (addr->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)addr)->sin_addr, ip,
		    sizeof ip);
		snprintf(out, NET_TEXT, "%s:0", ip);
	} else {
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr,
		    ip, sizeof ip);
		snprintf(out, NET_TEXT, "[%s]:0", ip);
	}
}

static enum err_code refuse_interface(const char *patterns, const struct ifaddrs *list,
    struct err *e)
{
	struct buf names = BUF_INIT;
	enum err_code rc;

	for (const struct ifaddrs *at = list; at; at = at->ifa_next)
		if (is_usable_address(at, AF_INET) || is_usable_address(at, AF_INET6))
			buf_printf(&names, "%s%s", names.len ? ", " : "", at->ifa_name);
	rc = err_set(e, ERR_CONFIG,
	    "no network interface \"%s\" is up here with an address; there is %s", patterns,
	    names.len ? (char *)names.data : "none");
	buf_release(&names);
	return rc;
}

/* The preference of an address, 0 for the best, -1 for an unusable one: loopback last, because
 * other hosts cannot reach it. */
static int interface_rank(const struct ifaddrs *at)
{
	int rank = at->ifa_flags & IFF_LOOPBACK ? 2 : 0;

	return is_usable_address(at, AF_INET) ? rank
	    : is_usable_address(at, AF_INET6) ? rank + 1
	                                      : -1;
}

static enum err_code address_of_interface(const char *patterns, char out[static NET_TEXT],
    struct err *e)
{
	enum err_code rc = ERR_NOTFOUND;
	struct ifaddrs *list;

	if (getifaddrs(&list))
		return err_sys(e, ERR_IO, "cannot list the network interfaces");
	for (int rank = 0; rc && rank < 4; rank++)
		for (const struct ifaddrs *at = list; rc && at; at = at->ifa_next)
			if (interface_rank(at) == rank &&
			    matches_interface(patterns, at->ifa_name)) {
				format_interface_address(at->ifa_addr, out);
				rc = ERR_OK;
			}
	if (rc)
		rc = refuse_interface(patterns, list, e);
	freeifaddrs(list);
	return rc;
}

enum err_code listen_address_choose(const struct choice *c, char out[static NET_TEXT],
    const char **why, struct err *e)
{
	char first[NET_TEXT];

	if (c->listen || (!c->iface && !c->towards)) {
		*why = c->listen ? "by --listen" : "by the configuration";
		snprintf(out, NET_TEXT, "%s", c->listen ? c->listen : c->deflt);
		return ERR_OK;
	}
	if (!c->iface)
		net_list_at(c->towards, 0, first);
	*why = c->iface ? "of the interface" : "from which it reaches the coordinator";
	return c->iface ? address_of_interface(c->iface, out, e) : net_source(first, out, e);
}

bool listen_address_is_any(const char *addr)
{
	return strncmp(addr, "0.0.0.0:", 8) == 0 || strncmp(addr, "[::]:", 5) == 0;
}

void listen_address_with_port(const char *host, const char *port, char out[static NET_TEXT])
{
	const char *at = strrchr(port, ':');

	snprintf(out, NET_TEXT, "%.*s%s", (int)(strrchr(host, ':') - host), host, at ? at : "");
}

void listen_address_advertise(const char *want, const char *bound, char out[static NET_TEXT])
{
	const char *port = strrchr(bound, ':');

	if (!want)
		snprintf(out, NET_TEXT, "%s", bound);
	else if (strchr(want, ':') && !(want[0] != '[' && strchr(want, ':') != strrchr(want, ':')))
		snprintf(out, NET_TEXT, "%s", want);
	else
		snprintf(out, NET_TEXT, "%s%s", want, port ? port : "");
}
