/* SPDX-License-Identifier: ISC */
#include "relay/uplink.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/client_of_relay.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/thread.h"
#include "relay/relay.h"
#include "relay/uplink_state.h"

/* Everything that is sent stays with its owner until it is answered: sums with their partitions
 * (relay_shard.c), clocks in uplink_clocks.c, requests with the client. So it can be sent
 * again after any failure. */

#define TURN_MS 20

/* NULL before the first view; the uplink's thread then has no layout and does not ask. */
static struct shard *shard_of_uplink(const struct uplink *u)
{
	return atomic_load(&u->server->shard);
}

void uplink_wake(struct uplink *u)
{
	uint64_t one = 1;

	if (write(u->wake, &one, sizeof one) < 0 && errno != EAGAIN)
		abort();
}

/* ---- sums ---- */

/* One partition whose sums are being sent, and the session that they go out on. */
struct sending {
	struct uplink *u;
	const struct table *table;
	uint64_t session;
};

/* For shard_send, with the partition's lock held: queues one sum on its link. False, which ends
 * the sweep, when the session has changed or has enough queued. */
static bool put_sum(void *ctx, const struct repl_record *c)
{
	struct sending *d = ctx;

	if (client_session(d->u->client, d->table, c->part) != d->session)
		return false;
	client_send_sum(d->u->client,
	    &(struct client_sum){ d->table, c->part, c->step, c->seq, c->head, c->body, c->nhead,
	        c->nbody });
	return true;
}

/* Send the sums that the connections can take now. Partitions with more go back to the list; those
 * without a session are forwarded again when one comes up (shard_resend). */
static void send_sums(struct uplink *u)
{
	const struct layout *l = client_layout(u->client);
	struct forwarded_part *todo;
	size_t n;

	mutex_lock(&u->lock);
	todo = u->todo;
	n = u->ntodo;
	u->todo = NULL;
	u->ntodo = u->todo_cap = 0;
	mutex_unlock(&u->lock);
	for (size_t i = 0; i < n; i++) {
		struct sending d = { .u = u };

		if (todo[i].table >= l->ntables)
			continue;
		d.table = &l->table[todo[i].table];
		d.session = client_session(u->client, d.table, todo[i].part);
		if (d.session)
			shard_send(shard_of_uplink(u), SHARD_UPSTREAM, d.session, todo[i].table,
			    todo[i].part, put_sum, &d);
		if (client_session(u->client, d.table, todo[i].part) != d.session || !d.session)
			uplink_forward(u->server, SHARD_UPSTREAM, todo[i].table, todo[i].part);
	}
	free(todo);
}

void uplink_forward(void *server, uint16_t index, uint16_t table, uint32_t part)
{
	struct uplink *u = relay_of(server)->uplink;
	bool first;

	(void)index;
	mutex_lock(&u->lock);
	u->todo = mem_grow(u->todo, &u->todo_cap, u->ntodo + 1, sizeof *u->todo);
	first = u->ntodo == 0;
	u->todo[u->ntodo++] = (struct forwarded_part){ table, part };
	mutex_unlock(&u->lock);
	if (first && !pthread_equal(pthread_self(), u->thread))
		uplink_wake(u);
}

/* ---- requests ---- */

void uplink_request_table(struct uplink *u, uint16_t table, uint64_t step, uint32_t epoch)
{
	struct wanted *w;
	bool news;

	mutex_lock(&u->lock);
	if (table >= u->nwanted) {
		u->wanted = mem_regrow(u->wanted, (size_t)table + 1, sizeof *u->wanted);
		memset(u->wanted + u->nwanted, 0, (table + 1 - u->nwanted) * sizeof *u->wanted);
		u->nwanted = (size_t)table + 1;
	}
	w = &u->wanted[table];
	news = epoch > w->epoch || (epoch == w->epoch && w->end <= step);
	if (news)
		*w = (struct wanted){ step + 1, epoch };
	mutex_unlock(&u->lock);
	if (news)
		uplink_wake(u);
}

/* Puts a request at the front of the list; their order does not matter. */
static void queue_row_request(struct uplink *u, struct want *w)
{
	mutex_lock(&u->lock);
	w->next = u->wants;
	u->wants = w;
	mutex_unlock(&u->lock);
}

bool uplink_request_rows(struct uplink *u, uint16_t table, uint32_t part, uint64_t step,
    uint32_t epoch, const uint8_t *ids, uint32_t n)
{
	struct want *w = mem_alloc(sizeof *w + n * sizeof *w->ids);
	bool room;

	w->table = table;
	w->epoch = epoch;
	w->step = step;
	room = relay_shard_ask_rows(shard_of_uplink(u), table, part,
	    &(struct relay_row_request){ step, epoch }, ids, n, w->ids, &w->n);
	if (!w->n) {
		free(w);
		return room;
	}
	queue_row_request(u, w);
	uplink_wake(u);
	return room;
}

