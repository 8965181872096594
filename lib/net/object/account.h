/* SPDX-License-Identifier: ISC */
#ifndef OBJECT_ACCOUNT_H
#define OBJECT_ACCOUNT_H

#include "core/err.h"
#include "format/uri.h"

/* The S3 account, configured as for other tools: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
 * AWS_SESSION_TOKEN, else AWS_PROFILE (default) of ~/.aws/credentials
 * (AWS_SHARED_CREDENTIALS_FILE); AWS_REGION, AWS_DEFAULT_REGION or the region of ~/.aws/config
 * (AWS_CONFIG_FILE); AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the endpoint of ~/.aws/config. No
 * locks. */
struct account {
	char *key, *secret, *token; /* token: may be NULL */
	char *region;
	char *endpoint; /* "https://HOST[:PORT]" of a store that is not Amazon's, else NULL */
};

/* ERR_AUTH: there is no key; the message says where it was looked for. ERR_CONFIG: the endpoint
 * is not a URL. */
enum err_code object_account_load(struct account *out, struct err *e);
void object_account_release(struct account *a);

/* The value of a key in a section of a text like ~/.aws/credentials, a fresh string; NULL: none. */
char *object_account_ini(const char *text, const char *section, const char *key);

/* The URL of an object: "https://BUCKET.s3.REGION.amazonaws.com/KEY", or "ENDPOINT/BUCKET/KEY".
 * A fresh string. */
char *object_account_url(const struct account *a, const char *bucket, const char *key);
/* The store's host, for messages. */
const char *object_account_where(const struct account *a);

#endif
