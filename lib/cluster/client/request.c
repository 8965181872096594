/* SPDX-License-Identifier: ISC */
#include "client/client_state.h"
#include "client/request.h"
#include "core/mem.h"

/* Add r to a list after `after`; NULL: as the first. */
static void insert_request(struct request_list *list, struct request *r, struct request *after)
{
	struct request **from = after ? &after->next : &list->first;

	r->prev = after;
	r->next = *from;
	*(r->next ? &r->next->prev : &list->last) = r;
	*from = r;
	list->n++;
}

/* Take r off its link, or off the strays. */
static void remove_request(struct request *r)
{
	struct link *l = r->link;
	struct request_list *list = l ? &l->open : &r->client->stray;

	for (unsigned i = 0; l && i < REQUEST_CLASSES; i++)
		if (l->expected[i] == r)
			l->expected[i] = r->next;
	*(r->prev ? &r->prev->next : &list->first) = r->next;
	*(r->next ? &r->next->prev : &list->last) = r->prev;
	r->link = NULL;
	r->prev = r->next = NULL;
	list->n--;
}

struct record client_record_head(const struct client *c, enum record_type type, uint64_t step)
{
	return (struct record){ .type = (uint8_t)type,
		.step = step == CLIENT_NOW ? 0 : step,
		.flags = step == CLIENT_NOW ? RECORD_NOW : 0,
		.epoch = c->layout.epoch,
		.generation = c->layout.generation };
}

struct request *request_new(struct client *c, const struct request_ops *ops, const struct table *t,
    uint32_t part, uint64_t step)
{
	struct request *r = c->spare.requests;

	client_assert_owner(c);
	if (r)
		c->spare.requests = r->next;
	else
		r = mem_alloc(sizeof *r);
	*r = (struct request){ .ops = ops,
		.client = c,
		.table = t,
		.part = part,
		.step = step,
		.count = 1,
		.answers_left = 1,
		.seq = ops->class == REQUEST_PULL ? c->next_seq++ : 0 };
	c->nopen[ops->class]++;
	return r;
}

void request_free(struct request *r)
{
	struct client *c = r->client;

	/* The request was answered after it had been sent once, but it may have been queued again.
	 * Have the connection copy the payload that it has borrowed. */
	if (r->tries > 1 && r->link && r->link->conn)
		conn_keep_lent(r->link->conn);
	if (r->ops->release)
		r->ops->release(r);
	if (r->state != REQUEST_NEW)
		remove_request(r);
	c->nopen[r->ops->class]--;
	r->next = c->spare.requests;
	c->spare.requests = r;
}

void request_send(struct request *r)
{
	r->state = REQUEST_SENT;
	r->tries++;
	/* All answers come again, maybe of another version. */
	r->answers_left = r->count;
	r->ops->send(r);
}

void request_put(struct request *r, struct link *l, struct request *after)
{
	r->link = l;
	r->state = REQUEST_QUEUED;
	insert_request(&l->open, r, after);
	l->used = true;
	if (l->state == LINK_UP)
		request_send(r);
}

bool client_link_takes_clocks(const struct link *l)
{
	return l->live &&
	    (l->client->route.state == ROUTE_RELAYED) == (l == client_relay_link(l->client));
}

struct link *request_route(const struct request *r, struct err *e)
{
	struct client *c = r->client;
	uint16_t server;

	/* A relay takes only requests of steps, and gives back pushes that it cannot aggregate. */
	if (c->route.state == ROUTE_RELAYED && !r->past_relay && r->step != CLIENT_NOW)
		return client_relay_link(c);
	server = r->ops->server(r->table, r->part);
	if (server < c->nservers)
		return c->link[server];
	err_set(e, ERR_NOTREADY, "table \"%s\" partition %u is on no server", r->table->name,
	    r->part);
	return NULL;
}

enum err_code request_submit(struct request *r, struct err *e)
{
	struct link *l = request_route(r, e);

	if (!l)
		return ERR_NOTREADY;
	request_put(r, l, l->open.last);
	return ERR_OK;
}

void request_send_all(struct link *l)
{
	for (struct request *r = l->open.first; r; r = r->next)
		request_send(r);
}

void request_lose_all(struct link *l)
{
	for (struct request *r = l->open.first; r; r = r->next)
		r->state = REQUEST_QUEUED;
}

/* ---- versions that the last pull of each partition brought ---- */

uint64_t *client_version_at(struct client *c, const struct table *t, uint32_t part)
{
	client_assert_owner(c);
	if (t->id >= c->versions.ntables) {
		size_t n = (size_t)t->id + 1;

		c->versions.of = mem_regrow((void *)c->versions.of, n, sizeof *c->versions.of);
		c->versions.nparts = mem_regrow(c->versions.nparts, n, sizeof *c->versions.nparts);
		for (size_t i = c->versions.ntables; i < n; i++) {
			c->versions.of[i] = NULL;
			c->versions.nparts[i] = 0;
		}
		c->versions.ntables = n;
	}
	if (c->versions.nparts[t->id] < t->nparts) {
		c->versions.of[t->id] = mem_regrow(c->versions.of[t->id], t->nparts,
		    sizeof **c->versions.of);
		memset(c->versions.of[t->id] + c->versions.nparts[t->id], 0xff,
		    (t->nparts - c->versions.nparts[t->id]) * sizeof **c->versions.of);
		c->versions.nparts[t->id] = t->nparts;
	}
	return &c->versions.of[t->id][part];
}

