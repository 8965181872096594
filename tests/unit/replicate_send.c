/* SPDX-License-Identifier: ISC */
/* Records that a server forwards to the next replica, while the layout changes. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/mem.h"
#include "server/server_state.h"
#include "store/replicate_state.h"
#include "tap.h"
#include "wire/conn.h"
#include "wire/record.h"

static struct conn_identity own_id, next_id;

struct end {
	struct conn *conn;
	bool up;
	unsigned states;
	uint32_t epoch; /* of the last record */
};

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

	(void)payload;
	x->states += r->type == REC_REPL_STATE;
	x->epoch = r->epoch;
	return CONN_TAKEN;
}

static const struct conn_handler handler = { .admit = admit, .live = live, .record = record };

/* Both ends write, then read what is there. */
static void pass_records(struct end *own, struct end *next)
{
	for (int i = 0; i < 20; i++) {
		struct end *x[] = { own, next };

		for (int k = 0; k < 2; k++) {
			struct pollfd p = { conn_fd(x[k]->conn), POLLIN, 0 };

			conn_write(x[k]->conn, NULL);
			if (poll(&p, 1, 0) == 1)
				conn_read(x[k]->conn, NULL);
		}
	}
}

static void meet(struct end *own, struct end *next)
{
	static const struct hs_client_info info = { .incarnation = 4, .rank = 5, .role = 1 };
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd))
		abort();
	next->conn = conn_accept(fd[0], &next_id, SUITE_POLY1305, 0, &handler, next);
	own->conn = conn_dial(fd[1], &own_id, next_id.hs.key.pk, &info, &handler, own);
	pass_records(own, next);
}

/* A server joins in epoch 7. Epoch 8 gives it up again, and is being installed: the partitions have
 * their new places, the links do not know of them. */
static void layout_is_replaced(void)
{
	static uint8_t head[64];
	struct server *s = mem_alloc(sizeof *s);
	struct repl repl = { .server = s, .epoch = 7 };
	struct link link = { .repl = &repl };
	struct repl_record state = { .kind = REPL_STATE, .head = head, .nhead = sizeof head };
	struct end own = { 0 }, next = { 0 };

	meet(&own, &next);
	link.conn = own.conn;
	atomic_store(&s->epochs.installing, 7);
	ok(own.up && replicate_link_put(&link, &state), "a record is sent under the layout");
	batcher_flush(&link.batcher, link.conn);
	pass_records(&own, &next);
	ok(next.states == 1 && next.epoch == 7, "and arrives with its epoch");
	atomic_store(&s->epochs.installing, 8);
	ok(!replicate_link_put(&link, &state),
	    "while the next layout is being installed, none is sent under the one before");
	batcher_flush(&link.batcher, link.conn);
	pass_records(&own, &next);
	ok(next.states == 1, "and none arrives");
	repl.epoch = 8;
	ok(replicate_link_put(&link, &state), "it is sent when the link knows the new layout");
	batcher_flush(&link.batcher, link.conn);
	pass_records(&own, &next);
	ok(next.states == 2 && next.epoch == 8, "under which it arrives");
	batcher_release(&link.batcher);
	conn_free(own.conn);
	conn_free(next.conn);
	free(s);
}

int main(void)
{
	uint8_t psk[KEY_BYTES] = { 3 };
	struct key_pair k;

	key_init(NULL);
	key_pair_generate(&k);
	handshake_identity_init(&next_id.hs, &k, psk);
	key_pair_generate(&k);
	handshake_identity_init(&own_id.hs, &k, psk);
	layout_is_replaced();
	return tap_done();
}
