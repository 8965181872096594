#include "coord/coord_state.h"

#include "base/json.h"

/* Of a job whose dense tables the workers sum among themselves: who is in the ring.  A
 * worker takes part from a step on, one that has gone is out at once.  So the ring's epoch
 * at a step is twice the number of those who have gone, and one for each who takes part
 * there: it grows with each change that concerns the step, whatever else has been heard. */

static bool is_in(const struct member_worker *w)
{
	return w->state == WORKER_ACTIVE;
}

void ring_settle(struct coord *c)
{
	for (unsigned i = 0; c->reduces && i < c->nworkers; i++) {
		struct member_worker *w = &c->worker[i];
		struct ring_seat *r = &w->ring;

		/* Servers fence one whose slot is taken over by the vote: until it is decided, what
		 * is summed without it might not be what it pushes. */
		if (r->incarnation && w->state != WORKER_JOINING && (!is_in(w) || r->incarnation != w->incarnation)) {
			r->incarnation = 0;
			c->ring_gone++;
		}
		if (!r->incarnation && is_in(w)) {
			r->incarnation = w->incarnation;
			memcpy(r->tcp, r->next_tcp, sizeof r->tcp);
			memcpy(r->unix_path, r->next_unix, sizeof r->unix_path);
		}
	}
}

json_t *ring_view(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct member_worker *w = &c->worker[i];

		if (w->ring.incarnation)
			json_array_append_new(list, json_pack("{s:i, s:I, s:o, s:s, s:s, s:s, s:s}", "slot", (int)i, "from",
			    (json_int_t)w->from, "incarnation", json_of_u64(w->ring.incarnation),
			    "key", w->key, "host", w->host, "tcp", w->ring.tcp, "unix", w->ring.unix_path));
	}
	return json_pack("{s:I, s:o}", "gone", (json_int_t)c->ring_gone, "members", list);
}

void ring_join(struct member_worker *w, const json_t *msg)
{
	snprintf(w->ring.next_tcp, sizeof w->ring.next_tcp, "%s", json_str(msg, "tcp", ""));
	snprintf(w->ring.next_unix, sizeof w->ring.next_unix, "%s", json_str(msg, "unix", ""));
}

json_t *ring_out(const struct ring_seat *r)
{
	return json_pack("{s:o, s:{s:s, s:s}, s:s, s:s}", "incarnation", json_of_u64(r->incarnation), "seat", "tcp", r->tcp, "unix",
	    r->unix_path, "tcp", r->next_tcp, "unix", r->next_unix);
}

void ring_in(struct member_worker *w, const json_t *o)
{
	const json_t *seat = json_object_get(o, "seat");

	ring_join(w, o);
	snprintf(w->ring.tcp, sizeof w->ring.tcp, "%s", json_str(seat, "tcp", ""));
	snprintf(w->ring.unix_path, sizeof w->ring.unix_path, "%s", json_str(seat, "unix", ""));
	w->ring.incarnation = json_u64s(o, "incarnation", 0);
}
