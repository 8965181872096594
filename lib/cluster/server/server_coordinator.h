/* SPDX-License-Identifier: ISC */
#ifndef SERVER_SERVER_COORDINATOR_H
#define SERVER_SERVER_COORDINATOR_H

/* The coordinator, as the server process that it runs in calls it. role/coordinator/coordinator.c
 * implements this interface; server.cfg.coordinator is NULL in a process without a coordinator, and
 * server.coordinator is NULL there and before `start`.
 *
 * Life: find_earlier, start, stop, free, each called once by the main thread. After `stop` sessions
 * may still call `handle`, `may_announce` and `gone`; `free` comes after the last I/O thread has
 * ended. All others may be called by any thread; they take the coordinator's lock unless they say
 * otherwise. */
#include "server/server_state.h"

struct server_coordinator {
	/* Called before anything else: become the owner of the state, read the state of an earlier
	 * coordinator, and decide whether to recover it. Sets s->state (NULL: there is none) and
	 * s->recover. ERR_CONFIG, with advice: the run cannot continue from this state; ERR_FORMAT,
	 * ERR_IO: it cannot be read; ERR_EXISTS: another coordinator is running on this host. */
	enum err_code (*find_earlier)(struct server *s, struct err *e);
	/* Sets s->coordinator, also after an error. */
	enum err_code (*start)(struct server *s, struct err *e);
	void (*stop)(struct coordinator *coordinator); /* NULL is fine */
	/* Frees s->coordinator, if there is one, and closes what find_earlier has opened. */
	void (*free)(struct server *s);
	/* Handle a message of the session `self`. Returns the answer (a new reference), or NULL
	 * with or without an error; *due: what must be durable before the answer is sent, and the
	 * revision of the view then. */
	json_t *(*handle)(struct coordinator *coordinator, struct coord_self *self,
	    const struct message *m, struct durable_point *due, struct err *e);
	/* Is that state durable? Takes no lock. io_threads_wake is called when the answer may have
	 * changed. */
	bool (*may_announce)(struct coordinator *coordinator, const struct durable_point *due);
	/* The session of this member has ended. */
	void (*gone)(struct coordinator *coordinator, const struct coord_self *self);
	/* The revision of the view that was sent last. */
	uint64_t (*rev_sent)(struct coordinator *coordinator);
	/* server_leave and server_checkpoint */
	bool (*leave)(struct coordinator *coordinator, int sig);
	bool (*checkpoint)(struct coordinator *coordinator);
	/* Has it been asked to end, or has the job ended? */
	bool (*ended)(struct coordinator *coordinator);
	/* Send the present keys to all servers and relays at once, even while the state cannot be
	 * written. */
	void (*keys_changed)(struct coordinator *coordinator);
	/* All I/O threads of this process have rechecked their sessions (session_keys.h). */
	void (*keys_checked)(struct coordinator *coordinator, const struct message_keys_checked *m);
	/* Take over the connection of a session whose first FILE_ record is held. An I/O thread. */
	void (*take_files)(struct coordinator *coordinator, struct server_session *p);
	/* How often its ticker has turned. Takes no lock. */
	uint64_t (*turns)(struct coordinator *coordinator);
	/* One line about the job for the service manager. */
	void (*describe)(struct coordinator *coordinator, char *out, size_t size);
};

#endif
