/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <poll.h>

#include "client/client_state.h"
#include "client/client_of_relay.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "socket/net.h"

#define FENCED_FOR_SURE (1 * NSEC_PER_SEC)
/* A server that dies during a handshake looks like one that refuses it, so only this many
 * refusals in a row are final. agent.c does the same. */
#define REFUSALS_MAX 3
#define CHECK_EVERY  (10 * NSEC_PER_MSEC)
/* If two turns of a wait are farther apart, this process was stopped. */
#define STOOD_STILL  (2 * NSEC_PER_SEC)
#define REPORT_FIRST (2 * NSEC_PER_SEC)
#define REPORT_AGAIN (10 * NSEC_PER_SEC)

/* ---- records ---- */

/* Offer shared memory to a server on this host. If that fails, all records go over the socket. */
static void offer_shared_memory(struct link *l, bool wanted_there)
{
	const struct transport *t = l->client->cfg.transport;
	struct err e;

	if (!net_is_unix(conn_fd(l->conn)) || !t->offers_memory(l->memory_failed))
		return;
	conn_lend_from(l->conn, l->client->gradients.lent);
	if (!wanted_there)
		err_set(&e, ERR_LIMIT, "it has no shared memory, because its transport is not shm");
	if ((!wanted_there || conn_share(l->conn, &e)) && t->insists)
		log_warn(l->client->cfg.log, "%s: the socket is used instead of shared memory: %s",
		    l->id, e.msg);
}

/* The session is up: send all requests, maybe again. The server knows by their identity which of
 * them it has had before. */
static void on_client_live(void *ctx, const struct hs_server_info *server)
{
	struct link *l = ctx;

	l->state = LINK_UP;
	/* Clear the previous connection's error, so that it is not reported as the error of this
	 * one. */
	l->fault = (struct err){ 0 };
	l->down_since = 0;
	backoff_reset(&l->backoff);
	l->session = ++l->client->sessions;
	offer_shared_memory(l, server->shares);
	/* A push that was on this link before shows that the same server is back: there was no
	 * failover whose end should be reported. */
	for (const struct request *r = l->open.first; r; r = r->next)
		if (r->ops->class == REQUEST_PUSH && !r->push.was_rerouted)
			l->client->seen.lost_at = 0;
	request_send_all(l);
	if (l->client->ops->link_up)
		l->client->ops->link_up(l);
	batcher_flush(&l->batcher, l->conn);
}

/* Takes the news that an answer to a pull brings beside its values, about its step. */
static void note_answer(struct client *c, const struct record *r)
{
	if (r->flags & RECORD_CHECKPOINT)
		c->seen.checkpoint = r->step;
	if (r->flags & RECORD_TRAINED)
		c->seen.trained = r->step;
	if (!c->seen.first_answer)
		c->seen.first_answer = clock_now();
}

/* Handles one record of a session, whole or out of a BATCH. Answers to requests of an earlier
 * layout or generation are dropped, because each of those has been sent again. CONN_DROP ends the
 * session, with the reason in l->fault; a final refusal sets client.fatal as well. Unknown types
 * are ignored. */
static enum conn_verdict take_client_record(struct link *l, const struct record *r,
    const uint8_t *payload)
{
	struct client *c = l->client;
	/* An answer to a request of an earlier layout: that request has been sent again. */
	bool outdated = r->epoch < c->layout.epoch || r->generation < c->layout.generation;
	struct request *pull;
	struct err e = { 0 };

	if (c->ops->take_record && c->ops->take_record(l, r, payload))
		return CONN_TAKEN;
	switch (r->type) {
	case REC_PULLED:
	case REC_ROWS:
	case REC_SCANNED:
		if (outdated)
			return CONN_TAKEN;
		if (r->examples > c->seen.members)
			c->seen.members = r->examples;
		pull = request_of_answer(l, r->seq);
		/* Rows that were requested ahead may come when the worker waits for a later step, and
		 * say nothing new then. */
		if (!pull || pull->step >= c->seen.awaited)
			note_answer(c, r);
		/* NULL: it was moved to another link, or this is a second answer. */
		return pull && request_answer(pull, &(struct answer){ r, payload, NULL }, &l->fault)
		    ? CONN_DROP
		    : CONN_TAKEN;
	case REC_RECEIPT:
		if (!outdated)
			client_push_take_receipts(l, r, payload);
		return CONN_TAKEN;
	case REC_NO_ROW_IDS:
		client_row_ids_resend(l, r);
		return CONN_TAKEN;
	case REC_CLOCKED:
		if (r->seq == DONE_SEQ && l->done)
			request_answer(l->done, &(struct answer){ .head = r }, NULL);
		else if (r->seq != DONE_SEQ && l->clock && r->step == c->clock.step && !outdated)
			request_answer(l->clock, &(struct answer){ .head = r }, NULL);
		return CONN_TAKEN;
	case REC_NACK:
		/* The request was of another layout epoch. All requests are sent again when the
		 * view of that layout epoch comes. */
		if (payload_get_nack(payload, r->len, &e) == ERR_STALE)
			return CONN_TAKEN;
		l->fault = e;
		if (c->ops->refusal_is_final(l)) {
			c->fatal = e;
			err_prefix(&c->fatal, "%s refused", l->id);
		}
		return CONN_DROP;
	default:
		return CONN_TAKEN;
	}
}

