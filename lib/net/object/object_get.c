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
