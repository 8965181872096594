#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "object/exchange.h"
#include "object/xml.h"

/* Parts get larger as there are more, so that 10000 of them hold what a store takes. */
#define WHOLE_MAX ((size_t)16 << 20)
#define PART ((size_t)8 << 20)
#define LARGER_AFTER 1000u
#define PARTS_MAX 10000u
#define ABORT_TIMEOUT (5 * NSEC_PER_SEC)

struct upload {
	struct object_client *client;
	const char *name;
	char *id;                       /* escaped, as queries have it */
	struct buf etags;               /* <Part>...</Part> of each that is there */
	unsigned parts;
	uint64_t size;
};

static enum err_code ask(struct upload *u, struct exchange *x, struct err *e)
{
	x->name = u->name;
	return exchange_run(u->client, x, e);
}

/* Up to n bytes; *got is less at the end only. */
static enum err_code read_some(int fd, uint8_t *p, size_t n, size_t *got, struct err *e)
{
	ssize_t r;

	for (*got = 0; *got < n; *got += (size_t)r) {
		r = read(fd, p + *got, n - *got);
		if (r < 0 && errno == EINTR)
			r = 0;
		else if (r < 0)
			return err_sys(e, ERR_IO, "cannot read what is to be stored");
		else if (r == 0)
			break;
	}
	return ERR_OK;
}

static enum err_code put_whole(struct upload *u, const void *p, size_t n, struct err *e)
{
	struct exchange x = { .method = "PUT", .body = p, .body_n = n };
	enum err_code rc = ask(u, &x, e);

	exchange_release(&x);
	return rc;
}

/* ---- parts ------------------------------------------------------------------------------- */

static enum err_code no_s3(const struct upload *u, const char *what, struct err *e)
{
	return err_set(e, ERR_PROTO, "%s: the store does not answer as S3 does: %s", u->name, what);
}

static enum err_code begin(struct upload *u, struct err *e)
{
	struct exchange x = { .method = "POST", .query = "uploads=", .body = "" };
	enum err_code rc = ask(u, &x, e);
	char *id = rc ? NULL : xml_value(x.reply.data, x.reply.len, "UploadId");
	struct buf escaped = BUF_INIT;

	if (!rc && !id)
		rc = no_s3(u, "it gave no UploadId", e);
	if (id) {
		uri_escape(&escaped, id, false);
		u->id = (char *)escaped.data;
	}
	free(id);
	exchange_release(&x);
	return rc;
}

/* What a header says goes into XML: digits and quotes are all that there may be. */
static bool is_etag(const char *etag)
{
	return *etag && !etag[strspn(etag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-\"")];
}

static enum err_code put_part(struct upload *u, const void *p, size_t n, struct err *e)
{
	char *query = mem_printf("partNumber=%u&uploadId=%s", u->parts + 1, u->id);
	struct exchange x = { .method = "PUT", .query = query, .body = p, .body_n = n };
	enum err_code rc = u->parts == PARTS_MAX ? err_set(e, ERR_LIMIT, "%s: no store takes more than this", u->name) :
	                   ask(u, &x, e);

	if (!rc && !is_etag(x.etag))
		rc = no_s3(u, "a part has no ETag", e);
	if (!rc) {
		u->parts++;
		u->size += n;
		buf_printf(&u->etags, "<Part><PartNumber>%u</PartNumber><ETag>", u->parts);
		for (const char *c = x.etag; *c; c++)
			buf_puts(&u->etags, *c == '"' ? "&quot;" : (char[]){ *c, 0 });
		buf_puts(&u->etags, "</ETag></Part>");
	}
	exchange_release(&x);
	free(query);
	return rc;
}

struct sought {
	uint64_t size;
	bool found;
};

static enum err_code seen(void *ctx, const char *rest, uint64_t size, struct err *e)
{
	struct sought *s = ctx;

	(void)e;
	s->found = s->found || (!*rest && size == s->size);
	return ERR_OK;
}

/* The answer to an upload's end may have been lost, and the upload be over. */
static bool is_there(struct upload *u)
{
	struct sought s = { .size = u->size };

	return object_list(u->client, u->name, seen, &s, NULL) == ERR_OK && s.found;
}

