/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"
#include "core/mem.h"

/* The ring of a job whose workers sum dense tables among themselves (via allreduce). A worker
 * takes part from a decided step on, and one that is lost is out at once. The ring's epoch at a
 * step is twice the number of workers that have left, plus the number that take part from that
 * step or an earlier one. It grows with each change that concerns the step, whatever else a
 * worker has heard. */

static bool belongs_in_ring(const struct coord_member_worker *w)
{
	return w->state == WORKER_ACTIVE;
}

void coord_ring_update(struct coord *c)
{
	for (unsigned i = 0; c->ring.used && i < c->nworkers; i++) {
		struct coord_member_worker *w = &c->worker[i];
		struct ring_seat *r = &w->ring;

		/* While a new process joins this rank, the old one stays in the ring until the vote
		 * is decided. Servers fence the old one only then, and until then may apply its
		 * pushes; sums without it could differ from what it pushes. */
		if (r->incarnation && w->state != WORKER_JOINING &&
		    (!belongs_in_ring(w) || r->incarnation != w->incarnation)) {
			r->incarnation = 0;
			c->ring.gone++;
		}
		if (!r->incarnation && belongs_in_ring(w)) {
			r->incarnation = w->incarnation;
			memcpy(r->tcp, r->next_tcp, sizeof r->tcp);
			memcpy(r->unix_path, r->next_unix, sizeof r->unix_path);
		}
	}
}

json_t *coord_ring_to_view(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];

		if (w->ring.incarnation)
			json_array_append_new(list,
			    json_pack("{s:i, s:I, s:o, s:s, s:s, s:s, s:s}", "rank", (int)i, "from",
			        (json_int_t)w->from, "incarnation",
			        json_of_u64(w->ring.incarnation), "key", w->key, "host", w->host,
			        "tcp", w->ring.tcp, "unix", w->ring.unix_path));
	}
	return json_pack("{s:I, s:o}", "gone", (json_int_t)c->ring.gone, "members", list);
}

void coord_ring_join(struct coord_member_worker *w, const json_t *addresses)
{
	struct state_seat next;

	if (state_seat_decode(addresses, &next, NULL))
		next = (struct state_seat){ "", "" };
	snprintf(w->ring.next_tcp, sizeof w->ring.next_tcp, "%s", next.tcp);
	snprintf(w->ring.next_unix, sizeof w->ring.next_unix, "%s", next.unix_path);
}

struct state_ring *coord_ring_save(const struct ring_seat *r)
{
	struct state_ring *s = mem_alloc(sizeof *s);

	*s = (struct state_ring){ .incarnation = r->incarnation,
		.seat = mem_alloc(sizeof *s->seat),
		.tcp = r->next_tcp,
		.unix_path = r->next_unix };
	*s->seat = (struct state_seat){ .tcp = r->tcp, .unix_path = r->unix_path };
	return s;
}

void coord_ring_load(struct ring_seat *r, const struct state_ring *s)
{
	snprintf(r->next_tcp, sizeof r->next_tcp, "%s", s->tcp);
	snprintf(r->next_unix, sizeof r->next_unix, "%s", s->unix_path);
	if (s->seat) {
		snprintf(r->tcp, sizeof r->tcp, "%s", s->seat->tcp);
		snprintf(r->unix_path, sizeof r->unix_path, "%s", s->seat->unix_path);
	}
	r->incarnation = s->incarnation;
}
