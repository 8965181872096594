/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "client/client_state.h"
#include "core/json.h"

/* Routing through a relay. A worker whose view assigns it a relay sends pulls, pushes and
 * CLOCKs of steps there; when the relay cannot be reached it goes on directly with the
 * servers. With each change of route it sends everything without a receipt again, under the
 * same identity. */

/* A worker goes on without a relay that has been unreachable for this long. */
#define RELAY_AWAY (1 * NSEC_PER_SEC)

enum err_code client_relay_apply_view(struct client *c, const struct view *view, bool *changed,
    struct err *e)
{
	int64_t n = c->ops->assigned_relay(c, view);
	const struct view_relay *r = n < 0 || (uint64_t)n >= view->nrelays ? NULL
	                                                                   : &view->relays[n];
	uint64_t process = r && r->live ? r->incarnation : 0;
	struct link *l = client_relay_link(c);
	uint8_t key[KEY_BYTES] = { 0 };
	struct route *way = &c->route;
	bool before = way->state == ROUTE_RELAYED, relayed = process && process != way->missed;

	client_assert_owner(c);
	if (!before && !relayed)
		way->state = process ? ROUTE_SHUNNED : ROUTE_DIRECT;
	*changed = relayed != before || (relayed && process != way->process);
	if (!*changed)
		return ERR_OK;
	if (relayed && !key_from_text(r->key, key))
		return err_set(e, ERR_PROTO, "the view has no key for relay-%lld", (long long)n);
	client_link_apply_view(l, false, key);
	way->state = relayed ? ROUTE_RELAYED : process ? ROUTE_SHUNNED : ROUTE_DIRECT;
	way->down_since = 0;
	way->process = process;
	if (relayed) {
		way->relay = (unsigned)n;
		snprintf(l->id, sizeof l->id, "relay-%lld", (long long)n);
		snprintf(l->tcp, sizeof l->tcp, "%s", r->tcp);
		snprintf(l->unix_path, sizeof l->unix_path, "%s",
		    c->cfg.id->run_dir ? r->unix_path : "");
		client_link_apply_view(l, true, key);
	}
	log_info(c->cfg.log, relayed ? "through %s (%s)" : "without a relay", l->id, l->tcp);
	return ERR_OK;
}

/* Tell the coordinator that the relay cannot be reached. */
static void report_unreachable_relay(struct client *c, const char *why)
{
	if (c->cfg.missed)
		c->cfg.missed(c->cfg.ctx, c->route.relay, c->layout.epoch, why);
	c->route.down_since = clock_now();
}

void client_relay_check(struct client *c, int64_t now)
{
	struct route *way = &c->route;
	const struct link *l = way->state == ROUTE_RELAYED ? client_relay_link(c) : NULL;

	client_assert_owner(c);
	if (way->state == ROUTE_SHUNNED) {
		if (now - way->down_since > RELAY_AWAY)
			report_unreachable_relay(c, "an earlier attempt could not reach it");
	} else if (!l || l->state == LINK_UP || !l->used) {
		way->down_since = 0;
	} else if (!way->down_since) {
		way->down_since = now;
	} else if (now - way->down_since > RELAY_AWAY) {
		const char *why = l->fault.code ? l->fault.msg : "it does not answer";

		report_unreachable_relay(c, why);
		c->ops->relay_away(c, why);
	}
}