/* The conn's handler; it never holds a record. */
static enum conn_verdict on_client_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct link *l = ctx;
	const uint8_t *body;
	struct record sub;
	struct err e = { 0 };
	size_t at = 0;

	if (r->type != REC_BATCH)
		return take_client_record(l, r, payload);
	while (payload_batch_next(payload, r->len, &at, &sub, &body, &e)) {
		enum conn_verdict v = take_client_record(l, &sub, body);

		if (v != CONN_TAKEN)
			return v;
	}
	if (e.code)
		l->fault = e;
	return e.code ? CONN_DROP : CONN_TAKEN;
}

static const struct conn_handler handler = { .live = on_client_live,
	.place = client_pull_answer_place,
	.record = on_client_record };

/* ---- connections ---- */

/* Start a session; on failure the link stays DOWN and is tried again later. */
static void dial_link(struct link *l)
{
	const struct client_config *cfg = &l->client->cfg;
	const struct dial_target to = { .tcp = l->tcp,
		.unix_path = l->unix_path,
		.key = l->key,
		.transport = cfg->transport,
		.id = &cfg->id->conn,
		.info = { .incarnation = cfg->incarnation,
		    .rank = cfg->rank,
		    .role = l->client->ops->role } };

	if (dial(&to, &handler, l, &l->conn, &l->fault)) {
		backoff_failed(&l->backoff, clock_now());
		return;
	}
	conn_watch(l->conn);
	l->state = LINK_DIALLING;
}

void client_link_drop(struct link *l, const struct err *why)
{
	struct client *c = l->client;
	bool refused = l->state == LINK_DIALLING;

	if (l->conn) {
		c->ended.pushed += conn_bytes_out(l->conn);
		c->ended.pulled += conn_bytes_in(l->conn);
	}
	l->memory_failed |= l->conn && conn_has_offered(l->conn);
	conn_free(l->conn);
	l->conn = NULL;
	batcher_release(&l->batcher);
	l->batcher = (struct batcher){ 0 };
	row_ids_cache_free(l->row_ids_cache);
	l->row_ids_cache = NULL;
	if (l->state == LINK_UP)
		c->stats.reconnects++;
	l->state = LINK_DOWN;
	if (!l->down_since)
		l->down_since = clock_now();
	for (const struct request *r = l->open.first; r && !c->seen.lost_at; r = r->next)
		if (r->ops->class == REQUEST_PUSH)
			c->seen.lost_at = l->down_since;
	request_lose_all(l);
	if (why)
		l->fault = *why;
	backoff_failed(&l->backoff, clock_now());
	/* A refused handshake is final, unless it may have another cause: a broken connection,
	 * or a server that has not heard yet that this rank is ours. */
	l->refusals = refused && l->fault.code == ERR_AUTH ? l->refusals + 1 : 0;
	if (refused && c->ops->refusal_is_final(l) && !c->fatal.code &&
	    (l->refusals >= REFUSALS_MAX || l->fault.code == ERR_FORBIDDEN ||
	        l->fault.code == ERR_CONFIG ||
	        (l->fault.code == ERR_FENCED && clock_now() - l->down_since > FENCED_FOR_SURE))) {
		c->fatal = l->fault;
		err_prefix(&c->fatal, "%s (%s)", l->id, l->tcp);
	}
}

