/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_COORDINATOR_H
#define COORDINATOR_COORDINATOR_H

/* The coordinator's process. struct coordinator owns the state machine (coord/coord.h), gives it
 * time and messages, and carries out its decisions. This header is for the files of
 * this folder; the server process calls it through coordinator_role (server/server_coordinator.h).
 *
 * Life: coordinator_start reads or recovers the state, starts the HTTP server, the ticker, the
 * checkpoint scheduler and the uploader. coordinator_stop ends these threads; sessions may still
 * call. coordinator_free comes after the last I/O thread has ended.
 *
 * Threads: the ticker runs coord_tick every 50 ms and sends views whose time has come. I/O threads
 * bring messages of sessions (coordinator_handle). The HTTP server's threads run the routes. The
 * checkpoint scheduler, the uploader, the lease log, the history and each file session have a
 * thread of their own.
 *
 * Locks (their order is in core/lock.def): `lock` covers every member of struct coordinator that is
 * not atomic, except members that never change after coordinator_start and modules that have a lock
 * of their own (`sessions`, `board`). A thread that holds `lock` may take a lock of a higher rank,
 * such as server->keys.lock to read the keys, and holds none of them when it asks for `lock`.
 *
 * No code of this folder holds two such locks at once. The HTTP server calls routes and the
 * coordinator_find_ functions with neither of its locks held; routes_find_key and routes_find_token
 * take keys.lock alone. The order is the other way round for the dashboard's board: its lock is
 * taken first and `lock` inside it (routes_web_feed.c), so it must never be taken under `lock`. The
 * lock of `sessions` is taken only while `lock` is not held.
 *
 * With `lock` held a thread must not wait for an I/O thread or an HTTP thread (session_keys_census,
 * http_server_stop) and must not join a thread: each of them may be waiting for `lock`.
 * No file is written with the lock held: the state, the lease log, the history and checkpoints each
 * have a thread that writes them.
 *
 * A thread that changes the state ends with coordinator_commit_unlock: the state becomes durable,
 * and only then servers, workers and clients learn of the change (state_file.h). A thread that only
 * read it ends with coordinator_unlock. */

#include "coord/coord.h"
#include "coordinator/resumed.h"
#include "core/lock.h"
#include "format/digest.h"
#include "http/server.h"
#include "server/server_coordinator.h"
#include "state/state_store.h"

struct checkpoint_schedule;
struct lease_log;
struct offsite;
struct final_model;
struct history;
struct web_curve;
struct web_sessions;
struct dashboard_feed;
struct trace_request;

/* The speed of the job, sampled for planned settings. */
struct coordinator_pace {
	int64_t at; /* time of the last sample */
	uint64_t step;
	double rate; /* steps a second of the fastest worker */
};

/* The view, and messages to servers that follow it. */
struct coordinator_views {
	bool dirty;             /* the view has changed since it was sent last */
	bool deferred;          /* the ticker has been woken to send it */
	struct view_text *last; /* the view sent last */
	uint64_t layout_epoch;  /* layout epoch of that view */
	int64_t at, send_ns;    /* when it was sent, and how many ns sending it took */
	struct notice *notices, **notices_last;
};

/* The saved state and its writer (state_file.h). */
struct coordinator_state_file {
	uint64_t saved, saved_leases; /* revisions of the state that was written last */
	pthread_t writer;
	pthread_cond_t writer_woken;
	bool writer_started, writer_stop;
	bool writing; /* the writer is writing it, without the lock */
	/* Everything up to these revisions is durable, so answers that depend on it may be sent
	 * (coordinator_may_announce). */
	_Atomic uint64_t announced_up_to, durable_leases;
	struct lease_log *leaselog; /* NULL without a run directory, and in a store's process */
	bool fenced; /* another coordinator owns the run directory: nothing may be announced */
	/* digest of the large description that was written last; empty: none */
	char described[DIGEST_HEX];
	/* in the state that was written last */
	char cluster_id[40], http[NET_TEXT];
	char began[24]; /* random id of this life of the cluster */
	/* when to retry writing it; since when it fails, 0: it does not */
	int64_t save_again, unsaved_since;
};

