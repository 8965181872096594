#include "object/account.h"

#include <sodium.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define FILE_MAX (1u << 20)
#define REGION "us-east-1"
#define AMAZON "amazonaws.com"

/* ---- ~/.aws --------------------------------------------------------------------------- */

/* What begins at p, without blanks around it, up to the end of the line: fresh. */
static char *trimmed(const char *p, size_t n)
{
	while (n > 0 && strchr(" \t", *p)) {
		p++;
		n--;
	}
	while (n > 0 && strchr(" \t\r", p[n - 1]))
		n--;
	return mem_printf("%.*s", (int)n, p);
}

/* Is the line the head of the section?  "[profile NAME]" is, too. */
static bool is_head(const char *line, size_t n, const char *section)
{
	char *text = trimmed(line, n), *with = mem_printf("[%s]", section), *as = mem_printf("[profile %s]", section);
	bool is = strcmp(text, with) == 0 || strcmp(text, as) == 0;

	free(text);
	free(with);
	free(as);
	return is;
}

char *account_ini(const char *text, const char *section, const char *key)
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
		/* What is indented belongs to the line before it. */
		if (!inside || !equals || strchr("#; \t", *p))
			continue;
		name = trimmed(p, (size_t)(equals - p));
		found = strcmp(name, key) == 0;
		free(name);
		if (found)
			return trimmed(equals + 1, n - (size_t)(equals + 1 - p));
	}
	return NULL;
}

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static const char *profile(void)
{
	const char *name = environment("AWS_PROFILE");

	return name ? name : "default";
}

/* The path of a file of ~/.aws, fresh; NULL without a home. */
static char *aws_file(const char *variable, const char *name)
{
	const char *path = environment(variable), *home = environment("HOME");

	if (path)
		return mem_strdup(path);
	return home ? mem_printf("%s/.aws/%s", home, name) : NULL;
}

/* All of it, to be wiped; empty when it cannot be read. */
static void read_aws(const char *variable, const char *name, struct buf *out)
{
	char *path = aws_file(variable, name);

	if (path)
		file_read(path, FILE_MAX, out, NULL);
	buf_puts(out, "");
	free(path);
}

static void wipe(struct buf *b)
{
	sodium_memzero(b->data, b->cap);
	buf_release(b);
}

/* ---- the account ----------------------------------------------------------------------- */

static void take_keys(struct account *a)
{
	const char *key = environment("AWS_ACCESS_KEY_ID"), *secret = environment("AWS_SECRET_ACCESS_KEY");
	const char *token = environment("AWS_SESSION_TOKEN");
	struct buf file = BUF_INIT;

	if (key && secret) {
		a->key = mem_strdup(key);
		a->secret = mem_strdup(secret);
		a->token = token ? mem_strdup(token) : NULL;
		return;
	}
	read_aws("AWS_SHARED_CREDENTIALS_FILE", "credentials", &file);
	a->key = account_ini((const char *)file.data, profile(), "aws_access_key_id");
	a->secret = account_ini((const char *)file.data, profile(), "aws_secret_access_key");
	a->token = account_ini((const char *)file.data, profile(), "aws_session_token");
	wipe(&file);
}

static void take_place(struct account *a)
{
	const char *region = environment("AWS_REGION"), *endpoint = environment("AWS_ENDPOINT_URL_S3");
	struct buf file = BUF_INIT;

	if (!region)
		region = environment("AWS_DEFAULT_REGION");
	if (!endpoint)
		endpoint = environment("AWS_ENDPOINT_URL");
	read_aws("AWS_CONFIG_FILE", "config", &file);
	a->region = region ? mem_strdup(region) : account_ini((const char *)file.data, profile(), "region");
	a->endpoint = endpoint ? mem_strdup(endpoint) : account_ini((const char *)file.data, profile(), "endpoint_url");
	wipe(&file);
	if (!a->region)
		a->region = mem_strdup(REGION);
}

static enum err_code no_key(struct err *e)
{
	char *path = aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
	enum err_code rc = err_set(e, ERR_AUTH, "there is no access key for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
	                           "or put them into %s under [%s]; what is public can be read by its https:// name",
	                           path ? path : "~/.aws/credentials", profile());

	free(path);
	return rc;
}

/* It is written into URLs and into what is signed. */
static bool is_region(const char *text)
{
	return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

static enum err_code check(struct account *a, struct err *e)
{
	size_t n;

	if (!a->key || !*a->key || !a->secret || !*a->secret)
		return no_key(e);
	if (!is_region(a->region))
		return err_set(e, ERR_CONFIG, "AWS_REGION: there is no region \"%s\"", a->region);
	if (!a->endpoint)
		return ERR_OK;
	if (!uri_is(a->endpoint) || uri_is_s3(a->endpoint) || strpbrk(a->endpoint, "?#@ "))
		return err_set(e, ERR_CONFIG, "AWS_ENDPOINT_URL: \"%s\" is not https://HOST[:PORT]", a->endpoint);
	for (n = strlen(a->endpoint); n > 0 && a->endpoint[n - 1] == '/'; n--)
		a->endpoint[n - 1] = '\0';
	return ERR_OK;
}

enum err_code account_load(struct account *out, struct err *e)
{
	enum err_code rc;

	*out = (struct account){ 0 };
	take_keys(out);
	take_place(out);
	rc = check(out, e);
	if (rc)
		account_release(out);
	return rc;
}

static void forget(char *secret)
{
	if (secret)
		sodium_memzero(secret, strlen(secret));
	free(secret);
}

void account_release(struct account *a)
{
	free(a->key);
	forget(a->secret);
	forget(a->token);
	free(a->region);
	free(a->endpoint);
	*a = (struct account){ 0 };
}

/* ---- addresses ----------------------------------------------------------------------------- */

/* A certificate of Amazon's fits one label in front of its own name. */
static bool is_label(const char *bucket)
{
	return bucket[strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

char *account_url(const struct account *a, const char *bucket, const char *key)
{
	const char *below = strncmp(a->region, "cn-", 3) == 0 ? ".cn" : "";
	struct buf url = BUF_INIT;

	if (a->endpoint)
		buf_printf(&url, "%s/%s/", a->endpoint, bucket);
	else if (is_label(bucket))
		buf_printf(&url, "https://%s.s3.%s." AMAZON "%s/", bucket, a->region, below);
	else
		buf_printf(&url, "https://s3.%s." AMAZON "%s/%s/", a->region, below, bucket);
	uri_escape(&url, key, true);
	return (char *)url.data;
}

const char *account_where(const struct account *a)
{
	return a->endpoint ? a->endpoint : AMAZON;
}
