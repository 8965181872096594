/* SPDX-License-Identifier: ISC */
#include "serving/predict_http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf_key.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/thread.h"
#include "model/model.h"
#include "serving/endpoint_state.h"
#include "serving/nearest_indexes.h"
#include "socket/net.h"

/* Bytes for the headers of a request and of its answer, for each connection. */
#define CONNECTION_MEMORY 8192u
/* Seconds after which libmicrohttpd closes a connection on which nothing happens. */
#define IDLE_SECONDS 300u
#define BACKLOG      4096u
/* The time for answers under way when the server ends, beside serve_deadline. */
#define STOP_PATIENCE (5 * NSEC_PER_SEC)
/* Descriptors that the process needs beside connections. */
#define OTHER_DESCRIPTORS 256u
#define KEY_FILE_MAX      ((size_t)1 << 20)

/* ---- connections ---- */

static void take_out(struct served_conn *c)
{
	struct conn_list *l = &c->ep->conns[c->phase];

	*(c->prev ? &c->prev->next : &l->first) = c->next;
	*(c->next ? &c->next->prev : &l->last) = c->prev;
	l->n--;
}

static void put_last(struct served_conn *c)
{
	struct conn_list *l = &c->ep->conns[c->phase];

	c->prev = l->last;
	c->next = NULL;
	*(l->last ? &l->last->next : &l->first) = c;
	l->last = c;
	l->n++;
}

void endpoint_set_phase(struct served_conn *c, enum conn_phase phase)
{
	take_out(c);
	c->phase = phase;
	c->since = clock_now();
	put_last(c);
}

bool endpoint_charge(struct http_exchange *x, size_t bytes)
{
	struct endpoint *ep = x->ep;

	if (bytes > ep->limits.memory || ep->memory > ep->limits.memory - bytes)
		return false;
	ep->memory += bytes;
	x->charged += bytes;
	return true;
}

/* Ends a connection. Its descriptor stays open: libmicrohttpd sees the end of the stream and closes
 * it. */
static void shut_down(struct served_conn *c)
{
	shutdown(c->fd, SHUT_RDWR);
	endpoint_set_phase(c, CONN_DOOMED);
}

/* A connection has been accepted, or is about to be closed. */
static void note_connection(void *ctx, struct MHD_Connection *mhd, void **own,
    enum MHD_ConnectionNotificationCode code)
{
	struct endpoint *ep = ctx;
	struct served_conn *c = *own;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd,
		    MHD_CONNECTION_INFO_CONNECTION_FD);

		c = mem_alloc(sizeof *c);
		*c = (struct served_conn){ .ep = ep,
			.fd = info ? info->connect_fd : -1,
			.since = clock_now() };
		put_last(c);
		*own = c;
		ep->nconns++;
		/* Some room is left for the next ones. libmicrohttpd would refuse them. */
		if (ep->nconns > ep->limits.connections && ep->conns[CONN_IDLE].first != c)
			shut_down(ep->conns[CONN_IDLE].first);
	} else if (c) {
		take_out(c);
		free(c);
		*own = NULL;
		ep->nconns--;
	}
}

/* Ends those that have been in a phase for longer than the deadline. */
static void cut_late(struct endpoint *ep, enum conn_phase phase, int64_t now)
{
	struct served_conn *c;

	while ((c = ep->conns[phase].first) && now - c->since > ep->limits.deadline) {
		shut_down(c);
		atomic_fetch_add(&ep->metrics.cut, 1);
	}
}

/* ---- batches ---- */

/* Puts a request into the queue of another thread. */
static void queue_request(struct answerer *by, struct http_exchange *x)
{
	mutex_lock(&by->lock);
	by->asked = mem_grow(by->asked, &by->asked_room, by->nasked + 1, sizeof *by->asked);
	by->asked[by->nasked++] = x;
	pthread_cond_signal(&by->more);
	mutex_unlock(&by->lock);
}

void endpoint_add_request(struct http_exchange *x)
{
	struct endpoint *ep = x->ep;

	x->by = x->route->work ? &ep->work : x->body.len > LARGE_BODY ? &ep->large : &ep->own;
	if (x->by != &ep->own) {
		queue_request(x->by, x);
		return;
	}
	ep->waiting = mem_grow(ep->waiting, &ep->waiting_room, ep->nwaiting + 1,
	    sizeof *ep->waiting);
	ep->waiting[ep->nwaiting++] = x;
}

