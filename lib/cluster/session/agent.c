/* SPDX-License-Identifier: ISC */
#include "layout/layout.h"
#include "session/agent_state.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/backoff.h"
#include "core/cgroup.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/json.h"
#include "msg/answer.h"
#include "msg/message.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/procstat.h"
#include "core/thread.h"
#include "core/version.h"
#include "wire/dial.h"
#include "wire/payload.h"

#define RETRY_MIN (20 * NSEC_PER_MSEC)
#define RETRY_MAX (1 * NSEC_PER_SEC)
/* The address of a coordinator that may stand by, which answers as soon as it has taken over */
#define RETRY_MAX_OF_SEVERAL (100 * NSEC_PER_MSEC)
/* A coordinator that dies during a handshake looks like one that refuses it, so only this many
 * refusals in a row are final. To a process that has been a member they must also last this long: a
 * coordinator that is started again and again may die in three handshakes in a row. */
#define DENIALS      3
#define DENIAL_LASTS (2 * NSEC_PER_SEC)
/* The time for the answer to the join; conn_check bounds the handshake. */
#define HELLO_DEADLINE (5 * NSEC_PER_SEC)
#define ABOUT_EVERY    NSEC_PER_SEC
/* Addresses of earlier views that are kept */
#define LISTED_MOST 16
/* How often the coordinator is asked whether it is there, and how long it may take to answer */
#define ASK_EVERY       (500 * NSEC_PER_MSEC)
#define ANSWER_PATIENCE (1500 * NSEC_PER_MSEC)

void agent_send(struct agent *a, const char *text, uint64_t seq)
{
	struct record r = { .seq = seq };

	thread_owner_assert(&a->owner, "an agent");
	payload_send_text(a->conn, &r, text);
}

/* ---- records ---- */

/* Runs on the agent's thread when the handshake is complete. Sends `join`; without one the
 * session counts as joined at once. The text is made under the lock, because agent_set_join may
 * replace cfg.join, and is sent after the lock is released. */
static void on_agent_live(void *ctx, const struct hs_server_info *server)
{
	struct agent *a = ctx;
	char *text = NULL;

	(void)server;
	mutex_lock(&a->lock);
	if (a->cfg.join) {
		/* We state the layout epoch that we know, so that a coordinator which has lost
		 * its state does not take us for a new process. */
		json_object_set_new(a->cfg.join, "epoch", json_integer(a->layout_epoch));
		text = json_text(a->cfg.join);
	}
	mutex_unlock(&a->lock);
	FAIL_POINT("join_before");
	if (text)
		agent_send(a, text, 0);
	else
		a->joined = true;
	atomic_store(&a->up, a->joined);
	free(text);
}

/* Handles the answer to `join`. After success the first heartbeat is due at once; cfg.joined is
 * called without the lock. */
static void on_join_answer(struct agent *a, json_t *answer)
{
	if (answer_is_refusal(answer, &a->fault)) {
		/* Do not try again: the coordinator has refused. */
		a->refused = true;
		return;
	}
	a->joined = true;
	atomic_store(&a->up, true);
	a->next_beat = 0;
	if (a->cfg.joined)
		a->cfg.joined(a->cfg.ctx, answer);
}

/* Addresses of earlier views follow the addresses of the new one: a coordinator that was lost may
 * be back before the present one has found it. */
static void note_coordinators(struct agent *a, const char *listed)
{
	char *list = mem_strdup(listed), text[NET_TEXT];

	for (size_t n = 0; n < LISTED_MOST && net_list_at(a->listed, n, text); n++)
		if (!agent_lists(list, text)) {
			char *longer = mem_printf("%s,%s", list, text);

			free(list);
			list = longer;
		}
	free(a->listed);
	a->listed = list;
}

/* Parse and deliver the view that was put off. Fails when it is malformed. */
static enum err_code deliver_view(struct agent *a)
{
	const struct view *view;
	json_t *json;
	enum err_code rc;

