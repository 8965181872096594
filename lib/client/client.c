#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "client/client_state.h"
#include "client/relayed.h"
#include "launch/rundir.h"
#include "wire/net.h"

#define RETRY_MAX (500 * NSEC_PER_MSEC)
#define FENCED_FOR_SURE (1 * NSEC_PER_SEC)
/* See agent.c: one refused handshake may be a server that died within it. */
#define DENIALS 3

/* ---- records ----------------------------------------------------------------------- */

struct record client_head(const struct client *c, enum msg_type type, uint64_t step)
{
	return (struct record){ .type = (uint8_t)type, .step = step == CLIENT_NOW ? 0 : step,
		.flags = step == CLIENT_NOW ? RECORD_NOW : 0, .epoch = c->layout.epoch,
		.generation = c->layout.generation };
}

void link_send(struct link *l, const struct record *r, const void *payload)
{
	batcher_add(&l->batcher, l->conn, r, payload);
}

/* Without shared memory the socket carries all. */
static void share(struct link *l, bool wanted_there)
{
	bool asked = strcmp(l->client->cfg.transport, "shm") == 0;
	struct err e;

	if (!net_is_unix(conn_fd(l->conn)) || !(asked || strcmp(l->client->cfg.transport, "auto") == 0))
		return;
	/* It may have no descriptor or no memory for that. */
	if (l->unshared && !asked)
		return;
	if (!wanted_there)
		err_set(&e, ERR_LIMIT, "its mem_limit is without such, for transport is not shm there");
	if ((!wanted_there || conn_share(l->conn, &e)) && asked)
		log_warn(l->client->cfg.log, "%s: no shared memory with it, by its socket then: %s", l->id, e.msg);
}

/* Everything that is open is asked or said again; the server knows by its
 * identity what it has had before. */
static void on_live(void *ctx, const struct hs_server_info *server)
{
	struct link *l = ctx;

	l->state = LINK_UP;
	l->down_since = 0;
	l->retry = LINK_RETRY_MIN;
	l->session = ++l->client->sessions;
	share(l, server->shares);
	/* The same server again: nothing was lost. */
	for (size_t i = 0; i < l->ndoubts; i++)
		if (!l->doubt[i].settled && !l->doubt[i].moved)
			l->client->lost_at = 0;
	link_resend(l);
	if (l->done_due)
		link_send_done(l);
	for (struct ask *a = l->asks; a; a = a->next)
		link_send_ask(l, a);
	if (l->client->cfg.hooks)
		l->client->cfg.hooks->up(l->client->cfg.hooks->ctx, l->index);
	batcher_flush(&l->batcher, l->conn);
}

/* An answer to what was asked under another layout; it has been asked again. */
static bool old_news(const struct client *c, const struct record *r)
{
	return r->epoch < c->layout.epoch || r->generation < c->layout.generation;
}

static enum conn_verdict one_record(struct link *l, const struct record *r, const uint8_t *payload)
{
	struct client *c = l->client;
	struct err e = { 0 };

	if (c->cfg.hooks && relay_record(l, r, payload))
		return CONN_TAKEN;
	switch (r->type) {
	case REC_PULLED:
	case REC_ROWS:
	case REC_SCANNED:
		if (old_news(c, r))
			return CONN_TAKEN;
		if (r->examples > c->members)
			c->members = r->examples;
		if (r->flags & RECORD_SAVING)
			c->saving = r->step;
		if (!c->first_answer)
			c->first_answer = clock_now();
		return ask_answer(l, r, payload, &l->fault) ? CONN_DROP : CONN_TAKEN;
	case REC_RECEIPT:
		if (!old_news(c, r))
			doubt_receipts(l, payload, r->len);
		return CONN_TAKEN;
	case REC_NO_KEYS:
		rows_unknown(l, r);
		return CONN_TAKEN;
	case REC_CLOCKED:
		if (r->seq == DONE_SEQ) {
			l->done = true;
			l->done_due = false;
		} else if (r->step == c->clock_step && !old_news(c, r)) {
			l->clock_due = false;
		}
		return CONN_TAKEN;
	case REC_NACK:
		/* Of another epoch: when the view of it is here, all is sent again. */
		if (msg_get_nack(payload, r->len, &e) == ERR_STALE)
			return CONN_TAKEN;
		/* There are other ways; a relay waits for the next view. */
		if (c->cfg.hooks || l == relay_link(c)) {
			l->fault = e;
			return CONN_DROP;
		}
		c->fatal = e;
		err_prefix(&c->fatal, "%s refused", l->id);
		return CONN_DROP;
	default:
		return CONN_TAKEN;
	}
}

