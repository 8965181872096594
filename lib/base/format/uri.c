/* SPDX-License-Identifier: ISC */
#include "format/uri.h"

#include <string.h>
#include <strings.h>

#include "core/mem.h"

#define S3          "s3://"
#define HTTP        "http://"
#define HTTPS       "https://"
#define KAFKA       "kafka://"
#define BUCKET_MAX  255
#define TOPIC_MAX   249
#define PLAIN       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"
#define TOPIC_PLAIN PLAIN

static bool begins_with_scheme(const char *name, const char *scheme)
{
	return strncmp(name, scheme, strlen(scheme)) == 0;
}

bool uri_is_s3(const char *name)
{
	return begins_with_scheme(name, S3);
}

bool uri_is(const char *name)
{
	return begins_with_scheme(name, S3) || begins_with_scheme(name, HTTPS) ||
	    begins_with_scheme(name, HTTP);
}

bool uri_is_topic(const char *name)
{
	return begins_with_scheme(name, KAFKA);
}

/* The letters that Kafka allows in the name of a topic, and the length. */
static bool is_topic_name(const char *name)
{
	return *name && strspn(name, TOPIC_PLAIN) == strlen(name) && strlen(name) <= TOPIC_MAX;
}

enum err_code uri_topic_parse(const char *name, struct uri_topic *out, struct err *e)
{
	const char *brokers = uri_is_topic(name) ? name + strlen(KAFKA) : "",
	           *slash = strchr(brokers, '/');

	*out = (struct uri_topic){ NULL, NULL };
	if (!slash || slash == brokers || !is_topic_name(slash + 1))
		return err_set(e, ERR_CONFIG,
		    "%s: a topic must be kafka://HOST:PORT/TOPIC, with letters, digits and ._- "
		    "in TOPIC",
		    name);
	out->brokers = mem_printf("%.*s", (int)(slash - brokers), brokers);
	out->topic = mem_strdup(slash + 1);
	return ERR_OK;
}

void uri_topic_release(struct uri_topic *t)
{
	free(t->brokers);
	free(t->topic);
	*t = (struct uri_topic){ NULL, NULL };
}

char *uri_shown(const char *name)
{
	const char *end = uri_is_s3(name) ? NULL : strchr(name, '?');
	char *shown = end ? mem_printf("%.*s?...", (int)(end - name), name) : mem_strdup(name);

	for (char *p = shown; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	return shown;
}

/* The host of a URL, perhaps with a port; *n is its length. */
static const char *url_host(const char *url, size_t *n)
{
	const char *host = strstr(url, "://") + 3;

	*n = strcspn(host, "/?#");
	return host;
}

/* Is it http:// of this host, so that the request leaves no host? */
static bool is_loopback(const char *url)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
	size_t n;
	const char *host = url_host(url, &n);

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t len = strlen(names[i]);

		if (n >= len && strncasecmp(host, names[i], len) == 0 &&
		    (n == len || host[len] == ':'))
			return true;
	}
	return false;
}

static enum err_code parse_s3(const char *name, struct uri *out, struct err *e)
{
	const char *bucket = name + strlen(S3);
	size_t n = strcspn(bucket, "/");

	if (n == 0 || n > BUCKET_MAX)
		return err_set(e, ERR_CONFIG, "\"%s\" names no bucket: write s3://BUCKET/KEY",
		    name);
	for (size_t i = 0; i < n; i++)
		if (!strchr(PLAIN, bucket[i]))
			return err_set(e, ERR_CONFIG,
			    "\"%s\": the name of a bucket cannot have \"%c\": write "
			    "s3://BUCKET/KEY",
			    name, bucket[i]);
	out->bucket = mem_printf("%.*s", (int)n, bucket);
	out->key = mem_strdup(bucket[n] ? bucket + n + 1 : "");
	return ERR_OK;
}

/* The message about a password shows the scheme only, since uri_shown() removes no password. */
static enum err_code parse_url(const char *name, struct uri *out, struct err *e)
{
	char *shown = uri_shown(name);
	enum err_code rc = ERR_OK;
	size_t n;
	const char *host = url_host(name, &n);

	if (n == 0)
		rc = err_set(e, ERR_CONFIG, "\"%s\" names no host", shown);
	else if (memchr(host, '@', n))
		rc = err_set(e, ERR_CONFIG,
		    "%.8s... contains a password, which other users could see: put it into "
		    "~/.netrc",
		    name);
	else if (begins_with_scheme(name, HTTP) && !is_loopback(name))
		rc = err_set(e, ERR_CONFIG,
		    "\"%s\": plain http does not protect the data from changes: use https", shown);
	for (const char *p = name; rc == ERR_OK && *p; p++)
		if (*p <= ' ' || *p == 0x7f)
			rc = err_set(e, ERR_CONFIG, "\"%s\" contains a blank: write %%20", shown);
	free(shown);
	if (rc == ERR_OK)
		out->url = mem_strdup(name);
	return rc;
}

enum err_code uri_parse(const char *name, struct uri *out, struct err *e)
{
	*out = (struct uri){ 0 };
	if (!uri_is(name))
		return err_set(e, ERR_CONFIG,
		    "\"%s\" is not an object: write s3://BUCKET/KEY or https://HOST/PATH", name);
	return uri_is_s3(name) ? parse_s3(name, out, e) : parse_url(name, out, e);
}

void uri_release(struct uri *u)
{
	free(u->bucket);
	free(u->key);
	free(u->url);
	*u = (struct uri){ 0 };
}

void uri_escape(struct buf *out, const char *text, bool slashes)
{
	for (const char *p = text; *p; p++) {
		if (strchr(PLAIN "~", *p) || (slashes && *p == '/'))
			buf_append(out, p, 1);
		else
			buf_printf(out, "%%%02X", (unsigned char)*p);
	}
}

bool uri_is_pattern(const char *name)
{
	return uri_is_s3(name) && strpbrk(name + strlen(S3), "*?[") != NULL;
}
