/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "core/mem.h"
#include "object/exchange.h"

enum err_code object_get(struct object_client *c, const char *name, object_sink *sink, void *ctx,
    struct err *e)
{
	struct exchange x = { .name = name, .method = "GET", .sink = sink, .ctx = ctx };
	enum err_code rc = object_exchange_run(c, &x, e);

	object_exchange_release(&x);
	return rc;
}

enum err_code object_get_part(struct object_client *c, const char *name,
    const struct object_part *part, object_sink *sink, void *ctx, struct err *e)
{
	struct exchange x = { .name = name,
		.method = "GET",
		.sink = sink,
		.ctx = ctx,
		.begin = part->begin,
		.end = part->end,
		.version = part->version };
	enum err_code rc = object_exchange_run(c, &x, e);

	if (!rc && part->end && x.got < part->end - part->begin) {
		char *shown = uri_shown(name);

		rc = err_set(e, ERR_FORMAT, "%s has become shorter while it was read", shown);
		free(shown);
	}
	object_exchange_release(&x);
	return rc;
}

static enum err_code take_first_bytes(void *ctx, const void *p, size_t n, struct err *e)
{
	struct object_facts *f = ctx;
	size_t room = sizeof f->first - f->nfirst;

	(void)e;
	n = n < room ? n : room;
	memcpy(f->first + f->nfirst, p, n);
	f->nfirst += n;
	return ERR_OK;
}

enum err_code object_stat(struct object_client *c, const char *name, struct object_facts *out,
    struct err *e)
{
	struct exchange x = { .name = name,
		.method = "GET",
		.sink = take_first_bytes,
		.ctx = out,
		.end = sizeof out->first };
	enum err_code rc;

	*out = (struct object_facts){ 0 };
	rc = object_exchange_run(c, &x, e);
	/* An empty object has no such bytes. */
	if (rc && x.status == 416) {
		rc = ERR_OK;
		if (e)
			*e = (struct err){ 0 };
	}
	if (!rc && x.status != 416 && x.total == UINT64_MAX) {
		char *shown = uri_shown(name);

		rc = err_set(e, ERR_PROTO, "%s: the store does not report its size", shown);
		free(shown);
	}
	out->size = x.status == 416 ? 0 : x.total;
	out->ranges = x.status == 206;
	snprintf(out->version, sizeof out->version, "%s", x.status == 416 ? "" : x.etag);
	object_exchange_release(&x);
	return rc;
}

struct small {
	const char *name;
	struct buf *out;
	size_t before, max;
};

static enum err_code append_limited(void *ctx, const void *p, size_t n, struct err *e)
{
	struct small *s = ctx;

	if (n > s->max - (s->out->len - s->before)) {
		char *shown = uri_shown(s->name);
		enum err_code rc = err_set(e, ERR_LIMIT, "%s has more than %zu bytes", shown,
		    s->max);

		free(shown);
		return rc;
	}
	buf_append(s->out, p, n);
	return ERR_OK;
}

enum err_code object_read(struct object_client *c, const char *name, size_t max, struct buf *out,
    struct err *e)
{
	struct small s = { name, out, out->len, max };

	return object_get(c, name, append_limited, &s, e);
}