static enum conn_verdict on_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct link *l = ctx;
	const uint8_t *body;
	struct record sub;
	struct err e = { 0 };
	size_t at = 0;

	if (r->type != REC_BATCH)
		return one_record(l, r, payload);
	while (msg_batch_next(payload, r->len, &at, &sub, &body, &e)) {
		enum conn_verdict v = one_record(l, &sub, body);

		if (v != CONN_TAKEN)
			return v;
	}
	return e.code ? CONN_DROP : CONN_TAKEN;
}

static uint8_t *on_place(void *ctx, const struct record *r)
{
	return ask_place(ctx, r);
}

static const struct conn_handler handler = { .live = on_live, .place = on_place, .record = on_record };

/* ---- connections --------------------------------------------------------------------- */

static bool want_unix(const struct link *l)
{
	const char *transport = l->client->cfg.transport;

	if (!l->unix_path[0] || strcmp(transport, "tcp") == 0)
		return false;
	return strcmp(transport, "auto") != 0 || access(l->unix_path, R_OK | W_OK) == 0;
}

void link_dial(struct link *l)
{
	const struct client_config *cfg = &l->client->cfg;
	struct hs_client_info info = { .incarnation = cfg->incarnation, .slot = cfg->slot,
		.role = cfg->hooks ? ROLE_RELAY : ROLE_WORKER };
	char addr[NET_TEXT + 8], sock[RUNDIR_SOCKET_PATH];
	int fd, dirfd = -1;
	enum err_code rc = ERR_OK;

	memcpy(info.cluster, cfg->id->conn.cluster, sizeof info.cluster);
	snprintf(addr, sizeof addr, "%s", l->tcp);
	if (want_unix(l)) {
		rc = rundir_socket_path(l->unix_path, sock, &dirfd, &l->fault);
		snprintf(addr, sizeof addr, "unix:%s", sock);
	}
	if (!rc)
		rc = net_connect(addr, &fd, &l->fault);
	if (dirfd >= 0)
		close(dirfd);
	if (rc) {
		l->next_try = clock_now() + l->retry;
		l->retry = l->retry * 2 < RETRY_MAX ? l->retry * 2 : RETRY_MAX;
		return;
	}
	l->conn = conn_dial(fd, &cfg->id->conn, l->key, &info, &handler, l);
	conn_watch(l->conn);
	l->state = LINK_DIALLING;
}

static void count_bytes(struct link *l)
{
	l->client->pushed_base += conn_bytes_out(l->conn);
	l->client->pulled_base += conn_bytes_in(l->conn);
}

void link_drop(struct link *l, const struct err *why)
{
	struct client *c = l->client;
	bool refused = l->state == LINK_DIALLING;

	if (l->conn)
		count_bytes(l);
	l->unshared |= l->conn && conn_has_offered(l->conn);
	conn_free(l->conn);
	l->conn = NULL;
	batcher_release(&l->batcher);
	l->batcher = (struct batcher){ 0 };
	keycache_free(l->kept);
	l->kept = NULL;
	if (l->state == LINK_UP)
		c->stats.reconnects++;
	l->state = LINK_DOWN;
	if (!l->down_since)
		l->down_since = clock_now();
	if (l->open_doubts && !c->lost_at)
		c->lost_at = l->down_since;
	if (why)
		l->fault = *why;
	l->next_try = clock_now() + l->retry;
	l->retry = l->retry * 2 < RETRY_MAX ? l->retry * 2 : RETRY_MAX;
	/* A refusal at the door is final; a line that breaks, however, is not, nor
	 * is a server that has not yet heard that the slot is ours. */
	l->denied = refused && l->fault.code == ERR_AUTH ? l->denied + 1 : 0;
	if (c->cfg.hooks || l == relay_link(c))
		return;
	if (refused && !c->fatal.code && (l->denied >= DENIALS || l->fault.code == ERR_FORBIDDEN ||
	    l->fault.code == ERR_CONFIG ||
	    (l->fault.code == ERR_FENCED && clock_now() - l->down_since > FENCED_FOR_SURE))) {
		c->fatal = l->fault;
		err_prefix(&c->fatal, "%s (%s)", l->id, l->tcp);
	}
}

