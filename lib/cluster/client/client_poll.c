/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <poll.h>

#include "client/client_state.h"
#include "core/clock.h"
#include "core/mem.h"

/* The client's poll loop: wait for a condition, and meanwhile serve all links, check them, and
 * log what the worker is waiting for. */

#define LOOK_EVERY (10 * NSEC_PER_MSEC)
#define SAY_FIRST  (2 * NSEC_PER_SEC)
#define SAY_AGAIN  (10 * NSEC_PER_SEC)

/* The deadline has passed: ERR_UNREACH names a link that is not UP, else ERR_TIMEOUT the step. */
static enum err_code set_overdue_error(struct client *c, uint64_t step, int64_t begin,
    struct err *e)
{
	int64_t now = clock_now();

	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (l->used && l->state != LINK_UP)
			return err_set(e, ERR_UNREACH, "%s (%s) cannot be reached for %lld s: %s",
			    l->id, l->tcp,
			    (long long)((now - (l->down_since ? l->down_since : begin)) /
			        NSEC_PER_SEC),
			    l->fault.msg);
	}
	return err_set(e, ERR_TIMEOUT,
	    "waited %lld s at step %llu for the other workers; a larger `deadline` waits longer",
	    (long long)((now - begin) / NSEC_PER_SEC), (unsigned long long)step);
}

/* Is a record waiting in shared memory? Looks several times, since that costs less than a
 * system call. */
static bool any_ring_ready(const struct client *c)
{
	for (unsigned k = 0; k < SPIN_LOOKS && c->nlinks; k += c->nlinks)
		for (unsigned i = 0; i < c->nlinks; i++)
			if (c->link[i]->state == LINK_UP && conn_ready(c->link[i]->conn))
				return true;
	return false;
}

/* Tell every shared-memory peer that we are about to sleep, so that it wakes us by the socket.
 * False: a ring has something already. */
static bool doze_all_rings(struct client *c)
{
	bool all = true;

	for (unsigned i = 0; i < c->nlinks; i++)
		all &= c->link[i]->state != LINK_UP || conn_doze(c->link[i]->conn);
	return all;
}

/* Wait until one of n descriptors or a shared-memory ring has something, for ms at most:
 * polling for as long as cfg.spin says, then sleeping. */
static void poll_links(struct client *c, struct pollfd *p, unsigned n, int ms)
{
	int found = 0;

	spin_begin(&c->spin);
	while (c->spin.span && ms && !found && !any_ring_ready(c)) {
		found = poll(p, n, 0);
		if (!found && !spin_again(&c->spin))
			break;
	}
	if (!found && poll(p, n, doze_all_rings(c) ? ms : 0) < 0 && errno != EINTR)
		abort();
}

void client_serve(struct client *c, int ms)
{
	struct pollfd *p = mem_array(c->nlinks + 1, sizeof *p);
	int64_t now = clock_now();

	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		p[i].fd = -1;
		if (l->used && l->state == LINK_DOWN && now >= l->next_try)
			client_link_dial(l);
		if (l->state == LINK_DOWN)
			continue;
		if (l->state == LINK_UP)
			batcher_flush(&l->batcher, l->conn);
		p[i].fd = conn_fd(l->conn);
		p[i].events = conn_events(l->conn);
	}
	p[c->nlinks] = (struct pollfd){ c->cfg.cancel_fd, POLLIN, 0 };
	poll_links(c, p, c->nlinks + 1, ms);
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];
		struct err e = { 0 };
		enum err_code rc = ERR_OK;

		if (p[i].fd < 0 || !(p[i].revents || conn_ready(l->conn)))
			continue;
		if (l->state == LINK_DIALLING && p[i].revents & (POLLERR | POLLHUP))
			rc = net_connected(p[i].fd, l->tcp, &e);
		if (!rc && p[i].revents & POLLOUT)
			rc = conn_write(l->conn, &e);
		if (!rc && (p[i].revents & (POLLIN | POLLHUP | POLLERR) || conn_ready(l->conn)))
			rc = conn_read(l->conn, &e);
		if (!rc)
			rc = conn_write(l->conn, &e);
		if (rc)
			client_link_drop(l, l->fault.code && rc == ERR_PROTO ? NULL : &e);
	}
	client_push_note_oldest(c);
	free(p);
}

void client_poke(struct client *c)
{
	client_serve(c, 0);
}

/* Drop links whose session has fallen silent; they are dialled again. False: we could not
 * reach a server for half the deadline although the coordinator, which would know of its
 * death, considers it alive. The worker fails then, so that the others have the other half of
 * the deadline to go on without it. */
static bool check_links(struct client *c, int64_t begin, int64_t now)
{
	bool reach = true;

	client_relay_check(c, now);
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];
		struct err e;

		if (l->state != LINK_DOWN && conn_check(l->conn, now, &e))
			client_link_drop(l, &e);
		if (l->used && l->live && l->state != LINK_UP && l->down_since && c->cfg.informed &&
		    c->cfg.informed(c->cfg.ctx) &&
		    now - (l->down_since > begin ? l->down_since : begin) > c->cfg.deadline / 2)
			reach = false;
	}
	return reach;
}

/* Log what this step has been waiting for since `since`. */
static void log_waiting(struct client *c, uint64_t step, int64_t since)
{
	struct buf who = BUF_INIT;
	int seconds = (int)((clock_now() - since) / NSEC_PER_SEC);

	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (l->used && l->state != LINK_UP)
			log_warn(c->cfg.log, "waiting for %s (%s) for %d s: %s", l->id, l->tcp,
			    seconds, l->fault.code ? l->fault.msg : "no answer yet");
	}
	if (c->cfg.who)
		c->cfg.who(c->cfg.ctx, step, &who);
	if (who.len)
		log_warn(c->cfg.log, "waiting at step %llu for %d s: %s", (unsigned long long)step,
		    seconds, who.data);
	/* No other worker is behind: the cause is a server, or the network path to it. */
	for (unsigned i = 0; !who.len && i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (l->state == LINK_UP && l->open.first)
			log_warn(c->cfg.log,
			    "waiting for %s (%s) for %d s: it is connected, and does not answer",
			    l->id, l->tcp, seconds);
	}
	buf_release(&who);
}

enum err_code client_wait_until(struct client *c, bool (*ready)(struct client *), uint64_t step,
    struct err *e)
{
	int64_t begin = clock_now(), say = begin + SAY_FIRST, look = begin + LOOK_EVERY;

	while (!ready(c)) {
		int64_t now;

		if (c->fatal.code)
			return err_set(e, c->fatal.code, "%s", c->fatal.msg);
		client_serve(c, 20);
		now = clock_now();
		if (now >= look && c->cfg.cancelled && c->cfg.cancelled(c->cfg.ctx, e))
			return e->code;
		if (now >= look && c->cfg.paused && c->cfg.paused(c->cfg.ctx)) {
			begin = now;
			say = begin + SAY_FIRST;
		}
		if (now >= look) {
			if (!check_links(c, begin, now) && !ready(c))
				return set_overdue_error(c, step, begin, e);
			look = now + LOOK_EVERY;
		}
		if (now >= say && !ready(c)) {
			log_waiting(c, step, begin);
			say = now + SAY_AGAIN;
		}
		if (now - begin > c->cfg.deadline && !ready(c))
			return set_overdue_error(c, step, begin, e);
	}
	return ERR_OK;
}
