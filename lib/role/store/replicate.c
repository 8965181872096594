/* SPDX-License-Identifier: ISC */
#include "store/replicate_state.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/json.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/thread.h"
#include "store/settle.h"

/* Connections to the servers that hold the next replicas. One thread owns them all. The records
 * to send stay with their partition until they are acknowledged (shard/repl.c), so a link only
 * lists the partitions that have some. */

#define RETRY_MIN (5 * NSEC_PER_MSEC)
#define RETRY_MAX (200 * NSEC_PER_MSEC)
#define REPL_TICK (20 * NSEC_PER_MSEC)
/* Partitions whose transfer to a joining server may be in flight at once. */
#define TRANSFERS_MAX 16u
#define REPORT_EVERY  (1 * NSEC_PER_SEC)

static struct shard *shard_of_repl(const struct repl *r)
{
	return atomic_load(&r->server->shard);
}

/* ---- sending ---- */

/* Ends the session of a link, if there is one. Its partitions keep their records. `down_since`
 * keeps the time of the first failure until a new session, or after a refusal until the next
 * acknowledgement. */
static void drop_link(struct link *l)
{
	if (!l->conn)
		return;
	loop_del(l->repl->loop, &l->h);
	conn_free(l->conn);
	l->conn = NULL;
	l->up = false;
	batcher_release(&l->batcher);
	l->batcher = (struct batcher){ 0 };
	if (!l->down_since)
		l->down_since = clock_now();
	backoff_failed(&l->backoff, clock_now());
}

/* Sends records of the listed partitions while less than LINK_QUEUE_MAX bytes are queued, and
 * writes what the socket takes. A partition whose records did not all fit goes back to the list.
 * May drop the link. */
static void send_queued_records(struct link *l)
{
	struct todo t;
	struct err e;

	while (l->up && conn_queued(l->conn) <= LINK_QUEUE_MAX && replicate_link_next(l, &t)) {
		shard_send(shard_of_repl(l->repl), (uint16_t)l->index, l->session, t.table, t.part,
		    replicate_link_put, l);
		if (conn_queued(l->conn) > LINK_QUEUE_MAX) {
			/* The partition may have more records than fitted. */
			mutex_lock(&l->repl->lock);
			replicate_link_add(l, t);
			mutex_unlock(&l->repl->lock);
		}
	}
	if (!l->conn)
		return;
	if (l->up)
		batcher_flush(&l->batcher, l->conn);
	if (conn_write(l->conn, &e)) {
		drop_link(l);
		return;
	}
	loop_mod(l->repl->loop, &l->h, EPOLLIN | (conn_queued(l->conn) ? EPOLLOUT : 0));
}

/* ---- answers ---- */

/* Passes the entries of a REPLICATED record to the shard. They prove that the next replica works,
 * so its earlier failures are forgotten. */
static void take_acknowledgements(struct link *l, const uint8_t *payload, size_t len)
{
	struct shard *s = shard_of_repl(l->repl);
	struct payload_replicated c;

	l->refused = false;
	l->down_since = l->reported = 0;
	backoff_reset(&l->backoff);
	for (size_t i = 0; payload_get_replicated(payload, len, i, &c); i++)
		shard_acknowledged(s, (uint16_t)l->index, c.table, c.part, c.seq);
	shard_advance(s);
}

/* Handles one record from the next replica. A REPLICATED of an older layout epoch is ignored, since
 * its records are sent again. */
static enum conn_verdict handle_link_record(struct link *l, const struct record *r,
    const uint8_t *payload)
{
	struct err e = { 0 };

	if (r->type == REC_REPLICATED && r->epoch >= l->repl->epoch) {
		take_acknowledgements(l, payload, r->len);
	} else if (r->type == REC_NACK) {
		payload_get_nack(payload, r->len, &e);
		/* Log the first refusal alone; report_unreachable reports it to the coordinator if
		 * it lasts. */
		if (!l->refused)
			log_warn(l->repl->server->cfg.log,
			    "server-%u refused a replication record: %s", l->index, e.msg);
		l->refused = true;
		return CONN_DROP;
	}
	return CONN_TAKEN;
}