/* Writes the answer to a request of the batch. */
static void write_answer(struct http_exchange *x)
{
	struct err e;

	if (x->task.rc == ERR_OK && x->task.rows > x->ep->limits.rows) {
		err_set(&e, ERR_LIMIT,
		    "the body has %zu examples, and %zu are allowed (serve_rows)", x->task.rows,
		    x->ep->limits.rows);
		exchange_fail(x, 0, &e);
	} else if (x->task.rc) {
		exchange_fail(x, 0, &x->task.e);
	} else {
		x->route->write(x);
	}
}

static void measure_batch(struct endpoint *ep, const struct score_times *t, int64_t written,
    struct http_exchange **x, size_t n)
{
	struct serve_metrics *m = &ep->metrics;
	size_t rows = 0;

	for (size_t i = 0; i < n; i++)
		rows += x[i]->task.rows;
	hist_add(&m->stage[SERVE_PARSE], (uint64_t)t->parse);
	hist_add(&m->stage[SERVE_LOOK_UP], (uint64_t)t->look_up);
	hist_add(&m->stage[SERVE_COMPUTE], (uint64_t)t->compute);
	hist_add(&m->stage[SERVE_WRITE], (uint64_t)written);
	hist_add(&m->batch_requests, n);
	hist_add(&m->batch_rows, rows);
}

/* Makes the answers to n requests, with one model. The thread of the answerer. */
static void make_answers(struct endpoint *ep, struct answerer *by, struct http_exchange **x,
    size_t n)
{
	struct score_times times;
	int64_t scored;

	by->model = served_use(by->reader);
	by->task = mem_grow(by->task, &by->task_room, n, sizeof *by->task);
	for (size_t i = 0; i < n; i++)
		by->task[i] = &x[i]->task;
	scorer_run(by->scorer, by->model, by->task, n, &times);
	scored = clock_now();
	for (size_t i = 0; i < n; i++)
		write_answer(x[i]);
	measure_batch(ep, &times, clock_now() - scored, x, n);
	scorer_forget(by->scorer);
	if (by->model->scores)
		data_unseen_log(by->model->scoring.job.unseen, "the requests", ep->log);
}

/* Sends the answers that are made. One that is there is sent, even if there is no room for more. */
static void send_answers(struct endpoint *ep, struct http_exchange **x, size_t n)
{
	int64_t now = clock_now();

	for (size_t i = 0; i < n; i++) {
		size_t bytes = x[i]->answer.body.cap;

		x[i]->charged += bytes;
		ep->memory += bytes;
		hist_add(&ep->metrics.request, (uint64_t)(now - x[i]->complete));
		MHD_resume_connection(x[i]->mhd);
	}
}

/* Answers all requests that wait. */
static void answer_batch(struct endpoint *ep)
{
	make_answers(ep, &ep->own, ep->waiting, ep->nwaiting);
	send_answers(ep, ep->waiting, ep->nwaiting);
	ep->nwaiting = 0;
}

/* Sends the answers that the other threads have made. */
static void send_answered(struct endpoint *ep)
{
	mutex_lock(&ep->lock);
	send_answers(ep, ep->answered, ep->nanswered);
	ep->nanswered = 0;
	mutex_unlock(&ep->lock);
}

static void wake_endpoint(void *ctx)
{
	struct endpoint *ep = ctx;
	uint64_t one = 1;

	if (write(ep->wake, &one, sizeof one) < 0) {
		/* It is awake already. */
	}
}

/* ---- the other threads ---- */

static void wake_answerer(void *ctx)
{
	struct answerer *by = ctx;

	mutex_lock(&by->lock);
	by->look = true;
	pthread_cond_signal(&by->more);
	mutex_unlock(&by->lock);
}

/* Lets a model go that another one has replaced, with all that was made from it. */
static void look_at_model(struct answerer *by)
{
	if (!by->reader)
		return;
	by->model = served_use(by->reader);
	if (by->indexes)
		nearest_indexes_follow(by->indexes, by->model);
}