/* Passes the requests of other threads to the client. Those that no server can take now stay in
 * the list for the next turn. */
static void request_rows(struct uplink *u)
{
	const struct layout *l = client_layout(u->client);
	struct want *w, *next;

	mutex_lock(&u->lock);
	w = u->wants;
	u->wants = NULL;
	mutex_unlock(&u->lock);
	for (; w; w = next) {
		next = w->next;
		/* A request of a newer layout epoch waits until the client has that view, and with
		 * it the table. A request of an older layout epoch is dropped: its worker will send
		 * it again. */
		if (w->epoch > l->epoch)
			queue_row_request(u, w);
		else if (w->epoch == l->epoch && w->table < l->ntables &&
		    client_want_rows(u->client, &l->table[w->table], w->step, w->ids, w->n, NULL,
		        NULL))
			queue_row_request(u, w);
		else
			free(w);
	}
}

/* Asks for a dense table at step `wanted` - 1, unless that or a later step was asked for in this
 * layout epoch. Values of an earlier step may arrive in the same room; the shard copies each
 * partition as it comes. */
static void request_table(struct uplink *u, size_t t, uint64_t wanted)
{
	const struct table *table = &client_layout(u->client)->table[t];

	if (wanted <= u->asked[t] || table->sparse)
		return;
	/* The old room can be freed: requests that were to fill it ended with their layout
	 * epoch. */
	if (u->elements[t] < table_elements(table)) {
		free(u->room[t]);
		u->room[t] = mem_array(table_elements(table), sizeof **u->room);
		u->elements[t] = table_elements(table);
	}
	if (!client_want(u->client, table, wanted - 1, NULL, u->room[t], NULL))
		u->asked[t] = wanted;
}

/* Asks for everything that workers have pulled in the client's present layout epoch. The lock is
 * released before the client is called, because no other lock is taken under uplink.lock. */
static void request_wanted(struct uplink *u)
{
	uint32_t epoch = client_layout(u->client)->epoch;

	for (size_t t = 0; t < u->nasked; t++) {
		uint64_t wanted;

		mutex_lock(&u->lock);
		wanted = t < u->nwanted && u->wanted[t].epoch == epoch ? u->wanted[t].end : 0;
		mutex_unlock(&u->lock);
		request_table(u, t, wanted);
	}
	request_rows(u);
}

/* ---- answers (hooks of the client) ---- */

/* The hooks below are called by client_pump, on the uplink's thread. They take answers into the
 * shard; finish_uplink_turn then closes steps and wakes sessions. */
static void on_uplink_up(void *ctx, unsigned link)
{
	struct uplink *u = ctx;

	uplink_clocks_reset(u, link);
	u->resend_all = true;
}

static void on_uplink_summed(void *ctx, const uint8_t *p, size_t len)
{
	struct uplink *u = ctx;
	struct payload_summed m;

	for (size_t i = 0; sum_body_get_summed(p, len, i, &m); i++)
		relay_shard_answered(shard_of_uplink(u), m.table, m.part, m.seq,
		    (enum push_status)m.status);
	u->advance = true;
}

static void on_uplink_clocked(void *ctx, unsigned link, uint64_t seq)
{
	struct uplink *u = ctx;

	uplink_clocks_acknowledge(u, link, seq);
	u->changed = true;
}

static void on_uplink_dense(void *ctx, const struct table *t, uint32_t part, uint64_t step,
    const float *w, uint64_t version)
{
	struct uplink *u = ctx;

	relay_shard_set(shard_of_uplink(u), t->id, part, step, w, version);
	u->changed = true;
}

static void on_uplink_rows(void *ctx, const struct table *t, uint32_t part, uint64_t step,
    const uint64_t *ids, uint32_t n, const float *w, uint64_t version)
{
	struct uplink *u = ctx;

	relay_shard_set_rows(shard_of_uplink(u), t->id, part, step, ids, n, w, version);
	u->changed = true;
}

/* The relay above cannot be reached: the coordinator decides. */
static void report_missed_relay(void *ctx, unsigned relay, uint32_t epoch, const char *why)
{
	struct uplink *u = ctx;

	agent_tell(u->server->agent,
	    MESSAGE(relay_missed, .relay = (int)relay, .epoch = epoch, .message = why));
}

/* ---- views ---- */

void uplink_view(struct uplink *u, const struct view *view, unsigned self)
{
	mutex_lock(&u->lock);
	view_release(u->view);
	u->view = view_ref(view);
	u->self = self;
	mutex_unlock(&u->lock);
	uplink_wake(u);
}