	if (!a->view.len)
		return ERR_OK;
	json = json_parse((const char *)a->view.data, a->view.len, PAYLOAD_TEXT_MAX, &a->fault);
	buf_clear(&a->view);
	if (!json)
		return a->fault.code;
	rc = view_decode(json, &view, &a->fault);
	json_decref(json);
	if (rc)
		return rc;
	a->layout_epoch = layout_json_epoch(view->layout);
	if (*view->coordinators)
		note_coordinators(a, view->coordinators);
	if (a->cfg.view)
		a->cfg.view(a->cfg.ctx, view);
	/* The cluster has ended: no call will be answered. */
	if (view->ended) {
		mutex_lock(&a->lock);
		a->over = true;
		pthread_cond_broadcast(&a->answered);
		mutex_unlock(&a->lock);
	}
	view_release(view);
	return ERR_OK;
}

/* Handle a whole message in a->text. A view is put off, because the next message may be a
 * newer one. */
static enum conn_verdict take_text(struct agent *a, const struct record *r)
{
	struct buf last = a->view;
	json_t *msg;

	if (r->flags & RECORD_VIEW) {
		a->view = a->text;
		a->text = last;
		return a->cfg.latest || !deliver_view(a) ? CONN_TAKEN : CONN_DROP;
	}
	if (deliver_view(a))
		return CONN_DROP;
	msg = json_parse((const char *)a->text.data, a->text.len, PAYLOAD_TEXT_MAX, &a->fault);
	if (!msg)
		return CONN_DROP;
	if (!(r->flags & RECORD_REPLY)) {
		if (a->cfg.notice)
			a->cfg.notice(a->cfg.ctx, msg);
	} else if (r->seq == 0) {
		on_join_answer(a, msg);
	} else {
		agent_deliver_answer(a, r->seq, msg);
		msg = NULL;
	}
	json_decref(msg);
	return a->refused ? CONN_DROP : CONN_TAKEN;
}

/* Handles one record on the agent's thread. A text may arrive in several records, and is acted
 * on when it is whole. CONN_DROP ends the session, with the reason in a->fault. */
static enum conn_verdict on_agent_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct agent *a = ctx;
	bool whole;

	if (r->type == REC_NACK) {
		payload_get_nack(payload, r->len, &a->fault);
		return CONN_DROP;
	}
	if (r->type == REC_PROBED)
		a->asked_at = 0;
	if (r->type != REC_CTL)
		return CONN_TAKEN;
	if (payload_get_text(&a->text, r, payload, &whole, &a->fault))
		return CONN_DROP;
	return whole ? take_text(a, r) : CONN_TAKEN;
}

const struct conn_handler agent_handler = { .live = on_agent_live, .record = on_agent_record };

/* ---- the thread ---- */

/* From this share of the limit of the control group on the log warns, and below that share it may
 * warn again. */
#define MEMORY_SHORT  0.9
#define MEMORY_ENOUGH 0.8

/* Warns before the kernel ends a process of the control group: it does so without a word. */
static void watch_memory(struct agent *a, const struct cgroup_memory *group)
{
	double used = (double)group->used, limit = (double)group->limit;
	char has[16], may[16];

	if (used < limit * MEMORY_ENOUGH)
		a->memory_is_short = false;
	if (used < limit * MEMORY_SHORT || a->memory_is_short)
		return;
	a->memory_is_short = true;
	num_human(used, has);
	num_human(limit, may);
	log_warn(a->cfg.log,
	    "memory: %sB are in use of the %sB that the control group of this process allows; when nothing is "
	    "left, the kernel kills it: raise that limit, or lower mem_limit (of servers) or job.data_memory "
	    "(of workers)",
	    has, may);
}

/* Adds what the control group of this process allows, if it has a limit. */
static void add_memory_of_group(struct agent *a)
{
	struct cgroup_memory group;

	cgroup_read_memory("", &group);
	if (!group.limit)
		return;
	json_object_set_new(a->about, "memory_limit_bytes", json_integer((json_int_t)group.limit));
	json_object_set_new(a->about, "memory_used_bytes", json_integer((json_int_t)group.used));
	watch_memory(a, &group);
}

