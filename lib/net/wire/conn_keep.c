/* SPDX-License-Identifier: ISC */
#include "wire/conn_state.h"

static bool is_lent(const struct out *o)
{
	return o->len && o->payload != o->room;
}

static struct out *copy_lent_record(const struct out *o)
{
	struct out *own = malloc(sizeof *own + o->len);

	if (!own)
		abort(); /* the callers bound what they queue */
	*own = *o;
	own->room_size = o->len;
	memcpy(own->room, o->payload, o->len);
	own->payload = own->room;
	return own;
}

void conn_keep_lent(struct conn *c)
{
	for (struct out **at = &c->out; *at; at = &(*at)->next) {
		struct out *o = *at;

		if (!is_lent(o))
			continue;
		*at = copy_lent_record(o);
		if (c->out_last == &o->next)
			c->out_last = &(*at)->next;
		free(o);
	}
}
