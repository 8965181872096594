#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include "base/notify.h"
#include "server/server.h"

/* A server as a service of systemd or the like (base/notify.h): says when it is ready, how
 * it stands, and, as long as its event loops turn, that it lives.  Nothing without such a
 * manager.  All calls come from one thread. */
struct service {
	struct notify notify;
	struct server *server;
	bool ready, stopping;
	int64_t said_at, pinged_at;     /* the state, a sign of life */
	char said[200];
};

void service_open(struct service *v, struct server *s);
/* Say what is to be said now; returns when to call again, by clock_now(); 0: need not be. */
int64_t service_turn(struct service *v);
void service_reloading(struct service *v);
/* Keys were read again; or why not. */
void service_reloaded(struct service *v);
/* It ends, and may take so long. */
void service_stopping(struct service *v, int64_t grace_ns);
void service_close(struct service *v, const struct err *why);

#endif