/* Waits for the next request. NULL: the endpoint ends. */
static struct http_exchange *next_asked(struct answerer *by)
{
	struct http_exchange *x = NULL;
	bool look = false;

	do {
		/* A new model that nobody asks for is taken, too, so that the old one can be
		 * closed. */
		if (look)
			look_at_model(by);
		mutex_lock(&by->lock);
		while (!by->nasked && !by->end && !by->look)
			mutex_wait(&by->more, &by->lock);
		look = by->look;
		by->look = false;
		if (by->nasked) {
			x = by->asked[0];
			memmove(by->asked, by->asked + 1, --by->nasked * sizeof *by->asked);
		}
		mutex_unlock(&by->lock);
	} while (!x && look);
	return x;
}

/* Ends the thread, which answers first all that it was asked. */
static void end_answerer(struct answerer *by)
{
	if (!by->running)
		return;
	mutex_lock(&by->lock);
	by->end = true;
	pthread_cond_signal(&by->more);
	mutex_unlock(&by->lock);
	pthread_join(by->thread, NULL);
	by->running = false;
}

/* Makes the answer of a route with `work`, for which the model is opened when it is first asked
 * for. */
static void answer_by_work(struct endpoint *ep, struct answerer *by, struct http_exchange *x)
{
	struct err e = { 0 };
	enum err_code rc = ERR_OK;

	if (!by->reader)
		rc = served_reader_open(ep->served, wake_answerer, by, &by->reader, &e);
	if (!rc) {
		look_at_model(by);
		rc = x->route->work(x, &e);
	}
	if (rc)
		exchange_fail(x, 0, &e);
}

static void *run_answerer(void *ctx)
{
	struct answerer *by = ctx;
	struct endpoint *ep = by->ep;
	struct http_exchange *x;

	while ((x = next_asked(by))) {
		if (x->route->work)
			answer_by_work(ep, by, x);
		else
			make_answers(ep, by, &x, 1);
		mutex_lock(&ep->lock);
		ep->answered = mem_grow(ep->answered, &ep->answered_room, ep->nanswered + 1,
		    sizeof *ep->answered);
		ep->answered[ep->nanswered++] = x;
		mutex_unlock(&ep->lock);
		wake_endpoint(ep);
	}
	return NULL;
}

/* ---- the thread ---- */

/* How long the batch waits for further requests; 0: it is answered now. */
static int64_t batch_wait(const struct endpoint *ep, int64_t now)
{
	int64_t waited = now - ep->waiting[0]->complete;

	return waited < ep->limits.delay ? ep->limits.delay - waited : 0;
}

/* The time up to which nothing happens by itself. */
static int64_t next_wait(const struct endpoint *ep)
{
	static const enum conn_phase limited[] = { CONN_READING, CONN_WRITING };
	int64_t now = clock_now(), wait = NSEC_PER_SEC;
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(ep->mhd, &ms) == MHD_YES && ms < 1000)
		wait = (int64_t)ms * NSEC_PER_MSEC;
	for (size_t i = 0; i < sizeof limited / sizeof *limited; i++) {
		const struct served_conn *c = ep->conns[limited[i]].first;
		int64_t left = c ? c->since + ep->limits.deadline - now : wait;

		wait = left < 0 ? 0 : left < wait ? left : wait;
	}
	if (ep->nwaiting) {
		int64_t left = batch_wait(ep, now);

		wait = left < wait ? left : wait;
	}
	return wait;
}

static void await_input(struct endpoint *ep)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(ep->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd p[2] = { { info->epoll_fd, POLLIN, 0 }, { ep->wake, POLLIN, 0 } };
	struct timespec ts;
	int64_t wait = next_wait(ep);
	uint64_t count;

	if (!wait)
		return;
	ts = (struct timespec){ .tv_sec = wait / NSEC_PER_SEC, .tv_nsec = wait % NSEC_PER_SEC };
	if (ppoll(p, 2, &ts, NULL) > 0 && p[1].revents &&
	    read(ep->wake, &count, sizeof count) < 0) {
		/* It has been read. */
	}
}

