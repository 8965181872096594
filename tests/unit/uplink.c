/* SPDX-License-Identifier: ISC */
/* The order in which a relay sends sums and clocks. A server takes the clock of a step when the step
 * before is closed there, and stops reading when it has kept too many early ones: a sum that is sent
 * after such clocks would never be read. */
#include "core/mem.h"
#include "ear_fixture.h"
#include "relay/relay.h"
#include "relay/relay_shard.h"
#include "relay/uplink.h"
#include "shard_fixture.h"

static const uint8_t psk[32] = { 9 };

/* A relay without its sessions to workers. */
struct relay_process {
	struct server *server;
	struct relay role;
	struct identity id;
	struct log log;
	struct world world; /* its shard */
};

static void open_relay(struct relay_process *r)
{
	struct shard_config cfg = { .wake = io_threads_wake, .forward = uplink_forward };
	struct key_pair key;

	memset(r, 0, sizeof *r);
	log_init(&r->log, "relay", 5, LOG_LEVEL_ERROR);
	key_pair_generate(&key);
	handshake_identity_init(&r->id.conn.hs, &key, psk);
	r->server = mem_alloc(sizeof *r->server);
	r->server->cfg.id = &r->id;
	r->server->cfg.log = &r->log;
	r->server->incarnation = 7;
	r->server->role_state = &r->role;
	cfg.ctx = r->server;
	sync_parse("bsp", &cfg.mode, NULL);
	add_table(&r->world, "w", false, N, 1);
	layout_place(&r->world.layout, (const uint16_t[]){ 0 }, 1, 1);
	if (relay_shard_new(&cfg, &r->world.shard, NULL) ||
	    shard_install(r->world.shard, &r->world.layout, NULL, NULL))
		abort();
	atomic_store(&r->server->shard, r->world.shard);
	admit(r->world.shard, 0, inc_of(0), 0);
	if (uplink_start(r->server, NULL))
		abort();
}

static void close_relay(struct relay_process *r)
{
	uplink_stop(r->role.uplink);
	uplink_free(r->role.uplink);
	world_close(&r->world);
	free(r->server);
}

static bool take_view(struct relay_process *r, const struct ear *x, uint32_t epoch)
{
	const struct view *view;

	if (ear_view(x, NULL, &r->world.layout, epoch, &view, NULL))
		return false;
	uplink_view(r->role.uplink, view, 0);
	view_release(view);
	return true;
}

/* Pass on the clock of the only worker. */
static void pass_clock(struct relay_process *r, uint64_t step)
{
	uplink_clock(r->role.uplink,
	    &(struct rank_clock){ .rank = 0,
	        .examples = 10,
	        .incarnation = inc_of(0),
	        .step = step,
	        .clocks = true });
}

int main(void)
{
	struct relay_process r;
	struct ear x;

	ear_open(&x, psk);
	open_relay(&r);
	ok(take_view(&r, &x, 1) && step_of(&r.world, 0, 0, 10, 1) && ear_await(&x, 1) &&
	        was(&x, 0, "1 PUSH_SUM 0"),
	    "the sum of a step");
	pass_clock(&r, 0);
	ok(ear_await(&x, 2) && was(&x, 1, "1 CLOCKS 0"), "and its clock");
	ok(step_of(&r.world, 0, 1, 10, 1), "the sum of the next step waits for an answer");
	pass_clock(&r, 1);
	ok(ear_await(&x, 3) && was(&x, 2, "1 CLOCKS 0"), "its clock does not");
	atomic_store(&x.hang_up, true);
	ok(ear_await(&x, 5) && was(&x, 3, "1 PUSH_SUM 0") && was(&x, 4, "1 CLOCKS 0"),
	    "the session breaks: the first sum is sent again before the second clock");
	ok(take_view(&r, &x, 2) && ear_await(&x, 7) && was(&x, 5, "2 PUSH_SUM 0") &&
	        was(&x, 6, "2 CLOCKS 0"),
	    "so it is in another layout epoch");
	atomic_store(&x.over, true);
	close_relay(&r);
	ear_close(&x);
	return tap_done();
}
