/* SPDX-License-Identifier: ISC */
#ifndef SERVING_ENDPOINT_STATE_H
#define SERVING_ENDPOINT_STATE_H

/* The inside of the HTTP endpoint, shared by predict_http.c (thread, connections, batches),
 * http_exchange.c (one request) and http_routes.c (paths and their answers). The endpoint's thread
 * owns all of it, but for what predict_http.c says. */
#include <microhttpd.h>
#include <stdatomic.h>

#include "core/lock.h"
#include "data/source/data_uri.h"
#include "http/guard.h"
#include "http/listen.h"
#include "serving/bearer_tokens.h"
#include "serving/predict_http.h"
#include "serving/scorer.h"
#include "serving/serve_metrics.h"
#include "serving/v2_request.h"
#include "tool/prediction.h"

/* The states of a connection:
 *
 *   idle      no request has begun, or only a part of its headers has arrived
 *   reading   the headers are complete, and the body arrives      at most serve_deadline
 *   waiting   the request is complete, and waits for its batch
 *   writing   the answer is being sent                            at most serve_deadline
 *   doomed    shut down; libmicrohttpd is about to close it
 *
 *   idle -> reading -> waiting -> writing -> idle; reading -> writing for requests without a batch
 *
 * Each state has a list of connections, the oldest first. When there are too many connections, the
 * oldest idle one is closed for a new one. */
enum conn_phase { CONN_IDLE, CONN_READING, CONN_WAITING, CONN_WRITING, CONN_DOOMED, CONN_PHASES };

struct endpoint;
struct served_conn {
	struct endpoint *ep;
	int fd;
	enum conn_phase phase;
	int64_t since; /* in this phase */
	struct served_conn *prev, *next;
};

struct conn_list {
	struct served_conn *first, *last;
	size_t n;
};

struct http_exchange;
struct serve_route;

/* A thread that answers requests. There are three: the endpoint's own thread; one for requests with
 * large bodies, so that small ones do not wait for them; and one for routes with `work`, which may
 * read a whole table. All but the first have a queue. */
struct answerer {
	struct endpoint *ep;
	struct served_reader *reader; /* of routes with `work`: NULL until the first request */
	struct served_model *model;   /* of the present batch */
	struct scorer *scorer;
	struct buf scratch; /* a copy of a body, which is parsed in place */
	struct v2_head head;
	struct score_task **task;
	size_t task_room;
	struct nearest_indexes *indexes; /* of POST /nearest */

	/* Covered by LOCK_ANSWERER: the requests on their way to the thread. */
	struct mutex lock;
	pthread_cond_t more;
	struct http_exchange **asked;
	size_t nasked, asked_room;
	bool look; /* there is another model */
	bool end;
	pthread_t thread;
	bool running;
};

/* The answer to a request. */
struct serve_answer {
	int status; /* 0: there is none yet */
	struct buf body;
	const char *type;   /* Content-Type, a constant */
	const char *allow;  /* the allowed method, a constant; NULL */
	size_t json_length; /* of v2: the JSON before raw outputs; 0: no raw outputs */
	bool close, retry;  /* Connection: close; Retry-After */
	bool scored;        /* Pskit-Model and Pskit-Age */
	double age;
	char version[64];
};

/* A request and its answer. */
struct http_exchange {
	struct endpoint *ep;
	struct MHD_Connection *mhd;
	struct served_conn *conn;
	char *target; /* path and query; cut at the "?" */
	const char *query;
	const struct serve_route *route;
	bool begun;
	struct buf body;
	size_t charged;      /* bytes of serve_memory that it has taken */
	int64_t complete;    /* when its last byte arrived (clock_now) */
	struct answerer *by; /* answers it */
	struct score_task task;
	/* /predict: how to read the body; borrowed from the endpoint's cache */
	struct read_options *options;
	enum prediction_form form;
	/* v2 */
	int64_t head_length; /* -1: all of the body is JSON */
	struct v2_request v2;
	struct serve_answer answer;
	struct http_exchange *next_free;
};

/* Parsed query strings of /predict: most clients always send the same one. */
struct read_options {
	char *query, *format; /* format: the options, as the key of a batch */
	struct data_options options;
	int form; /* enum prediction_form; -1: by the header Accept */
	unsigned users;
};

struct endpoint_limits {
	int64_t delay, deadline; /* ns */
	size_t connections, rows, body, memory;
};

struct endpoint {
	struct served *served;
	struct log *log;
	struct endpoint_limits limits;
	bool open;                    /* no token is needed: serve_open, or a Unix socket */
	struct bearer_tokens *tokens; /* NULL: none */
	bool client_certificates;
	struct http_bound bound;
	struct MHD_Daemon *mhd;
	char *name; /* of the model, in paths of v2 */

	struct conn_list conns[CONN_PHASES];
	size_t nconns, memory;
	struct http_exchange *free;
	/* Requests that are complete, in the order of their arrival. */
	struct http_exchange **waiting;
	size_t nwaiting, waiting_room;
	struct answerer own, large, work;
	struct read_options *options; /* of the last query */
	struct serve_metrics metrics;

	/* Requests on their way back from the other threads. Covered by LOCK_ANSWERED. */
	struct mutex lock;
	struct http_exchange **answered;
	size_t nanswered, answered_room;

	pthread_t thread;
	bool running;
	int wake; /* an eventfd */
	_Atomic bool stop;
};

/* Bodies with more bytes than this go to the thread for large ones. */
#define LARGE_BODY 65536u
/* predict_http.c: a request is complete, and is to be answered. */
void endpoint_add_request(struct http_exchange *x);
/* predict_http.c: puts a connection into a phase. */
void endpoint_set_phase(struct served_conn *c, enum conn_phase phase);
/* Books bytes of serve_memory for a request. False: there is no room. */
bool endpoint_charge(struct http_exchange *x, size_t bytes);

/* http_exchange.c: the callbacks of libmicrohttpd, with the endpoint as context. */
void *exchange_uri(void *ctx, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result exchange_step(void *ctx, struct MHD_Connection *mhd, const char *url,
    const char *method, const char *version, const char *upload, size_t *n, void **own);
void exchange_done(void *ctx, struct MHD_Connection *mhd, void **own,
    enum MHD_RequestTerminationCode why);
/* Frees those that are kept for use. */
void exchange_free_all(struct endpoint *ep);
/* Makes the answer {"error": "..."}: the status of e->code, or `status` if it is not 0. */
void exchange_fail(struct http_exchange *x, int status, const struct err *e);

/* A path. {name} in it is the name of the model, {version} any version. */
struct serve_route {
	const char *method, *path;
	bool open; /* needs no token */
	/* Answers at once; or NULL: the body is read, and `prepare` makes a task of it. */
	void (*answer)(struct http_exchange *x);
	/* Fills the task. Errors are answered. */
	enum err_code (*prepare)(struct http_exchange *x, struct err *e);
	/* Writes the answer to a scored task. */
	void (*write)(struct http_exchange *x);
	/* Instead of a task: makes the answer by itself, in the thread `work`, after `prepare`. */
	enum err_code (*work)(struct http_exchange *x, struct err *e);
};
/* http_routes.c: finds the route. NULL: none; *allow is the method that the path has, or NULL. */
const struct serve_route *route_find(const struct endpoint *ep, const char *method,
    const char *path, const char **allow);
void read_options_release(struct read_options *o);

#endif
