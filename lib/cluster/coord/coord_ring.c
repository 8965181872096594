/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"

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
	for (unsigned i = 0; c->reduces && i < c->nworkers; i++) {
		struct coord_member_worker *w = &c->worker[i];
		struct ring_meet_seat *r = &w->ring;

		/* While a new process joins this rank, the old one stays in the ring until the vote
		 * is decided. Servers fence the old one only then, and until then may apply its
		 * pushes; sums without it could differ from what it pushes. */
		if (r->incarnation && w->state != WORKER_JOINING &&
		    (!belongs_in_ring(w) || r->incarnation != w->incarnation)) {
			r->incarnation = 0;
			c->ring_gone++;
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
			    json_pack("{s:i, s:I, s:o, s:s, s:s, s:s, s:s}", "slot", (int)i, "from",
			        (json_int_t)w->from, "incarnation",
			        json_of_u64(w->ring.incarnation), "key", w->key, "host", w->host,
			        "tcp", w->ring.tcp, "unix", w->ring.unix_path));
	}
	return json_pack("{s:I, s:o}", "gone", (json_int_t)c->ring_gone, "members", list);
}

void coord_ring_join(struct coord_member_worker *w, const json_t *msg)
{
	snprintf(w->ring.next_tcp, sizeof w->ring.next_tcp, "%s", json_str(msg, "tcp", ""));
	snprintf(w->ring.next_unix, sizeof w->ring.next_unix, "%s", json_str(msg, "unix", ""));
}

json_t *coord_ring_to_state(const struct ring_meet_seat *r)
{
	return json_pack("{s:o, s:{s:s, s:s}, s:s, s:s}", "incarnation",
	    json_of_u64(r->incarnation), "seat", "tcp", r->tcp, "unix", r->unix_path, "tcp",
	    r->next_tcp, "unix", r->next_unix);
}

void coord_ring_from_state(struct coord_member_worker *w, const json_t *o)
{
	const json_t *seat = json_object_get(o, "seat");

	coord_ring_join(w, o);
	snprintf(w->ring.tcp, sizeof w->ring.tcp, "%s", json_str(seat, "tcp", ""));
	snprintf(w->ring.unix_path, sizeof w->ring.unix_path, "%s", json_str(seat, "unix", ""));
	w->ring.incarnation = json_u64s(o, "incarnation", 0);
}