/* Lets the sockets take and give bytes, and answers the requests that are complete. */
static void turn_endpoint(struct endpoint *ep)
{
	int64_t now;

	MHD_run(ep->mhd);
	send_answered(ep);
	if (ep->nwaiting && !batch_wait(ep, clock_now())) {
		answer_batch(ep);
		/* Sends the answers. */
		MHD_run(ep->mhd);
	}
	now = clock_now();
	cut_late(ep, CONN_READING, now);
	cut_late(ep, CONN_WRITING, now);
	/* A new model that nobody asks for is taken, too, so that the old one can be closed. */
	if (!ep->nwaiting)
		served_use(ep->own.reader);
}

static bool is_busy(const struct endpoint *ep)
{
	return ep->conns[CONN_READING].n || ep->conns[CONN_WAITING].n || ep->conns[CONN_WRITING].n;
}

/* Answers what is under way. New requests on open connections are refused. */
static void drain(struct endpoint *ep)
{
	int fd = MHD_quiesce_daemon(ep->mhd);
	int64_t until = clock_now() + ep->limits.deadline + STOP_PATIENCE;

	if (fd >= 0)
		close(fd);
	do {
		turn_endpoint(ep);
		if (is_busy(ep) && !ep->nwaiting)
			await_input(ep);
	} while ((is_busy(ep) || ep->nwaiting) && clock_now() < until);
	/* libmicrohttpd must not be stopped with suspended connections. */
	if (ep->nwaiting)
		answer_batch(ep);
	end_answerer(&ep->large);
	end_answerer(&ep->work);
	send_answered(ep);
	MHD_run(ep->mhd);
}

static void *run_endpoint(void *ctx)
{
	struct endpoint *ep = ctx;

	while (!atomic_load_explicit(&ep->stop, memory_order_relaxed)) {
		await_input(ep);
		turn_endpoint(ep);
	}
	drain(ep);
	return NULL;
}

/* ---- start and stop ---- */

struct predict_http {
	struct endpoint ep;
	char *cert, *key, *ca; /* texts for libmicrohttpd; NULL: none */
};

__attribute__((format(printf, 2, 0))) static void log_daemon(void *ctx, const char *fmt, va_list ap)
{
	struct endpoint *ep = ctx;
	char text[400], safe[800];
	size_t n;

	vsnprintf(text, sizeof text, fmt, ap);
	n = strlen(text);
	while (n > 0 && text[n - 1] == '\n')
		n--;
	log_escape(safe, sizeof safe, text, n);
	log_debug(ep->log, "serve_http: %s", safe);
}

/* Leaves the target as it was sent. */
static size_t keep_escapes(void *ctx, struct MHD_Connection *mhd, char *text)
{
	(void)ctx;
	(void)mhd;
	return strlen(text);
}

static enum err_code bind_address(const char *address, struct http_bound *b, struct err *e)
{
	enum err_code rc = strncmp(address, "unix:", 5) == 0 ? http_listen_unix(address + 5, b, e)
	                                                     : http_listen_tcp(address, NULL, b, e);

	return rc ? err_prefix(e, "serve_http") : ERR_OK;
}

static enum err_code read_pem(const char *key, const char *path, bool secret, char **out,
    struct err *e)
{
	struct buf text = BUF_INIT;
	struct stat st;

	if (!conf_is_named(path))
		return ERR_OK;
	if (secret && stat(path, &st) == 0 && st.st_mode & 077)
		return err_set(e, ERR_CONFIG,
		    "%s: others may read \"%s\", which is secret: chmod 600 %s", key, path, path);
	if (file_read(path, KEY_FILE_MAX, &text, e)) {
		buf_release(&text);
		err_prefix(e, "%s", key);
		return e ? (e->code = ERR_CONFIG) : ERR_CONFIG;
	}
	buf_append(&text, "", 1);
	*out = (char *)text.data;
	return ERR_OK;
}

