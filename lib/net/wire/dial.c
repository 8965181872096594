/* SPDX-License-Identifier: ISC */
#include "wire/dial.h"

#include <poll.h>
#include <unistd.h>

#include "core/clock.h"

/* How often dial_and_wait asks whether it is over, in ms. */
#define LOOK_EVERY 20

const char *dial_address(const struct dial_target *to, char out[static DIAL_TEXT])
{
	if (to->unix_path && to->unix_path[0] && to->transport->takes_socket(to->unix_path))
		snprintf(out, DIAL_TEXT, "unix:%s", to->unix_path);
	else
		snprintf(out, DIAL_TEXT, "%s", to->tcp);
	return out;
}

enum err_code dial_connect(const struct dial_target *to, char addr[static DIAL_TEXT], int *fd,
    struct err *e)
{
	if (!dial_address(to, addr)[0])
		return err_set(e, ERR_UNREACH, "it has not announced an address");
	return net_connect(addr, fd, e);
}

enum err_code dial_begin_session(const struct dial_target *to, int fd,
    const struct conn_handler *handler, void *ctx, struct conn **out, struct err *e)
{
	struct hs_client_info info = to->info;
	enum err_code rc = to->transport->carry ? to->transport->carry(to->transport, &fd, e)
	                                        : ERR_OK;

	if (rc) {
		close(fd);
		return rc;
	}
	memcpy(info.cluster, to->id->cluster, sizeof info.cluster);
	*out = conn_dial(fd, to->id, to->key, &info, handler, ctx);
	return ERR_OK;
}

enum err_code dial(const struct dial_target *to, const struct conn_handler *handler, void *ctx,
    struct conn **out, struct err *e)
{
	char addr[DIAL_TEXT];
	int fd;
	enum err_code rc = dial_connect(to, addr, &fd, e);

	return rc ? rc : dial_begin_session(to, fd, handler, ctx, out, e);
}

enum err_code dial_and_wait(const struct dial_target *to, int64_t patience, bool (*over)(void *),
    void *over_ctx, const struct conn_handler *handler, void *ctx, struct conn **out, struct err *e)
{
	int64_t end = clock_now() + patience;
	char addr[DIAL_TEXT];
	bool connected = false;
	int fd;
	enum err_code rc = dial_connect(to, addr, &fd, e);

	if (rc)
		return rc;
	while (!rc && !connected) {
		struct pollfd p = { fd, POLLOUT, 0 };

		connected = poll(&p, 1, LOOK_EVERY) > 0;
		if (connected)
			rc = net_connected(fd, addr, e);
		else if (over && over(over_ctx))
			rc = err_set(e, ERR_STOPPED, "the attempt was cancelled");
		else if (clock_now() > end)
			rc = err_set(e, ERR_UNREACH, "cannot reach %s: it does not answer", addr);
	}
	if (!rc)
		return dial_begin_session(to, fd, handler, ctx, out, e);
	close(fd);
	return rc;
}

/* ---- when to dial again ---- */
