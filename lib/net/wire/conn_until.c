/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "core/clock.h"
#include "wire/conn_state.h"

#define LOOK_EVERY 50

void conn_hand_over(struct conn *c, const struct conn_handler *handler, void *ctx)
{
	c->handler = handler;
	c->ctx = ctx;
}

static enum err_code poll_once(struct conn *c, struct err *e)
{
	struct pollfd p = { c->fd, conn_events(c), 0 };
	enum err_code rc = ERR_OK;

	if (poll(&p, 1, LOOK_EVERY) < 0 && errno != EINTR)
		abort();
	/* Read first: if the other end has refused and closed, read the refusal before a write
	 * fails. */
	if (p.revents & (POLLIN | POLLHUP | POLLERR) || conn_ready(c))
		rc = conn_read(c, e);
	if (!rc && (p.revents & POLLOUT || c->shares_out))
		rc = conn_write(c, e);
	return rc ? rc : conn_check(c, clock_now(), e);
}

enum err_code conn_until(struct conn *c, bool (*ready)(void *ctx), void *ctx, int64_t patience,
    struct err *e)
{
	int64_t moved = clock_now();

	while (!ready(ctx)) {
		uint64_t before = c->bytes_in + c->bytes_out;
		enum err_code rc = poll_once(c, e);

		if (rc)
			return rc;
		if (c->bytes_in + c->bytes_out != before)
			moved = clock_now();
		else if (clock_now() - moved > patience)
			return err_set(e, ERR_TIMEOUT, "nothing has come or gone for %d s",
			    (int)(patience / NSEC_PER_SEC));
	}
	return ERR_OK;
}