static struct link *use_link(struct client *c, uint16_t server, const struct table *t, uint32_t part, struct err *e)
{
	if (server >= c->nservers) {
		err_set(e, ERR_NOTREADY, "table \"%s\" partition %u is on no server", t->name, part);
		return NULL;
	}
	c->link[server]->used = true;
	return c->link[server];
}

static struct link *use_relay(struct client *c)
{
	relay_link(c)->used = true;
	return relay_link(c);
}

struct link *link_of_push(struct client *c, const struct doubt *d, struct err *e)
{
	if (c->relayed && !d->alone && d->step != CLIENT_NOW)
		return use_relay(c);
	return use_link(c, table_head(d->table, d->part), d->table, d->part, e);
}

struct link *link_of_pull(struct client *c, const struct table *t, uint32_t part, uint64_t step, struct err *e)
{
	if (c->relayed && step != CLIENT_NOW)
		return use_relay(c);
	return use_link(c, table_tail(t, part), t, part, e);
}

/* ---- life --------------------------------------------------------------------------------- */

enum err_code client_new(const struct client_config *cfg, struct client **out, struct err *e)
{
	struct client *c = mem_alloc(sizeof *c);

	(void)e;
	c->cfg = *cfg;
	c->spin.span = cfg->spin;
	c->next_seq = 1;
	c->saving = UINT64_MAX;
	layout_reserve(&c->layout);
	rng_init(&c->rng, cfg->incarnation);
	*out = c;
	return ERR_OK;
}

void client_recode(struct client *c, const struct client_coding *coding)
{
	c->cfg.coding = *coding;
}

uint32_t client_confirmed(const struct client *c)
{
	return c->confirmed;
}

const struct layout *client_layout(const struct client *c)
{
	return &c->layout;
}

int64_t client_first_answer(const struct client *c)
{
	return c->first_answer;
}

uint32_t client_members(const struct client *c)
{
	return c->members;
}

uint64_t client_open_step(const struct client *c)
{
	return c->open_step;
}

void client_free(struct client *c)
{
	struct record bye = { .type = REC_BYE };

	if (!c)
		return;
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (l->state == LINK_UP) {
			batcher_flush(&l->batcher, l->conn);
			conn_send(l->conn, &bye, NULL);
			conn_write(l->conn, NULL);
		}
		conn_free(l->conn);
		l->conn = NULL;
		batcher_release(&l->batcher);
		buf_release(&l->claims);
		keycache_free(l->kept);
		link_free_asks(l);
		link_free_doubts(l);
		free(l);
	}
	encode_forget(c);
	rows_forget(c);
	known_forget(c);
	list_free(c->spare_list);
	bodies_free(c->spare_bodies);
	zip_free(c->zip);
	for (size_t i = 0; i < c->nversions; i++)
		free(c->version[i]);
	free((void *)c->version);
	free(c->nversion);
	layout_release(&c->layout);
	free(c->link);
	free(c);
}

void client_stats(const struct client *c, struct client_stats *out)
{
	*out = c->stats;
	out->pushed_bytes = c->pushed_base;
	out->pulled_bytes = c->pulled_base;
	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->conn) {
			out->pushed_bytes += conn_bytes_out(c->link[i]->conn);
			out->pulled_bytes += conn_bytes_in(c->link[i]->conn);
		}
}