/* Facts about this process and its host that show an error only when compared with other processes,
 * except for its clock. */
static json_t *describe_process(void)
{
	struct procfiles files;
	json_t *o;

	procstat_files(0, &files);
	o = json_pack("{s:s, s:i, s:I, s:i}", "version", PSKIT_VERSION, "protocol", PSKIT_PROTOCOL,
	    "memory_available_bytes", (json_int_t)procstat_memory(), "open_fds", files.open);
	json_object_set_new(o, "max_fds",
	    files.most < INT64_MAX ? json_integer((json_int_t)files.most) : json_null());
	return o;
}

/* Send a message at once, without a number. Takes the reference. */
static void send_now(struct agent *a, json_t *msg)
{
	char *text = json_text(msg);

	agent_send(a, text, 0);
	free(text);
	json_decref(msg);
}

/* The description is made from files of /proc, which costs more than the rest of a heartbeat. So it
 * is made once a second, while the clock is read for each heartbeat. */
static const json_t *refresh_about(struct agent *a, int64_t now)
{
	if (now >= a->next_about) {
		json_decref(a->about);
		a->about = describe_process();
		a->next_about = now + ABOUT_EVERY;
		add_memory_of_group(a);
	}
	json_object_set_new(a->about, "clock_seconds",
	    json_real((double)clock_wall() / (double)NSEC_PER_SEC));
	return a->about;
}

static void send_beat(struct agent *a, int64_t now, bool busy)
{
	const json_t *about = refresh_about(a, now);
	json_t *stats = a->cfg.stats ? a->cfg.stats(a->cfg.ctx) : NULL;

	send_now(a, MESSAGE(beat, .busy = busy, .about = about, .stats = stats));
	json_decref(stats);
}

/* The coordinator has been silent for too long, but may still hear us: tell it why this session
 * ends, so that it does not take this process for lost. */
static void send_deaf(struct agent *a)
{
	send_now(a, MESSAGE(deaf));
	conn_write(a->conn, NULL);
}

static void beat_if_due(struct agent *a, int64_t now, bool busy)
{
	if (now < a->next_beat)
		return;
	send_beat(a, now, busy);
	a->next_beat = now + atomic_load(&a->heartbeat);
}

void agent_beat(struct agent *a)
{
	thread_owner_assert(&a->owner, "an agent");
	if (!a->conn || !a->joined)
		return;
	a->next_beat = 0;
	beat_if_due(a, clock_now(), false);
}

void agent_beat_busy(struct agent *a)
{
	thread_owner_assert(&a->owner, "an agent");
	if (!a->conn || !a->joined)
		return;
	beat_if_due(a, clock_now(), true);
	conn_write(a->conn, NULL);
}

/* Is there a coordinator at another address, or may there be one? */
static bool has_other_address(const struct agent *a)
{
	char text[NET_TEXT];

	return a->listed && net_list_at(a->listed, 1, text);
}

/* How long to sleep at most, in ms. */
static int poll_ms(const struct agent *a, int64_t now)
{
	int64_t until = a->joined ? a->next_beat : now + 100 * NSEC_PER_MSEC;

	return clock_poll_timeout(until - now);
}

/* The coordinator has closed the connection: read its last records, one of which may be the
 * view that ends the cluster. */
static void read_last_records(struct agent *a)
{
	struct err e = { 0 };

	conn_read(a->conn, &e);
	deliver_view(a);
}

/* A coordinator that is stopped keeps its connections, and its members would never look for the one
 * that has taken over. So when there is another one to look for, it is asked for an answer now and
 * then. False: it owes one for too long. */
