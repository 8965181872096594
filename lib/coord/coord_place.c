#include "coord/coord_state.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "coord/place.h"

/* A server that another could not reach gets no copies for a while: each time
 * twice as long, until it has been well for a minute. */
#define SHUN_MIN (2 * NSEC_PER_SEC)
#define SHUN_MAX (64 * NSEC_PER_SEC)
/* Nobody is pushed to more, in bytes a step. */
#define RATE_MAX 1e15

/* The servers that may hold partitions, those first that may get more. */
static size_t usable(const struct coord *c, int64_t now, uint16_t *out, size_t *njoin)
{
	size_t n = 0;

	for (int shunned = 0; shunned < 2; shunned++) {
		for (unsigned i = 0; i < c->nservers; i++)
			if (c->server[i].live && !c->server[i].leaving && (now < c->server[i].shunned) == shunned)
				out[n++] = (uint16_t)i;
		if (!shunned)
			*njoin = n;
	}
	return n;
}

void servers_place_in(const struct coord *c, struct layout *l)
{
	uint16_t server[COORD_SERVERS_MAX];
	size_t njoin, n = usable(c, INT64_MAX, server, &njoin);

	layout_place(l, server, n, c->cfg.replicas);
}

void servers_place(struct coord *c)
{
	servers_place_in(c, &c->layout);
}

void servers_zone(struct coord *c)
{
	for (unsigned i = 0; i < c->nservers; i++) {
		unsigned k = 0;

		while (strcmp(c->server[k].zone, c->server[i].zone) != 0)
			k++;
		c->zone[i] = (uint16_t)k;
	}
	c->layout.zone = c->zone;
}

/* ---- evenness ------------------------------------------------------------------------ */

/* What a server's figures say of how much the partitions that it is the head of
 * are pushed to: [[table, first, count, rate of each], ...], ascending. */
static void take_rates(const struct coord *c, unsigned server, const json_t *heat, double **rate)
{
	json_int_t last = -1, next = 0;
	const json_t *row;
	size_t i;

	json_array_foreach(heat, i, row) {
		json_int_t table = json_integer_value(json_array_get(row, 0)), first = json_integer_value(json_array_get(row, 1));
		json_int_t count = json_integer_value(json_array_get(row, 2));
		double each = json_number_value(json_array_get(row, 3));

		if (table < 0 || (size_t)table >= c->layout.ntables || first < 0 || count < 0 || !(each >= 0 && each < RATE_MAX) ||
		    first > c->layout.table[table].nparts || count > c->layout.table[table].nparts - first)
			continue;
		/* What comes twice would cost as often. */
		if (table < last || (table == last && first < next))
			return;
		last = table;
		next = first + count;
		for (json_int_t p = first; p < next; p++)
			if (table_head(&c->layout.table[table], (uint32_t)p) == server)
				rate[table][p] = each >= 1 ? each : 0;
	}
}

/* Weighed once, when it begins: rates change, and runs would move for ever. */
static void weigh(struct coord *c)
{
	size_t n = c->layout.ntables;
	double **rate = mem_array(n, sizeof *rate);

	for (size_t i = 0; i < n; i++) {
		rate[i] = mem_array(c->layout.table[i].nparts, sizeof **rate);
		for (uint32_t p = 0; p < c->layout.table[i].nparts; p++)
			rate[i][p] = -1;
	}
	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].live)
			take_rates(c, i, json_object_get(c->server[i].stats, "heat"), rate);
	c->weight = place_weigh(&c->layout, rate);
	c->nweight = n;
	for (size_t i = 0; i < n; i++)
		free(rate[i]);
	free(rate);
}

void weights_drop(struct coord *c)
{
	place_weigh_free(c->weight, c->nweight);
	c->weight = NULL;
}

static bool even_out(struct coord *c, const uint16_t *server, size_t n)
{
	if (c->weight && c->nweight != c->layout.ntables)
		weights_drop(c);
	if (!c->weight)
		weigh(c);
	c->rebalance = place_balance(&c->layout, server, n, c->weight);
	if (!c->rebalance)
		weights_drop(c);
	return c->rebalance;
}

