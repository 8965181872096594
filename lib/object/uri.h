#ifndef OBJECT_URI_H
#define OBJECT_URI_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* Names of objects: s3://BUCKET/KEY, https://HOST/PATH, and http:// of this host. */

/* Does it begin as one of these? */
bool uri_is(const char *name);
bool uri_is_s3(const char *name);

/* s3: bucket and key, which may be empty; else url.  All fresh. */
struct uri {
	char *bucket, *key, *url;
};
/* ERR_CONFIG says what is wrong with the name: also for plain http:// to another host, and for a
 * URL with a password in it. */
enum err_code uri_parse(const char *name, struct uri *out, struct err *e);
void uri_release(struct uri *u);

/* The name as messages have it, fresh: without what stands behind "?", which may be a secret,
 * and without control characters. */
char *uri_shown(const char *name);
/* Is it http:// of this host, which nobody is on the way to? */
bool uri_is_loopback(const char *url);

/* Appends text with all but letters, digits and -._~ as %XX; slashes stay with `slashes`. */
void uri_escape(struct buf *out, const char *text, bool slashes);

/* Of an s3 name: does the key have *, ? or [? */
bool uri_is_pattern(const char *name);

#endif
