/* SPDX-License-Identifier: ISC */
/* Gradients in memory that the client lends: the server reads them there, a push that is repeated
 * has the same values, and the client does not say that they may be overwritten while a server has
 * yet to read them. Client and server take turns in one thread, so everything happens where the
 * test says. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/keys.h"
#include "client/client.h"
#include "core/clock.h"
#include "socket/net.h"
#include "sync/push_status.h"
#include "tap.h"
#include "wire/payload.h"

#define N 8192u

struct taker {
	struct conn_identity id;
	struct key_pair key;
	int listener;
	char address[NET_TEXT];
	struct conn *conn;
	bool borrows, silent;
	unsigned pushes, hold_from; /* hold the push of this number, from 1 on; 0: none */
	float last;                 /* the first value of the last push */
	bool even;                  /* all of its values were equal */
};

static const uint8_t psk[32] = { 9 };
static struct identity id;
static struct log logger;
static struct layout l;

static enum err_code admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e)
{
	(void)ctx, (void)key, (void)info, (void)e;
	reply->max_record = RECORD_MAX;
	reply->shares = true;
	return ERR_OK;
}

static void live(void *ctx, const struct hs_server_info *server)
{
	(void)ctx, (void)server;
}

/* The receipt is of the client's present layout, whatever the push was of. */
static void send_receipt(struct taker *x, const struct record *r)
{
	struct record out = { .type = REC_RECEIPT, .epoch = l.epoch, .generation = l.generation };
	struct payload_receipt m = { .table = r->table,
		.part = r->part,
		.status = PUSH_APPLIED,
		.step = r->step };
	struct buf body = BUF_INIT;

	payload_put_receipt(&body, &m);
	out.len = (uint32_t)body.len;
	conn_send(x->conn, &out, body.data);
	buf_release(&body);
}

static enum conn_verdict record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct taker *x = ctx;
	float values[N];

	if (r->type != REC_PUSH || r->len != sizeof values)
		return CONN_TAKEN;
	if (x->pushes + 1 == x->hold_from)
		return CONN_HOLD;
	x->pushes++;
	memcpy(values, payload, sizeof values);
	x->last = values[0];
	x->even = true;
	for (size_t i = 0; i < N; i++)
		x->even &= values[i] == values[0];
	if (!x->silent)
		send_receipt(x, r);
	return CONN_TAKEN;
}

static const struct conn_handler handler = { .admit = admit, .live = live, .record = record };

static void serve(struct taker *x)
{
	int fd = x->conn ? -1 : net_accept(x->listener);

	if (fd >= 0) {
		x->conn = conn_accept(fd, &x->id, SUITE_POLY1305, 1, &handler, x);
		if (x->borrows)
			conn_borrow(x->conn);
	}
	if (x->conn && (conn_retry(x->conn, NULL) || conn_write(x->conn, NULL))) {
		conn_free(x->conn);
		x->conn = NULL;
	}
}

static void taker_open(struct taker *x, const char *dir)
{
	char path[NET_TEXT];

	memset(x, 0, sizeof *x);
	x->borrows = true;
	key_pair_generate(&x->key);
	handshake_identity_init(&x->id.hs, &x->key, psk);
	snprintf(x->address, sizeof x->address, "%s/server.sock", dir);
	snprintf(path, sizeof path, "unix:%.*s", NET_TEXT - 6, x->address);
	if (net_listen(path, 8, &x->listener, (char[NET_TEXT]){ 0 }, NULL))
		abort();
}

static void taker_close(struct taker *x)
{
	conn_free(x->conn);
	close(x->listener);
	unlink(x->address);
}

/* A view with this layout epoch: all open pushes are sent again. */
static void know_taker(struct client *c, const struct taker *x, uint32_t epoch)
{
	const struct view *view = NULL;
	char key[48];
	json_t *v;

	key_to_text(x->key.pk, key);
	l.epoch = epoch;
	l.generation = 1;
	v = json_pack("{s:[{s:b, s:s, s:s, s:s, s:s}], s:o}", "servers", "live", 1, "tcp",
	    "127.0.0.1:1", "unix", x->address, "key", key, "incarnation", "77", "layout",
	    layout_to_json(&l));
	if (view_decode(v, &view, NULL) || client_apply_view(c, view, NULL))
		abort();
	json_decref(v);
	view_release(view);
}

static struct client *client_open(const struct taker *x, const char *transport)
{
	struct client_config cfg = { .id = &id,
		.rank = 0,
		.incarnation = 7,
		.transport = transport_find(transport),
		.deadline = 20 * NSEC_PER_SEC,
		.log = &logger,
		.attend_fd = -1 };
	struct client *c;

	client_new(&cfg, &c, NULL);
	know_taker(c, x, 1);
	return c;
}

/* Both take turns until the server has this many pushes, and the client all receipts if it is to. */
static bool reaches(struct taker *x, struct client *c, unsigned pushes, bool all)
{
	int64_t end = clock_now() + 120 * NSEC_PER_SEC;

	do {
		client_poke(c);
		serve(x);
		client_poke(c);
	} while ((x->pushes < pushes || (all && !client_has_all(c))) && clock_now() < end);
	return x->pushes == pushes;
}

