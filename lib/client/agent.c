#include "client/agent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "wire/msg.h"
#include "wire/net.h"

#define RETRY_MIN (20 * NSEC_PER_MSEC)
#define RETRY_MAX (1 * NSEC_PER_SEC)
/* A server that dies within a handshake looks as one that refuses it; one that
 * refuses does so every time. */
#define DENIALS 3
#define HELLO_DEADLINE (5 * NSEC_PER_SEC)

/* A question under way.  It lives on the asker's stack while it waits; tells
 * are on the heap and have no waiter. */
struct ask {
	struct ask *next;
	char *text;
	uint64_t seq;
	bool sent, done, tell;
	json_t *answer;
	struct err why;
};

struct agent {
	struct agent_config cfg;
	pthread_t thread;
	pthread_mutex_t lock;           /* asks, next_seq, cfg.join, ended */
	pthread_cond_t answered;
	struct ask *asks;
	uint64_t next_seq;
	_Atomic bool stop;
	_Atomic int64_t heartbeat, deadline;    /* of cfg, until agent_set_pace */
	bool ended;
	int wake;
	/* the agent's thread only */
	struct conn *conn;
	struct err fault;               /* of the present connection */
	bool refused;                   /* the coordinator said no: do not try again */
	unsigned denied;                /* handshakes refused one after the other */
	bool joined;
	int64_t next_beat;
};

static void ring(struct agent *a)
{
	uint64_t one = 1;

	if (write(a->wake, &one, sizeof one) < 0 && errno != EAGAIN)
		abort();
}

/* ---- asks --------------------------------------------------------------------- */

static void send_text(struct agent *a, const char *text, uint64_t seq)
{
	struct record r = { .type = REC_CTL, .len = (uint32_t)strlen(text), .seq = seq };

	conn_send(a->conn, &r, text);
}

static void send_asks(struct agent *a)
{
	struct ask **p, *ask;

	pthread_mutex_lock(&a->lock);
	for (p = &a->asks; (ask = *p);) {
		if (!ask->sent)
			send_text(a, ask->text, ask->seq);
		ask->sent = true;
		if (!ask->tell) {
			p = &ask->next;
			continue;
		}
		*p = ask->next;
		free(ask->text);
		free(ask);
	}
	pthread_mutex_unlock(&a->lock);
}

/* Takes `answer` over: jansson's counts may not be shared between threads. */
static void answer_ask(struct agent *a, uint64_t seq, json_t *answer)
{
	json_t *error = json_object_get(answer, "error");

	pthread_mutex_lock(&a->lock);
	for (struct ask *ask = a->asks; ask; ask = ask->next) {
		if (ask->seq != seq || ask->done)
			continue;
		ask->done = true;
		if (error)
			err_set(&ask->why, err_by_name(json_str(error, "code", "")), "%s", json_str(error, "message", ""));
		else {
			ask->answer = answer;
			answer = NULL;
		}
		break;
	}
	json_decref(answer);
	pthread_cond_broadcast(&a->answered);
	pthread_mutex_unlock(&a->lock);
}

/* Those that were sent on a broken session are sent again on the next: every
 * operation may be repeated. */
static void unsend_asks(struct agent *a)
{
	pthread_mutex_lock(&a->lock);
	for (struct ask *ask = a->asks; ask; ask = ask->next)
		ask->sent = false;
	pthread_mutex_unlock(&a->lock);
}

/* ---- records ------------------------------------------------------------------ */

static void on_live(void *ctx, const struct hs_server_info *server)
{
	struct agent *a = ctx;
	char *text = NULL;

	(void)server;
	pthread_mutex_lock(&a->lock);
	if (a->cfg.join)
		text = json_text(a->cfg.join);
	pthread_mutex_unlock(&a->lock);
	if (text)
		send_text(a, text, 0);
	else
		a->joined = true;
	free(text);
}

static void on_join_answer(struct agent *a, json_t *answer)
{
	json_t *error = json_object_get(answer, "error");

	if (error) {
		err_set(&a->fault, err_by_name(json_str(error, "code", "")), "%s", json_str(error, "message", ""));
		/* Not ready is worth another try; a "no" is not. */
		a->refused = true;
		return;
	}
	a->joined = true;
	a->next_beat = 0;
	if (a->cfg.joined)
		a->cfg.joined(a->cfg.ctx, answer);
}

