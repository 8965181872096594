/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_URI_H
#define FORMAT_URI_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/err.h"

/* Names of objects: s3://BUCKET/KEY, https://HOST/PATH, and http:// of this host. Pure; no
 * locks. */

/* Does the name begin with one of these schemes? */
bool uri_is(const char *name);
bool uri_is_s3(const char *name);

/* s3: bucket and key (may be empty); otherwise url. All are fresh strings. */
struct uri {
	char *bucket, *key, *url;
};
/* ERR_CONFIG says what is wrong with the name. Plain http:// to another host and a URL with a
 * password in it are refused, too. */
enum err_code uri_parse(const char *name, struct uri *out, struct err *e);
void uri_release(struct uri *u);

/* kafka://HOST:PORT,HOST:PORT,.../TOPIC */
bool uri_is_topic(const char *name);
struct uri_topic {
	char *brokers, *topic; /* fresh strings */
};
/* ERR_CONFIG says what is wrong with the name. */
enum err_code uri_topic_parse(const char *name, struct uri_topic *out, struct err *e);
void uri_topic_release(struct uri_topic *t);

/* The name for messages, a fresh string: without the part after "?", which may be a secret, and
 * without control characters. */
char *uri_shown(const char *name);

/* Append text with all but letters, digits and -._~ as %XX; slashes: keep "/". */
void uri_escape(struct buf *out, const char *text, bool slashes);

/* Does the key of an s3 name have *, ? or [? */
bool uri_is_pattern(const char *name);

#endif
