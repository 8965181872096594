/* SPDX-License-Identifier: ISC */
#include "session/agent_state.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "wire/dial.h"

/* A coordinator may have several addresses, and several coordinators stand by. The host of one of them
 * may be lost, so that it never answers, or its process may be stopped, so that its kernel accepts a
 * connection that nobody serves. Hence all addresses are tried at the same time, and the first one
 * whose handshake is complete is taken. An attempt, one for each address:
 *
 *   state       event                                        next state
 *   WAITING     it is due                                    CONNECTING
 *   CONNECTING  connected                                    GREETING
 *   CONNECTING  refused, or no answer for CONNECT_DEADLINE   WAITING, due in AGAIN
 *   GREETING    the handshake is complete                    chosen; all others are closed
 *   GREETING    the handshake fails (conn_check bounds it)   WAITING, due in AGAIN
 *
 * An attempt is due at first STAGGER after the one before it, or as soon as that one has failed. So no
 * connection to another coordinator is made while the first one answers quickly. A coordinator that
 * stands by refuses connections until it takes over, and meanwhile is asked again every AGAIN. When all
 * attempts have failed and none is under way, agent_dial fails, and the agent waits before it calls it
 * again. */

#define STAGGER          (500 * NSEC_PER_MSEC)
#define AGAIN            (50 * NSEC_PER_MSEC)
#define CONNECT_DEADLINE (2 * NSEC_PER_SEC)
/* How often deadlines of handshakes are compared */
#define LOOK_EVERY (100 * NSEC_PER_MSEC)

struct attempt {
	struct dial_target to;
	char text[NET_TEXT]; /* the address, unless that is a longer one of the configuration */
	int fd;              /* CONNECTING; else -1 */
	struct conn *conn;   /* GREETING; else NULL */
	bool failed;         /* once or more */
	int64_t since, due;  /* CONNECTING: when it began; WAITING: when it is due */
};

struct attempts {
	struct agent *agent;
	struct attempt *at;
	size_t n;
};

/* ---- addresses ---- */

bool agent_lists(const char *list, const char *address)
{
	char text[NET_TEXT];

	for (size_t n = 0; net_list_at(list, n, text); n++)
		if (strcmp(text, address) == 0)
			return true;
	return false;
}

/* Is the address in one of the configured lists? */
static bool is_configured(const struct agent *a, const char *address)
{
	bool is = false;

	for (int k = 0; k < AGENT_ADDRESSES; k++)
		is |= agent_lists(a->cfg.addr[k], address);
	return is;
}

/* Address number i of all lists, each address once; NULL: there are fewer. Borrowed, or in `text`. */
static const char *find_address(const struct agent *a, size_t i, char text[static NET_TEXT])
{
	for (int k = 0; k < AGENT_ADDRESSES; k++) {
		const char *list = a->cfg.addr[k];

		for (size_t n = 0; net_list_at(list, n, text); n++)
			if (i-- == 0)
				return strncmp(list, "unix:", 5) == 0 ? list : text;
	}
	for (size_t n = 0; net_list_at(a->listed, n, text); n++)
		if (!is_configured(a, text) && i-- == 0)
			return text;
	return NULL;
}

static void begin_attempts(struct attempts *all, int64_t now)
{
	struct agent *a = all->agent;
	char text[NET_TEXT];

	while (find_address(a, all->n, text))
		all->n++;
	all->at = mem_array(all->n + 1, sizeof *all->at);
	for (size_t i = 0; i < all->n; i++) {
		struct attempt *t = &all->at[i];

		*t = (struct attempt){ .fd = -1, .due = now + (int64_t)i * STAGGER };
		t->to = (struct dial_target){ .tcp = find_address(a, (a->next_address + i) % all->n,
			                          t->text),
			.key = a->cfg.server_key,
			.transport = transport_find("tcp"),
			.id = a->cfg.id,
			.info = a->cfg.info };
	}
}

static void end_attempts(struct attempts *all)
{
	for (size_t i = 0; i < all->n; i++) {
		if (all->at[i].fd >= 0)
			close(all->at[i].fd);
		conn_free(all->at[i].conn);
	}
	free(all->at);
}

/* ---- one attempt ---- */

/* Has a coordinator answered that this process may not enter? Others would say the same. */
static bool is_final(enum err_code rc)
{
	return rc == ERR_FORBIDDEN || rc == ERR_FENCED || rc == ERR_CONFIG;
}

/* Notes that attempt i has failed. *e has the reason of the last one, or, if one of them was answered
 * by a refusal, that reason. */
static void note_failure(struct attempts *all, size_t i, int64_t now, const struct err *why,
    struct err *e)
{
	struct attempt *t = &all->at[i];

	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	conn_free(t->conn);
	t->conn = NULL;
	t->failed = true;
	t->due = now + AGAIN;
	if (i + 1 < all->n && !all->at[i + 1].failed && all->at[i + 1].due > now)
		all->at[i + 1].due = now;
	if (e->code != ERR_AUTH)
		*e = *why;
}

