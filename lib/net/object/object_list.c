/* SPDX-License-Identifier: ISC */
#include <fnmatch.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "object/exchange.h"
#include "object/xml.h"

/* One page of an answer to ListObjectsV2. */
struct page {
	const char *prefix;
	object_listed *fn;
	void *ctx;
	char *key, *token;
	enum err_code rc;
	struct err *e;
};

static void take_list_element(void *ctx, const char *around, const char *name, const char *text)
{
	struct page *p = ctx;
	size_t skip = strlen(p->prefix);
	uint64_t size;

	if (strcmp(name, "NextContinuationToken") == 0) {
		free(p->token);
		p->token = mem_strdup(text);
	} else if (strcmp(around, "Contents") == 0 && strcmp(name, "Key") == 0) {
		free(p->key);
		p->key = mem_strdup(text);
	} else if (strcmp(around, "Contents") == 0 && strcmp(name, "Size") == 0 && p->key &&
	    !p->rc && num_uint(text, INT64_MAX, &size) && strncmp(p->key, p->prefix, skip) == 0) {
		p->rc = p->fn(p->ctx, p->key + skip, size, p->e);
	}
}

static char *query_for(const char *prefix, const char *token)
{
	struct buf q = BUF_INIT;

	if (token) {
		buf_puts(&q, "continuation-token=");
		uri_escape(&q, token, false);
		buf_puts(&q, "&");
	}
	buf_puts(&q, "list-type=2&prefix=");
	uri_escape(&q, prefix, false);
	return (char *)q.data;
}

/* Call fn for the keys of a bucket that begin with prefix. */
static enum err_code list_keys(struct object_client *c, const char *bucket, const char *prefix,
    object_listed *fn, void *ctx, struct err *e)
{
	char *name = mem_printf("s3://%s", bucket), *token = NULL;
	enum err_code rc;

	do {
		char *query = query_for(prefix, token);
		struct exchange x = { .name = name, .method = "GET", .query = query };
		struct page p = { .prefix = prefix, .fn = fn, .ctx = ctx, .e = e };

		free(token);
		rc = object_exchange_run(c, &x, e);
		if (!rc && object_xml_read(x.reply.data, x.reply.len, take_list_element, &p, NULL))
			rc = err_set(e, ERR_PROTO, "%s: the store does not answer as S3 does",
			    name);
		if (!rc)
			rc = p.rc;
		token = p.token;
		free(p.key);
		object_exchange_release(&x);
		free(query);
	} while (!rc && token && *token);
	free(token);
	free(name);
	return rc;
}

static enum err_code parse_s3_name(const char *name, struct uri *u, struct err *e)
{
	enum err_code rc = uri_parse(name, u, e);
	char *shown;

	if (rc || u->bucket)
		return rc;
	uri_release(u);
	shown = uri_shown(name);
	rc = err_set(e, ERR_CONFIG, "cannot list %s: only s3:// can be listed", shown);
	free(shown);
	return rc;
}

enum err_code object_list(struct object_client *c, const char *name, object_listed *fn, void *ctx,
    struct err *e)
{
	struct uri u;
	enum err_code rc = parse_s3_name(name, &u, e);

	if (!rc)
		rc = list_keys(c, u.bucket, u.key, fn, ctx, e);
	uri_release(&u);
	return rc;
}

/* ---- patterns ---- */

struct matching {
	const struct uri *u;
	char *literal; /* the pattern up to its first wildcard */
	object_listed *fn;
	void *ctx;
	size_t found;
};

static enum err_code match_key(void *ctx, const char *rest, uint64_t size, struct err *e)
{
	struct matching *m = ctx;
	char *key = mem_printf("%s%s", m->literal, rest), *name;
	enum err_code rc = ERR_OK;

	if (fnmatch(m->u->key, key, FNM_PATHNAME | FNM_PERIOD) == 0) {
		m->found++;
		name = mem_printf("s3://%s/%s", m->u->bucket, key);
		rc = m->fn(m->ctx, name, size, e);
		free(name);
	}
	free(key);
	return rc;
}

enum err_code object_match(struct object_client *c, const char *pattern, object_listed *fn,
    void *ctx, struct err *e)
{
	struct uri u;
	struct matching m = { .u = &u, .fn = fn, .ctx = ctx };
	enum err_code rc = parse_s3_name(pattern, &u, e);

	if (rc)
		return rc;
	m.literal = mem_printf("%.*s", (int)strcspn(u.key, "*?[\\"), u.key);
	rc = list_keys(c, u.bucket, m.literal, match_key, &m, e);
	if (!rc && m.found == 0)
		rc = err_set(e, ERR_NOTFOUND, "no object matches \"%s\"", pattern);
	free(m.literal);
	uri_release(&u);
	return rc;
}
