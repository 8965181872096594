/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "object/exchange.h"
#include "object/xml.h"

/* Parts grow with their number, so that 10000 of them reach the largest size that a store takes. */
#define WHOLE_MAX     ((size_t)16 << 20)
#define PART          ((size_t)8 << 20)
#define LARGER_AFTER  1000u
#define PARTS_MAX     10000u
#define ABORT_TIMEOUT (5 * NSEC_PER_SEC)

struct upload {
	struct object_client *client;
	const char *name;
	char *id;         /* upload id, escaped for queries */
	struct buf etags; /* <Part>...</Part> for each part uploaded */
	unsigned parts;
	uint64_t size;
};

static enum err_code run_upload_request(struct upload *u, struct exchange *x, struct err *e)
{
	x->name = u->name;
	return object_exchange_run(u->client, x, e);
}

/* Read up to n bytes; *got is less only at the end. */
static enum err_code read_up_to(int fd, uint8_t *p, size_t n, size_t *got, struct err *e)
{
	ssize_t r;

	for (*got = 0; *got < n; *got += (size_t)r) {
		r = read(fd, p + *got, n - *got);
		if (r < 0 && errno == EINTR)
			r = 0;
		else if (r < 0)
			return err_sys(e, ERR_IO, "cannot read the data to upload");
		else if (r == 0)
			break;
	}
	return ERR_OK;
}

static enum err_code put_whole(struct upload *u, const void *p, size_t n, struct err *e)
{
	struct exchange x = { .method = "PUT", .body = p, .body_n = n };
	enum err_code rc = run_upload_request(u, &x, e);

	object_exchange_release(&x);
	return rc;
}

/* ---- parts ---- */

static enum err_code report_not_s3(const struct upload *u, const char *what, struct err *e)
{
	return err_set(e, ERR_PROTO, "%s: the store does not answer as S3 does: %s", u->name, what);
}

static enum err_code begin_upload(struct upload *u, struct err *e)
{
	struct exchange x = { .method = "POST", .query = "uploads=", .body = "" };
	enum err_code rc = run_upload_request(u, &x, e);
	char *id = rc ? NULL : object_xml_value(x.reply.data, x.reply.len, "UploadId");
	struct buf escaped = BUF_INIT;

	if (!rc && !id)
		rc = report_not_s3(u, "its answer has no UploadId", e);
	if (id) {
		uri_escape(&escaped, id, false);
		u->id = (char *)escaped.data;
	}
	free(id);
	object_exchange_release(&x);
	return rc;
}

/* The ETag goes into XML, so accept letters, digits, - and quotes only. */
static bool is_etag(const char *etag)
{
	return *etag &&
	    !etag[strspn(etag,
	        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-\"")];
}

static enum err_code put_part(struct upload *u, const void *p, size_t n, struct err *e)
{
	char *query = mem_printf("partNumber=%u&uploadId=%s", u->parts + 1, u->id);
	struct exchange x = { .method = "PUT", .query = query, .body = p, .body_n = n };
	enum err_code rc = u->parts == PARTS_MAX
	    ? err_set(e, ERR_LIMIT, "%s: it exceeds the limit of object stores", u->name)
	    : run_upload_request(u, &x, e);

	if (!rc && !is_etag(x.etag))
		rc = report_not_s3(u, "a part has no ETag", e);
	if (!rc) {
		u->parts++;
		u->size += n;
		buf_printf(&u->etags, "<Part><PartNumber>%u</PartNumber><ETag>", u->parts);
		for (const char *c = x.etag; *c; c++)
			buf_puts(&u->etags, *c == '"' ? "&quot;" : (char[]){ *c, 0 });
		buf_puts(&u->etags, "</ETag></Part>");
	}
	object_exchange_release(&x);
	free(query);
	return rc;
}

struct sought {
	uint64_t size;
	bool found;
};

static enum err_code note_if_sought(void *ctx, const char *rest, uint64_t size, struct err *e)
{
	struct sought *s = ctx;

