/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "client/client_state.h"
#include "client/relayed.h"
#include "core/json.h"
#include "core/mem.h"

/* Routing through a relay. A worker whose view assigns it a relay sends pulls, pushes and
 * CLOCKs of steps there; when the relay cannot be reached it goes on directly with the
 * servers. With each change of route it sends everything without a receipt again, under the
 * same identity. */

/* A worker goes on without a relay that has been unreachable for this long. */
#define RELAY_AWAY (1 * NSEC_PER_SEC)

/* The number of the relay that the view assigns to this worker or relay; -1: none. */
static int64_t assigned_relay(const struct client *c, const json_t *view)
{
	const struct client_relay_hooks *h = c->cfg.hooks;

	if (h)
		return json_int(json_array_get(json_object_get(view, "relays"), h->self),
		    "upstream", -1);
	return c->cfg.slot == CLIENT_NO_SLOT
	    ? -1
	    : json_int(json_object_get(view, "worker"), "relay", -1);
}

enum err_code client_relay_apply_view(struct client *c, const json_t *view, bool *changed,
    struct err *e)
{
	int64_t n = assigned_relay(c, view);
	const json_t *r = n < 0 ? NULL : json_array_get(json_object_get(view, "relays"), (size_t)n);
	uint64_t process = json_flag(r, "live") ? json_u64s(r, "incarnation", 0) : 0;
	struct link *l = client_relay_link(c);
	uint8_t key[KEY_BYTES] = { 0 };
	bool relayed = process && process != c->missed;

	c->shunned = process && process == c->missed;
	*changed = relayed != c->relayed || (relayed && process != c->relay_process);
	if (!*changed)
		return ERR_OK;
	if (relayed && !key_from_text(json_str(r, "key", ""), key))
		return err_set(e, ERR_PROTO, "the view has no key for relay-%lld", (long long)n);
	client_link_apply_view(l, false, key);
	c->relayed = relayed;
	c->relay_down = 0;
	c->relay_process = process;
	if (relayed) {
		c->relay = (unsigned)n;
		snprintf(l->id, sizeof l->id, "relay-%lld", (long long)n);
		snprintf(l->tcp, sizeof l->tcp, "%s", json_str(r, "tcp", ""));
		snprintf(l->unix_path, sizeof l->unix_path, "%s",
		    c->cfg.id->run_dir ? json_str(r, "unix", "") : "");
		client_link_apply_view(l, true, key);
	}
	log_info(c->cfg.log, relayed ? "through %s (%s)" : "without a relay", l->id, l->tcp);
	return ERR_OK;
}

/* Tell the coordinator that the relay cannot be reached. The message may be lost with its
 * session, and the relay waits for us until a view says otherwise, so client_relay_check repeats it. */
static void report_missed_relay(struct client *c, const char *why)
{
	if (c->cfg.missed)
		c->cfg.missed(c->cfg.ctx, c->relay, c->layout.epoch, why);
	c->relay_down = clock_now();
}

/* The relay has been unreachable for RELAY_AWAY: report it, and move everything to the
 * servers. */
static void leave_relay(struct client *c)
{
	struct link *l = client_relay_link(c);
	struct err why = l->fault;
	uint8_t none[KEY_BYTES] = { 0 };

	report_missed_relay(c, why.code ? why.msg : "it does not answer");
	/* A relay must not change its route within an epoch: its aggregates may be on their
	 * way through the relay above it. */
	if (c->cfg.hooks)
		return;
	log_warn(c->cfg.log, "on without %s: %s", l->id, why.code ? why.msg : "it does not answer");
	c->missed = c->relay_process;
	c->shunned = true;
	c->relayed = false;
	client_link_apply_view(l, false, none);
	request_reroute_all(c);
}

void client_relay_check(struct client *c, int64_t now)
{
	struct link *l = c->relayed ? client_relay_link(c) : NULL;

	if (c->shunned && !c->cfg.hooks) {
		if (now - c->relay_down > RELAY_AWAY)
			report_missed_relay(c, "it could not be reached before");
		return;
	}
	if (!l || l->state == LINK_UP || !l->used)
		c->relay_down = 0;
	else if (!c->relay_down)
		c->relay_down = now;
	else if (now - c->relay_down > RELAY_AWAY)
		leave_relay(c);
}
