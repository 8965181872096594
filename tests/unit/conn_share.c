/* SPDX-License-Identifier: ISC */
/* Two ends of a connection that agree to share memory: both know when they do, who does not
 * want it is not made to, and nobody is left asleep on what has been written. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket/lent.h"
#include "tap.h"
#include "wire/conn.h"

struct end {
	struct conn *conn;
	unsigned records;
	uint64_t bytes;
	bool up, may, refuses;
	bool holds;          /* keeps the next record for a retry */
	uint8_t *payload;    /* where the last record was */
	struct conn *feeder; /* sends another, `feeds` times, while one is taken */
	unsigned feeds;
};

static struct conn_identity server_id, client_id;

static enum err_code admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e)
{
	(void)key, (void)info, (void)e;
	reply->max_record = RECORD_MAX;
	reply->shares = !((struct end *)ctx)->refuses;
	return ERR_OK;
}

static void live(void *ctx, const struct hs_server_info *server)
{
	((struct end *)ctx)->up = true;
	((struct end *)ctx)->may = server && server->shares;
}

static uint8_t fill = 1; /* the bytes of all payloads */

static void say(struct conn *c, uint32_t len, bool reserved)
{
	static uint8_t body[700000];
	struct record r = { .type = REC_PUSH, .len = len };

	memset(body, fill, len);
	if (!reserved) {
		conn_send(c, &r, body);
		return;
	}
	memcpy(conn_reserve(c, len), body, len);
	conn_commit(c, &r);
}

static enum conn_verdict record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct end *x = ctx;

	x->payload = payload;
	if (x->holds) {
		x->holds = false;
		return CONN_HOLD;
	}
	if (x->feeds && x->feeds--)
		say(x->feeder, 700000, true);

	x->records += r->len > 0; /* the first only proves that the client has the keys */
	for (uint32_t i = 0; i < r->len; i++)
		x->bytes += payload[i];
	return CONN_TAKEN;
}

static const struct conn_handler handler = { .admit = admit, .live = live, .record = record };

static bool readable(const struct conn *c)
{
	struct pollfd p = { conn_fd(c), POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

/* As a loop does: only what was asked for. */
static enum err_code turn(struct conn *c, struct err *e)
{
	short events = conn_events(c);
	enum err_code rc = ERR_OK;

	if ((events & POLLIN && readable(c)) || conn_ready(c))
		rc = conn_read(c, e);
	if (!rc && conn_events(c) & POLLOUT)
		rc = conn_write(c, e);
	return rc;
}

/* Until neither has anything to do.  The server's error is *e. */
static enum err_code turns(struct end *client, struct end *server, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (int i = 0; i < 20 && !rc; i++) {
		turn(client->conn, NULL);
		rc = turn(server->conn, e);
	}
	return rc;
}

static void meet(struct end *client, struct end *server, bool refuses)
{
	static const struct hs_client_info info = { .incarnation = 4, .rank = 5, .role = 1 };
	struct err e = { 0 };
	int fd[2];

	memset(client, 0, sizeof *client);
	memset(server, 0, sizeof *server);
	server->refuses = refuses;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd))
		abort();
	server->conn = conn_accept(fd[0], &server_id, SUITE_POLY1305, 0, &handler, server);
	client->conn = conn_dial(fd[1], &client_id, server_id.hs.key.pk, &info, &handler, client);
	for (int i = 0; i < 20 && !client->up; i++)
		turns(client, server, &e);
}

static void part(struct end *client, struct end *server)
{
	conn_free(client->conn);
	conn_free(server->conn);
}

/* A peer without a key passes a descriptor with the first byte that it sends. */
static void strangers_descriptor(void)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} passed = { .room = { 0 } };
	struct iovec byte = { (void *)(uintptr_t) "x", 1 };
	struct msghdr m = { .msg_iov = &byte,
		.msg_iovlen = 1,
		.msg_control = passed.room,
		.msg_controllen = sizeof passed.room };
	struct pollfd held = { 0 };
	struct end server = { 0 };
	struct err e = { 0 };
	int fd[2], pipe_ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) ||
	    pipe2(pipe_ends, O_CLOEXEC))
		abort();
	server.conn = conn_accept(fd[0], &server_id, SUITE_POLY1305, 0, &handler, &server);
	*CMSG_FIRSTHDR(&m) = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &pipe_ends[1], sizeof(int));
	ok(sendmsg(fd[1], &m, 0) == 1 && !close(pipe_ends[1]) && !turn(server.conn, &e),
	    "a stranger passes a descriptor with its first byte: %s", e.msg);
	held.fd = pipe_ends[0];
	held.events = POLLIN;
	ok(poll(&held, 1, 0) == 1 && held.revents & POLLHUP,
	    "and the server does not keep it while it waits for the rest");
	close(pipe_ends[0]);
	close(fd[1]);
	conn_free(server.conn);
}