/* ---- serving all links, and waiting ---- */

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
	if (step == CLIENT_NOW)
		return err_set(e, ERR_TIMEOUT, "the servers have not answered for %lld s",
		    (long long)((now - begin) / NSEC_PER_SEC));
	return err_set(e, ERR_TIMEOUT,
	    "waited %lld s at step %llu for the other workers; to wait longer, raise deadline",
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

/* Wait until one of n descriptors or a shared-memory ring has something, for ms at most:
 * polling for as long as cfg.spin says, then sleeping. */
static void poll_links(struct client *c, struct pollfd *p, unsigned n, int ms)
{
	bool asleep = true;
	int found = 0;

	spin_begin(&c->spin);
	while (c->spin.span && ms && !found && !any_ring_ready(c)) {
		found = poll(p, n, 0);
		if (!found && !spin_again(&c->spin))
			break;
	}
	/* Tell every shared-memory peer that we are about to sleep, so that it wakes us by the
	 * socket, unless its ring has something already. */
	for (unsigned i = 0; !found && i < c->nlinks; i++)
		asleep &= c->link[i]->state != LINK_UP || conn_doze(c->link[i]->conn);
	if (!found && poll(p, n, asleep ? ms : 0) < 0 && errno != EINTR)
		abort();
}

void client_serve(struct client *c, int ms)
{
	int64_t now = clock_now();
	struct pollfd *p;

	client_assert_owner(c);
	if (c->npolled <= c->nlinks) {
		c->npolled = c->nlinks + 1;
		c->polled = mem_regrow(c->polled, c->npolled, sizeof *c->polled);
	}
	p = c->polled;
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		p[i] = (struct pollfd){ .fd = -1 };
		if (l->used && l->state == LINK_DOWN && backoff_is_due(&l->backoff, now))
			dial_link(l);
		if (l->state == LINK_DOWN)
			continue;
		if (l->state == LINK_UP)
			batcher_flush(&l->batcher, l->conn);
		p[i].fd = conn_fd(l->conn);
		p[i].events = conn_events(l->conn);
	}
	p[c->nlinks] = (struct pollfd){ now < c->attend_poll_at ? -1 : c->cfg.attend_fd, POLLIN,
		0 };
	poll_links(c, p, c->nlinks + 1, ms);
	c->attend_ready = p[c->nlinks].revents & POLLIN;
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
}

