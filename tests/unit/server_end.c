/* SPDX-License-Identifier: ISC */
/* Why a server ends, and whether its program begins again: the first reason counts. */
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/server_state.h"
#include "tap.h"

static struct server server;

static void open_server(bool standby)
{
	server.cfg.standby = standby;
	server.end = (struct server_end){ .event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
	mutex_init(&server.end.lock, LOCK_END);
}

static void close_server(void)
{
	mutex_destroy(&server.end.lock);
	close(server.end.event);
}

/* The thread of the beats and the one that writes the state may both find another owner. */
static void standby_is_overtaken(void)
{
	struct err first, second, why;

	err_set(&first, ERR_FENCED, "the state has another owner");
	err_set(&second, ERR_FENCED, "another coordinator has taken over");
	open_server(true);
	ok(!server_ended(&server, &why) && !server_begins_again(&server), "a server goes on");
	server_end_overtaken(&server, &first);
	ok(server_ended(&server, &why) && server_begins_again(&server),
	    "a standby that is overtaken ends and begins again");
	server_end_overtaken(&server, &second);
	ok(server_begins_again(&server), "also when two of its threads find that");
	ok(server_ended(&server, &why) && strcmp(why.msg, first.msg) == 0,
	    "and says what the first one found");
	server_end(&server, NULL);
	ok(server_begins_again(&server), "a later end does not change that");
	close_server();
}

static void others_end(void)
{
	struct err overtaken, why;

	err_set(&overtaken, ERR_FENCED, "another coordinator has taken over");
	open_server(true);
	server_end(&server, NULL);
	server_end_overtaken(&server, &overtaken);
	ok(server_ended(&server, &why) && !server_begins_again(&server),
	    "a standby that was told to end before it is overtaken does not begin again");
	close_server();
	open_server(false);
	server_end_overtaken(&server, &overtaken);
	ok(server_ended(&server, &why) && why.code == ERR_FENCED && !server_begins_again(&server),
	    "a coordinator that does not stand by ends when it is overtaken");
	close_server();
}

int main(void)
{
	standby_is_overtaken();
	others_end();
	return tap_done();
}