static void agreed(void)
{
	struct end client, server;
	struct err e = { 0 };

	meet(&client, &server, false);
	ok(client.up && client.may && !conn_share(client.conn, &e) && !turns(&client, &server, &e),
	    "memory is offered and taken: %s", e.msg);
	say(client.conn, 1000, false);
	ok(!turns(&client, &server, &e) && server.records == 1 && server.bytes == 1000,
	    "a record that is queued comes");
	/* Both have nothing to do and sleep; what is reserved there is in the other's memory at once. */
	ok(!readable(server.conn) && !conn_queued(client.conn) &&
	        !(conn_events(client.conn) & POLLOUT),
	    "both sleep");
	say(client.conn, 4000, true);
	ok(!readable(server.conn) && conn_queued(client.conn),
	    "one is written in place; to wake the other is still to be done");
	ok(conn_events(client.conn) & POLLOUT, "and is asked for");
	ok(!turns(&client, &server, &e) && server.records == 2 && server.bytes == 5000 &&
	        !conn_queued(client.conn),
	    "it comes");
	say(server.conn, 100, true);
	ok(!turns(&client, &server, &e) && client.records == 1 && client.bytes == 100,
	    "and so back");
	part(&client, &server);
}

/* More comes while the server reads than it reads at once, and nothing is left then: it is
 * still woken by what comes next. */
static void much(void)
{
	struct end client, server;
	struct err e = { 0 };

	meet(&client, &server, false);
	ok(!conn_share(client.conn, &e) && !turns(&client, &server, &e), "memory is shared: %s",
	    e.msg);
	server.holds = true;
	say(client.conn, 1000, true);
	turns(&client, &server, &e);
	ok(conn_is_held(server.conn) && !readable(server.conn),
	    "a record is held, and the wake for it is spent");
	server.feeder = client.conn;
	server.feeds = 3;
	ok(!conn_retry(server.conn, &e) && server.records == 4 && !conn_ready(server.conn),
	    "it and those that came meanwhile are taken");
	ok(!conn_queued(client.conn), "which nobody had to be woken for");
	say(client.conn, 1000, true);
	ok(conn_queued(client.conn), "for the next one the server is woken");
	ok(!turns(&client, &server, &e) && server.records == 5, "and takes it");
	part(&client, &server);
}

/* More than the memory holds is said before the server has heard that it is shared: the wake
 * for the room that it makes goes behind its answer. */
static void full(void)
{
	enum { MANY = 40 };
	struct end client, server;
	struct err e = { 0 };

	meet(&client, &server, false);
	ok(!conn_share(client.conn, &e), "memory is offered");
	for (unsigned i = 0; i < MANY; i++)
		say(client.conn, 700000, false);
	ok(!conn_write(client.conn, &e) && conn_queued(client.conn), "and filled");
	ok(!turns(&client, &server, &e) && server.records == MANY && !conn_queued(client.conn),
	    "all of it comes: %u, %s", server.records, e.msg);
	part(&client, &server);
}

/* A record that the server can send later is not queued before shared memory that is full. The queue of
 * a socket grows instead. */
static void wanted(bool shares)
{
	enum { SIZE = 700000, MOST = 2 * SIZE };
	struct end client, server;
	struct err e = { 0 };
	unsigned n = 0;
	size_t queued;

	meet(&client, &server, false);
	ok(!shares || (!conn_share(client.conn, &e) && !turns(&client, &server, &e)),
	    shares ? "memory is shared" : "a socket");
	for (; n < 100 && conn_wants_record(server.conn, MOST); n++)
		say(server.conn, SIZE, true);
	queued = conn_queued(server.conn);
	if (shares)
		ok(n > 2 && queued > SIZE && queued < MOST,
		    "of %u records the first that has no room is queued, and no other", n);
	else
		ok(n == 2 && queued > MOST, "the queue grows to what is stated");
	ok(!turns(&client, &server, &e) && client.records == n &&
	        conn_wants_record(server.conn, MOST),
	    "all come, and another is wanted");
	part(&client, &server);
}

