/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include "core/notify.h"
#include "server/server.h"

/* A server as a service of systemd or another manager with its protocol (core/notify.h): this
 * reports when the server is ready, its state in a line, and, as long as all event loops turn, that
 * it is alive. Without a manager it does nothing. The main thread makes all calls. */
struct service {
	struct notify notify;
	struct server *server;
	bool ready, stopping;
	int64_t said_at, pinged_at; /* when the state and the last sign of life were sent */
	char last_line[200];        /* the last state that was sent */
};

/* Connects to the service manager that the environment names; without one every later call
 * returns at once. s is borrowed. */
void service_open(struct service *v, struct server *s);
/* Send what is due. Returns when to call again (clock_now); 0: never. */
int64_t service_turn(struct service *v);
/* authorized_keys is being read again; it has been read, successfully or not. */
void service_reloading(struct service *v);
/* Reports the end of a reload that service_reloading began. Call it in each case, or the manager
 * waits. */
void service_reloaded(struct service *v);
/* The server begins to leave, which may take grace_ns. */
void service_stopping(struct service *v, int64_t grace_ns);
/* The server ends, for this reason (why->code may be ERR_OK). */
void service_close(struct service *v, const struct err *why);

#endif
