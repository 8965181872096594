#ifndef SERVER_HOST_H
#define SERVER_HOST_H

/* Inside of the coordinator's host: shared by host.c and routes.c. */
#include "coord/coord.h"
#include "http/server.h"
#include "server/state.h"

struct keep;
struct offsite;
struct history;
struct web_curve;
struct web_sessions;
struct board;
struct tensorboard;
struct tracing;

/* Everything here is covered by `lock`, which is taken before no other lock
 * of ours; lanes and HTTP threads hold it for the length of one message. */
struct host {
	struct server *server;
	pthread_mutex_t lock;
	struct coord *coord;
	struct coord_config cfg;
	json_t *config;                 /* that the job began with */
	json_t *followed;               /* that this process goes by (settings_tick) */
	struct adapt *adapt;            /* what changes them by itself */
	int64_t pace_at;                /* of the fastest worker, then; in steps a second */
	uint64_t pace_step;
	double pace;
	char cluster_id[40];            /* secret.c, with this one */
	int64_t secret_until;           /* wall seconds: then the secret before is to be forgotten; 0: it is */
	bool dirty;                     /* the view must go out */
	bool deferred;                  /* the ticker knows that it must */
	struct views *views;            /* what went out last */
	uint64_t views_era;             /* its layout */
	int64_t views_at, views_made;   /* when, and how long it took to make */
	struct notice *notices, **notices_last; /* to servers, after the view */
	bool told_end;
	struct history *history;        /* events and metrics */
	struct web_curve *curve;        /* what the dashboard shows of the past */
	struct web_sessions *sessions;  /* of dashboards; has a lock of its own */
	struct board *board;            /* likewise (board.h) */
	struct tensorboard *tensorboard; /* metrics for TensorBoard */
	struct tracing *tracing;
	struct http_server *http;
	int64_t next_metrics;
	pthread_t ticker;
	_Atomic bool stop;
	_Atomic uint64_t turns;         /* of the ticker */
	pthread_cond_t woken;           /* the ticker: stop, or a deferred view */
	struct keep *keep;              /* checkpoints; NULL without a run directory */
	bool change_waits;              /* a request is parked until another change is seen by all */
	bool leaving;                   /* as soon as the checkpoint is made that was asked for */
	struct offsite *offsite;        /* copies of them in a store; NULL without one */
	struct file_session *files;     /* files.c */
	bool files_closed;
	pthread_cond_t changed;         /* something may have, since the lock was taken last */
	uint64_t saved, saved_leases;   /* stamps of what state.json has */
	int64_t save_again, unsaved_since;      /* it could not be written */
	json_t *resume;                 /* manifest of the checkpoint that the job goes on from */
	char *resume_path;
};

void host_lock(struct host *h);
/* Sends out what has changed, the view not too often, then unlocks. */
void host_unlock(struct host *h);
/* With the lock held: let others in until something has changed, or the time has
 * come (0: never). */
void host_wait(struct host *h, int64_t until);
/* Parked HTTP requests look again. */
void host_kick(struct host *h);
/* With the lock: who is in host_wait looks again. */
void host_rouse(struct host *h);
/* With the lock held: the job is stopped, all processes end. */
void host_left(struct host *h);
void host_event(struct host *h, const char *kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* host_view.c; all with the lock held but the last */
/* For coord_io: kept until the view has gone out that is the ground for it. */
void host_notice(void *ctx, unsigned server, json_t *msg);
void host_send_view(struct host *h, int64_t now);
/* When the next view may go out. */
int64_t host_view_due(const struct host *h);
/* The view, if it has changed and its time has come, and what was kept. */
void host_send(struct host *h);

extern const struct http_route host_routes[];
extern const size_t host_nroutes;
bool host_find_key(void *ctx, const uint8_t pk[KEY_BYTES], struct http_peer *peer);
bool host_find_token(void *ctx, const char *token, struct http_peer *peer);
bool host_find_session(void *ctx, const char *text, struct http_peer *peer);

#endif