bool servers_mend(struct coord *c, int64_t now)
{
	uint16_t server[COORD_SERVERS_MAX];
	uint64_t moving, all;
	size_t njoin, n = usable(c, now, server, &njoin);
	bool changed = place_mend(&c->layout, server, njoin, n, c->cfg.replicas);

	place_progress(&c->layout, &moving, &all);
	if (c->rebalance && !changed && !moving)
		changed = even_out(c, server, njoin);
	if (!changed)
		return false;
	c->layout.epoch++;
	place_progress(&c->layout, &moving, &all);
	coord_event(c, "copying", "epoch %u: %llu of %llu partitions are being copied", c->layout.epoch,
	    (unsigned long long)moving, (unsigned long long)all);
	return true;
}

void server_lost(struct coord *c, unsigned i, const char *how, int64_t now)
{
	struct member_server *s = &c->server[i];
	char why[400];
	uint32_t lost;

	s->live = false;
	coord_event(c, "server_lost", "server-%u (%s, pid %lld) is lost: %s", i, s->host, (long long)s->pid, how);
	change_server_gone(c);
	if (!c->placed) {
		coord_changed(c);
		return;
	}
	lost = place_drop(&c->layout, i);
	c->layout.epoch++;
	if (lost) {
		c->data_lost = true;
		snprintf(why, sizeof why, "server-%u (%s, pid %lld) is lost: %s; with %s its part of the model is gone", i,
		    s->host, (long long)s->pid, how, c->cfg.replicas > 1 ? "no other copy left" : "one copy of each partition");
		coord_fail(c, why, now);
		return;
	}
	coord_event(c, "failover", "epoch %u: the other copies of what server-%u held go on", c->layout.epoch, i);
	servers_mend(c, now);
	coord_changed(c);
}

void server_copied(struct coord *c, unsigned from, const json_t *msg, int64_t now)
{
	int64_t server = json_int(msg, "server", -1);

	if ((uint32_t)json_int(msg, "epoch", 0) != c->layout.epoch || server < 0 || server >= c->nservers ||
	    !c->server[server].live)
		return;
	if (place_copied(&c->layout, (unsigned)server, from)) {
		coord_event(c, "copied", "server-%lld has its copies from server-%u", (long long)server, from);
		servers_join(c, now);
	}
}

/* Every worker that trains tells the servers that join, too, what it pushes: else
 * they would take a step for complete that is not. */
static bool all_know(const struct coord *c)
{
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_ACTIVE && !c->worker[i].lost_at && c->worker[i].epoch < c->layout.epoch)
			return false;
	return true;
}

void servers_join(struct coord *c, int64_t now)
{
	if (!all_know(c) || !place_joined(&c->layout))
		return;
	c->layout.epoch++;
	coord_event(c, "layout", "epoch %u: servers have taken their places", c->layout.epoch);
	servers_mend(c, now);
	coord_changed(c);
}

static void shun(struct member_server *s, int64_t now)
{
	if (now > s->shunned + SHUN_MAX || !s->shun_for)
		s->shun_for = SHUN_MIN;
	else if (s->shun_for < SHUN_MAX)
		s->shun_for *= 2;
	s->shunned = now + s->shun_for;
}

/* Both may be well, and only the line between them down: the one that comes
 * after the other in a chain can be spared.  But who says so may be cut off
 * itself, and no longer hear us: it is asked once more. */
void server_unreachable(struct coord *c, unsigned from, const json_t *msg, int64_t now)
{
	int64_t server = json_int(msg, "server", -1);
	json_t *ask;

	if ((uint32_t)json_int(msg, "epoch", 0) != c->layout.epoch || server < 0 || server >= c->nservers ||
	    !c->server[server].live || !c->placed)
		return;
	if (!json_flag(msg, "sure")) {
		ask = json_pack("{s:s, s:I}", "op", "sure", "server", (json_int_t)server);
		c->io.to_server(c->io.ctx, from, ask);
		json_decref(ask);
		return;
	}
	if (!place_unlink(&c->layout, from, (unsigned)server))
		return;
	shun(&c->server[server], now);
	c->layout.epoch++;
	coord_event(c, "unreachable", "epoch %u: server-%u cannot reach server-%lld, which gets no more copies from it for %d s",
	    c->layout.epoch, from, (long long)server, (int)(c->server[server].shun_for / NSEC_PER_SEC));
	servers_mend(c, now);
	coord_changed(c);
}