static enum err_code complete(struct upload *u, struct err *e)
{
	char *query = mem_printf("uploadId=%s", u->id);
	char *body = mem_printf("<CompleteMultipartUpload>%s</CompleteMultipartUpload>", (const char *)u->etags.data);
	struct exchange x = { .method = "POST", .query = query, .body = body, .body_n = strlen(body) };
	enum err_code rc = ask(u, &x, e);
	char *code = rc ? NULL : xml_value(x.reply.data, x.reply.len, "Code");

	if (rc == ERR_NOTFOUND && x.tries > 1 && is_there(u))
		rc = ERR_OK;
	/* It begins to answer before it knows: an error may come with status 200. */
	if (code)
		rc = err_set(e, ERR_UNREACH, "%s: its parts were not put together: %.60s", u->name, code);
	free(code);
	exchange_release(&x);
	free(query);
	free(body);
	return rc;
}

/* Parts that are left would be paid for; also when we are to stop. */
static void take_back(struct upload *u)
{
	char *query = mem_printf("uploadId=%s", u->id);
	struct exchange x = { .name = u->name, .method = "DELETE", .query = query };
	struct object_wishes before = u->client->wishes;

	u->client->wishes = (struct object_wishes){ .timeout = ABORT_TIMEOUT, .reader = -1 };
	exchange_run(u->client, &x, NULL);
	u->client->wishes = before;
	exchange_release(&x);
	free(query);
}

/* Larger, every so many parts: memory for it at *p. */
static enum err_code grow(const struct upload *u, uint8_t **p, size_t *part, struct err *e)
{
	uint8_t *larger;

	if (u->parts % LARGER_AFTER != 0)
		return ERR_OK;
	*part *= 2;
	larger = *part > WHOLE_MAX ? realloc(*p, *part) : *p;
	if (!larger)
		return err_set(e, ERR_NOMEM, "no memory for parts of %zu MiB of %s", *part >> 20, u->name);
	*p = larger;
	return ERR_OK;
}

/* WHOLE_MAX bytes are at *p, and more may follow. */
static enum err_code put_parts(struct upload *u, int fd, uint8_t **p, struct err *e)
{
	size_t part = PART, got;
	enum err_code rc = begin(u, e);
	bool more = true;

	for (size_t at = 0; !rc && at < WHOLE_MAX; at += PART)
		rc = put_part(u, *p + at, PART, e);
	while (!rc && more) {
		rc = grow(u, p, &part, e);
		if (!rc)
			rc = read_some(fd, *p, part, &got, e);
		if (!rc && got > 0)
			rc = put_part(u, *p, got, e);
		more = !rc && got == part;
	}
	if (!rc)
		rc = complete(u, e);
	if (rc && u->id)
		take_back(u);
	return rc;
}

enum err_code object_put(struct object_client *c, const char *name, int fd, struct err *e)
{
	struct upload u = { .client = c, .name = name };
	uint8_t *p = mem_try_array(WHOLE_MAX, 1);
	size_t got = 0;
	enum err_code rc;

	if (!uri_is_s3(name)) {
		char *shown = uri_shown(name);

		rc = err_set(e, ERR_CONFIG, "%s cannot be written to: write s3://BUCKET/KEY", shown);
		free(shown);
	} else if (!p) {
		rc = err_set(e, ERR_NOMEM, "no memory for the parts of %s", name);
	} else {
		rc = read_some(fd, p, WHOLE_MAX, &got, e);
	}
	if (!rc)
		rc = got < WHOLE_MAX ? put_whole(&u, p, got, e) : put_parts(&u, fd, &p, e);
	buf_release(&u.etags);
	free(u.id);
	free(p);
	return rc;
}

enum err_code object_remove(struct object_client *c, const char *name, struct err *e)
{
	struct exchange x = { .name = name, .method = "DELETE" };
	enum err_code rc = uri_is_s3(name) ? exchange_run(c, &x, e) : err_set(e, ERR_CONFIG, "%s cannot be removed: only objects "
	                   "of s3:// can", name);

	exchange_release(&x);
	return rc;
}