/* Two sessions of one thread receive into one buffer, but a record that is held keeps its own. */
static void buffers(bool shares)
{
	enum { SIZE = 100000 };
	struct end client[2], server[2];
	struct buffers list = { 0 };
	struct err e = { 0 };
	uint8_t *place;

	for (int i = 0; i < 2; i++) {
		meet(&client[i], &server[i], false);
		conn_use_buffers(server[i].conn, &list);
		if (shares)
			conn_share(client[i].conn, &e);
		say(client[i].conn, SIZE, false);
		turns(&client[i], &server[i], &e);
	}
	place = server[0].payload;
	ok(server[0].bytes == SIZE && server[1].bytes == SIZE && server[1].payload == place &&
	        list.n == 1,
	    "two sessions use one buffer, %s", shares ? "memory" : "socket");
	server[0].holds = true;
	say(client[0].conn, SIZE, false);
	turns(&client[0], &server[0], &e);
	fill = 2;
	say(client[1].conn, SIZE, false);
	turns(&client[1], &server[1], &e);
	fill = 1;
	ok(conn_is_held(server[0].conn) && server[0].payload == place &&
	        server[1].payload != place && server[1].bytes == 3 * SIZE,
	    "while one holds a record, the other has another buffer");
	server[0].payload = NULL;
	ok(!conn_retry(server[0].conn, &e) && server[0].payload == place &&
	        server[0].bytes == 2 * SIZE && list.n == 2,
	    "the record has not changed, and both buffers are back");
	server[0].holds = true;
	say(client[0].conn, SIZE, false);
	turns(&client[0], &server[0], &e);
	conn_hand_over(server[0].conn, &handler, &server[0]);
	ok(list.n == 1 && !conn_retry(server[0].conn, &e) && server[0].bytes == 3 * SIZE &&
	        list.n == 1,
	    "a session that leaves the thread takes its buffer along");
	server[1].holds = true;
	say(client[1].conn, SIZE, false);
	turns(&client[1], &server[1], &e);
	ok(list.n == 0, "a session that ends with a record has the last buffer");
	for (int i = 0; i < 2; i++)
		part(&client[i], &server[i]);
	buffers_release(&list);
}

/* A client that writes to a record that the server has, and one that ends within a record. */
static void unfair(void)
{
	enum { SIZE = 100000 };
	struct record r = { .type = REC_PUSH, .len = SIZE };
	struct end client, server;
	struct err e = { 0 };
	uint8_t *room;

	meet(&client, &server, false);
	ok(!conn_share(client.conn, &e) && !turns(&client, &server, &e), "memory is shared");
	room = conn_reserve(client.conn, SIZE);
	memset(room, 1, SIZE);
	conn_commit(client.conn, &r);
	server.holds = true;
	turns(&client, &server, &e);
	memset(room, 255, SIZE);
	ok(conn_is_held(server.conn) && !conn_retry(server.conn, &e) && server.bytes == SIZE,
	    "a record does not change after the server has begun to handle it");
	memset(conn_reserve(client.conn, SIZE), 1, SIZE / 2);
	conn_free(client.conn);
	ok(conn_read(server.conn, &e) == ERR_CLOSED && server.records == 1,
	    "half a record is never seen: \"%s\"", e.msg);
	conn_free(server.conn);
}

