/* SPDX-License-Identifier: ISC */
#include "client/client_source.h"

#include <stdlib.h>

static struct client *client_of(const struct param_source *s)
{
	return ((const struct client_source *)s)->client;
}

static const struct layout *get_layout(const struct param_source *s)
{
	return client_layout(client_of(s));
}

static enum err_code want_dense(struct param_source *s, const struct table *t, const float *base,
    float *dst, struct err *e)
{
	return client_want(client_of(s), t, CLIENT_NOW, base, dst, e);
}

static enum err_code want_rows(struct param_source *s, const struct table *t, const uint64_t *ids,
    size_t n, bool changed, float *dst, struct err *e)
{
	return (changed ? client_want_changed_rows : client_want_rows)(client_of(s), t, CLIENT_NOW,
	    ids, n, dst, e);
}

static enum err_code wait_answers(struct param_source *s, struct err *e)
{
	return client_wait(client_of(s), CLIENT_NOW, e);
}

static enum err_code attend_cluster(struct param_source *s, struct err *e)
{
	return client_attend(client_of(s), e);
}

static enum err_code each_row(struct param_source *s, const struct table *t, param_rows_fn *fn,
    void *ctx, struct err *e)
{
	return client_scan(client_of(s), t, 0, t->nparts, fn, ctx, e);
}

static const struct param_source_ops client_ops = {
	.layout = get_layout,
	.want_dense = want_dense,
	.want_rows = want_rows,
	.wait = wait_answers,
	.attend = attend_cluster,
	.each_row = each_row,
};

void client_source_init(struct client_source *s, struct client *client)
{
	*s = (struct client_source){ .source.ops = &client_ops, .client = client };
}