/* The ownership of the state (ownership.h). */
struct coordinator_ownership {
	pthread_t thread;
	pthread_cond_t woken; /* the thread must stop */
	bool started, stop;
	bool aside;            /* another coordinator may have taken over */
	bool reported;         /* that beats fail */
	int64_t failing_since; /* since when they fail, 0: they do not; and why */
	struct err why;
	struct state_standbys standbys;
};

/* The dashboard. The last two have a lock of their own. */
struct coordinator_web {
	struct web_curve *curve; /* points of the dashboard's charts */
	struct web_sessions *sessions;
	struct dashboard_feed *board; /* the dashboard's snapshot (dashboard_feed.h) */
};

/* All members are covered by `lock` unless the paragraph at the top says otherwise. I/O threads and
 * HTTP threads hold it for one message or request. */
struct coordinator {
	struct server *server;
	struct mutex lock;
	struct coord *coord;
	struct coord_config cfg;
	json_t *config;   /* the job's initial configuration */
	json_t *followed; /* the configuration applied last here (settings_plan_follow) */
	char log_level[LOG_LEVEL_TEXT]; /* and its log level */
	struct adapt *adapt;            /* changes settings by itself (adapt.h) */
	char cluster_id[40];            /* psk_renewal.c, as secret_until */
	/* wall seconds at which the previous psk is forgotten; 0: none is left */
	int64_t secret_until;
	struct coordinator_pace pace;
	struct coordinator_views views;
	struct coordinator_state_file file;
	struct coordinator_ownership ownership;
	struct coordinator_web web;
	bool end_announced;
	char last_end_report[40]; /* of the report of POST /v1/ended that was recorded last */
	struct history *history;  /* events.jsonl and metrics.jsonl */
	struct trace_request *tracing;
	/* Under the lock. Set before its threads start, and NULL again when the coordinator
	 * stops. */
	struct http_server *http;
	int64_t next_metrics;
	pthread_t ticker;
	_Atomic bool stop;
	_Atomic uint64_t turns; /* how often the ticker has woken */
	pthread_cond_t woken;   /* wakes the ticker: it must stop, or a view was deferred */
	/* For coordinator_wait; broadcast by coordinator_commit_unlock and
	 * coordinator_wake_waiters. */
	pthread_cond_t changed;
	struct checkpoint_schedule
	    *checkpoints;       /* checkpoint scheduler; NULL without a run directory */
	bool change_is_awaited; /* an HTTP request is parked until another change is decided */
	int leave_signal;       /* signal that asked the process to leave; 0: none */
	bool leaving;           /* the process leaves as soon as the requested checkpoint is made */
	struct offsite *offsite; /* uploads checkpoints to an object store; NULL without one */
	struct final_model
	    *final_model; /* saves the model at the end; NULL: a supervisor does it */
	struct file_service_session *files; /* open file sessions (file_service.c) */
	bool files_closed;
	struct resumed resumed; /* the checkpoint that the job resumes from */
};

extern const struct server_coordinator coordinator_role;

/* Implements server_coordinator.handle; the HTTP routes use it, too. */
json_t *coordinator_handle(struct coordinator *coordinator, struct coord_self *self,
    const struct message *m, struct durable_point *due, struct err *e);
/* Returns the revision of the view that was sent last. Takes the coordinator's lock. */
uint64_t coordinator_rev_sent(struct coordinator *coordinator);

/* The address of the control plane; "" when the coordinator ends. Takes the lock. */
void coordinator_http_address(struct coordinator *coordinator, char out[static 128]);

