/* SPDX-License-Identifier: ISC */
#include <sodium.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "http/state.h"
#include "socket/net.h"

#define REQUEST_TIMEOUT   (5 * NSEC_PER_SEC)
#define STOP_PATIENCE     NSEC_PER_SEC /* time for answers under way */
#define CONNECTIONS       320u   /* for each listener; strangers have at most 128 + 64 of them */
#define CONNECTION_MEMORY 16384u /* bytes for all headers of a request and of its answer */
#define NONCES            65536 /* signed requests in two minutes; a single key may make half of them */

__attribute__((format(printf, 2, 0))) static void daemon_log(void *listener, const char *fmt,
    va_list ap)
{
	struct http_server *s = ((struct http_listener *)listener)->s;
	char text[400], safe[800];
	size_t n;

	if (s->cfg.log == NULL || log_allowed(&s->limit, 10) == 0)
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	n = strlen(text);
	while (n > 0 && text[n - 1] == '\n')
		n--;
	log_escape(safe, sizeof(safe), text, n);
	log_debug(s->cfg.log, "http: %s", safe);
}

/* Leave the target as it was sent: no path of ours has escapes. */
static size_t keep_escapes(void *ctx, struct MHD_Connection *mhd, char *text)
{
	(void)ctx;
	(void)mhd;
	return strlen(text);
}

/* The server's threads take no signals; the program's own threads do. */
static void block_all_signals(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
}

/* Starts the listener's thread. The daemon gets a duplicate of the socket; l->bound.fd stays
 * open and is closed by server_free. The caller has blocked all signals, and the new thread
 * inherits that. ERR_IO. */
static enum err_code start_daemon(struct http_listener *l, struct err *e)
{
	/* libmicrohttpd closes the socket that it is given, even when it fails. */
	int fd = fcntl(l->bound.fd, F_DUPFD_CLOEXEC, 0);
	struct MHD_OptionItem options[] = {
		{ MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)daemon_log, l },
		{ MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)http_request_uri, l },
		{ MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)keep_escapes, NULL },
		{ MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)http_request_done, l },
		{ MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)http_conns_notify, l },
		{ MHD_OPTION_LISTEN_SOCKET, fd, NULL },
		{ MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, NULL },
		{ MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL },
		{ MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};

	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot duplicate the socket of %s", l->bound.text);
	errno = 0;
	l->mhd = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
	        MHD_USE_ERROR_LOG,
	    0, NULL, NULL, http_request_step, l, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
	if (l->mhd == NULL)
		return err_sys(e, ERR_IO, "cannot start the HTTP server on %s", l->bound.text);
	return ERR_OK;
}

/* The condition variables use CLOCK_MONOTONIC, so waits for a deadline of clock_now are not
 * moved by changes of the wall clock. */
static void init_locks(struct http_server *s)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	mutex_init(&s->lock, LOCK_HTTP);
	mutex_init(&s->auth_lock, LOCK_HTTP_AUTH);
	pthread_cond_init(&s->wake, &attr);
	pthread_cond_init(&s->quiet, &attr);
	pthread_condattr_destroy(&attr);
}

/* Closes the listeners, removes the socket file that is ours, and wipes the secrets. All threads
 * of the server must have ended. */
static void server_free(struct http_server *s)
{
	for (size_t i = 0; i < s->nlisteners; i++)
		if (s->listener[i].bound.fd >= 0) {
			http_listen_remove(&s->listener[i].bound);
			close(s->listener[i].bound.fd);
		}
	pthread_cond_destroy(&s->quiet);
	pthread_cond_destroy(&s->wake);
	mutex_destroy(&s->auth_lock);
	mutex_destroy(&s->lock);
	replay_free(s->replay);
	sodium_memzero(s, sizeof(*s));
	free(s);
}

/* Makes one listener for TCP and one for the Unix socket, as configured. After an error,
 * nlisteners counts those that are bound, which server_free closes. */
static enum err_code bind_listeners(struct http_server *s, const struct http_server_config *cfg,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	/* TCP first, so that its address comes first. */
	if (cfg->tcp_fd > 0) {
		rc = net_listen_reserved(cfg->tcp_fd, 0, e);
		http_listen_adopt(cfg->tcp_fd, cfg->tcp_name, &s->listener[0].bound);
		s->nlisteners = 1;
	} else if (cfg->tcp_addr != NULL) {
		rc = http_listen_tcp(cfg->tcp_addr, cfg->tcp_name, &s->listener[0].bound, e);
		if (rc == ERR_OK)
			s->nlisteners = 1;
	}
	if (rc == ERR_OK && cfg->unix_path != NULL) {
		rc = http_listen_unix(cfg->unix_path, &s->listener[s->nlisteners].bound, e);
		if (rc == ERR_OK)
			s->nlisteners++;
	}
	return rc;
}