static enum conn_verdict on_link_record(void *ctx, const struct record *r, uint8_t *payload)
{
	const uint8_t *body;
	struct record sub;
	struct err e = { 0 };
	size_t at = 0;

	if (r->type != REC_BATCH)
		return handle_link_record(ctx, r, payload);
	while (payload_batch_next(payload, r->len, &at, &sub, &body, &e))
		if (handle_link_record(ctx, &sub, body) != CONN_TAKEN)
			return CONN_DROP;
	return e.code ? CONN_DROP : CONN_TAKEN;
}

static void on_link_live(void *ctx, const struct hs_server_info *unused)
{
	struct link *l = ctx;

	(void)unused;
	l->up = true;
	atomic_store(&l->asked, false);
	if (!l->refused) {
		l->down_since = l->reported = 0;
		backoff_reset(&l->backoff);
	}
	l->session = ++l->repl->next_session;
	shard_resend(shard_of_repl(l->repl), (uint16_t)l->index);
}

static const struct conn_handler handler = { .live = on_link_live, .record = on_link_record };

static void on_link_event(void *ctx, uint32_t events)
{
	struct link *l = ctx;
	struct err e = { 0 };
	enum err_code rc = ERR_OK;

	if (events & EPOLLOUT)
		rc = conn_write(l->conn, &e);
	if (!rc && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		rc = conn_read(l->conn, &e);
	if (rc) {
		log_debug(l->repl->server->cfg.log, "link to server-%u: %s", l->index, e.msg);
		drop_link(l);
		return;
	}
	send_queued_records(l);
}

static void dial_replica(struct link *l)
{
	struct server *s = l->repl->server;
	const struct dial_target to = { .tcp = l->tcp,
		.unix_path = s->cfg.id->run_dir ? l->unix_path : "",
		.key = l->key,
		.transport = l->repl->transport,
		.id = &s->cfg.id->conn,
		.info = { .incarnation = s->incarnation, .rank = RANK_NONE, .role = ROLE_SERVER } };
	struct err e = { 0 };

	if (dial(&to, &handler, l, &l->conn, &e)) {
		backoff_failed(&l->backoff, clock_now());
		return;
	}
	l->h = (struct loop_fd){ .fd = conn_fd(l->conn), .fn = on_link_event, .ctx = l };
	if (loop_add(l->repl->loop, &l->h, EPOLLIN | EPOLLOUT, &e))
		drop_link(l);
}

/* ---- joining servers ---- */

/* Sends the state of partitions to a joining server, TRANSFERS_MAX at a time. Reports to the
 * coordinator when that server has all partitions that it gets from this one. */
static void send_states(struct link *l)
{
	struct repl *r = l->repl;
	struct shard *s = shard_of_repl(r);
	uint64_t begun;
	char name[24];

	shard_count_states(s, (uint16_t)l->index, &l->transfers_all, &begun, &l->transfers_done);
	while (begun < l->transfers_all && begun - l->transfers_done < TRANSFERS_MAX &&
	    shard_send_next_state(s, (uint16_t)l->index))
		begun++;
	if (!l->transfers_all || l->transfers_done < l->transfers_all)
		return;
	l->reported_complete = true;
	snprintf(name, sizeof name, "copied-%u", l->index);
	agent_tell_lasting(r->server->agent, name,
	    MESSAGE(copied, .server = l->index, .epoch = r->epoch));
}

static void report_unreachable(struct link *l, int64_t now)
{
	bool sure = atomic_exchange(&l->asked, false);

	if (!l->down_since || now - l->down_since < REPORT_EVERY ||
	    (!sure && now - l->reported < REPORT_EVERY))
		return;
	l->reported = now;
	agent_tell(l->repl->server->agent,
	    MESSAGE(unreachable, .server = l->index, .epoch = l->repl->epoch, .sure = sure));
}

/* Every REPL_TICK, on the replication thread: begins transfers to joining servers, drops silent
 * links, dials those that are due, and reports servers that stay unreachable to the coordinator.
 * Publishes the progress of transfers in s->epochs. */
static void tick_links(void *ctx)
{
	struct repl *r = ctx;
	int64_t now = clock_now();
	uint64_t all = 0, done = 0;
	struct err e;

	settle_answer(r);
	for (unsigned i = 0; i < r->nlinks; i++) {
		struct link *l = r->link[i];

		if (l->joins && !l->reported_complete)
			send_states(l);
		all += l->joins ? l->transfers_all : 0;
		done += l->joins ? l->transfers_done : 0;
		if (!l->live || !l->wanted)
			continue;
		if (l->conn && conn_check(l->conn, now, &e)) {
			log_debug(r->server->cfg.log, "link to server-%u: %s", l->index, e.msg);
			/* conn_check has waited long enough: report it without REPORT_EVERY. */
			if (l->up && !l->down_since)
				l->down_since = now - REPORT_EVERY;
			drop_link(l);
		}
		if (!l->conn && backoff_is_due(&l->backoff, now))
			dial_replica(l);
		report_unreachable(l, now);
	}
	atomic_store(&r->server->epochs.transfers_all, all);
	atomic_store(&r->server->epochs.transfers_done, done);
}

/* ---- from other threads ---- */

static void send_forwarded(void *ctx)
{
	struct repl *r = ctx;
	int64_t now = clock_now();

	mutex_lock(&r->lock);
	r->posted = false;
	mutex_unlock(&r->lock);
	for (unsigned i = 0; i < r->nlinks; i++) {
		struct link *l = r->link[i];

		if (l->up) {
			send_queued_records(l);
		} else if (l->live && !l->conn && backoff_is_due(&l->backoff, now)) {
			l->wanted = true;
			dial_replica(l);
		}
	}
}

void replicate_report_again(struct repl *r, int64_t server)
{
	if (server >= 0 && server < r->nlinks)
		atomic_store(&r->link[server]->asked, true);
}

void replicate_forward(void *server, uint16_t index, uint16_t table, uint32_t part)
{
	struct repl *r = store_of(server)->repl;
	bool post = false;

	mutex_lock(&r->lock);
	if (index < r->nlinks) {
		replicate_link_add(r->link[index], (struct todo){ table, part });
		post = !r->posted;
		r->posted = true;
	}
	mutex_unlock(&r->lock);
	if (post)
		loop_post(r->loop, send_forwarded, r);
}

/* The part of a view that concerns the links, on its way from the agent's thread. */
struct news {
	struct news *next;
	const struct view *view;
	uint32_t epoch;
	bool joins[COORD_SERVERS_MAX];
};

static void update_link(struct link *l, const struct view_server *j)
{
	bool live = j->live;
	uint8_t key[KEY_BYTES] = { 0 };
	const char *tcp = j->tcp;

	if (live && !key_from_text(j->key, key))
		live = false;
	if (!live || strcmp(tcp, l->tcp) != 0 || memcmp(key, l->key, sizeof key) != 0) {
		drop_link(l);
		l->down_since = l->reported = 0;
		backoff_reset(&l->backoff);
		l->wanted = false;
	}
	snprintf(l->tcp, sizeof l->tcp, "%s", tcp);
	snprintf(l->unix_path, sizeof l->unix_path, "%s", j->unix_path);
	memcpy(l->key, key, sizeof key);
	l->live = live;
	if (!live) {
		mutex_lock(&l->repl->lock);
		l->ntodo = 0;
		mutex_unlock(&l->repl->lock);
	}
}

static struct news *take_first_news(struct repl *r)
{
	struct news *n;

	mutex_lock(&r->lock);
	n = r->news;
	r->news = n->next;
	if (!r->news)
		r->news_last = &r->news;
	mutex_unlock(&r->lock);
	return n;
}

static void free_news(struct news *n)
{
	view_release(n->view);
	free(n);
}

/* Records in flight were sent under the old epoch: send everything again under the new one. */
static void apply_view_news(void *ctx)
{
	struct repl *r = ctx;
	struct news *n = take_first_news(r);

	for (size_t i = 0; i < n->view->nservers; i++)
		update_link(r->link[i], &n->view->servers[i]);
	for (size_t i = 0; n->epoch != r->epoch && i < r->nlinks; i++) {
		struct link *l = r->link[i];

		l->joins = n->joins[i];
		l->reported_complete = l->refused = false;
		if (l->up)
			l->down_since = l->reported = 0;
		if (l->up) {
			l->session = ++r->next_session;
			shard_resend(shard_of_repl(r), (uint16_t)i);
		}
	}
	r->epoch = n->epoch;
	free_news(n);
	send_forwarded(r);
	tick_links(r);
}

void replicate_prepare(struct repl *r, const struct view *view)
{
	size_t n = view->nservers;

	for (size_t i = r->nlinks; i < n && i < COORD_SERVERS_MAX; i++) {
		r->link[i] = mem_alloc(sizeof **r->link);
		r->link[i]->repl = r;
		r->link[i]->index = (unsigned)i;
		r->link[i]->backoff = (struct backoff){ .least = RETRY_MIN, .most = RETRY_MAX };
		backoff_reset(&r->link[i]->backoff);
		atomic_store(&r->nlinks, (unsigned)i + 1);
	}
}

/* Find the joining servers that get replicas from this server, because it is the tail of a
 * chain. */
static void find_joining_servers(struct news *n, const struct layout *l, unsigned self)
{
	for (size_t t = 0; t < l->ntables; t++)
		for (size_t k = 0; k < l->table[t].nruns; k++) {
			const struct run *run = &l->table[t].run[k];

			if (run->nchain && run->chain[run->nchain - 1] == self &&
			    run->joining < COORD_SERVERS_MAX)
				n->joins[run->joining] = true;
		}
}

void replicate_view(struct repl *r, const struct view *view, const struct layout *layout)
{
	struct news *n = mem_alloc(sizeof *n);

	n->view = view_ref(view);
	n->epoch = layout->epoch;
	find_joining_servers(n, layout, (unsigned)r->server->cfg.index);
	mutex_lock(&r->lock);
	*r->news_last = n;
	r->news_last = &n->next;
	mutex_unlock(&r->lock);
	loop_post(r->loop, apply_view_news, r);
}

/* ---- life ---- */

static void *run_replication(void *ctx)
{
	loop_run(((struct repl *)ctx)->loop);
	return NULL;
}

enum err_code replicate_start(struct server *s, struct err *e)
{
	struct repl *r = mem_alloc(sizeof *r);
	enum err_code rc;

	r->server = s;
	r->transport = transport_find("auto");
	mutex_init(&r->lock, LOCK_REPLICATE);
	r->news_last = &r->news;
	rc = loop_new(&r->loop, e);
	if (!rc) {
		loop_tick(r->loop, REPL_TICK, tick_links, r);
		rc = thread_start(&r->thread, run_replication, r, e);
	}
	if (rc) {
		loop_free(r->loop);
		mutex_destroy(&r->lock);
		free(r);
		return rc;
	}
	store_of(s)->repl = r;
	return ERR_OK;
}

enum err_code replicate_choose_transport(struct repl *r, const struct conf *conf, struct err *e)
{
	struct emulated_link_spec spec;
	int64_t last[EMULATED_KINDS];
	uint32_t number = (uint32_t)r->server->cfg.index;
	enum err_code rc = emulated_link_parse(conf->net,
	    (struct emulated_link_end){ EMULATED_SERVER, number }, &spec, last, e);

	if (rc || !spec.emulated)
		return rc;
	rc = emulated_link_open(&spec, rng_mix(~(uint64_t)conf->job.seed + number), &r->net, e);
	if (!rc)
		r->transport = emulated_link_transport(r->net);
	return rc;
}

void replicate_stop(struct repl *r)
{
	if (!r)
		return;
	loop_stop(r->loop);
	pthread_join(r->thread, NULL);
}

void replicate_free(struct repl *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->nlinks; i++) {
		drop_link(r->link[i]);
		free(r->link[i]->todo);
		free(r->link[i]);
	}
	settle_release(r);
	/* Views may have arrived after the thread had ended. */
	while (r->news)
		free_news(take_first_news(r));
	emulated_link_close(r->net);
	loop_free(r->loop);
	mutex_destroy(&r->lock);
	free(r);
}
