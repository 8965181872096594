/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/utf8.h"
#include "layout/place.h"

/* A server that another one could not reach gets no new replicas for SHUN_MIN. The time doubles
 * with each report, up to SHUN_MAX, until it has been without reports for SHUN_MAX. */
#define SHUN_MIN (2 * NSEC_PER_SEC)
#define SHUN_MAX (64 * NSEC_PER_SEC)
/* Bound on plausible push rates, in bytes a step. */
#define RATE_MAX 1e15

/* List the servers that may hold partitions in out, the *njoin ones that may get new replicas
 * first. Returns how many there are. */
static size_t list_usable_servers(const struct coord *c, int64_t now, uint16_t *out, size_t *njoin)
{
	size_t n = 0;

	for (int avoided = 0; avoided < 2; avoided++) {
		for (unsigned i = 0; i < c->nservers; i++)
			if (c->server[i].live && !c->server[i].leaving &&
			    (now < c->server[i].no_replicas_until) == avoided)
				out[n++] = (uint16_t)i;
		if (!avoided)
			*njoin = n;
	}
	return n;
}

void coord_place_tables_in(const struct coord *c, struct layout *l)
{
	uint16_t server[COORD_SERVERS_MAX];
	size_t njoin, n = list_usable_servers(c, INT64_MAX, server, &njoin);

	layout_place(l, server, n, c->cfg.replicas);
}

void coord_place_tables(struct coord *c)
{
	coord_place_tables_in(c, &c->layout);
}

void coord_place_number_zones(struct coord *c)
{
	for (unsigned i = 0; i < c->nservers; i++) {
		unsigned k = 0;

		while (strcmp(c->server[k].zone, c->server[i].zone) != 0)
			k++;
		c->zone[i] = (uint16_t)k;
	}
	c->layout.zone = c->zone;
}

/* ---- evenness ---- */

/* Read a server's push rates for the partitions of which it is the primary, from its heartbeat:
 * [[table, first, count, rate of each], ...], ascending. */
static void read_push_rates(const struct coord *c, unsigned server, const json_t *rows,
    double **rate)
{
	json_int_t last = -1, next = 0;
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		json_int_t table = json_integer_value(json_array_get(row, 0)),
		           first = json_integer_value(json_array_get(row, 1));
		json_int_t count = json_integer_value(json_array_get(row, 2));
		double each = json_number_value(json_array_get(row, 3));

		if (table < 0 || (size_t)table >= c->layout.ntables || first < 0 || count < 0 ||
		    !(each >= 0 && each < RATE_MAX) || first > c->layout.table[table].nparts ||
		    count > c->layout.table[table].nparts - first)
			continue;
		/* Rows must be in order, without repeats: a hostile list would cost time for each
		 * repeat. */
		if (table < last || (table == last && first < next))
			return;
		last = table;
		next = first + count;
		for (json_int_t p = first; p < next; p++)
			if (table_head(&c->layout.table[table], (uint32_t)p) == server)
				rate[table][p] = each >= 1 ? each : 0;
	}
}

/* Weigh the partitions once, when balancing begins. With current rates, which always change, runs
 * would move forever. */
static void weigh_partitions(struct coord *c)
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
			read_push_rates(c, i, c->server[i].figures.heat, rate);
	c->balance.weight = place_weights(&c->layout, rate);
	c->balance.nweight = n;
	for (size_t i = 0; i < n; i++)
		free(rate[i]);
	free(rate);
}

void coord_place_drop_weights(struct coord *c)
{
	place_weights_free(c->balance.weight, c->balance.nweight);
	c->balance.weight = NULL;
}

static bool balance_layout(struct coord *c, const uint16_t *server, size_t n)
{
	if (c->balance.weight && c->balance.nweight != c->layout.ntables)
		coord_place_drop_weights(c);
	if (!c->balance.weight)
		weigh_partitions(c);
	c->balance.wanted = place_balance(&c->layout, server, n, c->balance.weight);
	if (!c->balance.wanted)
		coord_place_drop_weights(c);
	return c->balance.wanted;
}

bool coord_place_repair(struct coord *c, int64_t now)
{
	uint16_t server[COORD_SERVERS_MAX];
	uint64_t moving, all;
	size_t njoin, n = list_usable_servers(c, now, server, &njoin);
	bool changed = place_repair(&c->layout, server, njoin, n, c->cfg.replicas);

	place_progress(&c->layout, &moving, &all);
	if (c->balance.wanted && !changed && !moving)
		changed = balance_layout(c, server, njoin);
	if (!changed)
		return false;
	c->layout.epoch++;
	place_progress(&c->layout, &moving, &all);
	coord_event(c, EVENT_copying, "layout epoch %u: %llu of %llu partition%s %s being copied",
	    c->layout.epoch, (unsigned long long)moving, (unsigned long long)all, NUM_S(all),
	    moving == 1 ? "is" : "are");
	return true;
}

