/* SPDX-License-Identifier: ISC */
#include <curl/curl.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "object/exchange.h"
#include "object/xml.h"

/* Errors of stores as messages that tell the user what to do. */

static const struct {
	const char *code;
	enum err_code err;
	const char *text;
} faults[] = {
	{ "NoSuchBucket", ERR_NOTFOUND, "there is no such bucket" },
	{ "NoSuchKey", ERR_NOTFOUND, "there is no such object" },
	{ "NoSuchUpload", ERR_NOTFOUND, "another process has cancelled the upload" },
	{ "AccessDenied", ERR_AUTH, "access denied: the key may not do this" },
	{ "InvalidAccessKeyId", ERR_AUTH,
	    "the store does not know the access key: check AWS_ACCESS_KEY_ID, AWS_PROFILE and "
	    "AWS_ENDPOINT_URL" },
	{ "SignatureDoesNotMatch", ERR_AUTH,
	    "the secret key does not fit the access key: check AWS_SECRET_ACCESS_KEY" },
	{ "ExpiredToken", ERR_AUTH, "the session token has expired: get new keys" },
	{ "InvalidToken", ERR_AUTH,
	    "the session token does not fit the access key: check AWS_SESSION_TOKEN" },
	{ "RequestTimeTooSkewed", ERR_AUTH,
	    "this host's clock and that of the store are more than 15 minutes apart: set the clock" },
	{ "EntityTooLarge", ERR_LIMIT, "the store does not accept objects of this size" },
	{ "QuotaExceeded", ERR_LIMIT, "the store is full" },
};

static enum err_code report_other_region(const struct object_client *c, const char *shown,
    const char *region, struct err *e)
{
	return err_set(e, ERR_CONFIG,
	    "%s: the bucket is in region \"%s\", and not in \"%s\": set AWS_REGION=%s", shown,
	    region, c->account.region, region);
}

enum err_code object_fault_changed(const struct exchange *x, struct err *e)
{
	char *shown = uri_shown(x->name);
	enum err_code rc = err_set(e, ERR_FORMAT,
	    "%s: it has changed since it was first read; an object must not change while it is "
	    "in use",
	    shown);

	free(shown);
	return rc;
}

static enum err_code report_status(const struct exchange *x, const char *shown, const char *code,
    struct err *e)
{
	char said[96];

	log_escape(said, sizeof said, code, strlen(code));
	/* A part of a version that was read before is no longer there: another object has its
	 * place. */
	if (x->status == 416 && x->version)
		return object_fault_changed(x, e);
	switch (x->status) {
	case 401:
	case 403:
	case 407:
		return err_set(e, ERR_AUTH, "%s: access denied (HTTP %ld%s%s)", shown, x->status,
		    *said ? ", " : "", said);
	case 404:
	case 410:
		return err_set(e, ERR_NOTFOUND, "%s: there is no such object", shown);
	case 412:
		return object_fault_changed(x, e);
	default:
		return err_set(e, x->status >= 500 || x->status == 429 ? ERR_UNREACH : ERR_PROTO,
		    "%s: the answer was HTTP %ld%s%s", shown, x->status, *said ? ", " : "", said);
	}
}

enum err_code object_fault_refused(const struct object_client *c, const struct exchange *x,
    bool *again, struct err *e)
{
	char *code = object_xml_value(x->reply.data, x->reply.len, "Code"),
	     *region = object_xml_value(x->reply.data, x->reply.len, "Region");
	char *shown = uri_shown(x->name),
	     *bucket_at = object_xml_value(x->reply.data, x->reply.len, "Endpoint");
	const char *why = code ? code : "";
	enum err_code rc = ERR_OK;

	*again = x->status >= 500 || x->status == 429 || x->status == 408 ||
	    strcmp(why, "RequestTimeout") == 0;
	for (size_t i = 0; !rc && i < sizeof faults / sizeof *faults; i++)
		if (strcmp(why, faults[i].code) == 0)
			rc = err_set(e, faults[i].err, "%s: %s (HTTP %ld)", shown, faults[i].text,
			    x->status);
	if (!rc && region && strlen(region) < 40 &&
	    strcmp(region, c->account.region ? c->account.region : "") != 0)
		rc = report_other_region(c, shown, region, e);
	else if (!rc && bucket_at && uri_is_s3(x->name))
		rc = err_set(e, ERR_CONFIG,
		    "%s: the bucket is in another region and answers at %.100s: set AWS_REGION",
		    shown, bucket_at);
	if (!rc)
		rc = report_status(x, shown, why, e);
	free(code);
	free(region);
	free(bucket_at);
	free(shown);
	return rc;
}

/* The host that the request went to. */
static void host_to_show(const struct object_client *c, const struct exchange *x,
    char out[static 128])
{
	const char *where = uri_is_s3(x->name) ? object_account_where(&c->account) : x->name,
	           *at = strstr(where, "://");

	at = at ? at + 3 : where;
	snprintf(out, 128, "%.*s", (int)strcspn(at, "/?#"), at);
}

enum err_code object_fault_broken(const struct object_client *c, const struct exchange *x, int curl,
    const char *detail, bool *again, struct err *e)
{
	char *shown = uri_shown(x->name), host[128];
	enum err_code rc;

	host_to_show(c, x, host);
	*again = true;
	switch (curl) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		rc = err_set(e, ERR_UNREACH, "%s: cannot find the address of %s", shown, host);
		break;
	case CURLE_COULDNT_CONNECT:
		rc = err_set(e, ERR_UNREACH, "%s: cannot reach %s: %s", shown, host, detail);
		break;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		*again = false;
		rc = err_set(e, ERR_AUTH,
		    "%s: the certificate of %s is not trusted (%s): name the file of its "
		    "authority in AWS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE",
		    shown, host, detail);
		break;
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_TOO_MANY_REDIRECTS:
	case CURLE_URL_MALFORMAT:
	case CURLE_WEIRD_SERVER_REPLY:
		*again = false;
		rc = err_set(e, ERR_PROTO, "%s: cannot read from %s: %s", shown, host, detail);
		break;
	case CURLE_OUT_OF_MEMORY:
		*again = false;
		rc = err_set(e, ERR_NOMEM, "%s: no memory to ask %s", shown, host);
		break;
	case CURLE_OPERATION_TIMEDOUT:
		rc = err_set(e, ERR_TIMEOUT, "%s: %s does not answer", shown, host);
		break;
	default:
		rc = x->stalled ? err_set(e, ERR_TIMEOUT, "%s: %s sends no more data", shown, host)
		                : err_set(e, ERR_UNREACH, "%s: the connection to %s broke: %s",
		                      shown, host, detail);
	}
	free(shown);
	return rc;
}