static enum err_code start_daemon(struct predict_http *h, struct err *e)
{
	struct endpoint *ep = &h->ep;
	/* libmicrohttpd closes the socket that it is given, even when it fails. */
	int fd = fcntl(ep->bound.fd, F_DUPFD_CLOEXEC, 0);
	size_t n = 0;
	struct MHD_OptionItem o[16] = { 0 };

	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot duplicate the socket of %s", ep->bound.text);
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)log_daemon, ep };
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)exchange_uri, ep };
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)keep_escapes,
		NULL };
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)exchange_done,
		ep };
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)note_connection,
		ep };
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_LISTEN_SOCKET, fd, NULL };
	/* One more than the limit of ours, so that a newcomer can replace another one. */
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_CONNECTION_LIMIT,
		(intptr_t)ep->limits.connections + 64, NULL };
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
		NULL };
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, NULL };
	o[n++] = (struct MHD_OptionItem){ MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL };
	if (h->cert) {
		o[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, h->cert };
		o[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, h->key };
	}
	if (h->ca)
		o[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_TRUST, 0, h->ca };
	o[n] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
	errno = 0;
	ep->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
	        (h->cert ? MHD_USE_TLS : 0),
	    0, NULL, NULL, exchange_step, ep, MHD_OPTION_ARRAY, o, MHD_OPTION_END);
	if (!ep->mhd && h->cert)
		return err_set(e, ERR_CONFIG,
		    "serve_cert: the certificate, its key, or serve_ca cannot be used: each must be "
		    "PEM, and the key must be that of the certificate");
	return ep->mhd ? ERR_OK
	               : err_sys(e, ERR_IO, "cannot start the HTTP server on %s", ep->bound.text);
}

/* Each connection takes a descriptor. */
static enum err_code check_descriptors(size_t connections, struct err *e)
{
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
	if (connections + OTHER_DESCRIPTORS <= l.rlim_cur)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "serve_connections: %zu connections need %zu descriptors, and the limit is %llu (ulimit -n)",
	    connections, connections + OTHER_DESCRIPTORS, (unsigned long long)l.rlim_cur);
}

/* Is there each file that serve_rated names? */
static enum err_code check_rated(const struct conf_strs *rated, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < rated->n; i++)
		rc = conf_path_is_stdin(rated->item[i])
		    ? err_set(e, ERR_CONFIG,
		          "serve_rated: must name files, which are read several times")
		    : conf_path_check("serve_rated", rated->item[i], e);
	return rc;
}

static enum err_code open_endpoint(struct predict_http *h, const struct conf *conf, struct err *e)
{
	struct endpoint *ep = &h->ep;
	enum err_code rc = check_descriptors(ep->limits.connections, e);

	if (!rc)
		rc = check_rated(&conf->serve_rated, e);
	if (!rc && conf_is_named(conf->serve_tokens))
		rc = bearer_tokens_open(conf->serve_tokens, &ep->tokens, e);
	if (!rc)
		rc = read_pem("serve_cert", conf->serve_cert, false, &h->cert, e);
	if (!rc)
		rc = read_pem("serve_key", conf->serve_key, true, &h->key, e);
	if (!rc)
		rc = read_pem("serve_ca", conf->serve_ca, false, &h->ca, e);
	if (!rc)
		rc = served_reader_open(ep->served, wake_endpoint, ep, &ep->own.reader, e);
	if (!rc)
		rc = served_reader_open(ep->served, wake_answerer, &ep->large, &ep->large.reader,
		    e);
	if (!rc)
		rc = bind_address(conf->serve_http, &ep->bound, e);
	return rc ? rc : start_daemon(h, e);
}

static enum err_code start_answerer(struct answerer *by, struct err *e)
{
	enum err_code rc = thread_start(&by->thread, run_answerer, by, e);

	by->running = !rc;
	return rc;
}

