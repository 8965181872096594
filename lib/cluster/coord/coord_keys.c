/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"

/* Revoked keys: members that use one are lost at once, and the sessions that servers close because
 * of it are counted. */

static void drop_revoked_worker(struct coord *c, unsigned rank, int64_t now)
{
	struct coord_member_worker *w = &c->worker[rank];

	/* Messages of this worker that are still under way must not revive it. */
	w->gave_up = true;
	if (w->state == WORKER_DONE) {
		w->state = WORKER_LEFT;
		coord_changed(c);
	} else if ((w->state == WORKER_ACTIVE || w->state == WORKER_JOINING) && !w->lost_at &&
	    c->phase < PHASE_DONE) {
		coord_worker_lost(c, rank, CAUSE_UNKNOWN, "its key was revoked", now);
	}
}

static void drop_revoked_members(struct coord *c, const char *key, int64_t now)
{
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].incarnation && strcmp(c->worker[i].key, key) == 0)
			drop_revoked_worker(c, i, now);
	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].live && !c->server[i].own && strcmp(c->server[i].key, key) == 0)
			coord_place_server_lost(c, i, "its key was revoked", now);
	for (unsigned i = 0; i < c->nrelays; i++)
		if (c->relay[i].live && strcmp(c->relay[i].key, key) == 0)
			coord_relay_lost(c, i, "its key was revoked");
	coord_progress(c, now);
}

void coord_revoke(struct coord *c, const char *name, const char *key, const char *who, int64_t now)
{
	coord_event(c, EVENT_revoked, "the key of %s is revoked, by %s", name, who);
	json_object_set_new(c->keys.cut, name, json_integer(0));
	if (key)
		drop_revoked_members(c, key, now);
	/* The members that have the key are no longer asked to confirm. */
	json_object_set_new(c->keys.losses_before, name, json_integer((json_int_t)c->keys.losses));
}

/* The sender has checked its sessions against key list m->made, and closed some. *made is the
 * sender's counter. The sender repeats its last report in each session. */
static void note_checked_keys(struct coord *c, uint64_t *made, const struct message_keys_checked *m)
{
	uint64_t reported = (uint64_t)m->made;
	const char *name;
	json_t *n;

	if (reported <= *made)
		return;
	*made = reported;
	/* Count only names that were revoked here, so that a server cannot make this table grow. */
	json_object_foreach((json_t *)(uintptr_t)m->cut, name, n)
		if (json_object_get(c->keys.cut, name) && message_is_count(n))
			json_object_set_new(c->keys.cut, name,
			    json_integer(json_int(c->keys.cut, name, 0) + json_integer_value(n)));
}

void coord_keys_checked(struct coord *c, const struct message_keys_checked *m)
{
	note_checked_keys(c, &c->keys.made, m);
}

json_t *coord_on_keys_checked(struct coord *c, const struct coord_request *r)
{
	unsigned i = r->self->index;

	note_checked_keys(c,
	    r->self->kind == COORD_SERVER ? &c->server[i].keys_made : &c->relay[i].keys_made,
	    &r->m->keys_checked);
	return NULL;
}

/* Counts a member that has checked its sessions. Names it in `missing` if it is live and has not,
 * and in `lost` if it was lost since the revocation and had not: its process may run and hold
 * sessions. */
static void record_key_check(struct coord_keys_check *out, bool live, bool has_checked,
    bool lost_since, const char *kind, unsigned i)
{
	char id[24];

	snprintf(id, sizeof id, "%s-%u", kind, i);
	if (live && has_checked)
		out->checked++;
	else if (live)
		json_array_append_new(out->missing, json_string(id));
	else if (lost_since && !has_checked)
		json_array_append_new(out->lost, json_string(id));
}

bool coord_keys_are_checked(const struct coord *c, uint64_t made, const char *name,
    struct coord_keys_check *out)
{
	uint64_t before = (uint64_t)json_int(c->keys.losses_before, name, 0);

	out->checked = 0;
	out->cut = json_int(c->keys.cut, name, 0);
	for (unsigned i = 0; i < c->nservers; i++) {
		const struct coord_member_server *s = &c->server[i];

		record_key_check(out, s->live, (s->own ? c->keys.made : s->keys_made) >= made,
		    s->loss > before && !s->released, "server", i);
	}
	for (unsigned i = 0; i < c->nrelays; i++) {
		const struct coord_member_relay *r = &c->relay[i];

		record_key_check(out, r->live, r->keys_made >= made, r->loss > before, "relay", i);
	}
	return c->keys.made >= made && json_array_size(out->missing) == 0 &&
	    json_array_size(out->lost) == 0;
}

static bool report_key_holder(char id[static 32], int64_t *age, const char *kind, unsigned i,
    int64_t since)
{
	snprintf(id, 32, "%s-%u", kind, i);
	*age = since;
	return true;
}

bool coord_key_held(const struct coord *c, const char *key, int64_t now, char id[static 32],
    int64_t *age)
{
	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];

		if (w->incarnation && !w->lost_at && w->state >= WORKER_JOINING &&
		    w->state <= WORKER_DONE && strcmp(w->key, key) == 0)
			return report_key_holder(id, age, "worker", i, now - w->seen);
	}
	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].live && strcmp(c->server[i].key, key) == 0)
			return report_key_holder(id, age, "server", i, now - c->server[i].seen);
	for (unsigned i = 0; i < c->nrelays; i++)
		if (c->relay[i].live && strcmp(c->relay[i].key, key) == 0)
			return report_key_holder(id, age, "relay", i, now - c->relay[i].seen);
	return false;
}
