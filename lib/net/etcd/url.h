/* SPDX-License-Identifier: ISC */
#ifndef ETCD_URL_H
#define ETCD_URL_H

/* The URL of keys in etcd: "etcd://HOST:PORT,HOST:PORT,.../PREFIX", or "etcds://" for TLS. Needs no
 * libcurl. No state; any thread. */
#include <stdbool.h>

#include "core/err.h"

struct etcd_url {
	char *text;   /* the whole URL */
	char *hosts;  /* a list (net_list_at) */
	char *prefix; /* of all keys, with a slash at both ends */
	unsigned nhosts;
	bool tls;
};

bool etcd_is_url(const char *text);
/* ERR_CONFIG: it is malformed, and *out holds nothing. */
enum err_code etcd_url_read(const char *text, struct etcd_url *out, struct err *e);
void etcd_url_release(struct etcd_url *u);

#endif