/* The list of buffers: the last one first, a small one is replaced, and too many are not kept. */
static void kept(void)
{
	struct buffers list = { 0 };
	uint8_t *at[BUFFERS_SPARE + 2];
	size_t size[BUFFERS_SPARE + 2], got, all = 0;

	for (unsigned i = 0; i < BUFFERS_SPARE + 2; i++) {
		at[i] = buffers_take(&list, 1000 * (i + 1), &size[i]);
		if (!at[i] || size[i] < 1000 * (i + 1))
			abort();
		memset(at[i], 1, size[i]);
	}
	buffers_give(&list, at[2], size[2]);
	buffers_give(&list, at[1], size[1]);
	ok(buffers_take(&list, 1500, &got) == at[1] && got == size[1],
	    "the last buffer that was given back is the first");
	buffers_give(&list, at[1], size[1]);
	ok(buffers_take(&list, 2500, &got) == at[2] && list.n == 1, "if it is large enough");
	buffers_give(&list, at[2], size[2]);
	for (unsigned i = 3; i < BUFFERS_SPARE + 2; i++)
		buffers_give(&list, at[i], size[i]);
	buffers_give(&list, at[0], size[0]);
	for (unsigned i = 0; i < list.n; i++)
		all += list.spare[i].size == 1000;
	ok(list.n == BUFFERS_SPARE && !all, "%u are kept, and not the smallest", list.n);
	at[0] = buffers_take(&list, 1 << 20, &got);
	ok(at[0] && list.n == BUFFERS_SPARE - 1, "a larger one takes the place of a small one");
	free(at[0]);
	buffers_release(&list);
	ok(list.n == 0, "none is left");
}

/* ---- lent memory ---- */

#define LENT 100000u

static struct lent *memory;
static uint8_t *gradient;

/* Both share memory, and the client has offered to lend; the server borrows, or does not. */
static void meet_lending(struct end *client, struct end *server, bool borrows)
{
	struct err e = { 0 };

	if (lent_new(2 * LENT, &memory, &e))
		abort();
	gradient = lent_bytes(memory);
	memset(gradient, 1, LENT);
	meet(client, server, false);
	conn_lend_from(client->conn, memory);
	if (borrows)
		conn_borrow(server->conn);
	ok(!conn_share(client->conn, &e) && !turns(client, server, &e), "memory is shared: %s",
	    e.msg);
}

static void part_lending(struct end *client, struct end *server)
{
	part(client, server);
	lent_free(memory);
}

/* Queue a record whose payload is borrowed, and write it. */
static void lend(struct conn *c, const uint8_t *at)
{
	struct record r = { .type = REC_PUSH, .len = LENT };

	conn_lend(c, &r, at);
	conn_write(c, NULL);
}

static void lends(void)
{
	static uint8_t elsewhere[LENT];
	struct end client, server;
	struct err e = { 0 };
	uint64_t before;

	memset(elsewhere, 1, LENT);
	meet_lending(&client, &server, true);
	before = conn_bytes_out(client.conn);
	lend(client.conn, gradient);
	ok(!conn_queued(client.conn), "a record whose payload is lent is written");
	ok(conn_is_lending(client.conn), "and the client knows that the server has yet to read it");
	memset(gradient, 3, LENT);
	ok(!turns(&client, &server, &e) && server.records == 1 && server.bytes == 3 * LENT,
	    "the server has the bytes of the moment when it reads");
	ok(!conn_is_lending(client.conn), "the client knows that it has read them");
	ok(conn_bytes_out(client.conn) - before == RECORD_HEADER + LENT &&
	        conn_bytes_in(server.conn) >= LENT,
	    "they count as sent");
	lend(client.conn, elsewhere);
	ok(!conn_is_lending(client.conn), "a payload in other memory is copied at once");
	memset(elsewhere, 9, LENT);
	ok(!turns(&client, &server, &e) && server.records == 2 && server.bytes == 4 * LENT,
	    "and comes as it was");
	server.holds = true;
	memset(gradient, 1, LENT);
	lend(client.conn, gradient);
	turns(&client, &server, &e);
	ok(conn_is_held(server.conn) && !conn_is_lending(client.conn),
	    "a record that is held has been copied");
	memset(gradient, 255, LENT);
	ok(!conn_retry(server.conn, &e) && server.bytes == 5 * LENT,
	    "and does not change after the server has begun to handle it");
	part_lending(&client, &server);
}

/* Many more records than the ring could hold with their payloads, and in between others. */
static void lends_many(void)
{
	enum { MANY = 200 };
	struct end client, server;
	struct err e = { 0 };

	meet_lending(&client, &server, true);
	for (unsigned i = 0; i < MANY; i++) {
		lend(client.conn, gradient);
		say(client.conn, 100, i % 2);
	}
	ok(!turns(&client, &server, &e) && server.records == 2 * MANY &&
	        server.bytes == (uint64_t)MANY * (LENT + 100) && !conn_queued(client.conn),
	    "%u records come: %s", 2 * MANY, e.msg);
	part_lending(&client, &server);
}