/* Make the lists by table as long as the layout has tables. */
static void grow_table_lists(struct uplink *u)
{
	size_t n = client_layout(u->client)->ntables;

	if (n <= u->nasked)
		return;
	u->asked = mem_regrow(u->asked, n, sizeof *u->asked);
	u->room = mem_regrow((void *)u->room, n, sizeof *u->room);
	u->elements = mem_regrow(u->elements, n, sizeof *u->elements);
	for (; u->nasked < n; u->nasked++) {
		u->asked[u->nasked] = 0;
		u->room[u->nasked] = NULL;
		u->elements[u->nasked] = 0;
	}
}

/* Gives the view that uplink_view has left to the client, on the thread that owns the client. In
 * a new layout epoch every sum and clock is sent again, and nothing counts as asked for. */
static void take_uplink_view(struct uplink *u)
{
	uint32_t before = client_layout(u->client)->epoch;
	const struct view *view;
	struct err e;

	mutex_lock(&u->lock);
	view = u->view;
	u->view = NULL;
	u->hooks.self = u->self;
	mutex_unlock(&u->lock);
	if (!view)
		return;
	if (client_apply_view(u->client, view, &e))
		server_end(u->server, &e);
	view_release(view);
	grow_table_lists(u);
	/* Records in flight have the old epoch: send sums and clocks again. Pulls are sent again
	 * by the workers, which fill `wanted` and `wants`. */
	if (client_layout(u->client)->epoch != before) {
		if (u->nasked)
			memset(u->asked, 0, u->nasked * sizeof *u->asked);
		for (unsigned i = 0; i < client_links(u->client); i++)
			uplink_clocks_reset(u, i);
		u->resend_all = true;
	}
}

/* ---- life ---- */

/* Advances the shard, or wakes sessions, once for all answers of a turn of the loop. No lock is
 * held. */
static void finish_uplink_turn(struct uplink *u)
{
	struct server *s = u->server;
	uint32_t members = client_members(u->client);

	if (members > atomic_load(&s->epochs.members))
		atomic_store(&s->epochs.members, members);
	if (u->advance)
		shard_advance(shard_of_uplink(u));
	else if (u->changed)
		io_threads_wake(s);
	u->advance = u->changed = false;
}

/* A turn sends first and then waits in client_pump, for TURN_MS at most or until uplink_wake.
 *
 * Sums go before clocks. A server takes the clock of a step when the step before is closed there, and
 * keeps a limited number of early ones (session_sum.c) before it stops reading from this connection: a
 * sum of that earlier step must not be there. It would be after a broken connection, when both are
 * sent again. */
static void *run_uplink(void *ctx)
{
	struct uplink *u = ctx;
	uint64_t count;

	while (!atomic_load(&u->stop)) {
		if (read(u->wake, &count, sizeof count) < 0 && errno != EAGAIN)
			abort();
		take_uplink_view(u);
		if (client_layout(u->client)->epoch) {
			if (u->resend_all)
				shard_resend(shard_of_uplink(u), SHARD_UPSTREAM);
			u->resend_all = false;
			send_sums(u);
			uplink_clocks_send(u);
			request_wanted(u);
		}
		client_pump(u->client, TURN_MS);
		finish_uplink_turn(u);
	}
	return NULL;
}

enum err_code uplink_start(struct server *s, struct err *e)
{
	struct uplink *u = mem_alloc(sizeof *u);
	struct client_config cc = { .id = s->cfg.id,
		.hooks = &u->hooks,
		.missed = report_missed_relay,
		.rank = CLIENT_NO_RANK,
		.incarnation = s->incarnation,
		.transport = transport_find("auto"),
		.deadline = INT64_MAX / 2,
		.log = s->cfg.log,
		.ctx = u };
	enum err_code rc;

	u->server = s;
	u->hooks = (struct client_relay_hooks){ .ctx = u,
		.up = on_uplink_up,
		.summed = on_uplink_summed,
		.clocked = on_uplink_clocked,
		.dense = on_uplink_dense,
		.rows = on_uplink_rows };
	u->wake = cc.attend_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	mutex_init(&u->lock, LOCK_UPLINK);
	rc = client_new(&cc, &u->client, e);
	relay_of(s)->uplink = u;
	if (!rc)
		rc = thread_start(&u->thread, run_uplink, u, e);
	if (rc)
		u->thread = 0;
	return rc;
}

void uplink_stop(struct uplink *u)
{
	if (!u || !u->thread)
		return;
	atomic_store(&u->stop, true);
	uplink_wake(u);
	pthread_join(u->thread, NULL);
}

void uplink_free(struct uplink *u)
{
	struct want *w;

	if (!u)
		return;
	client_free(u->client);
	uplink_clocks_free(u);
	while ((w = u->wants)) {
		u->wants = w->next;
		free(w);
	}
	for (size_t t = 0; t < u->nasked; t++)
		free(u->room[t]);
	free((void *)u->room);
	free(u->elements);
	free(u->wanted);
	free(u->asked);
	free(u->todo);
	view_release(u->view);
	close(u->wake);
	mutex_destroy(&u->lock);
	free(u);
}