void client_poke(struct client *c)
{
	client_assert_owner(c);
	client_serve(c, 0);
	client_clocks_answered(c);
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
		if (l->used && l->live && l->state != LINK_UP && l->down_since &&
		    c->cfg.coordinator_is_up && c->cfg.coordinator_is_up(c->cfg.ctx) &&
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
	/* No worker is waited for outside of a step. */
	if (c->cfg.list_stragglers && step != CLIENT_NOW)
		c->cfg.list_stragglers(c->cfg.ctx, step, &who);
	if (who.len)
		log_warn(c->cfg.log, "waiting at step %llu for %d s: %s", (unsigned long long)step,
		    seconds, who.data);
	/* No other worker is slower: the cause is a server, or the network path to it. */
	for (unsigned i = 0; !who.len && i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (l->state == LINK_UP && l->open.first)
			log_warn(c->cfg.log,
			    "waiting for %s (%s) for %d s: it is connected, but does not answer",
			    l->id, l->tcp, seconds);
	}
	buf_release(&who);
}

enum err_code client_attend(struct client *c, struct err *e)
{
	struct err why = { 0 };

	client_assert_owner(c);
	client_poke(c);
	if (!c->cfg.attend || !c->cfg.attend(c->cfg.ctx, &why))
		return ERR_OK;
	if (e)
		*e = why;
	return why.code;
}

/* Calls cfg.attend during a wait. attend_fd may stay readable for long, as after a signal to a
 * worker that ends after its step: when that was so in two turns, it is not polled for a while,
 * because the wait would be a busy loop. `ready_before`: it was readable in the turn before. */
static bool attend_in_wait(struct client *c, int64_t now, bool ready_before, struct err *e)
{
	if (c->cfg.attend && c->cfg.attend(c->cfg.ctx, e))
		return true;
	if (c->attend_ready && ready_before)
		c->attend_poll_at = now + CHECK_EVERY;
	return false;
}

enum err_code client_wait_until(struct client *c, bool (*ready)(struct client *), uint64_t step,
    struct err *e)
{
	int64_t begin = clock_now(), say = begin + REPORT_FIRST, look = begin + CHECK_EVERY,
	        turned = begin;

	client_assert_owner(c);
	while (!ready(c)) {
		bool ready_before = c->attend_ready;
		int64_t now;

		if (c->fatal.code)
			return err_pass(e, &c->fatal);
		client_serve(c, 20);
		now = clock_now();
		/* While this process was stopped it did not wait, and the others may have been
		 * stopped with it. */
		if (now - turned > STOOD_STILL)
			begin += now - turned;
		turned = now;
		if ((now >= look || c->attend_ready) && attend_in_wait(c, now, ready_before, e))
			return e->code;
		if (now >= look && c->cfg.paused && c->cfg.paused(c->cfg.ctx)) {
			begin = now;
			say = begin + REPORT_FIRST;
		}
		if (now >= look) {
			if (!check_links(c, begin, now) && !ready(c))
				return set_overdue_error(c, step, begin, e);
			look = now + CHECK_EVERY;
		}
		if (now >= say && !ready(c)) {
			log_waiting(c, step, begin);
			say = now + REPORT_AGAIN;
		}
		if (now - begin > c->cfg.deadline && !ready(c))
			return set_overdue_error(c, step, begin, e);
	}
	return ERR_OK;
}

/* ---- life ---- */

enum err_code client_new(const struct client_config *cfg, struct client **out, struct err *e)
{
	struct client *c = mem_alloc(sizeof *c);

	(void)e;
	c->cfg = *cfg;
	c->ops = cfg->hooks ? &client_relay_ops : &client_worker_ops;
	c->spin.span = cfg->spin;
	c->next_seq = 1;
	c->seen.checkpoint = c->seen.trained = UINT64_MAX;
	if (cfg->oldest_open)
		atomic_store(cfg->oldest_open, CLIENT_NONE_OPEN);
	layout_reserve(&c->layout);
	rng_init(&c->rng, cfg->incarnation);
	*out = c;
	return ERR_OK;
}

void client_set_coding(struct client *c, const struct client_coding *coding)
{
	client_assert_owner(c);
	c->cfg.coding = *coding;
}

uint32_t client_confirmed_epoch(const struct client *c)
{
	return c->clock.confirmed;
}

const struct layout *client_layout(const struct client *c)
{
	return &c->layout;
}

int64_t client_first_answer(const struct client *c)
{
	return c->seen.first_answer;
}

uint32_t client_members(const struct client *c)
{
	return c->seen.members;
}

uint64_t client_trained_step(const struct client *c)
{
	return c->seen.trained;
}

uint64_t client_open_step(const struct client *c)
{
	return c->seen.open_step;
}

void client_hand_over(struct client *c)
{
	thread_owner_release(&c->owner);
}

void client_free(struct client *c)
{
	struct record bye = { .type = REC_BYE };

	if (!c)
		return;
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (l->state == LINK_UP) {
			batcher_flush(&l->batcher, l->conn);
			conn_send(l->conn, &bye, NULL);
			conn_write(l->conn, NULL);
		}
		conn_free(l->conn);
		l->conn = NULL;
		batcher_release(&l->batcher);
		row_ids_cache_free(l->row_ids_cache);
	}
	for (struct request *r; (r = request_next(c, NULL));)
		request_free(r);
	for (struct request *r; (r = c->spare.requests);) {
		c->spare.requests = r->next;
		free(r);
	}
	for (unsigned i = 0; i < c->nlinks; i++) {
		buf_release(&c->link[i]->announced);
		buf_release(&c->link[i]->clocked);
		free(c->link[i]);
	}
	client_free_gradients(c);
	client_encode_free_residuals(c);
	client_rows_free_residuals(c);
	client_row_cache_free(c);
	client_row_list_free(c->spare.list);
	client_bodies_free(c->spare.bodies);
	zip_free(c->zip);
	for (size_t i = 0; i < c->versions.ntables; i++)
		free(c->versions.of[i]);
	free((void *)c->versions.of);
	free(c->versions.nparts);
	layout_release(&c->layout);
	free(c->link);
	free(c->polled);
	free(c);
}

void client_stats(const struct client *c, struct client_stats *out)
{
	*out = c->stats;
	out->pushed_bytes = c->ended.pushed;
	out->pulled_bytes = c->ended.pulled;
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->conn) {
			out->pushed_bytes += conn_bytes_out(c->link[i]->conn);
			out->pulled_bytes += conn_bytes_in(c->link[i]->conn);
		}
}