static enum conn_verdict on_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct agent *a = ctx;
	json_t *msg;

	if (r->type == REC_NACK) {
		msg_get_nack(payload, r->len, &a->fault);
		return CONN_DROP;
	}
	if (r->type != REC_CTL)
		return CONN_TAKEN;
	msg = json_parse((const char *)payload, r->len, RECORD_MAX, &a->fault);
	if (!msg)
		return CONN_DROP;
	if (!(r->flags & RECORD_REPLY)) {
		if (strcmp(json_str(msg, "op", ""), "view") == 0) {
			if (a->cfg.view)
				a->cfg.view(a->cfg.ctx, msg);
		} else if (a->cfg.notice) {
			a->cfg.notice(a->cfg.ctx, msg);
		}
	} else if (r->seq == 0) {
		on_join_answer(a, msg);
	} else {
		answer_ask(a, r->seq, msg);
		msg = NULL;
	}
	json_decref(msg);
	return a->refused ? CONN_DROP : CONN_TAKEN;
}

static const struct conn_handler handler = { .live = on_live, .record = on_record };

/* ---- the thread ------------------------------------------------------------------ */

static void send_beat(struct agent *a)
{
	json_t *beat = json_pack("{s:s}", "op", "beat");
	json_t *stats = a->cfg.stats ? a->cfg.stats(a->cfg.ctx) : NULL;
	char *text;

	if (stats)
		json_object_set_new(beat, "stats", stats);
	text = json_text(beat);
	send_text(a, text, 0);
	free(text);
	json_decref(beat);
}

static enum err_code dial(struct agent *a, struct err *e)
{
	enum err_code rc = err_set(e, ERR_UNREACH, "no address of the coordinator is known");
	int fd;

	for (int i = 0; i < AGENT_ADDRESSES; i++) {
		if (!a->cfg.addr[i] || !a->cfg.addr[i][0])
			continue;
		rc = net_connect(a->cfg.addr[i], &fd, e);
		if (rc)
			continue;
		*e = (struct err){ 0 };
		a->conn = conn_dial(fd, a->cfg.id, a->cfg.server_key, &a->cfg.info, &handler, a);
		return ERR_OK;
	}
	return rc;
}

