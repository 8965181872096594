/* SPDX-License-Identifier: ISC */
#include "coordinator/coordinator.h"
#include "coordinator/ownership.h"
#include "core/clock.h"
#include "server/server_state.h"
#include "state/state_store.h"
#include "tests/sim/sim.h"
#include "tests/sim/tenures.h"

/* The functions by which a coordinator lets members in, or does not any more (chain_calls.def). The book of
 * tenures is asked about owners whose time may end: in files these are the owners that have seen a standby
 * (state_store.h, owned_until). */

static bool is_limited(const struct server *s)
{
	return s->state_store && atomic_load(&s->state_store->owned_until) != INT64_MAX;
}

bool __wrap_ownership_is_aside(struct coordinator *coordinator, int64_t now);
bool __wrap_ownership_is_aside(struct coordinator *coordinator, int64_t now)
{
	bool aside = ownership_is_aside(coordinator, now);

	if (!aside && (coordinator->ownership.standbys.n || is_limited(coordinator->server)))
		tenures_let_in(sim_now - (clock_now() - now));
	return aside;
}

enum err_code __wrap_session_admit(void *ctx, const uint8_t key[32],
    const struct hs_client_info *info, struct hs_server_info *reply, struct err *e);
enum err_code __wrap_session_admit(void *ctx, const uint8_t key[32],
    const struct hs_client_info *info, struct hs_server_info *reply, struct err *e)
{
	enum err_code rc = session_admit(ctx, key, info, reply, e);

	if (!rc && is_limited(((struct server_session *)ctx)->io_thread->server))
		tenures_let_in(sim_now);
	return rc;
}