/* The threads start with all signals blocked. Threads that were started before an error keep
 * running: `reaping` and each listener's mhd show which. */
enum err_code http_server_run(struct http_server *s, struct err *e)
{
	enum err_code rc = ERR_OK;
	sigset_t old;
	int n;

	block_all_signals(&old);
	n = pthread_create(&s->reaper, NULL, http_conns_reaper, s);
	s->reaping = n == 0;
	if (n != 0) {
		errno = n;
		rc = err_sys(e, ERR_FAILED, "cannot start a thread for the HTTP server");
		goto out;
	}
	for (size_t i = 0; i < s->nlisteners && rc == ERR_OK; i++)
		rc = start_daemon(&s->listener[i], e);
out:
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

enum err_code http_server_listen(const struct http_server_config *cfg, struct http_server **out,
    struct err *e)
{
	struct http_server *s = mem_alloc(sizeof(*s));
	enum err_code rc;

	assert(cfg->tcp_addr != NULL || cfg->unix_path != NULL);
	assert(cfg->tcp_addr == NULL || cfg->find_key != NULL);
	s->cfg = *cfg;
	s->cfg.unix_path = s->cfg.tcp_addr = s->cfg.tcp_name = NULL;
	s->request_timeout = cfg->request_timeout > 0 ? cfg->request_timeout : REQUEST_TIMEOUT;
	s->wake_at = INT64_MAX;
	for (size_t i = 0; i < 2; i++) {
		s->listener[i].s = s;
		s->listener[i].bound.fd = -1;
	}
	s->replay = replay_new(NONCES);
	sodium_bin2hex(s->boot, sizeof(s->boot), replay_boot(s->replay), REPLAY_BOOT_BYTES);
	init_locks(s);
	rc = bind_listeners(s, cfg, e);
	if (rc == ERR_OK)
		*out = s;
	else
		server_free(s);
	return rc;
}

/* With the lock held: wait until no request is parked, being handled or being answered, or until
 * STOP_PATIENCE is over. */
static void wait_quiet(struct http_server *s)
{
	int64_t end = clock_now() + STOP_PATIENCE;
	struct timespec ts = { .tv_sec = end / NSEC_PER_SEC, .tv_nsec = end % NSEC_PER_SEC };

	mutex_assert_held(&s->lock);
	for (;;) {
		unsigned busy = 0;

		for (size_t i = 0; i < s->nlisteners; i++) {
			const unsigned *count = s->listener[i].count;

			busy += count[HTTP_PARKED] + count[HTTP_BUSY] + count[HTTP_SENDING];
		}
		if (busy == 0 || mutex_wait_until(&s->quiet, &s->lock, &ts) != 0)
			return;
	}
}

void http_server_stop(struct http_server *s)
{
	int fd[2] = { -1, -1 };

	if (s == NULL)
		return;
	for (size_t i = 0; i < s->nlisteners; i++)
		if (s->listener[i].mhd != NULL)
			fd[i] = MHD_quiesce_daemon(s->listener[i].mhd);
	mutex_lock(&s->lock);
	s->stopping = true;
	/* libmicrohttpd must not be stopped with suspended connections. */
	http_conns_unpark_all(s, true);
	pthread_cond_signal(&s->wake);
	wait_quiet(s);
	mutex_unlock(&s->lock);
	if (s->reaping)
		pthread_join(s->reaper, NULL);
	for (size_t i = 0; i < s->nlisteners; i++) {
		if (s->listener[i].mhd != NULL)
			MHD_stop_daemon(s->listener[i].mhd);
		if (fd[i] >= 0)
			close(fd[i]);
	}
	server_free(s);
}

void http_server_kick(struct http_server *s)
{
	mutex_lock(&s->lock);
	s->kicks++;
	http_conns_unpark_all(s, false);
	mutex_unlock(&s->lock);
}

uint16_t http_server_port(const struct http_server *s)
{
	return s->listener[0].bound.port;
}

const char *http_server_address(const struct http_server *s)
{
	return s->listener[0].bound.text;
}

void http_server_loopback(const struct http_server *s, char out[static 64])
{
	const struct http_bound *b = &s->listener[0].bound;
	bool v6 = b->text[0] == '[';

	out[0] = '\0';
	if (b->local)
		return;
	if (b->any)
		snprintf(out, 64, "%s:%u", v6 ? "[::1]" : "127.0.0.1", b->port);
	else if (strncmp(b->text, "127.", 4) == 0 || strncmp(b->text, "[::1]", 5) == 0)
		snprintf(out, 64, "%.63s", b->text);
}

const char *http_server_boot(const struct http_server *s)
{
	return s->boot;
}

uint64_t http_server_refused(const struct http_server *s)
{
	return atomic_load_explicit(&s->refused, memory_order_relaxed);
}