static enum err_code connect_attempt(struct attempt *t, int64_t now, struct err *e)
{
	char address[DIAL_TEXT];

	t->since = now;
	return dial_connect(&t->to, address, &t->fd, e);
}

static enum err_code begin_greeting(struct attempts *all, struct attempt *t, struct err *e)
{
	char address[DIAL_TEXT];
	enum err_code rc = net_connected(t->fd, dial_address(&t->to, address), e);
	int fd = t->fd;

	if (rc)
		return rc;
	t->fd = -1;
	return dial_begin_session(&t->to, fd, &agent_handler, all->agent, &t->conn, e);
}

/* Goes on with the handshake. The handler sends its first message by the agent's conn. */
static enum err_code go_on_greeting(struct attempts *all, struct attempt *t, short events,
    int64_t now, struct err *e)
{
	struct agent *a = all->agent;
	enum err_code rc = conn_check(t->conn, now, e);

	a->conn = t->conn;
	if (!rc)
		rc = conn_write(t->conn, e);
	if (!rc && events)
		rc = conn_read(t->conn, e);
	if (conn_is_live(t->conn))
		t->conn = NULL;
	else
		a->conn = NULL;
	return rc;
}

/* Takes attempt i a step further. The agent has a conn when it is the chosen one. */
static enum err_code step_attempt(struct attempts *all, size_t i, short events, int64_t now,
    struct err *e)
{
	struct attempt *t = &all->at[i];
	char address[DIAL_TEXT];

	if (t->conn)
		return go_on_greeting(all, t, events, now, e);
	if (t->fd < 0)
		return now >= t->due ? connect_attempt(t, now, e) : ERR_OK;
	if (events)
		return begin_greeting(all, t, e);
	if (now - t->since > CONNECT_DEADLINE)
		return err_set(e, ERR_UNREACH, "cannot reach %s: it does not answer",
		    dial_address(&t->to, address));
	return ERR_OK;
}

/* ---- all of them ---- */

/* Have all failed, and is none under way? */
static bool have_failed(const struct attempts *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (!all->at[i].failed || all->at[i].fd >= 0 || all->at[i].conn)
			return false;
	return true;
}

/* Waits for an event of one of them, or until one is due. p has room for n + 1. */
static void wait_for_attempts(const struct attempts *all, struct pollfd *p)
{
	int64_t now = clock_now(), until = now + LOOK_EVERY;
	uint64_t count;

	for (size_t i = 0; i < all->n; i++) {
		const struct attempt *t = &all->at[i];
		bool writes = t->fd >= 0 || (t->conn && conn_queued(t->conn));

		p[i] = (struct pollfd){ t->conn ? conn_fd(t->conn) : t->fd,
			(short)((t->conn ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0 };
		if (t->fd < 0 && !t->conn && t->due < until)
			until = t->due;
	}
	p[all->n] = (struct pollfd){ all->agent->wake, POLLIN, 0 };
	if (poll(p, all->n + 1, clock_poll_timeout(until - now)) < 0 && errno != EINTR)
		abort();
	if (p[all->n].revents && read(all->agent->wake, &count, sizeof count) < 0 &&
	    errno != EAGAIN)
		abort();
}

static void choose(struct agent *a, const struct attempts *all, size_t i)
{
	a->next_address = (a->next_address + i) % all->n + 1;
	mutex_lock(&a->lock);
	snprintf(a->address, sizeof a->address, "%s", all->at[i].to.tcp);
	mutex_unlock(&a->lock);
}

/* Takes all of them a step further. Returns the error that ends the dialling. */
static enum err_code step_all(struct attempts *all, const struct pollfd *p, struct err *e)
{
	int64_t now = clock_now();

	for (size_t i = 0; i < all->n; i++) {
		struct err why = { 0 };
		enum err_code rc = step_attempt(all, i, p[i].revents, now, &why);

		if (all->agent->conn)
			choose(all->agent, all, i);
		else if (rc)
			note_failure(all, i, now, &why, e);
		if (all->agent->conn || is_final(rc)) {
			*e = why;
			return rc;
		}
	}
	return have_failed(all) ? e->code : ERR_OK;
}

enum err_code agent_dial(struct agent *a, struct err *e)
{
	struct attempts all = { .agent = a };
	enum err_code rc = ERR_OK;
	struct pollfd *p;

	begin_attempts(&all, clock_now());
	p = mem_array(all.n + 1, sizeof *p);
	err_set(e, ERR_UNREACH, "the address of the coordinator is unknown");
	if (!all.n)
		rc = e->code;
	while (!rc && !a->conn) {
		rc = step_all(&all, p, e);
		if (!rc && !a->conn)
			wait_for_attempts(&all, p);
		if (!a->conn && atomic_load(&a->stop))
			rc = err_set(e, ERR_STOPPED, "the attempt was cancelled");
	}
	if (!a->conn)
		a->next_address = 0;
	end_attempts(&all);
	free(p);
	return rc;
}