static bool push(struct client *c, uint64_t step, float *g, float value)
{
	struct err e;

	for (size_t i = 0; i < N; i++)
		g[i] = value;
	return !client_push(c, &client_layout(c)->table[0], step, 1, g, &e);
}

/* The first push goes by the socket, the second one by shared memory. */
static float *meet(struct taker *x, struct client *c)
{
	float *g = client_gradients(c, N);

	if (!g || !push(c, 0, g, 1) || !reaches(x, c, 1, true) || !push(c, 1, g, 2) ||
	    !reaches(x, c, 2, true))
		abort();
	return g;
}

static void read_in_place(const char *dir, const char *transport, bool borrows, bool in_place)
{
	struct taker x;
	struct client *c;
	float *g;

	taker_open(&x, dir);
	x.borrows = borrows;
	c = client_open(&x, transport);
	g = meet(&x, c);
	push(c, 2, g, 3);
	client_poke(c);
	/* A worker that does not wait changes only its own gradient. */
	for (size_t i = 0; i < N; i++)
		g[i] = 4;
	ok(reaches(&x, c, 3, true) && x.even && x.last == (in_place ? 4 : 3),
	    "transport %s, %s: the server reads %s", transport,
	    borrows ? "borrowed" : "not borrowed",
	    in_place ? "the memory of the client" : "a copy");
	client_free(c);
	taker_close(&x);
}

/* The session ends before the server has read the push, or after, without a receipt. */
static void session_lost(const char *dir, bool unread)
{
	struct taker x;
	struct client *c;
	unsigned before;
	float *g;

	taker_open(&x, dir);
	c = client_open(&x, "shm");
	g = meet(&x, c);
	x.silent = true;
	push(c, 2, g, 3);
	client_poke(c);
	if (!unread)
		serve(&x);
	before = x.pushes;
	ok(before == (unread ? 2 : 3) && !client_has_all(c), "a push without a receipt, %s",
	    unread ? "not read" : "read");
	conn_free(x.conn);
	x.conn = NULL;
	x.silent = false;
	ok(reaches(&x, c, before + 1, true) && x.even && x.last == 3,
	    "it is repeated in the next session with the same values");
	client_free(c);
	taker_close(&x);
}

/* A push is sent three times.  The receipt of the first comes while the third is still to be read. */
static void still_unread(const char *dir)
{
	struct taker x;
	struct client *c;
	struct client_stats before, after;
	float *g;

	taker_open(&x, dir);
	c = client_open(&x, "shm");
	g = meet(&x, c);
	client_stats(c, &before);
	push(c, 2, g, 3);
	client_poke(c);
	for (uint32_t epoch = 2; epoch <= 3; epoch++) {
		know_taker(c, &x, epoch);
		client_poke(c);
	}
	x.hold_from = 4;
	reaches(&x, c, 3, false);
	client_stats(c, &after);
	ok(x.pushes == 3 && after.receipts[PUSH_APPLIED] == before.receipts[PUSH_APPLIED] + 1,
	    "a push that was sent three times has its receipt");
	ok(!client_has_all(c), "but one of them is still to be read");
	x.hold_from = 0;
	ok(reaches(&x, c, 5, true) && client_has_all(c) && x.even && x.last == 3,
	    "when it has been read, the gradient may be overwritten");
	client_free(c);
	taker_close(&x);
}

static void memory(const char *dir)
{
	struct taker x;
	struct client *c;
	float *a, *b;

	taker_open(&x, dir);
	c = client_open(&x, "shm");
	a = client_gradients(c, N);
	b = client_gradients(c, N);
	ok(a && b && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0 &&
	        (b >= a + N || a >= b + N) && a[0] == 0 && a[N - 1] == 0 && b[0] == 0 &&
	        b[N - 1] == 0,
	    "memory for gradients twice");
	ok(!client_gradients(c, SIZE_MAX / 2) && !client_gradients(c, SIZE_MAX),
	    "more than there can be");
	ok(push(c, 0, b, 7) && reaches(&x, c, 1, true) && push(c, 1, b, 8) &&
	        reaches(&x, c, 2, true) && x.even && x.last == 8,
	    "a gradient in the second one is pushed as well");
	client_free(c);
	taker_close(&x);
}

int main(void)
{
	struct table shape = { .name = "w", .rows = N, .cols = 1 }, *t;
	char dir[] = "/tmp/ps-lent-XXXXXX";
	struct key_pair key;

	log_init(&logger, "client", 2, LOG_LEVEL_ERROR);
	key_pair_generate(&key);
	handshake_identity_init(&id.conn.hs, &key, psk);
	layout_reserve(&l);
	layout_add(&l, &shape, &t, NULL);
	layout_place(&l, (const uint16_t[]){ 0 }, 1, 1);
	if (!mkdtemp(dir))
		abort();
	id.run_dir = dir;
	read_in_place(dir, "shm", true, true);
	read_in_place(dir, "shm", false, false);
	read_in_place(dir, "auto", true, true);
	session_lost(dir, true);
	session_lost(dir, false);
	still_unread(dir);
	memory(dir);
	layout_release(&l);
	rmdir(dir);
	return tap_done();
}
