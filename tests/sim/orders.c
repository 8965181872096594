/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "tests/sim/control.h"
#include "tests/sim/parts.h"

/* Orders to the coordinator while the war goes on, as ps-ctl gives them: drain, scale, rebalance, set,
 * pause, tables, a new secret. A seed gives some kinds of them and not others. An answer may be lost with
 * the coordinator. Then the order may have been carried out or not, and is repeated where that matters:
 * pause, whose end the job needs, and scale, as the judge counts servers. */

enum order { DRAIN, SCALE, REBALANCE, SET, PAUSE, TABLE, SECRET, PROBE, ORDERS };

static const char *const names[ORDERS] = { "drain", "scale", "rebalance", "set", "pause", "table",
	"secret", "probe" };

static struct {
	bool any, gives[ORDERS], joins;
	bool forces;          /* the secret is renewed although an earlier one is still accepted */
	unsigned sets;        /* which settings it changes, a bit each */
	unsigned gap;         /* milliseconds between two orders, at most */
	unsigned servers;     /* that the order of scale asks for; 0: none is under way */
	bool paused, goes_on; /* asked for, and asked to end */
	unsigned tables;      /* added so far */
} o;

static void give_later(int64_t after, void (*fn)(void *ctx), void *ctx)
{
	event_at(sim_now + after, fn, ctx);
}

static void note_answer(void *ctx, int status, const char *text)
{
	sim_trace("judge      < %s: %d %.120s", (const char *)ctx, status, text);
}

static void post_order(const char *target, const char *body, enum order order,
    void (*fn)(void *ctx, int status, const char *text))
{
	sim_trace("judge      > %s %s", names[order], body);
	control_send(0, "POST", target, body, fn ? fn : note_answer,
	    (void *)(uintptr_t)names[order]);
}

/* ---- servers that leave, and new ones ---- */

/* Without this server one other would be left: it stays. */
static void note_drained(void *ctx, int status, const char *text)
{
	struct member *m = ctx;

	sim_trace("judge      < drain of %s: %d %.120s", m->name, status, text);
	m->drains -= m->drains != 0;
	m->drained |= status == 200;
	/* Refused, and no other order to drain it may be carried out. */
	if (status == 400 && !m->drains && !m->drained)
		m->leaving = m->removed;
}

/* The server ends when the others have its partitions, and is started again. One at a time, because two
 * could leave a partition on a server that is dead already. */
static void drain_server(void)
{
	struct member *m = scenario_server(sim_below(scenario_servers()));
	char body[64];

	/* No server is drained while the coordinator may take a dead one for alive. */
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		if ((scenario_server(i)->leaving && scenario_server(i) != m) ||
		    (i < scenario_servers() && !scenario_is_well(scenario_server(i))))
			return;
	if (m->down || m->finished || !m->proc->alive)
		return;
	m->leaving = true;
	m->drained &= m->drains != 0;
	m->drains++;
	snprintf(body, sizeof body, "{\"server\":\"%s\"}", m->name);
	sim_trace("judge      > drain %s", body);
	control_send(0, "POST", "/v1/drain", body, note_drained, m);
}

static void note_join_file(void *ctx, int status, const char *text)
{
	struct member *m = ctx;

	sim_trace("judge      < join file of %s: %d", m->name, status);
	if (status == 200) {
		snprintf(m->join, sizeof m->join, "%.15s.join", m->name);
		disk_put(m->join, text, strlen(text));
	}
	scenario_start(m);
}

static void start_added_server(struct member *m)
{
	char body[64];

	m->finished = m->leaving = m->removed = false;
	m->down = true;
	if (!o.joins) {
		scenario_start(m);
		return;
	}
	snprintf(body, sizeof body, "{\"kept\":\"%s\"}", m->name);
	control_send(0, "POST", "/v1/invite", body, note_join_file, m);
}

static void ask_to_scale(void *ctx);

static void note_scaled(void *ctx, int status, const char *text)
{
	unsigned before = scenario_servers();

	note_answer(ctx, status, text);
	if (scenario_is_peace())
		return;
	if (status != 200) {
		give_later(100 * MSEC, ask_to_scale, NULL);
		return;
	}
	scenario_set_servers(o.servers);
	for (unsigned i = before; i < o.servers; i++)
		start_added_server(scenario_server(i));
	o.servers = 0;
}

static void ask_to_scale(void *ctx)
{
	char body[32];

	(void)ctx;
	if (scenario_is_peace())
		return;
	snprintf(body, sizeof body, "{\"servers\":%u}", o.servers);
	post_order("/v1/scale", body, SCALE, note_scaled);
}

static void scale_servers(void)
{
	unsigned n = scenario_servers(), least = scenario_replicas() > 2 ? scenario_replicas() : 2;

	/* A server that has just been removed may still give up its partitions. */
	if (o.servers ||
	    (n < SERVERS_MAX && scenario_server(n)->proc && scenario_server(n)->proc->alive))
		return;
	if (n < SERVERS_MAX && (n <= least || sim_chance(60))) {
		o.servers = n + 1;
	} else if (n > least && !o.joins) {
		o.servers = n - 1;
		scenario_server(n - 1)->leaving = scenario_server(n - 1)->removed = true;
	} else {
		return;
	}
	ask_to_scale(NULL);
}

/* ---- the others ---- */

