/* SPDX-License-Identifier: ISC */
#include <sys/socket.h>
#include <unistd.h>

#include "allreduce/ring_state.h"
#include "auth/keyring.h"
#include "core/clock.h"
#include "core/mem.h"
#include "wire/dial.h"
#include "wire/payload.h"

/* Making sessions: every member dials every other, and each connection carries slices one way.
 * ring_state.h draws the states. */

#define RETRY_MIN      (20 * NSEC_PER_MSEC)
#define RETRY_MAX      (500 * NSEC_PER_MSEC)
#define GUEST_DEADLINE (3 * NSEC_PER_SEC)
#define ACCEPT_BURST   64
#define LOCAL_BUFFER   (320 << 10)

const char *ring_member_text(const struct link *l, char out[static NET_TEXT + 32])
{
	snprintf(out, NET_TEXT + 32, l->addr[0] ? "worker-%u (%s)" : "worker-%u", l->who.rank,
	    l->addr);
	return out;
}

static struct record greeting_record(const struct ring *r)
{
	return (struct record){ .type = REC_RING_HELLO,
		.epoch = r->epoch,
		.part = r->cfg.rank,
		.step = r->greeting.have,
		.offset = r->greeting.wants,
		.seq = r->digest };
}

/* ---- dialling ---- */

/* Limit the send buffer of TCP within a host: data that waits in a large one has left the
 * caches when it is read. Across hosts a large buffer is needed to fill the link. */