void coord_place_server_lost(struct coord *c, unsigned i, const char *how, int64_t now)
{
	struct coord_member_server *s = &c->server[i];
	char why[560], memory[COORD_MEMORY_NOTE];
	bool was_short = coord_memory_was_short(s->about, memory);
	uint32_t lost;

	s->live = false;
	s->loss = ++c->keys.losses;
	coord_event(c, EVENT_server_lost, "server-%u (%s, pid %lld) is lost: %s%s", i, s->host,
	    (long long)s->pid, how, memory);
	if (!c->placed) {
		coord_change_server_gone(c);
		coord_changed(c);
		return;
	}
	lost = place_drop(&c->layout, i);
	c->layout.epoch++;
	coord_change_server_gone(c);
	if (lost) {
		c->data_lost = true;
		snprintf(why, sizeof why,
		    "server-%u (%s, pid %lld) is lost: %s%s; with %s its part of the model is lost",
		    i, s->host, (long long)s->pid, how, memory,
		    c->cfg.replicas > 1 ? "no other replica left"
		                        : "one replica of each partition");
		coord_fail(c, was_short ? CAUSE_MEMORY : CAUSE_UNKNOWN, why, now);
		/* The job was done before and stays done; only its model is no longer complete. */
		if (c->phase == PHASE_DONE) {
			utf8_printf(c->end.text, sizeof c->end.text, "%s", why);
			coord_event(c, EVENT_data_lost, "%s", why);
			coord_changed(c);
		}
		return;
	}
	coord_event(c, EVENT_failover,
	    "layout epoch %u: the other replicas of the partitions of server-%u take over",
	    c->layout.epoch, i);
	coord_place_repair(c, now);
	coord_changed(c);
}

/* A server has sent all replicas to a joining one. */
json_t *coord_on_copied(struct coord *c, const struct coord_request *r)
{
	const struct message_copied *m = &r->m->copied;
	unsigned from = r->self->index;
	int64_t server = m->server;

	if ((uint32_t)m->epoch != c->layout.epoch || server < 0 || server >= c->nservers ||
	    !c->server[server].live)
		return NULL;
	if (place_copied(&c->layout, (unsigned)server, from)) {
		coord_event(c, EVENT_copied, "server-%lld has copied its replicas from server-%u",
		    (long long)server, from);
		coord_place_finish_joins(c, r->now);
	}
	return NULL;
}

/* Has every active worker confirmed this layout epoch? From then on workers announce their pushes
 * to the joining servers, too. Without the announcements a joining server would take a step for
 * complete that is not. */
static bool all_workers_know_epoch(const struct coord *c)
{
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_ACTIVE && !c->worker[i].lost_at &&
		    c->worker[i].layout_epoch < c->layout.epoch)
			return false;
	return true;
}

void coord_place_finish_joins(struct coord *c, int64_t now)
{
	if (!all_workers_know_epoch(c) || !place_joined(&c->layout))
		return;
	c->layout.epoch++;
	coord_event(c, EVENT_layout,
	    "layout epoch %u: the copied replicas have joined their chains", c->layout.epoch);
	coord_settle_chains_changed(c);
	coord_place_repair(c, now);
	coord_changed(c);
}

static void shun_server(struct coord_member_server *s, int64_t now)
{
	if (now > s->no_replicas_until + SHUN_MAX || !s->no_replicas_for)
		s->no_replicas_for = SHUN_MIN;
	else if (s->no_replicas_for < SHUN_MAX)
		s->no_replicas_for *= 2;
	s->no_replicas_until = now + s->no_replicas_for;
}

/* A server reports that it cannot reach its successor in a chain. Both may be alive, with only the
 * link between them down; then the successor can be spared. But the reporting server may be cut off
 * itself, and its report old: it is asked to confirm before anything changes. */
json_t *coord_on_unreachable(struct coord *c, const struct coord_request *r)
{
	const struct message_unreachable *m = &r->m->unreachable;
	unsigned from = r->self->index;
	int64_t server = m->server;
	json_t *ask;

	if ((uint32_t)m->epoch != c->layout.epoch || server < 0 || server >= c->nservers ||
	    !c->server[server].live || !c->placed)
		return NULL;
	if (!m->sure) {
		ask = MESSAGE(sure, .server = server);
		c->io.to_server(c->io.ctx, from, ask);
		json_decref(ask);
		return NULL;
	}
	if (!place_cut_link(&c->layout, from, (unsigned)server))
		return NULL;
	shun_server(&c->server[server], r->now);
	c->layout.epoch++;
	coord_event(c, EVENT_unreachable,
	    "layout epoch %u: server-%u cannot reach server-%lld, which gets no new replicas for "
	    "%d s",
	    c->layout.epoch, from, (long long)server,
	    (int)(c->server[server].no_replicas_for / NSEC_PER_SEC));
	coord_settle_chains_changed(c);
	coord_place_repair(c, r->now);
	coord_changed(c);
	return NULL;
}