static bool is_answering(struct agent *a, int64_t now)
{
	const struct record question = { .type = REC_PROBE };

	if (a->asked_at && now - a->asked_at > ANSWER_PATIENCE) {
		err_because(&a->fault, ERR_TIMEOUT, CAUSE_UNREACHABLE,
		    "the coordinator has not answered for %d ms",
		    (int)((now - a->asked_at) / NSEC_PER_MSEC));
		return false;
	}
	if (!a->asked_at && now - a->asked_last > ASK_EVERY && has_other_address(a) &&
	    record_role_may(REC_PROBE, a->cfg.info.role)) {
		conn_send(a->conn, &question, NULL);
		a->asked_at = a->asked_last = now;
	}
	return true;
}

/* Run one session, from dialling to its end. a->fault says why it ended. */
static void run_session(struct agent *a)
{
	struct err why = { 0 };
	enum err_code rc = agent_dial(a, &why);
	int64_t begin = clock_now();

	if (rc && !a->fault.code)
		a->fault = why;
	if (!rc && deliver_view(a))
		rc = a->fault.code;
	while (!rc) {
		struct pollfd p[2];
		int64_t now = clock_now();
		uint64_t count;

		if (a->joined) {
			agent_send_messages(a);
			beat_if_due(a, now, false);
			if (!is_answering(a, now)) {
				send_deaf(a);
				break;
			}
		} else if (now - begin > HELLO_DEADLINE) {
			err_because(&a->fault, ERR_TIMEOUT, CAUSE_UNREACHABLE,
			    "the coordinator does not answer");
			break;
		}
		if (atomic_load(&a->stop) && conn_is_live(a->conn)) {
			struct record bye = { .type = REC_BYE };

			conn_send(a->conn, &bye, NULL);
			conn_write(a->conn, NULL);
			break;
		}
		rc = conn_check(a->conn, now, &a->fault);
		if (rc && a->joined)
			send_deaf(a);
		if (!rc && (rc = conn_write(a->conn, &a->fault)))
			read_last_records(a);
		if (rc || atomic_load(&a->stop))
			break;
		p[0] = (struct pollfd){ conn_fd(a->conn),
			(short)(POLLIN | (conn_queued(a->conn) ? POLLOUT : 0)), 0 };
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
			if (deliver_view(a) && !rc)
				rc = a->fault.code;
		}
	}
	conn_free(a->conn);
	a->conn = NULL;
	/* After one that is silent try the one after it first. */
	if (a->joined && !a->asked_at)
		a->next_address = 0;
	a->joined = false;
	a->asked_at = 0;
	atomic_store(&a->up, false);
	buf_clear(&a->text);
	buf_clear(&a->view);
	agent_requeue_messages(a);
}

/* Has the coordinator refused handshakes for good? */
static bool is_denied(const struct agent *a)
{
	return a->denied >= DENIALS &&
	    (!a->was_up || clock_now() - a->denied_since >= DENIAL_LASTS);
}

/* May the agent connect again after this error? without: how long it has been without a
 * session, in ns. */
static bool may_retry(const struct agent *a, int64_t without)
{
	if (a->cfg.eager && !a->was_up && a->fault.code == ERR_UNREACH)
		return false;
	return !a->refused && !is_denied(a) && a->fault.code != ERR_FORBIDDEN &&
	    a->fault.code != ERR_FENCED && a->fault.code != ERR_CONFIG &&
	    without <= atomic_load(&a->deadline);
}

/* Waits for ns at most; agent_wake ends the wait early. Parts of a millisecond are cut off. */
static void wait_before_retry(struct agent *a, int64_t ns)
{
	struct pollfd p = { a->wake, POLLIN, 0 };
	uint64_t count;

	if (poll(&p, 1, (int)(ns / NSEC_PER_MSEC)) > 0 && read(a->wake, &count, sizeof count) < 0 &&
	    errno != EAGAIN)
		abort();
}

/* Body of the agent's thread: one session after the other, with a pause that grows until a
 * session gets through. Sending a heartbeat sets next_beat, so a next_beat other than 0 means that
 * the last session was up. The deadline counts from the end of that session. After the loop it
 * first ends all calls and then calls cfg.lost, without the lock. */