static void limit_send_buffer(const struct link *l)
{
	int size = LOCAL_BUFFER;

	if (strncmp(l->addr, "unix:", 5) != 0 && net_peer_is_local(conn_fd(l->out)))
		setsockopt(conn_fd(l->out), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

static void on_member_dialled(void *ctx, const struct hs_server_info *server)
{
	struct link *l = ctx;
	struct record hello = greeting_record(l->ring);

	(void)server;
	limit_send_buffer(l);
	conn_send(l->out, &hello, NULL);
}

/* A member's answer to our greeting: its own, or a NACK. */
static enum conn_verdict on_hello_answer(void *ctx, const struct record *r, uint8_t *payload)
{
	struct link *l = ctx;
	struct err why;

	if (r->type == REC_RING_HELLO && r->epoch == l->ring->epoch) {
		l->live = true;
		backoff_reset(&l->backoff);
		return CONN_TAKEN;
	}
	if (r->type == REC_NACK && payload_get_nack(payload, r->len, &why) == ERR_STALE) {
		char who[NET_TEXT + 32];

		l->ring->fault = why;
		err_prefix(&l->ring->fault, "%s", ring_member_text(l, who));
	} else if (r->type == REC_NACK) {
		l->fault = why;
	}
	return CONN_DROP;
}

static const struct conn_handler dialled = { .live = on_member_dialled, .record = on_hello_answer };

void ring_close_out(struct link *l)
{
	if (l->out)
		l->ring->stats.sent_bytes += conn_bytes_out(l->out);
	conn_free(l->out);
	l->out = NULL;
	l->live = false;
}

/* End the session that we dialled, and dial again after the retry interval, which doubles. */
static void postpone_dial(struct link *l, const struct err *why)
{
	ring_close_out(l);
	if (why && why->code)
		l->fault = *why;
	backoff_failed(&l->backoff, clock_now());
}

static void dial_ring_member(struct link *l)
{
	const struct ring_config *cfg = &l->ring->cfg;
	const struct dial_target to = {
		.tcp = l->who.tcp,
		.unix_path = l->who.local,
		.key = l->who.key,
		.transport = cfg->transport,
		.id = cfg->id,
		.info = { .incarnation = cfg->incarnation, .rank = cfg->rank, .role = ROLE_WORKER }
	};
	char addr[DIAL_TEXT];
	struct err e = { 0 };

	snprintf(l->addr, sizeof l->addr, "%.*s", (int)sizeof l->addr - 1, dial_address(&to, addr));
	if (dial(&to, &dialled, l, &l->out, &e))
		postpone_dial(l, &e);
}

/* Dial the member if it is time, and serve the session. The first read tells a refused
 * connection from a slow one. */
static void serve_dialled(struct link *l, int64_t now)
{
	struct err e = { 0 };

	if (!l->out && backoff_is_due(&l->backoff, now))
		dial_ring_member(l);
	if (l->out &&
	    (conn_write(l->out, &e) || conn_read(l->out, &e) || conn_write(l->out, &e) ||
	        conn_check(l->out, now, &e)))
		postpone_dial(l, &e);
}

/* ---- being dialled ---- */

static void free_inlet(struct inlet *i)
{
	if (!i)
		return;
	i->ring->stats.received_bytes += conn_bytes_in(i->conn);
	conn_free(i->conn);
	free(i);
}

void ring_close_in(struct link *l)
{
	free_inlet(l->in);
	l->in = NULL;
}

static enum err_code admit_ring_member(void *ctx, const uint8_t key[32],
    const struct hs_client_info *info, struct hs_server_info *reply, struct err *e)
{
	struct inlet *i = ctx;
	const struct ring *r = i->ring;

	for (uint32_t position = 0; position < r->n; position++) {
		const struct ring_member *m = &r->link[position].who;

		if (position != r->position && m->rank == info->rank &&
		    m->incarnation == info->incarnation && memcmp(m->key, key, 32) == 0)
			i->position = position;
	}
	/* The member may be in a ring that we do not know yet: it will try again. */
	if (i->position == RING_NOBODY)
		return err_set(e, ERR_NOTREADY, "rank %u with this key is not in the ring",
		    info->rank);
	*reply = (struct hs_server_info){ .incarnation = r->cfg.incarnation,
		.epoch = r->epoch,
		.max_record = RECORD_MAX };
	return ERR_OK;
}

static void on_guest_live(void *ctx, const struct hs_server_info *unused)
{
	(void)ctx;
	(void)unused;
}

static void refuse_guest(struct inlet *i, enum err_code code, const char *text)
{
	struct record nack = { .type = REC_NACK };
	struct buf body = BUF_INIT;

	payload_put_nack(&body, code, text);
	nack.len = (uint32_t)body.len;
	conn_send(i->conn, &nack, body.data);
	conn_write(i->conn, NULL);
	buf_release(&body);
}

/* A guest's RING_HELLO: meet it, or refuse it, by the epochs and member lists of both. */
static enum conn_verdict take_hello(struct inlet *i, const struct record *rec)
{
	struct ring *r = i->ring;
	struct link *l = &r->link[i->position];
	struct record hello;
	char text[160], who[NET_TEXT + 32];

	if (rec->epoch < r->epoch) {
		snprintf(text, sizeof text, "the ring is at ring epoch %u, no longer at %u",
		    r->epoch, rec->epoch);
		refuse_guest(i, ERR_STALE, text);
		return CONN_DROP;
	}
	/* A member that forms the ring again has given up the reduction that we are doing. */
	if (rec->epoch > r->epoch || r->formed) {
		err_set(&r->fault, ERR_STALE, "%s forms the ring at ring epoch %u",
		    ring_member_text(l, who), rec->epoch);
		return CONN_DROP;
	}
	if (rec->seq != r->digest) {
		refuse_guest(i, ERR_PROTO, "the member has another list of members for this epoch");
		err_set(&r->fault, ERR_PROTO, "%s has another list of members for ring epoch %u",
		    ring_member_text(l, who), r->epoch);
		return CONN_DROP;
	}
	free_inlet(l->in);
	l->in = i;
	i->met = true;
	l->greeting = (struct greeting){ .have = rec->step, .wants = rec->offset };
	hello = greeting_record(r);
	conn_send(i->conn, &hello, NULL);
	return CONN_TAKEN;
}

static enum conn_verdict on_inlet_record(void *ctx, const struct record *rec, uint8_t *payload)
{
	struct inlet *i = ctx;

	if (rec->type == REC_BATCH && rec->len == 0)
		/* an empty batch is the first record of a session */
		return CONN_TAKEN;
	if (rec->type == REC_RING_HELLO && !i->met)
		return take_hello(i, rec);
	return i->met ? ring_take_record(i, rec, payload) : CONN_DROP;
}

static const struct conn_handler dialling = { .admit = admit_ring_member,
	.live = on_guest_live,
	.place = ring_place,
	.record = on_inlet_record };

static void accept_guests(struct ring *r, int listener)
{
	for (int k = 0; k < ACCEPT_BURST && listener >= 0; k++) {
		int fd = net_accept(listener);
		struct inlet *i;

		if (fd < 0)
			return;
		i = mem_alloc(sizeof *i);
		i->ring = r;
		i->position = RING_NOBODY;
		i->opened = clock_now();
		i->conn = conn_accept(fd, r->cfg.id,
		    net_peer_is_local(fd) ? r->cfg.local_suite : r->cfg.remote_suite, r->epoch,
		    &dialling, i);
		i->next = r->guests;
		r->guests = i;
		r->nguests++;
	}
}

/* Serve sessions that have not met yet. Guests cost little each, but are limited: the list
 * begins with the youngest, so that the oldest ones are closed. */
static void serve_guests(struct ring *r, int64_t now)
{
	struct inlet **at = &r->guests, *i;
	unsigned most = 2 * r->n + 16, seen = 0;

	while ((i = *at)) {
		struct err e = { 0 };
		enum err_code rc = conn_read(i->conn, &e);

		if (!rc)
			rc = conn_write(i->conn, &e);
		if (!rc && !i->met && (now - i->opened > GUEST_DEADLINE || ++seen > most))
			rc = ERR_TIMEOUT;
		if (!rc && !i->met) {
			at = &i->next;
			continue;
		}
		*at = i->next;
		r->nguests--;
		if (rc) {
			if (i->met)
				r->link[i->position].in = NULL;
			conn_write(i->conn, NULL); /* write the NACK, if there is one */
			free_inlet(i);
		}
	}
}

/* ---- all together ---- */

enum err_code ring_serve_meeting(struct ring *r, struct err *e)
{
	int64_t now = clock_now();

	accept_guests(r, r->listener[0]);
	accept_guests(r, r->listener[1]);
	serve_guests(r, now);
	for (uint32_t position = 0; position < r->n && !r->formed; position++) {
		struct link *l = &r->link[position];
		struct err why = { 0 };

		if (position == r->position)
			continue;
		serve_dialled(l, now);
		/* Slices that come after the greeting are held until their reduction begins. */
		if (l->in && !conn_is_held(l->in->conn) &&
		    (conn_read(l->in->conn, &why) || conn_write(l->in->conn, &why))) {
			l->fault = why;
			ring_close_in(l);
		}
	}
	return r->fault.code ? err_pass(e, &r->fault) : ERR_OK;
}

bool ring_all_met(const struct ring *r)
{
	for (uint32_t position = 0; position < r->n; position++)
		if (position != r->position && (!r->link[position].in || !r->link[position].live))
			return false;
	return true;
}

void ring_end_sessions(struct ring *r)
{
	struct inlet *i;

	for (uint32_t position = 0; position < r->n; position++) {
		ring_close_out(&r->link[position]);
		ring_close_in(&r->link[position]);
	}
	while ((i = r->guests)) {
		r->guests = i->next;
		free_inlet(i);
	}
	r->nguests = 0;
	r->formed = r->running = false;
	r->fault.code = ERR_OK;
}

void ring_meet_seat(struct ring *r, const struct ring_member *members, size_t n)
{
	free(r->link);
	r->link = mem_array(n, sizeof *r->link);
	r->n = (uint32_t)n;
	for (uint32_t position = 0; position < r->n; position++) {
		struct link *l = &r->link[position];

		l->ring = r;
		l->position = position;
		l->who = members[position];
		l->backoff = (struct backoff){ .least = RETRY_MIN, .most = RETRY_MAX };
		backoff_reset(&l->backoff);
		if (members[position].rank == r->cfg.rank)
			r->position = position;
	}
}
