/* SPDX-License-Identifier: ISC */
/* Records of clocks from a relay, at a server: a clock that is too early does not keep back the clock
 * of another worker, without which it can never be taken. */
#include "core/buf.h"
#include "core/mem.h"
#include "msg/view.h"
#include "server/relayed_ranks.h"
#include "server/server_state.h"
#include "session/tracer.h"
#include "shard_fixture.h"

enum { RELAY = 777, RANKS = 3 };

/* A server with one session, that of the relay. */
struct receiver {
	struct world world;
	struct server *server;
	struct loop *loop;
	struct io_thread thread;
	struct server_session session;
	uint64_t seq;
};

static void open_receiver(struct receiver *r)
{
	struct view_relay relay = { .key = "key", .live = true, .incarnation = RELAY };
	struct view view = { .nrelays = 1, .relays = &relay };
	struct err e;

	memset(r, 0, sizeof *r);
	world_open(&r->world, "bsp", false, "sgd", 1, RANKS);
	r->server = mem_alloc(sizeof *r->server);
	rwlock_init(&r->server->keys.lock, LOCK_KEYS);
	atomic_store(&r->server->shard, r->world.shard);
	atomic_store(&r->server->epochs.installed, 1);
	r->server->tracer = tracer_new();
	relayed_ranks_install(r->server, &view, -1);
	for (uint32_t i = 0; i < RANKS; i++)
		shard_set_relay(r->world.shard, i, RELAY, inc_of(i));
	if (loop_new(&r->loop, &e))
		abort();
	r->thread = (struct io_thread){ .server = r->server, .loop = r->loop };
	r->session.io_thread = &r->thread;
	r->session.who.incarnation = RELAY;
	snprintf(r->session.who.keytext, sizeof r->session.who.keytext, "key");
}

static void close_receiver(struct receiver *r)
{
	batcher_release(&r->session.data.batcher);
	loop_free(r->loop);
	tracer_free(r->server->tracer);
	relayed_ranks_free(r->server->keys.relays);
	rwlock_destroy(&r->server->keys.lock);
	free(r->server);
	world_close(&r->world);
}

/* The relay sends the clocks of n ranks, from `rank` on, in one record. */
static enum conn_verdict hear_clocks(struct receiver *r, uint32_t rank, uint32_t n, uint64_t step)
{
	struct buf body = BUF_INIT;
	struct record rec = { .type = REC_CLOCKS, .epoch = 1, .seq = ++r->seq };
	enum conn_verdict v;

	for (uint32_t i = rank; i < rank + n; i++)
		sum_body_clocks_put(&body,
		    &(struct rank_clock){ .rank = i,
		        .examples = 10,
		        .incarnation = inc_of(i),
		        .step = step,
		        .clocks = true });
	rec.len = (uint32_t)body.len;
	v = session_sum_clocks(&r->session, &rec, body.data);
	buf_release(&body);
	return v;
}

/* The number of answers so far. */
static unsigned answered(const struct receiver *r)
{
	return (unsigned)r->session.data.batcher.n;
}

static void is_not_in_the_way(void)
{
	struct receiver r;

	open_receiver(&r);
	ok(hear_clocks(&r, 0, 2, 0) == CONN_TAKEN && answered(&r) == 1,
	    "the clocks of two workers");
	ok(hear_clocks(&r, 0, 1, 1) == CONN_TAKEN && answered(&r) == 1,
	    "the next of one is too early: it has no answer, and later records are read");
	ok(hear_clocks(&r, 1, 1, 1) == CONN_TAKEN && answered(&r) == 1, "so is that of the other");
	session_retry_clocks(&r.session);
	ok(answered(&r) == 1 && r.session.data.early_records == 2, "both are kept");
	ok(hear_clocks(&r, 2, 1, 0) == CONN_TAKEN && answered(&r) == 2 &&
	        shard_closed(r.world.shard) == 1,
	    "the clock of the third closes the step");
	session_retry_clocks(&r.session);
	ok(answered(&r) == 4 && !r.session.data.early_clocks && !r.session.data.early_bytes,
	    "then the early ones are taken and answered");
	ok(hear_clocks(&r, 2, 1, 1) == CONN_TAKEN && shard_closed(r.world.shard) == 2, "and count");
	close_receiver(&r);
}

static void another_layout(void)
{
	struct receiver r;

	open_receiver(&r);
	hear_clocks(&r, 0, 1, 0);
	hear_clocks(&r, 0, 1, 1);
	atomic_store(&r.server->epochs.installed, 2);
	session_retry_clocks(&r.session);
	ok(answered(&r) == 2 && !r.session.data.early_clocks,
	    "an early clock of another layout is refused: the relay sends it again");
	close_receiver(&r);
}

/* A relay that never stops sending may not fill the memory. */
static void has_a_bound(void)
{
	struct receiver r;
	unsigned n = 0;

	open_receiver(&r);
	hear_clocks(&r, 0, 1, 0);
	while (hear_clocks(&r, 0, 1, 1) == CONN_TAKEN && n < 5000)
		n++;
	ok(n == 1024 && r.session.data.early_records == n, "%u early records are kept", n);
	ok(answered(&r) == 1, "the next one is held by its session");
	hear_clocks(&r, 1, 2, 0);
	session_retry_clocks(&r.session);
	ok(answered(&r) == n + 2 && hear_clocks(&r, 0, 1, 1) == CONN_TAKEN &&
	        r.session.state == SESSION_READING,
	    "until they can be taken");
	close_receiver(&r);
}

int main(void)
{
	is_not_in_the_way();
	another_layout();
	has_a_bound();
	return tap_done();
}
