#include <sys/socket.h>
#include <unistd.h>

#include "auth/keyring.h"
#include "base/clock.h"
#include "base/mem.h"
#include "launch/rundir.h"
#include "ring/ring_state.h"
#include "wire/msg.h"

/* Sessions: everybody dials everybody, and each line carries records one way. */

#define RETRY_MIN (20 * NSEC_PER_MSEC)
#define RETRY_MAX (500 * NSEC_PER_MSEC)
#define GUEST_DEADLINE (3 * NSEC_PER_SEC)
#define ACCEPT_BURST 64
#define LOCAL_BUFFER (320 << 10)

const char *ring_who(const struct link *l, char out[static NET_TEXT + 32])
{
	snprintf(out, NET_TEXT + 32, l->addr[0] ? "worker-%u (%s)" : "worker-%u", l->who.slot, l->addr);
	return out;
}

static struct record greeting_record(const struct ring *r)
{
	return (struct record){ .type = REC_RING_HELLO, .epoch = r->epoch, .part = r->cfg.slot, .step = r->said.have,
		.offset = r->said.wants, .seq = r->digest };
}

/* ---- dialling -------------------------------------------------------------------- */

/* On one host, what waits in a large buffer of TCP is out of the caches when it is read;
 * across hosts it is what fills the line. */
static void keep_short(const struct link *l)
{
	int size = LOCAL_BUFFER;

	if (strncmp(l->addr, "unix:", 5) != 0 && net_peer_is_local(conn_fd(l->out)))
		setsockopt(conn_fd(l->out), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

static void on_live(void *ctx, const struct hs_server_info *server)
{
	struct link *l = ctx;
	struct record hello = greeting_record(l->ring);

	(void)server;
	keep_short(l);
	conn_send(l->out, &hello, NULL);
}

/* What a member says to one that dials it: the greeting, or why not. */
static enum conn_verdict on_answer(void *ctx, const struct record *r, uint8_t *payload)
{
	struct link *l = ctx;
	struct err why;

	if (r->type == REC_RING_HELLO && r->epoch == l->ring->epoch) {
		l->live = true;
		l->retry = RETRY_MIN;
		return CONN_TAKEN;
	}
	if (r->type == REC_NACK && msg_get_nack(payload, r->len, &why) == ERR_STALE) {
		char who[NET_TEXT + 32];

		l->ring->fault = why;
		err_prefix(&l->ring->fault, "%s", ring_who(l, who));
	} else if (r->type == REC_NACK) {
		l->fault = why;
	}
	return CONN_DROP;
}

static const struct conn_handler dialled = { .live = on_live, .record = on_answer };

static bool by_socket(const struct link *l)
{
	const char *transport = l->ring->cfg.transport;

	if (!l->who.local[0] || strcmp(transport, "tcp") == 0)
		return false;
	return strcmp(transport, "unix") == 0 || access(l->who.local, R_OK | W_OK) == 0;
}

void ring_hang_up(struct link *l)
{
	if (l->out)
		l->ring->stats.sent_bytes += conn_bytes_out(l->out);
	conn_free(l->out);
	l->out = NULL;
	l->live = false;
}

static void put_off(struct link *l, const struct err *why)
{
	ring_hang_up(l);
	if (why && why->code)
		l->fault = *why;
	l->next_try = clock_now() + l->retry;
	l->retry = l->retry * 2 < RETRY_MAX ? l->retry * 2 : RETRY_MAX;
}

static void dial(struct link *l)
{
	const struct ring_config *cfg = &l->ring->cfg;
	struct hs_client_info info = { .incarnation = cfg->incarnation, .slot = cfg->slot, .role = ROLE_WORKER };
	char sock[RUNDIR_SOCKET_PATH];
	int fd, dirfd = -1;
	struct err e = { 0 };
	enum err_code rc = ERR_OK;

	memcpy(info.cluster, cfg->id->cluster, sizeof info.cluster);
	snprintf(l->addr, sizeof l->addr, "%s", l->who.tcp);
	if (by_socket(l)) {
		rc = rundir_socket_path(l->who.local, sock, &dirfd, &e);
		snprintf(l->addr, sizeof l->addr, "unix:%s", sock);
	} else if (!l->who.tcp[0]) {
		rc = err_set(&e, ERR_UNREACH, "it has said no address");
	}
	if (!rc)
		rc = net_connect(l->addr, &fd, &e);
	if (dirfd >= 0) {
		close(dirfd);
		snprintf(l->addr, sizeof l->addr, "unix:%s", l->who.local);
	}
	if (rc)
		put_off(l, &e);
	else
		l->out = conn_dial(fd, cfg->id, l->who.key, &info, &dialled, l);
}

/* Refused connections are told from slow ones by the first read. */
static void serve_out(struct link *l, int64_t now)
{
	struct err e = { 0 };

	if (!l->out && now >= l->next_try)
		dial(l);
	if (l->out && (conn_write(l->out, &e) || conn_read(l->out, &e) || conn_write(l->out, &e) || conn_check(l->out, now, &e)))
		put_off(l, &e);
}

/* ---- being dialled ---------------------------------------------------------------- */

static void inlet_free(struct inlet *i)
{
	if (!i)
		return;
	i->ring->stats.received_bytes += conn_bytes_in(i->conn);
	conn_free(i->conn);
	free(i);
}

void ring_shut(struct link *l)
{
	inlet_free(l->in);
	l->in = NULL;
}

static enum err_code admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e)
{
	struct inlet *i = ctx;
	const struct ring *r = i->ring;

	for (uint32_t rank = 0; rank < r->n; rank++) {
		const struct ring_member *m = &r->link[rank].who;

		if (rank != r->rank && m->slot == info->slot && m->incarnation == info->incarnation && memcmp(m->key, key, 32) == 0)
			i->rank = rank;
	}
	/* It may be of a ring that we have not heard of yet. */
	if (i->rank == RING_NOBODY)
		return err_set(e, ERR_NOTREADY, "slot %u with this key is not in the ring", info->slot);
	*reply = (struct hs_server_info){ .incarnation = r->cfg.incarnation, .epoch = r->epoch, .max_record = RECORD_MAX };
	return ERR_OK;
}

static void on_guest(void *ctx, const struct hs_server_info *unused)
{
	(void)ctx;
	(void)unused;
}

static void refuse(struct inlet *i, enum err_code code, const char *text)
{
	struct record nack = { .type = REC_NACK };
	struct buf body = BUF_INIT;

	msg_put_nack(&body, code, text);
	nack.len = (uint32_t)body.len;
	conn_send(i->conn, &nack, body.data);
	conn_write(i->conn, NULL);
	buf_release(&body);
}

static enum conn_verdict greet(struct inlet *i, const struct record *rec)
{
	struct ring *r = i->ring;
	struct link *l = &r->link[i->rank];
	struct record hello;
	char text[160], who[NET_TEXT + 32];

	if (rec->epoch < r->epoch) {
		snprintf(text, sizeof text, "the ring is at epoch %u, and no longer at %u", r->epoch, rec->epoch);
		refuse(i, ERR_STALE, text);
		return CONN_DROP;
	}
	/* A member that forms the ring again has given up the reduction that we are at. */
	if (rec->epoch > r->epoch || r->formed) {
		err_set(&r->fault, ERR_STALE, "%s forms the ring of epoch %u", ring_who(l, who), rec->epoch);
		return CONN_DROP;
	}
	if (rec->seq != r->digest) {
		refuse(i, ERR_PROTO, "the members of this epoch are not those that I know");
		err_set(&r->fault, ERR_PROTO, "%s has another list of members for ring epoch %u", ring_who(l, who), r->epoch);
		return CONN_DROP;
	}
	inlet_free(l->in);
	l->in = i;
	i->met = true;
	l->said = (struct greeting){ .have = rec->step, .wants = rec->offset };
	hello = greeting_record(r);
	conn_send(i->conn, &hello, NULL);
	return CONN_TAKEN;
}

static enum conn_verdict on_record(void *ctx, const struct record *rec, uint8_t *payload)
{
	struct inlet *i = ctx;

	if (rec->type == REC_BATCH && rec->len == 0)
		return CONN_TAKEN;              /* the first record of a session */
	if (rec->type == REC_RING_HELLO && !i->met)
		return greet(i, rec);
	return i->met ? ring_take(i, rec, payload) : CONN_DROP;
}

static const struct conn_handler dialling = { .admit = admit, .live = on_guest, .place = ring_place, .record = on_record };

static void let_in(struct ring *r, int listener)
{
	for (int k = 0; k < ACCEPT_BURST && listener >= 0; k++) {
		int fd = net_accept(listener);
		struct inlet *i;

		if (fd < 0)
			return;
		i = mem_alloc(sizeof *i);
		i->ring = r;
		i->rank = RING_NOBODY;
		i->opened = clock_now();
		i->conn = conn_accept(fd, r->cfg.id, net_peer_is_local(fd) ? r->cfg.local_suite : r->cfg.remote_suite, r->epoch,
		    &dialling, i);
		i->next = r->guests;
		r->guests = i;
		r->nguests++;
	}
}

/* Strangers cost a hash each, and are not many at once: youngest first, so the
 * oldest ones go. */
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
				r->link[i->rank].in = NULL;
			conn_write(i->conn, NULL);      /* what was said of the refusal */
			inlet_free(i);
		}
	}
}