	(void)e;
	s->found = s->found || (!*rest && size == s->size);
	return ERR_OK;
}

/* The answer to the completion may have been lost although the upload succeeded. */
static bool object_has_appeared(struct upload *u)
{
	struct sought s = { .size = u->size };

	return object_list(u->client, u->name, note_if_sought, &s, NULL) == ERR_OK && s.found;
}

static enum err_code complete_upload(struct upload *u, struct err *e)
{
	char *query = mem_printf("uploadId=%s", u->id);
	char *body = mem_printf("<CompleteMultipartUpload>%s</CompleteMultipartUpload>",
	    (const char *)u->etags.data);
	struct exchange x = { .method = "POST",
		.query = query,
		.body = body,
		.body_n = strlen(body) };
	enum err_code rc = run_upload_request(u, &x, e);
	char *code = rc ? NULL : object_xml_value(x.reply.data, x.reply.len, "Code");

	if (rc == ERR_NOTFOUND && x.tries > 1 && object_has_appeared(u))
		rc = ERR_OK;
	/* S3 may send status 200 before it knows the result, and then an error in the body. */
	if (code)
		rc = err_set(e, ERR_UNREACH, "%s: its parts were not put together: %.60s", u->name,
		    code);
	free(code);
	object_exchange_release(&x);
	free(query);
	free(body);
	return rc;
}

/* Cancel the upload even when this process has been asked to stop: the store would charge for the
 * parts that it has. */
static void cancel_upload(struct upload *u)
{
	char *query = mem_printf("uploadId=%s", u->id);
	struct exchange x = { .name = u->name, .method = "DELETE", .query = query };
	struct object_wishes before = u->client->wishes;

	u->client->wishes = (struct object_wishes){ .timeout = ABORT_TIMEOUT, .reader = -1 };
	object_exchange_run(u->client, &x, NULL);
	u->client->wishes = before;
	object_exchange_release(&x);
	free(query);
}

/* Double the size of parts after every LARGER_AFTER parts; *p gets the memory for one. */
static enum err_code grow_part_buffer(const struct upload *u, uint8_t **p, size_t *part,
    struct err *e)
{
	uint8_t *larger;

	if (u->parts % LARGER_AFTER != 0)
		return ERR_OK;
	*part *= 2;
	larger = *part > WHOLE_MAX ? realloc(*p, *part) : *p;
	if (!larger)
		return err_set(e, ERR_NOMEM, "no memory for parts of %zu MiB of %s", *part >> 20,
		    u->name);
	*p = larger;
	return ERR_OK;
}

/* *p has the first WHOLE_MAX bytes; more may follow in fd. */
static enum err_code put_parts(struct upload *u, int fd, uint8_t **p, struct err *e)
{
	size_t part = PART, got;
	enum err_code rc = begin_upload(u, e);
	bool more = true;

	for (size_t at = 0; !rc && at < WHOLE_MAX; at += PART)
		rc = put_part(u, *p + at, PART, e);
	while (!rc && more) {
		rc = grow_part_buffer(u, p, &part, e);
		if (!rc)
			rc = read_up_to(fd, *p, part, &got, e);
		if (!rc && got > 0)
			rc = put_part(u, *p, got, e);
		more = !rc && got == part;
	}
	if (!rc)
		rc = complete_upload(u, e);
	if (rc && u->id)
		cancel_upload(u);
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

		rc = err_set(e, ERR_CONFIG, "%s cannot be written to: write s3://BUCKET/KEY",
		    shown);
		free(shown);
	} else if (!p) {
		rc = err_set(e, ERR_NOMEM, "no memory for the parts of %s", name);
	} else {
		rc = read_up_to(fd, p, WHOLE_MAX, &got, e);
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
	enum err_code rc = uri_is_s3(name) ? object_exchange_run(c, &x, e)
	                                   : err_set(e, ERR_CONFIG,
	                                         "%s cannot be removed: only objects "
	                                         "of s3:// can",
	                                         name);

	object_exchange_release(&x);
	return rc;
}
