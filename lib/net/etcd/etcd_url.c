/* SPDX-License-Identifier: ISC */
#include "etcd/url.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "socket/net.h"

static const char *after_scheme(const char *text, bool *tls)
{
	*tls = strncmp(text, "etcds://", 8) == 0;
	return *tls ? text + 8 : strncmp(text, "etcd://", 7) == 0 ? text + 7 : NULL;
}

bool etcd_is_url(const char *text)
{
	bool tls;

	return after_scheme(text, &tls) != NULL;
}

static enum err_code check_hosts(struct etcd_url *u, struct err *e)
{
	char host[NET_TEXT];

	while (net_list_at(u->hosts, u->nhosts, host)) {
		const char *colon = strrchr(host, ':');
		int64_t port;

		if (!colon || colon == host || !num_int(colon + 1, 1, 65535, &port))
			return err_set(e, ERR_CONFIG,
			    "\"%s\": \"%s\" is not HOST:PORT: write etcd://HOST:PORT,HOST:PORT/PREFIX",
			    u->text, host);
		u->nhosts++;
	}
	if (!u->nhosts)
		return err_set(e, ERR_CONFIG,
		    "\"%s\" names no host: write etcd://HOST:PORT,HOST:PORT/PREFIX", u->text);
	return ERR_OK;
}

static enum err_code read_parts(struct etcd_url *u, struct err *e)
{
	const char *rest = after_scheme(u->text, &u->tls), *slash, *path;
	size_t n;

	if (!rest)
		return err_set(e, ERR_CONFIG, "\"%s\" does not begin with etcd:// or etcds://",
		    u->text);
	slash = strchr(rest, '/');
	u->hosts = mem_printf("%.*s", (int)(slash ? slash - rest : (long)strlen(rest)), rest);
	path = slash ? slash + 1 : "";
	n = strlen(path);
	while (n && path[n - 1] == '/')
		n--;
	if (!n)
		return err_set(e, ERR_CONFIG,
		    "\"%s\" has no prefix for the keys of this cluster: write "
		    "etcd://HOST:PORT,HOST:PORT/PREFIX",
		    u->text);
	u->prefix = mem_printf("/%.*s/", (int)n, path);
	return check_hosts(u, e);
}

enum err_code etcd_url_read(const char *text, struct etcd_url *out, struct err *e)
{
	enum err_code rc;

	*out = (struct etcd_url){ .text = mem_strdup(text) };
	rc = read_parts(out, e);
	if (rc)
		etcd_url_release(out);
	return rc;
}

void etcd_url_release(struct etcd_url *u)
{
	free(u->text);
	free(u->hosts);
	free(u->prefix);
	*u = (struct etcd_url){ 0 };
}