/* Until when to sleep, at most. */
static int poll_ms(const struct agent *a, int64_t now)
{
	int64_t until = a->joined ? a->next_beat : now + 100 * NSEC_PER_MSEC;

	return until <= now ? 0 : (int)((until - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

/* One session, from dialling to its end. */
static void session(struct agent *a)
{
	int64_t begin = clock_now();
	enum err_code rc = dial(a, &a->fault);

	while (!rc) {
		struct pollfd p[2];
		int64_t now = clock_now();
		uint64_t count;

		if (a->joined) {
			send_asks(a);
			if (now >= a->next_beat) {
				send_beat(a);
				a->next_beat = now + atomic_load(&a->heartbeat);
			}
		} else if (now - begin > HELLO_DEADLINE) {
			err_set(&a->fault, ERR_TIMEOUT, "the coordinator does not answer");
			break;
		}
		if (atomic_load(&a->stop) && conn_is_live(a->conn)) {
			struct record bye = { .type = REC_BYE };

			conn_send(a->conn, &bye, NULL);
			conn_write(a->conn, NULL);
			break;
		}
		rc = conn_write(a->conn, &a->fault);
		if (rc || atomic_load(&a->stop))
			break;
		p[0] = (struct pollfd){ conn_fd(a->conn), (short)(POLLIN | (conn_queued(a->conn) ? POLLOUT : 0)), 0 };
		p[1] = (struct pollfd){ a->wake, POLLIN, 0 };
		if (poll(p, 2, poll_ms(a, now)) < 0 && errno != EINTR)
			abort();
		if (p[1].revents && read(a->wake, &count, sizeof count) < 0 && errno != EAGAIN)
			abort();
		if (p[0].revents) {
			struct err e = { 0 };

			rc = conn_read(a->conn, &e);
			if (rc && !a->fault.code)
				a->fault = e;
		}
	}
	conn_free(a->conn);
	a->conn = NULL;
	a->joined = false;
	unsend_asks(a);
}

static bool may_retry(const struct agent *a, int64_t without)
{
	return !a->refused && a->denied < DENIALS && a->fault.code != ERR_FORBIDDEN &&
	    a->fault.code != ERR_FENCED && a->fault.code != ERR_CONFIG && without <= atomic_load(&a->deadline);
}

static void pause_for(struct agent *a, int64_t ns)
{
	struct pollfd p = { a->wake, POLLIN, 0 };
	uint64_t count;

	if (poll(&p, 1, (int)(ns / NSEC_PER_MSEC)) > 0 && read(a->wake, &count, sizeof count) < 0 && errno != EAGAIN)
		abort();
}

static void *run(void *ctx)
{
	struct agent *a = ctx;
	int64_t last_up = clock_now(), retry = RETRY_MIN;
	bool said = false;

	while (!atomic_load(&a->stop)) {
		bool was_up;

		a->fault = (struct err){ 0 };
		a->next_beat = 0;
		session(a);
		was_up = a->next_beat != 0;
		a->denied = a->fault.code == ERR_AUTH && !was_up ? a->denied + 1 : 0;
		if (was_up) {
			last_up = clock_now();
			retry = RETRY_MIN;
			said = false;
		}
		if (atomic_load(&a->stop) || !may_retry(a, clock_now() - last_up))
			break;
		if (!said && clock_now() - last_up > 2 * NSEC_PER_SEC) {
			log_warn(a->cfg.log, "waiting for the coordinator: %s", a->fault.msg);
			said = true;
		}
		pause_for(a, retry);
		retry = retry * 2 < RETRY_MAX ? retry * 2 : RETRY_MAX;
	}
	pthread_mutex_lock(&a->lock);
	a->ended = true;
	pthread_cond_broadcast(&a->answered);
	pthread_mutex_unlock(&a->lock);
	if (!atomic_load(&a->stop) && a->cfg.lost)
		a->cfg.lost(a->cfg.ctx, &a->fault);
	return NULL;
}

/* ---- calls ------------------------------------------------------------------------- */

enum err_code agent_start(const struct agent_config *cfg, struct agent **out, struct err *e)
{
	struct agent *a = mem_alloc(sizeof *a);
	pthread_condattr_t attr;

	a->cfg = *cfg;
	json_incref(a->cfg.join);
	a->next_seq = 1;
	atomic_init(&a->heartbeat, cfg->heartbeat);
	atomic_init(&a->deadline, cfg->deadline);
	a->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->answered, &attr);
	pthread_condattr_destroy(&attr);
	*out = a;
	if (a->wake < 0 || pthread_create(&a->thread, NULL, run, a)) {
		json_decref(a->cfg.join);
		free(a);
		*out = NULL;
		return err_sys(e, ERR_IO, "cannot start a thread");
	}
	return ERR_OK;
}

void agent_stop(struct agent *a)
{
	if (!a)
		return;
	atomic_store(&a->stop, true);
	ring(a);
	pthread_join(a->thread, NULL);
	while (a->asks) {
		struct ask *next = a->asks->next;

		free(a->asks->text);
		free(a->asks);
		a->asks = next;
	}
	json_decref(a->cfg.join);
	close(a->wake);
	pthread_cond_destroy(&a->answered);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static void enqueue(struct agent *a, struct ask *ask)
{
	struct ask **p = &a->asks;

	while (*p)
		p = &(*p)->next;
	ask->next = NULL;
	*p = ask;
	ask->seq = a->next_seq++;
}

void agent_set_join(struct agent *a, json_t *join)
{
	pthread_mutex_lock(&a->lock);
	json_decref(a->cfg.join);
	a->cfg.join = json_deep_copy(join);
	pthread_mutex_unlock(&a->lock);
}

void agent_set_pace(struct agent *a, int64_t heartbeat, int64_t deadline)
{
	atomic_store(&a->heartbeat, heartbeat);
	atomic_store(&a->deadline, deadline);
	ring(a);
}

void agent_tell(struct agent *a, const json_t *msg)
{
	struct ask *ask = mem_alloc(sizeof *ask);

	ask->text = json_text(msg);
	ask->tell = true;
	pthread_mutex_lock(&a->lock);
	enqueue(a, ask);
	pthread_mutex_unlock(&a->lock);
	ring(a);
}

enum err_code agent_call(struct agent *a, const json_t *msg, int64_t timeout_ns, json_t **answer, struct err *e)
{
	struct ask ask = { .text = json_text(msg) }, **p;
	int64_t until = clock_now() + timeout_ns;
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };

	*answer = NULL;
	pthread_mutex_lock(&a->lock);
	enqueue(a, &ask);
	pthread_mutex_unlock(&a->lock);
	ring(a);
	pthread_mutex_lock(&a->lock);
	while (!ask.done && !a->ended)
		if (pthread_cond_timedwait(&a->answered, &a->lock, &ts) == ETIMEDOUT)
			break;
	for (p = &a->asks; *p != &ask; p = &(*p)->next)
		;
	*p = ask.next;
	pthread_mutex_unlock(&a->lock);
	free(ask.text);
	if (ask.done && !ask.why.code) {
		*answer = ask.answer;
		return ERR_OK;
	}
	if (ask.done)
		return err_set(e, ask.why.code, "%s", ask.why.msg);
	if (a->ended)
		return err_set(e, ERR_UNREACH, "the coordinator is gone: %s", a->fault.msg);
	return err_set(e, ERR_TIMEOUT, "the coordinator did not answer within %lld s",
	    (long long)(timeout_ns / NSEC_PER_SEC));
}