static void *run_agent(void *ctx)
{
	struct agent *a = ctx;
	struct backoff backoff = { .least = RETRY_MIN, .most = RETRY_MAX };
	int64_t last_up = clock_now();
	bool warned = false;

	backoff_reset(&backoff);
	while (!atomic_load(&a->stop)) {
		bool was_up;

		a->fault = (struct err){ 0 };
		a->next_beat = 0;
		run_session(a);
		was_up = a->next_beat != 0;
		a->denied = a->fault.code == ERR_AUTH && !was_up ? a->denied + 1 : 0;
		if (a->denied == 1)
			a->denied_since = clock_now();
		a->was_up |= was_up;
		if (was_up) {
			last_up = clock_now();
			backoff_reset(&backoff);
			warned = false;
		}
		if (atomic_load(&a->stop) || !may_retry(a, clock_now() - last_up))
			break;
		if (!warned && clock_now() - last_up > 2 * NSEC_PER_SEC) {
			log_warn(a->cfg.log, "waiting for the coordinator: %s", a->fault.msg);
			warned = true;
		}
		backoff.most = has_other_address(a) ? RETRY_MAX_OF_SEVERAL : RETRY_MAX;
		wait_before_retry(a, backoff_next(&backoff));
	}
	mutex_lock(&a->lock);
	a->ended = true;
	pthread_cond_broadcast(&a->answered);
	mutex_unlock(&a->lock);
	if (!atomic_load(&a->stop) && a->cfg.lost)
		a->cfg.lost(a->cfg.ctx, &a->fault);
	return NULL;
}

/* ---- from other threads ---- */

enum err_code agent_start(const struct agent_config *cfg, struct agent **out, struct err *e)
{
	struct agent *a = mem_alloc(sizeof *a);
	pthread_condattr_t attr;
	enum err_code rc = ERR_OK;
	sigset_t all, old;

	a->cfg = *cfg;
	json_incref(a->cfg.join);
	a->next_seq = 1;
	atomic_init(&a->heartbeat, cfg->heartbeat);
	atomic_init(&a->deadline, cfg->deadline);
	atomic_init(&a->interrupt, NULL);
	a->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (a->wake < 0)
		rc = err_sys(e, ERR_IO, "cannot make an event descriptor");
	mutex_init(&a->lock, LOCK_AGENT);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->answered, &attr);
	pthread_condattr_destroy(&attr);
	*out = a;
	/* Signals are handled by another thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!rc)
		rc = thread_start(&a->thread, run_agent, a, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		if (a->wake >= 0)
			close(a->wake);
		mutex_destroy(&a->lock);
		pthread_cond_destroy(&a->answered);
		json_decref(a->cfg.join);
		free(a);
		*out = NULL;
	}
	return rc;
}

void agent_stop(struct agent *a)
{
	if (!a)
		return;
	atomic_store(&a->stop, true);
	agent_wake(a);
	pthread_join(a->thread, NULL);
	while (a->asks) {
		struct ask *next = a->asks->next;

		free(a->asks->text);
		free(a->asks);
		a->asks = next;
	}
	json_decref(a->cfg.join);
	json_decref(a->about);
	buf_release(&a->text);
	buf_release(&a->view);
	close(a->wake);
	pthread_cond_destroy(&a->answered);
	mutex_destroy(&a->lock);
	free(a->listed);
	free(a);
}

void agent_set_join(struct agent *a, json_t *join)
{
	mutex_lock(&a->lock);
	json_decref(a->cfg.join);
	a->cfg.join = json_deep_copy(join);
	mutex_unlock(&a->lock);
}

void agent_set_pace(struct agent *a, int64_t heartbeat, int64_t deadline)
{
	atomic_store(&a->heartbeat, heartbeat);
	atomic_store(&a->deadline, deadline);
	agent_wake(a);
}

void agent_address(struct agent *a, char out[static NET_TEXT])
{
	mutex_lock(&a->lock);
	memcpy(out, a->address, NET_TEXT);
	mutex_unlock(&a->lock);
}
