/* SPDX-License-Identifier: ISC */
#include "http/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/num.h"
#include "socket/net.h"

/* Split "host:port" or "[v6]:port". */
static bool split_address(const char *addr, char host[static 256], char port[static 8])
{
	const char *colon = strrchr(addr, ':');
	size_t n;
	uint64_t v;

	if (colon == NULL || !num_uint(colon + 1, 65535, &v) || strlen(colon + 1) >= 8)
		return false;
	n = (size_t)(colon - addr);
	if (n >= 2 && addr[0] == '[' && addr[n - 1] == ']') {
		addr++;
		n -= 2;
	} else if (memchr(addr, ':', n) != NULL) {
		return false;
	}
	if (n == 0 || n >= 256)
		return false;
	memcpy(host, addr, n);
	host[n] = '\0';
	snprintf(port, 8, "%s", colon + 1);
	return true;
}

/* Reads address and port back from the kernel, because a configured port of 0 has become a real
 * one. */
static void describe_bound(struct http_bound *b)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	char host[INET6_ADDRSTRLEN] = "?";

	memset(&ss, 0, sizeof(ss));
	getsockname(b->fd, (struct sockaddr *)&ss, &len);
	if (ss.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)&ss;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		b->port = ntohs(in6->sin6_port);
		b->any = IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
		snprintf(b->text, sizeof(b->text), "[%s]:%u", host, b->port);
	} else {
		const struct sockaddr_in *in = (const void *)&ss;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		b->port = ntohs(in->sin_port);
		b->any = in->sin_addr.s_addr == htonl(INADDR_ANY);
		snprintf(b->text, sizeof(b->text), "%s:%u", host, b->port);
	}
}

enum err_code http_listen_tcp(const char *addr, const char *also, struct http_bound *b,
    struct err *e)
{
	enum err_code rc;
	char port[8];

	memset(b, 0, sizeof(*b));
	b->fd = -1;
	/* An empty host or "*" could mean every address by accident, so they are refused. */
	if (!split_address(addr, b->asked, port) || strcmp(b->asked, "*") == 0)
		return err_set(e, ERR_CONFIG,
		    "\"%s\" is not an address to listen on: write HOST:PORT or [IPV6]:PORT, with "
		    "0.0.0.0 or [::] for every address",
		    addr);
	rc = net_listen_control(addr, &b->fd, e);
	/* A name that cannot be resolved is wrong in the configuration. */
	if (rc == ERR_UNREACH && e)
		e->code = ERR_CONFIG;
	if (rc == ERR_UNREACH)
		rc = ERR_CONFIG;
	if (rc != ERR_OK)
		return rc;
	describe_bound(b);
	if (also != NULL)
		snprintf(b->also, sizeof(b->also), "%s", also);
	return ERR_OK;
}

enum err_code http_listen_unix(const char *path, struct http_bound *b, struct err *e)
{
	char *addr;
	struct stat st;
	enum err_code rc;

	memset(b, 0, sizeof(*b));
	b->fd = -1;
	b->local = true;
	if (strlen(path) >= sizeof(b->text))
		return err_set(e, ERR_CONFIG,
		    "the path of the control socket is longer than %zu "
		    "characters: %s",
		    sizeof(b->text) - 1, path);
	snprintf(b->text, sizeof(b->text), "%s", path);
	addr = mem_printf("unix:%s", path);
	rc = net_listen_control(addr, &b->fd, e);
	free(addr);
	if (rc == ERR_OK && lstat(path, &st) == 0) {
		b->dev = st.st_dev;
		b->ino = st.st_ino;
	}
	return rc;
}

void http_listen_remove(const struct http_bound *b)
{
	struct stat st;

	if (b->local && lstat(b->text, &st) == 0 && st.st_dev == b->dev && st.st_ino == b->ino)
		unlink(b->text);
}

void http_listen_adopt(int fd, const char *also, struct http_bound *b)
{
	memset(b, 0, sizeof(*b));
	b->fd = fd;
	snprintf(b->asked, sizeof(b->asked), "localhost");
	describe_bound(b);
	if (also != NULL)
		snprintf(b->also, sizeof(b->also), "%s", also);
}

/* Is host "NAME:port" with our port, or NAME alone where the port is HTTP's default? */
static bool is_host_named(const struct http_bound *b, const char *host, const char *name)
{
	char want[320];
	bool v6 = strchr(name, ':') != NULL;
	int n = snprintf(want, sizeof(want), v6 ? "[%s]" : "%s", name);

	if (b->port == 80 && strcasecmp(host, want) == 0)
		return true;
	snprintf(want + n, sizeof(want) - (size_t)n, ":%u", b->port);
	return strcasecmp(host, want) == 0;
}

static bool is_any_literal(const struct http_bound *b, const char *host)
{
	char name[256], port[8], mine[8];
	uint8_t ip[16];

	snprintf(mine, sizeof(mine), "%u", b->port);
	if (!split_address(host, name, port) || strcmp(port, mine) != 0)
		return false;
	return inet_pton(AF_INET, name, ip) == 1 || inet_pton(AF_INET6, name, ip) == 1;
}

bool http_host_is_ours(const struct http_bound *b, const char *host)
{
	char machine[256];

	if (b->local || strcasecmp(host, b->text) == 0 || is_host_named(b, host, b->asked) ||
	    is_host_named(b, host, "localhost"))
		return true;
	if (b->also[0] != '\0' && strcasecmp(host, b->also) == 0)
		return true;
	if (!b->any)
		return false;
	if (gethostname(machine, sizeof(machine)) == 0 && is_host_named(b, host, machine))
		return true;
	return is_any_literal(b, host);
}