/* ---- all together ------------------------------------------------------------------ */

enum err_code ring_meet(struct ring *r, struct err *e)
{
	int64_t now = clock_now();

	let_in(r, r->listener[0]);
	let_in(r, r->listener[1]);
	serve_guests(r, now);
	for (uint32_t rank = 0; rank < r->n && !r->formed; rank++) {
		struct link *l = &r->link[rank];
		struct err why = { 0 };

		if (rank == r->rank)
			continue;
		serve_out(l, now);
		/* What comes behind the greeting waits for its reduction. */
		if (l->in && !conn_is_held(l->in->conn) && (conn_read(l->in->conn, &why) || conn_write(l->in->conn, &why))) {
			l->fault = why;
			ring_shut(l);
		}
	}
	return r->fault.code ? err_set(e, r->fault.code, "%s", r->fault.msg) : ERR_OK;
}

bool ring_all_met(const struct ring *r)
{
	for (uint32_t rank = 0; rank < r->n; rank++)
		if (rank != r->rank && (!r->link[rank].in || !r->link[rank].live))
			return false;
	return true;
}

void ring_part(struct ring *r)
{
	struct inlet *i;

	for (uint32_t rank = 0; rank < r->n; rank++) {
		ring_hang_up(&r->link[rank]);
		ring_shut(&r->link[rank]);
	}
	while ((i = r->guests)) {
		r->guests = i->next;
		inlet_free(i);
	}
	r->nguests = 0;
	r->formed = r->running = false;
	r->fault.code = ERR_OK;
}

void ring_seat(struct ring *r, const struct ring_member *members, size_t n)
{
	free(r->link);
	r->link = mem_array(n, sizeof *r->link);
	r->n = (uint32_t)n;
	for (uint32_t rank = 0; rank < r->n; rank++) {
		struct link *l = &r->link[rank];

		l->ring = r;
		l->rank = rank;
		l->who = members[rank];
		l->retry = RETRY_MIN;
		if (members[rank].slot == r->cfg.slot)
			r->rank = rank;
	}
}