static enum err_code start_threads(struct endpoint *ep, struct err *e)
{
	sigset_t all, before;
	enum err_code rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = start_answerer(&ep->large, e);
	if (!rc)
		rc = start_answerer(&ep->work, e);
	if (!rc)
		rc = thread_start(&ep->thread, run_endpoint, ep, e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	ep->running = !rc;
	return rc;
}

/* Says where predictions are answered, and what they may take. */
static void log_start(const struct endpoint *ep, bool tls)
{
	log_info(ep->log, "predictions: %s%s%s as model %s; memory for requests: at most %zu MiB",
	    ep->bound.local ? "unix:"
	        : tls       ? "https://"
	                    : "http://",
	    ep->bound.text, ep->open && !ep->bound.local ? ", open to all users of this host" : "",
	    ep->name, (ep->limits.memory + ep->limits.connections * CONNECTION_MEMORY) >> 20);
}

/* Warns of ratings that nothing uses: only models of ratings have users. */
static void warn_of_unused_ratings(const struct conf *conf, struct log *log)
{
	const struct model_info *model = conf->has_job ? model_info_find(conf->job.model) : NULL;

	if (conf->serve_rated.n && model && (!model->reads || strcmp(model->reads, "ratings") != 0))
		log_warn(log,
		    "serve_rated changes nothing: model %s has no users, whose rated items could be left out",
		    conf->job.model);
}

static void init_answerer(struct answerer *by, struct endpoint *ep)
{
	by->ep = ep;
	by->scorer = scorer_new();
	mutex_init(&by->lock, LOCK_ANSWERER);
	pthread_cond_init(&by->more, NULL);
}

enum err_code predict_http_start(const struct conf *conf, struct served *served, struct log *log,
    struct predict_http **out, struct err *e)
{
	struct predict_http *h = mem_alloc(sizeof *h);
	struct endpoint *ep = &h->ep;
	enum err_code rc;

	*out = NULL;
	ep->served = served;
	ep->log = log;
	ep->bound.fd = -1;
	ep->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ep->limits = (struct endpoint_limits){ .delay = conf->serve_delay,
		.deadline = conf->serve_deadline,
		.connections = (size_t)conf->serve_connections,
		.rows = (size_t)conf->serve_rows,
		.body = (size_t)conf->serve_body,
		.memory = (size_t)conf->serve_memory };
	ep->open = conf->serve_open || strncmp(conf->serve_http, "unix:", 5) == 0;
	ep->client_certificates = conf_is_named(conf->serve_ca);
	ep->name = mem_strdup(conf->name && *conf->name ? conf->name : "model");
	init_answerer(&ep->own, ep);
	init_answerer(&ep->large, ep);
	init_answerer(&ep->work, ep);
	ep->work.indexes = nearest_indexes_new(&conf->serve_rated);
	mutex_init(&ep->lock, LOCK_ANSWERED);
	rc = open_endpoint(h, conf, e);
	if (!rc)
		rc = start_threads(ep, e);
	if (rc) {
		predict_http_stop(h);
		return rc;
	}
	log_start(ep, h->cert != NULL);
	warn_of_unused_ratings(conf, log);
	*out = h;
	return ERR_OK;
}

enum err_code predict_http_reload(struct predict_http *h, struct err *e)
{
	return h->ep.tokens ? bearer_tokens_load(h->ep.tokens, e) : ERR_OK;
}

static void release_answerer(struct answerer *by)
{
	nearest_indexes_free(by->indexes);
	scorer_free(by->scorer);
	served_reader_close(by->reader);
	buf_release(&by->scratch);
	v2_head_release(&by->head);
	free(by->task);
	free(by->asked);
	mutex_destroy(&by->lock);
	pthread_cond_destroy(&by->more);
}

void predict_http_stop(struct predict_http *h)
{
	struct endpoint *ep;

	if (!h)
		return;
	ep = &h->ep;
	atomic_store(&ep->stop, true);
	wake_endpoint(ep);
	if (ep->running)
		pthread_join(ep->thread, NULL);
	end_answerer(&ep->large);
	end_answerer(&ep->work);
	if (ep->mhd)
		MHD_stop_daemon(ep->mhd);
	if (ep->bound.fd >= 0) {
		http_listen_remove(&ep->bound);
		close(ep->bound.fd);
	}
	exchange_free_all(ep);
	if (ep->options)
		read_options_release(ep->options);
	release_answerer(&ep->own);
	release_answerer(&ep->large);
	release_answerer(&ep->work);
	bearer_tokens_free(ep->tokens);
	mutex_destroy(&ep->lock);
	free(ep->answered);
	free(ep->waiting);
	free(ep->name);
	free(h->cert);
	free(h->key);
	free(h->ca);
	close(ep->wake);
	free(h);
}