/* ---- answers ---- */

struct request *request_of_receipt(struct link *l, uint16_t table, uint32_t part, uint64_t step)
{
	struct request *r = l->expected[REQUEST_PUSH];

	for (size_t k = 0; k < l->open.n; k++) {
		r = r ? r : l->open.first;
		if (r->ops->class == REQUEST_PUSH && r->part == part && r->step == step &&
		    r->table->id == table)
			return l->expected[REQUEST_PUSH] = r;
		r = r->next;
	}
	return NULL;
}

struct request *request_of_answer(struct link *l, uint64_t seq)
{
	struct request *r = l->expected[REQUEST_PULL];

	for (size_t k = 0; k < l->open.n; k++) {
		r = r ? r : l->open.first;
		if (r->ops->class == REQUEST_PULL && r->seq == seq)
			return l->expected[REQUEST_PULL] = r;
		r = r->next;
	}
	return NULL;
}

enum err_code request_answer(struct request *r, const struct answer *a, struct err *e)
{
	enum err_code rc = r->ops->answered ? r->ops->answered(r, a, e) : ERR_OK;

	if (!rc && --r->answers_left == 0)
		request_free(r);
	return rc;
}

/* ---- another layout or route ---- */

struct request *request_next(const struct client *c, const struct request *r)
{
	unsigned i = r && r->link ? r->link->index + 1 : 0;

	if (!r && c->stray.first)
		return c->stray.first;
	if (r && r->next)
		return r->next;
	while (i < c->nlinks && !c->link[i]->open.first)
		i++;
	return i < c->nlinks ? c->link[i]->open.first : NULL;
}

/* Stop receiving answers into the caller's buffers: these are about to be reused or freed. */
static void stop_placing_answers(struct client *c)
{
	struct err e;

	for (unsigned i = 0; i < c->nlinks; i++)
		if (c->link[i]->conn && conn_unplace(c->link[i]->conn, &e))
			client_link_drop(c->link[i], &e);
}

void request_free_class(struct client *c, enum request_class class)
{
	if (class == REQUEST_PULL)
		stop_placing_answers(c);
	for (struct request *r = request_next(c, NULL), *next; r; r = next) {
		next = request_next(c, r);
		if (r->ops->class == class)
			request_free(r);
	}
}

void request_free_pulls_to(struct client *c, const float *dst)
{
	if (!dst)
		return;
	stop_placing_answers(c);
	for (struct request *r = request_next(c, NULL), *next; r; r = next) {
		next = request_next(c, r);
		if ((r->ops == &client_pull_ops || r->ops == &client_row_pull_ops) &&
		    r->pull.dst == dst)
			request_free(r);
	}
}

/* Take r off its link. */
static void make_stray(struct request *r)
{
	remove_request(r);
	r->state = REQUEST_STRAY;
	insert_request(&r->client->stray, r, r->client->stray.last);
}

/* Put a STRAY request on the link that takes it; it stays STRAY if no server holds the
 * partition. */
static void place_stray(struct request *r)
{
	struct link *l = request_route(r, NULL);

	if (!l)
		return;
	remove_request(r);
	request_put(r, l, l->open.last);
}

/* Split a stray pull of several partitions where the present layout has them on different servers.
 * The pull owns nothing, since it has forgotten its base. */
static void split_stray_pull(struct request *r)
{
	const struct run *run;

	while (r->count > 1 && (run = table_run(r->table, r->part)) &&
	    run->first + run->count - r->part < r->count) {
		uint32_t n = run->first + run->count - r->part;
		struct request *piece = request_new(r->client, r->ops, r->table, r->part, r->step);

		piece->pull = r->pull;
		piece->count = n;
		piece->state = REQUEST_STRAY;
		insert_request(&r->client->stray, piece, r->prev);
		place_stray(piece);
		r->part += n;
		r->count -= n;
	}
}

void request_reroute(struct request *r)
{
	make_stray(r);
	place_stray(r);
}

/* Place the strays that belong before the last CLOCK, or after it: pushes of a later step, and
 * pulls. Announce the pushes. */
static void place_strays(struct client *c, bool after_clock)
{
	for (struct request *r = c->stray.first, *next; r; r = next) {
		next = r->next;
		if ((r->ops->class != REQUEST_PUSH || client_follows_clock(r)) != after_clock)
			continue;
		if (r->ops->class == REQUEST_PUSH)
			client_announce(r);
		split_stray_pull(r);
		place_stray(r);
	}
}

void request_reroute_all(struct client *c)
{
	client_assert_owner(c);
	stop_placing_answers(c);
	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		/* Another link may get the answers before this connection has written the bodies
		 * that it borrowed. */
		if (l->conn)
			conn_keep_lent(l->conn);
		for (struct request *r; (r = l->open.first);) {
			if (!r->ops->server) {
				request_free(r);
				continue;
			}
			if (r->ops->class == REQUEST_PUSH)
				r->push.was_rerouted |= request_route(r, NULL) != l;
			if (r->ops->forget_server)
				r->ops->forget_server(r);
			make_stray(r);
		}
		buf_clear(&l->announced);
		buf_clear(&l->clocked);
	}
	place_strays(c, false);
	client_repeat_clocks(c);
	place_strays(c, true);
}
