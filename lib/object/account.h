#ifndef OBJECT_ACCOUNT_H
#define OBJECT_ACCOUNT_H

#include "base/err.h"
#include "object/uri.h"

/* With what S3 is spoken to, as other tools have it: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
 * AWS_SESSION_TOKEN, else AWS_PROFILE (default) of ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE);
 * AWS_REGION, AWS_DEFAULT_REGION or that of ~/.aws/config (AWS_CONFIG_FILE); AWS_ENDPOINT_URL_S3,
 * AWS_ENDPOINT_URL or that of ~/.aws/config. */
struct account {
	char *key, *secret, *token;     /* token: NULL without */
	char *region;
	char *endpoint;                 /* of a store that is not Amazon's: "https://HOST[:PORT]", else NULL */
};

/* ERR_AUTH: there is no key, with a sentence about where it was looked for; ERR_CONFIG: an
 * endpoint that is no URL. */
enum err_code account_load(struct account *out, struct err *e);
void account_release(struct account *a);

/* The value of a key in a section of a file as ~/.aws/credentials, fresh; NULL: there is none. */
char *account_ini(const char *text, const char *section, const char *key);

/* Where an object of a bucket is spoken to: "https://BUCKET.s3.REGION.amazonaws.com/KEY", or
 * "ENDPOINT/BUCKET/KEY".  Fresh. */
char *account_url(const struct account *a, const char *bucket, const char *key);
/* For messages: the host that is spoken to. */
const char *account_where(const struct account *a);

#endif