static void change_settings(void)
{
	static const char *const sets[] = { "\"sync\":\"bsp\"", "\"sync\":\"ssp:1\"",
		"\"sync\":\"ssp:4\"", "\"sync\":\"asp\"", "\"checkpoint_every\":\"7\"",
		"\"checkpoint_every\":\"100ms\"", "\"checkpoint_every\":\"none\"",
		"\"pull_delta\":\"true\"", "\"pull_delta\":\"false\"" };
	unsigned which = sim_below(sizeof sets / sizeof *sets);
	char body[96];

	/* Some of them only, so that these follow each other closely. */
	while (!(o.sets >> which & 1) && sim_chance(90))
		which = sim_below(sizeof sets / sizeof *sets);
	snprintf(body, sizeof body, "{\"set\":{%s}}", sets[which]);
	post_order("/v1/set", body, SET, NULL);
}

static void ask_to_go_on(void *ctx);

static void note_goes_on(void *ctx, int status, const char *text)
{
	note_answer(ctx, status, text);
	if (status == 200 || status == 409)
		o.paused = o.goes_on = false;
	else
		give_later(100 * MSEC, ask_to_go_on, NULL);
}

static void ask_to_go_on(void *ctx)
{
	(void)ctx;
	post_order("/v1/pause", "{\"paused\":false}", PAUSE, note_goes_on);
}

static void end_pause(void *ctx)
{
	(void)ctx;
	if (!o.paused || o.goes_on)
		return;
	o.goes_on = true;
	ask_to_go_on(NULL);
}

static void pause_job(void)
{
	if (o.paused)
		return;
	o.paused = true;
	post_order("/v1/pause", "{\"paused\":true}", PAUSE, NULL);
	give_later(sim_below(600) * MSEC, end_pause, NULL);
}

/* A table beside those of the job: it changes the layout from one step on. */
static void change_tables(void)
{
	char body[160];

	if (o.tables && sim_chance(40))
		snprintf(body, sizeof body, "{\"drop\":\"extra-%u\"}", sim_below(o.tables));
	else if (o.tables && sim_chance(40))
		snprintf(body, sizeof body, "{\"grow\":{\"name\":\"extra-%u\",\"rows\":%u}}",
		    sim_below(o.tables), 8 + sim_below(100));
	else
		snprintf(body, sizeof body,
		    "{\"add\":{\"name\":\"extra-%u\",\"rows\":4,\"cols\":3,\"sparse\":%s}}",
		    o.tables++, sim_chance(50) ? "true" : "false");
	post_order("/v1/tables", body, TABLE, NULL);
}

static void give_order(void *ctx)
{
	enum order order = sim_below(ORDERS);

	(void)ctx;
	if (scenario_is_peace())
		return;
	while (!o.gives[order] && sim_chance(95))
		order = sim_below(ORDERS);
	if (o.gives[order])
		switch (order) {
		case DRAIN:
			drain_server();
			break;
		case SCALE:
			scale_servers();
			break;
		case REBALANCE:
			post_order("/v1/rebalance", "{}", order, NULL);
			break;
		case SET:
			change_settings();
			break;
		case PAUSE:
			pause_job();
			break;
		case TABLE:
			change_tables();
			break;
		case SECRET:
			post_order("/v1/keys/secret", o.forces ? "{\"force\":true}" : "{}", order,
			    NULL);
			break;
		case PROBE:
			post_order("/v1/probe", "{}", order, NULL);
			break;
		default:
			break;
		}
	give_later((1 + sim_below(o.gap)) * MSEC, give_order, NULL);
}

void orders_draw(void)
{
	memset(&o, 0, sizeof o);
	o.any = sim_chance(50);
	for (int i = 0; i < ORDERS; i++)
		o.gives[i] = sim_chance(50);
	o.joins = sim_chance(40);
	o.sets = sim_below(1u << 16);
	/* A join file has the secret of its time; and a server that joins by one gets the number of any
	 * absent server, so the judge could not say which process a number is. */
	if (o.joins)
		o.gives[SECRET] = o.gives[DRAIN] = false;
	o.gap = 20 + sim_below(300);
	o.forces = o.gap % 2 == 0;
}

void orders_keep_servers(void)
{
	o.joins = o.gives[SCALE] = o.gives[DRAIN] = false;
}

void orders_without_files(void)
{
	o.joins = false;
}

void orders_keep_secret(void)
{
	o.gives[SECRET] = false;
}

bool orders_change_mode(void)
{
	return o.any && o.gives[SET];
}

void orders_begin(void)
{
	if (!o.any)
		return;
	sim_trace("judge      > orders:%s%s%s%s%s%s%s%s", o.gives[DRAIN] ? " drain" : "",
	    o.gives[SCALE] ? " scale" : "", o.gives[REBALANCE] ? " rebalance" : "",
	    o.gives[SET] ? " set" : "", o.gives[PAUSE] ? " pause" : "",
	    o.gives[TABLE] ? " table" : "", o.gives[SECRET] ? " secret" : "",
	    o.joins ? " by join files" : "");
	give_later(100 * MSEC, give_order, NULL);
}

bool orders_force_secret(void)
{
	return o.any && o.gives[SECRET] && o.forces;
}

bool orders_move_servers(void)
{
	return o.any && (o.gives[DRAIN] || o.gives[SCALE]);
}

void orders_end(void)
{
	end_pause(NULL);
}