/* A server that does not borrow gets copies, and so does one to which a record is queued again. */
static void lends_to_nobody(void)
{
	struct end client, server;
	struct err e = { 0 };

	meet_lending(&client, &server, false);
	lend(client.conn, gradient);
	ok(!conn_is_lending(client.conn), "a server that does not borrow gets a copy");
	memset(gradient, 9, LENT);
	ok(!turns(&client, &server, &e) && server.bytes == LENT, "of what it was");
	part_lending(&client, &server);
	meet_lending(&client, &server, true);
	memset(gradient, 1, LENT);
	conn_lend(client.conn, &(struct record){ .type = REC_PUSH, .len = LENT }, gradient);
	conn_keep_lent(client.conn);
	memset(gradient, 9, LENT);
	ok(!turns(&client, &server, &e) && server.bytes == LENT,
	    "a payload that is kept is no longer read from the memory");
	part_lending(&client, &server);
}

/* Places outside of the memory, and records that claim a place where there is none. */
static void lends_wrongly(void)
{
	const struct {
		const char *what;
		uint64_t offset;
		uint32_t len;
		bool borrows;
	} bad[] = {
		{ "an offset behind the memory", UINT64_C(1) << 40, LENT, true },
		{ "the largest offset", UINT64_MAX, LENT, true },
		{ "an offset whose end is more than 2^64", UINT64_MAX - LENT / 2, LENT, true },
		{ "a payload that ends behind the memory", LENT + LENT / 2, LENT, true },
		{ "a payload larger than the memory", 0, RECORD_MAX, true },
		{ "an offset of one too many", 64 + 2 * LENT - LENT + 1, LENT, true },
		{ "a place in memory that the server has not borrowed", 64, LENT, false },
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct record r = { .type = REC_PUSH, .flags = RECORD_LENT, .len = bad[i].len };
		struct end client, server;
		struct err e = { 0 };
		uint8_t *room;

		meet_lending(&client, &server, bad[i].borrows);
		room = conn_reserve(client.conn, r.len);
		memcpy(room, &bad[i].offset, sizeof bad[i].offset);
		conn_commit(client.conn, &r);
		ok(turns(&client, &server, &e) == ERR_PROTO && !server.records, "%s: \"%s\"",
		    bad[i].what, e.msg);
		part_lending(&client, &server);
	}
}

/* The server refuses memory that the client could cut. */
static void lends_unsealed(void)
{
	struct end client, server;
	struct err e = { 0 };
	int zero;

	meet(&client, &server, false);
	if (lent_new(LENT, &memory, &e))
		abort();
	/* The number of the descriptor now belongs to another file. */
	zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
	if (dup2(zero, lent_fd(memory)) < 0)
		abort();
	close(zero);
	conn_lend_from(client.conn, memory);
	conn_borrow(server.conn);
	ok(!conn_share(client.conn, &e) && turns(&client, &server, &e) == ERR_PROTO,
	    "memory that is not sealed ends the session: \"%s\"", e.msg);
	part_lending(&client, &server);
}

static void refused(void)
{
	struct end client, server;
	struct err e = { 0 };

	meet(&client, &server, true);
	ok(client.up && !client.may, "a server that has no room for it says so");
	ok(!conn_share(client.conn, &e) && turns(&client, &server, &e) == ERR_PROTO,
	    "and means it: \"%s\"", e.msg);
	part(&client, &server);
}

int main(void)
{
	uint8_t psk[KEY_BYTES] = { 3 };
	struct key_pair k;

	key_init(NULL);
	key_pair_generate(&k);
	handshake_identity_init(&server_id.hs, &k, psk);
	key_pair_generate(&k);
	handshake_identity_init(&client_id.hs, &k, psk);
	strangers_descriptor();
	agreed();
	much();
	full();
	refused();
	wanted(true);
	wanted(false);
	buffers(true);
	buffers(false);
	unfair();
	lends();
	lends_many();
	lends_to_nobody();
	lends_wrongly();
	lends_unsealed();
	kept();
	return tap_done();
}
