/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "client/client_state.h"
#include "core/mem.h"

/* Memory for the gradients of a trainer (client_gradients), which servers of this host may read
 * where it is. */

/* Allocates memory that the client can lend. NULL: the transport needs none, or the system has
 * none. */
static float *lend_gradients(struct client *c, size_t n)
{
	struct err e;

	if (!c->cfg.transport->offers_memory(false) || c->gradients.lent ||
	    lent_new(n * sizeof(float), &c->gradients.lent, &e))
		return NULL;
	return lent_bytes(c->gradients.lent);
}

float *client_gradients(struct client *c, size_t n)
{
	struct gradients *g = &c->gradients;
	float *at = n <= SIZE_MAX / sizeof *at ? lend_gradients(c, n) : NULL;

	client_assert_owner(c);
	if (at)
		return at;
	at = mem_try_array(n, sizeof *at);
	if (!at)
		return NULL;
	g->own = mem_regrow((void *)g->own, g->nown + 1, sizeof *g->own);
	g->own[g->nown++] = at;
	return at;
}

void client_free_gradients(struct client *c)
{
	lent_free(c->gradients.lent);
	for (size_t i = 0; i < c->gradients.nown; i++)
		free(c->gradients.own[i]);
	free((void *)c->gradients.own);
	c->gradients = (struct gradients){ 0 };
}

/* A session that ends without an answer for a push may leave its server with a record of it that is
 * still to be read. The push is then repeated, so that its receipt says that the server has
 * it, and the record is a duplicate, whose values do not count. */
bool client_is_lending(const struct client *c)
{
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->conn && conn_is_lending(c->link[i]->conn))
			return true;
	return false;
}
