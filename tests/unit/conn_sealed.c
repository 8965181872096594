/* SPDX-License-Identifier: ISC */
/* What is queued on a conn comes in its order and whole, in each suite: copied, lent, lent and
 * kept, reserved, when some of it has been written already; and what is lent is not written to. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tap.h"
#include "wire/conn.h"

enum { LARGE = 300000, RECORDS = 40 };

struct end {
	struct conn *conn;
	bool up;
	unsigned records, wrong;
};

static struct conn_identity server_id, client_id;
static uint8_t lent[RECORDS][LARGE];

static uint8_t byte_of(unsigned record, size_t i)
{
	return (uint8_t)(record * 31 + i * 7 + (i >> 9));
}

static uint32_t len_of(unsigned record)
{
	return record % 3 ? LARGE - record : 100 + record;
}

static enum err_code admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e)
{
	(void)ctx, (void)key, (void)info, (void)e;
	reply->max_record = RECORD_MAX;
	return ERR_OK;
}

static void live(void *ctx, const struct hs_server_info *server)
{
	(void)server;
	((struct end *)ctx)->up = true;
}

static enum conn_verdict record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct end *x = ctx;
	unsigned n = x->records;

	/* The first of a client only proves that it has the keys. */
	if (r->type != REC_PUSH)
		return CONN_TAKEN;
	x->wrong += r->len != len_of(n) || r->seq != n;
	for (uint32_t i = 0; i < r->len; i++)
		x->wrong += payload[i] != byte_of(n, i);
	x->records++;
	return CONN_TAKEN;
}

static const struct conn_handler handler = { .admit = admit, .live = live, .record = record };

static bool turn(struct end *client, struct end *server)
{
	struct err e = { 0 };
	bool good = !conn_read(client->conn, &e) && !conn_write(client->conn, &e) &&
	    !conn_read(server->conn, &e) && !conn_write(server->conn, &e);

	if (!good)
		printf("# %s\n", e.msg);
	return good;
}

static void queue(struct conn *c, unsigned n)
{
	struct record r = { .type = REC_PUSH, .len = len_of(n), .seq = n };

	for (uint32_t i = 0; i < r.len; i++)
		lent[n][i] = byte_of(n, i);
	if (n % 4 == 0) {
		conn_send(c, &r, lent[n]);
		memset(lent[n], 0, r.len);
	} else if (n % 4 == 1) {
		memcpy(conn_reserve(c, r.len), lent[n], r.len);
		conn_commit(c, &r);
	} else {
		conn_lend(c, &r, lent[n]);
	}
}

static bool as_they_were(void)
{
	bool good = true;

	for (unsigned n = 0; n < RECORDS; n++)
		for (uint32_t i = 0; n % 4 && i < len_of(n); i++)
			good &= lent[n][i] == byte_of(n, i);
	return good;
}

static void suite(enum suite s, bool keep)
{
	static const struct hs_client_info info = { .incarnation = 4, .rank = 5, .role = 1 };
	struct end client = { 0 }, server = { 0 };
	bool good = true;
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd))
		abort();
	server.conn = conn_accept(fd[0], &server_id, s, 0, &handler, &server);
	client.conn = conn_dial(fd[1], &client_id, server_id.hs.key.pk, &info, &handler, &client);
	for (int i = 0; i < 20 && !client.up; i++)
		good &= turn(&client, &server);
	for (unsigned n = 0; n < RECORDS; n++)
		queue(client.conn, n);
	/* Some have gone, one in part. */
	good &= !conn_write(client.conn, NULL) && conn_queued(client.conn);
	if (keep) {
		conn_keep_lent(client.conn);
		memset(lent, 1, sizeof lent);
	}
	for (int i = 0; i < 400 && good && server.records < RECORDS; i++)
		good = turn(&client, &server);
	ok(good && server.records == RECORDS && !server.wrong && !conn_queued(client.conn),
	    "%s%s: %d records come as they were queued", suite_name(s), keep ? ", kept" : "",
	    RECORDS);
	ok(keep || as_they_were(), "and what was lent is as it was");
	conn_free(client.conn);
	conn_free(server.conn);
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
	for (int keep = 0; keep < 2; keep++) {
		suite(SUITE_POLY1305, keep);
		suite(SUITE_CHACHA20POLY1305, keep);
		if (suite_available(SUITE_AES256GCM))
			suite(SUITE_AES256GCM, keep);
	}
	return tap_done();
}