/* Any thread; not recursive. */
void coordinator_lock(struct coordinator *coordinator);
/* Releases the lock without announcing anything; after a change use coordinator_commit_unlock. */
void coordinator_unlock(struct coordinator *coordinator);
/* End a change: announce it when it is durable, or wake the writer, which will (the view not before
 * coordinator_view_due). Then unlock and wake coordinator_wait. Writes no file and does not
 * wait. */
void coordinator_commit_unlock(struct coordinator *coordinator);
/* coordinator_commit_unlock, then wait until the state is durable, or until writing it has failed.
 * For answers to clients, who may then rely on the change. Not on an I/O thread. */
void coordinator_commit_wait_unlock(struct coordinator *coordinator);
/* Does the same for an order. ERR_NOTREADY, with advice: the state could not be written, so the
 * order is lost if this process ends before that. */
enum err_code coordinator_commit_order_unlock(struct coordinator *coordinator, struct err *e);
/* Announces a change like coordinator_commit_unlock, but keeps the lock. */
void coordinator_publish(struct coordinator *coordinator);
/* With the lock held: release it until coordinator_commit_unlock or coordinator_wake_waiters is
 * called, or until the time `until` (clock_now; 0: no limit). May return early. */
void coordinator_wait(struct coordinator *coordinator, int64_t until);
/* Run the handlers of all parked HTTP requests again. Takes the HTTP server's lock; any thread. */
void coordinator_wake_parked(struct coordinator *coordinator);
/* With the lock held: wake all threads in coordinator_wait. */
void coordinator_wake_waiters(struct coordinator *coordinator);
/* With the lock held: stop the job and end all processes of the cluster. */
void coordinator_stop_job(struct coordinator *coordinator);
/* With the lock held: record an event of this kind (coord/coord.h) in the history and in the
 * log. */
void coordinator_event(struct coordinator *coordinator, enum event_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* coordinator_view.c. All with the lock held. */
/* Callback of struct coord_io: queue msg for a server. It is sent after the view that it refers
 * to. */
void coordinator_notice(void *ctx, unsigned server, json_t *msg);
/* Free the notices that are still queued. Without the lock when no other thread is left. */
void coordinator_drop_notices(struct coordinator *coordinator);
/* The news of one state: a view, if one is due, and notices to servers. */
struct announcement {
	struct view_text *view; /* NULL: none */
	uint64_t layout_epoch;  /* of that view; without a view, of the previous one */
	struct notice *notices, **last;
};
/* Make *a from the present state and take the queued notices. A view whose time has not come is
 * left to the ticker. */
void coordinator_prepare(struct coordinator *coordinator, struct announcement *a, int64_t now);
/* Send it, or put it back because its state could not be made durable; *a is empty then. */
void coordinator_deliver(struct coordinator *coordinator, struct announcement *a);
/* Puts the notices back in front of those that were queued meanwhile, so that their order stays. */
void coordinator_put_back(struct coordinator *coordinator, struct announcement *a);
/* Prepare and deliver, if the state is durable; else the writer will. */
void coordinator_announce(struct coordinator *coordinator);
/* Send the first view, before there are sessions. */
void coordinator_show_first_view(struct coordinator *coordinator);
/* Send the keys to servers and relays at once, even while the view must wait. */
void coordinator_send_keys(struct coordinator *coordinator);
/* The earliest time (clock_now) at which the next view may be sent. */
int64_t coordinator_view_due(const struct coordinator *coordinator);

/* The routes of routes.def. */
extern const struct http_route coordinator_routes[];
extern const size_t coordinator_nroutes;
/* Callbacks of the HTTP server: fill in the peer of a public key, a bearer token or a dashboard
 * session; false when it is not admitted. Called without the coordinator's lock, by HTTP
 * threads. */
bool routes_find_key(void *ctx, const uint8_t pk[KEY_BYTES], struct http_peer *peer);
/* token: the text of the request's bearer token, which is hashed before it is compared. */
bool routes_find_token(void *ctx, const char *token, struct http_peer *peer);
bool routes_find_session(void *ctx, const char *text, struct http_peer *peer);

#endif
