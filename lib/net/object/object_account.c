/* SPDX-License-Identifier: ISC */
#include "object/account.h"

#include <sodium.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"

#define FILE_MAX (1u << 20)
#define REGION   "us-east-1"
#define AMAZON   "amazonaws.com"

/* ---- ~/.aws ---- */

/* A fresh copy of n bytes at p without blanks around them. */
static char *copy_trimmed(const char *p, size_t n)
{
	while (n > 0 && strchr(" \t", *p)) {
		p++;
		n--;
	}
	while (n > 0 && strchr(" \t\r", p[n - 1]))
		n--;
	return mem_printf("%.*s", (int)n, p);
}

/* Is the line the header of the section? "[profile NAME]" counts, too. */
static bool is_head(const char *line, size_t n, const char *section)
{
	char *text = copy_trimmed(line, n), *with = mem_printf("[%s]", section),
	     *as = mem_printf("[profile %s]", section);
	bool is = strcmp(text, with) == 0 || strcmp(text, as) == 0;

	free(text);
	free(with);
	free(as);
	return is;
}

char *object_account_ini(const char *text, const char *section, const char *key)
{
	bool inside = false;
	size_t n;

	for (const char *p = text; *p; p += n + (p[n] == '\n')) {
		const char *equals;
		char *name;
		bool found;

		n = strcspn(p, "\n");
		if (*p == '[') {
			inside = is_head(p, n, section);
			continue;
		}
		equals = memchr(p, '=', n);
		/* An indented line belongs to the line before it. */
		if (!inside || !equals || strchr("#; \t", *p))
			continue;
		name = copy_trimmed(p, (size_t)(equals - p));
		found = strcmp(name, key) == 0;
		free(name);
		if (found)
			return copy_trimmed(equals + 1, n - (size_t)(equals + 1 - p));
	}
	return NULL;
}

static const char *nonempty_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static const char *aws_profile(void)
{
	const char *name = nonempty_env("AWS_PROFILE");

	return name ? name : "default";
}

/* The path of a file of ~/.aws, a fresh string; NULL without a home. */
static char *aws_file(const char *variable, const char *name)
{
	const char *path = nonempty_env(variable), *home = nonempty_env("HOME");

	if (path)
		return mem_strdup(path);
	return home ? mem_printf("%s/.aws/%s", home, name) : NULL;
}

/* Read all of a file; empty when it cannot be read. The caller wipes it. */
static void read_aws(const char *variable, const char *name, struct buf *out)
{
	char *path = aws_file(variable, name);

	if (path)
		file_read(path, FILE_MAX, out, NULL);
	buf_puts(out, "");
	free(path);
}

static void wipe_buffer(struct buf *b)
{
	sodium_memzero(b->data, b->cap);
	buf_release(b);
}

/* ---- the account ---- */

static void load_access_keys(struct account *a)
{
	const char *key = nonempty_env("AWS_ACCESS_KEY_ID"),
	           *secret = nonempty_env("AWS_SECRET_ACCESS_KEY");
	const char *token = nonempty_env("AWS_SESSION_TOKEN");
	struct buf file = BUF_INIT;

	if (key && secret) {
		a->key = mem_strdup(key);
		a->secret = mem_strdup(secret);
		a->token = token ? mem_strdup(token) : NULL;
		return;
	}
	read_aws("AWS_SHARED_CREDENTIALS_FILE", "credentials", &file);
	a->key = object_account_ini((const char *)file.data, aws_profile(), "aws_access_key_id");
	a->secret = object_account_ini((const char *)file.data, aws_profile(),
	    "aws_secret_access_key");
	a->token = object_account_ini((const char *)file.data, aws_profile(), "aws_session_token");
	wipe_buffer(&file);
}

static void load_region_and_endpoint(struct account *a)
{
	const char *region = nonempty_env("AWS_REGION"),
	           *endpoint = nonempty_env("AWS_ENDPOINT_URL_S3");
	struct buf file = BUF_INIT;

	if (!region)
		region = nonempty_env("AWS_DEFAULT_REGION");
	if (!endpoint)
		endpoint = nonempty_env("AWS_ENDPOINT_URL");
	read_aws("AWS_CONFIG_FILE", "config", &file);
	a->region = region ? mem_strdup(region)
	                   : object_account_ini((const char *)file.data, aws_profile(), "region");
	a->endpoint = endpoint
	    ? mem_strdup(endpoint)
	    : object_account_ini((const char *)file.data, aws_profile(), "endpoint_url");
	wipe_buffer(&file);
	if (!a->region)
		a->region = mem_strdup(REGION);
}

static enum err_code report_no_key(struct err *e)
{
	char *path = aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
	enum err_code rc = err_set(e, ERR_AUTH,
	    "there is no access key for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
	    "put them into %s under [%s]; a public object can be read by its https:// name",
	    path ? path : "~/.aws/credentials", aws_profile());

	free(path);
	return rc;
}

/* The region becomes part of URLs and of the signature. */
static bool is_region_name(const char *text)
{
	return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

static enum err_code check_account(struct account *a, struct err *e)
{
	size_t n;

	if (!a->key || !*a->key || !a->secret || !*a->secret)
		return report_no_key(e);
	if (!is_region_name(a->region))
		return err_set(e, ERR_CONFIG, "AWS_REGION: there is no region \"%s\"", a->region);
	if (!a->endpoint)
		return ERR_OK;
	if (!uri_is(a->endpoint) || uri_is_s3(a->endpoint) || strpbrk(a->endpoint, "?#@ "))
		return err_set(e, ERR_CONFIG, "AWS_ENDPOINT_URL: \"%s\" is not https://HOST[:PORT]",
		    a->endpoint);
	for (n = strlen(a->endpoint); n > 0 && a->endpoint[n - 1] == '/'; n--)
		a->endpoint[n - 1] = '\0';
	return ERR_OK;
}

enum err_code object_account_load(struct account *out, struct err *e)
{
	enum err_code rc;

	*out = (struct account){ 0 };
	load_access_keys(out);
	load_region_and_endpoint(out);
	rc = check_account(out, e);
	if (rc)
		object_account_release(out);
	return rc;
}

static void wipe_string(char *secret)
{
	if (secret)
		sodium_memzero(secret, strlen(secret));
	free(secret);
}

void object_account_release(struct account *a)
{
	free(a->key);
	wipe_string(a->secret);
	wipe_string(a->token);
	free(a->region);
	free(a->endpoint);
	*a = (struct account){ 0 };
}

/* ---- addresses ---- */

/* Amazon's certificate is valid for one label before its own name, so a bucket with a dot needs
 * the other form. */
static bool is_dns_label(const char *bucket)
{
	return bucket[strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

char *object_account_url(const struct account *a, const char *bucket, const char *key)
{
	const char *below = strncmp(a->region, "cn-", 3) == 0 ? ".cn" : "";
	struct buf url = BUF_INIT;

	if (a->endpoint)
		buf_printf(&url, "%s/%s/", a->endpoint, bucket);
	else if (is_dns_label(bucket))
		buf_printf(&url, "https://%s.s3.%s." AMAZON "%s/", bucket, a->region, below);
	else
		buf_printf(&url, "https://s3.%s." AMAZON "%s/%s/", a->region, below, bucket);
	uri_escape(&url, key, true);
	return (char *)url.data;
}

const char *object_account_where(const struct account *a)
{
	return a->endpoint ? a->endpoint : AMAZON;
}
