/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/answer.h"

/* Messages of servers, workers, relays and users: each kind is dispatched here. */

bool coord_keep(json_t **place, const json_t *doc)
{
	if (!doc)
		return false;
	json_decref(*place);
	*place = json_incref((json_t *)(uintptr_t)doc);
	return true;
}

/* A worker has been heard. With on_worker_loss "wait", one that was taken for lost is back: nobody
 * has taken its rank meanwhile, and its step is still open. */
static void note_worker_heard(struct coord *c, unsigned slot, int64_t now)
{
	struct coord_member_worker *w = &c->worker[slot];

	w->seen = now;
	if (!w->lost_at || w->quit || c->cfg.on_worker_loss != COORD_WAIT)
		return;
	w->lost_at = 0;
	coord_event(c, "worker_back", "worker-%u is back", slot);
	coord_changed(c);
}

static void apply_heartbeat(struct coord *c, const struct coord_self *self,
    const struct message_beat *beat, int64_t now)
{
	json_t **stats, **about;

	if (coord_relay_heartbeat(c, self, beat, now))
		return;
	if (self->kind == COORD_SERVER && c->server[self->index].incarnation == self->incarnation) {
		c->server[self->index].seen = now;
		c->server[self->index].gone_at = 0;
		stats = &c->server[self->index].stats;
		about = &c->server[self->index].about;
	} else if (self->kind == COORD_WORKER &&
	    c->worker[self->index].incarnation == self->incarnation) {
		note_worker_heard(c, self->index, now);
		stats = &c->worker[self->index].stats;
		about = &c->worker[self->index].about;
	} else {
		return;
	}
	/* Loading the initial model or a checkpoint may take longer than the deadline: it counts as
	 * progress. */
	if (c->phase == COORD_FORMING && beat->busy)
		c->formed = now;
	coord_keep(about, beat->about);
	if (!coord_keep(stats, beat->stats))
		return;
	if (self->kind == COORD_WORKER) {
		heartbeat_worker_decode(*stats, &c->worker[self->index].figures);
		coord_probe_heard(&c->worker[self->index]);
	}
	coord_settings_check_applied(c);
	if (self->kind == COORD_SERVER) {
		heartbeat_server_decode(*stats, &c->server[self->index].figures);
		coord_watch_heartbeat(c, &c->server[self->index].figures, now);
	}
}

/* Keep the figures of a worker's last message. */
static void store_final_stats(struct coord_member_worker *w, const json_t *msg)
{
	struct heartbeat_worker figures = { 0 };

	heartbeat_worker_decode(msg, &figures);
	if (!figures.has_steps || json_dumpb(msg, NULL, 0, 0) > FIGURES_MAX) {
		heartbeat_worker_release(&figures);
		return;
	}
	json_decref(w->stats);
	w->stats = json_deep_copy(msg);
	json_object_del(w->stats, "op");
	json_object_set_new(w->stats, "step", json_integer(figures.steps));
	heartbeat_worker_release(&w->figures);
	w->figures = figures;
	w->figures.step = figures.steps;
}

static json_t *handle_server_message(struct coord *c, struct coord_self *self,
    const struct message *m, int64_t now, struct err *e)
{
	struct coord_member_server *s = &c->server[self->index];

	s->seen = now;
	switch (m->kind) {
	case MESSAGE_ack:
		s->acked = (uint64_t)m->ack.rev;
		break;
	case MESSAGE_keys_checked:
		coord_keys_report(c, &s->keys_made, &m->keys_checked);
		break;
	case MESSAGE_snap:
		coord_snap_answer(c, self->index, &m->snap);
		break;
	case MESSAGE_leave:
		coord_scale_server_leaves(c, self->index, now);
		break;
	case MESSAGE_copied:
		coord_place_server_copied(c, self->index, &m->copied, now);
		break;
	case MESSAGE_unreachable:
		coord_place_server_unreachable(c, self->index, &m->unreachable, now);
		break;
	case MESSAGE_vote:
		coord_change_vote(c, self->index, &m->vote);
		break;
	default:
		err_set(e, ERR_PROTO, "\"%s\" is no message of a server that has joined",
		    message_op(m->kind));
	}
	coord_progress(c, now);
	return NULL;
}

static json_t *answer_who(const struct coord *c, unsigned asker, int64_t step, int64_t now)
{
	char text[600];

	coord_why_text(c, asker, step > 0 ? (uint64_t)step : 0, now, text, sizeof text);
	return ANSWER(who, .text = text);
}

/* Keep the result of an evaluation and tell it in an event, with all measures of the model. */
static void store_evaluation(struct coord *c, const struct message *m, struct err *e)
{
	const json_t *eval = m->eval.eval;
	char text[200] = "";
	const char *key;
	json_t *v;
	double loss = 0;
	size_t n = 0;

	if (json_dumpb(m->json, NULL, 0, 0) > FIGURES_MAX) {
		err_set(e, ERR_LIMIT, "an evaluation of more than %u bytes is refused",
		    FIGURES_MAX);
		return;
	}
	json_object_foreach((json_t *)(uintptr_t)eval, key, v) {
		if (strcmp(key, "loss") == 0)
			loss = json_number_value(v);
		if (json_is_integer(v) && n < sizeof text - 60)
			n += (size_t)snprintf(text + n, sizeof text - n, " %.20s %lld", key,
			    (long long)json_integer_value(v));
		else if (json_is_real(v) && strcmp(key, "loss") != 0 && n < sizeof text - 60)
			n += (size_t)snprintf(text + n, sizeof text - n, " %.20s %.4f", key,
			    json_real_value(v));
	}
	coord_report_keep(&c->evaluation.last, m->json);
	coord_event(c, "eval", "step %lld: loss %.6g%s", (long long)m->eval.step, loss, text);
}

static void worker_leaves(struct coord *c, unsigned rank)
{
	if (c->worker[rank].state == WORKER_ACTIVE)
		coord_change_request(c, CHANGE_LEAVE, rank, WORKER_LEFT);
}

static void worker_gives_up(struct coord *c, unsigned rank, const char *why, int64_t now)
{
	struct coord_member_worker *w = &c->worker[rank];

	w->quit = true;
	if (c->phase < COORD_DONE && !w->lost_at &&
	    (w->state == WORKER_ACTIVE || w->state == WORKER_JOINING))
		coord_worker_lost(c, rank, *why ? why : "it has given up", now);
}

static json_t *handle_worker_message(struct coord *c, struct coord_self *self,
    const struct message *m, int64_t now, struct err *e)
{
	struct coord_member_worker *w = &c->worker[self->index];
	json_t *answer = NULL;

	if (w->incarnation != self->incarnation) {
		err_set(e, ERR_FENCED, "worker-%u has a newer incarnation: this one is fenced",
		    self->index);
		return NULL;
	}
	if (w->state == WORKER_LOST || w->state == WORKER_LEFT) {
		err_set(e, ERR_FENCED, "worker-%u was taken for dead and its slot given up",
		    self->index);
		return NULL;
	}
	note_worker_heard(c, self->index, now);
	switch (m->kind) {
	case MESSAGE_lease:
		answer = coord_job_lease(c, self->index, &m->lease, e);
		break;
	case MESSAGE_confirm:
		w->epoch = (uint32_t)m->confirm.epoch;
		coord_place_finish_joins(c, now);
		break;
	case MESSAGE_who:
		answer = answer_who(c, self->index, m->who.step, now);
		break;
	case MESSAGE_done:
		store_final_stats(w, m->json);
		coord_job_worker_done(c, self->index);
		break;
	case MESSAGE_result:
		coord_job_result(c, self->index, m->json, now);
		break;
	case MESSAGE_eval:
		store_evaluation(c, m, e);
		break;
	case MESSAGE_relay_missed:
		coord_relay_missed(c, self->index, &m->relay_missed);
		break;
	case MESSAGE_fail:
		store_final_stats(w, m->json);
		coord_fail(c, *m->fail.message ? m->fail.message : "a worker failed", now);
		break;
	case MESSAGE_leave:
		store_final_stats(w, m->json);
		worker_leaves(c, self->index);
		break;
	case MESSAGE_give_up:
		worker_gives_up(c, self->index, m->give_up.message, now);
		break;
	default:
		err_set(e, ERR_PROTO, "\"%s\" is no message of a worker that has joined",
		    message_op(m->kind));
	}
	coord_progress(c, now);
	if (!answer && (!e || !e->code))
		answer = json_object();
	return answer;
}

/* A process has announced that it will join this rank as soon as it has read its data. */
static json_t *note_coming_worker(struct coord *c, const struct coord_self *self,
    const struct message_coming *m)
{
	int64_t slot = m->slot;
	char text[100];

	if (slot >= 0 && slot < (int64_t)c->nworkers && c->worker[slot].state == WORKER_EMPTY) {
		snprintf(text, sizeof text, "on %.60s (pid %lld)", *m->host ? m->host : "?",
		    (long long)m->pid);
		free(c->worker[slot].coming);
		c->worker[slot].coming = mem_strdup(text);
		c->worker[slot].coming_as = self->incarnation;
	}
	return json_object();
}

void coord_coming_gone(struct coord *c, uint64_t incarnation)
{
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].coming && c->worker[i].coming_as == incarnation) {
			free(c->worker[i].coming);
			c->worker[i].coming = NULL;
		}
}

/* A worker process cannot join; keep the reason, so that coord_why can show it. */
static json_t *note_unfit_worker(struct coord *c, const struct coord_self *self,
    const struct message_unfit *m)
{
	int64_t slot = m->slot;
	struct coord_member_worker *w = slot >= 0 && slot < (int64_t)c->nworkers ? &c->worker[slot]
	                                                                         : NULL;
	char text[400];

	snprintf(text, sizeof text, "on %.60s (pid %lld): %.300s", *m->host ? m->host : "?",
	    (long long)m->pid, m->message);
	coord_event(c, "worker_unfit", "%s cannot begin %s", self->name, text);
	if (!w) {
		snprintf(c->unfit, sizeof c->unfit, "%s", text);
	} else if (w->state == WORKER_EMPTY) {
		free(w->unfit);
		free(w->coming);
		w->unfit = mem_strdup(text);
		w->coming = NULL;
	}
	return json_object();
}

/* Must this session's peer join again? It was taken for lost but was only slow, so its copies may
 * be out of date. */
static bool must_rejoin(const struct coord *c, const struct coord_self *self)
{
	const struct coord_member_server *s;

	if (self->kind == COORD_RELAY)
		return !c->relay[self->index].live ||
		    c->relay[self->index].incarnation != self->incarnation;
	if (self->kind != COORD_SERVER)
		return false;
	s = &c->server[self->index];
	return s->incarnation != self->incarnation || (s->ever && !s->live);
}

static json_t *handle_newcomer_message(struct coord *c, const struct coord_self *self,
    const struct message *m, struct err *e)
{
	if (m->kind == MESSAGE_coming)
		return note_coming_worker(c, self, &m->coming);
	if (m->kind == MESSAGE_unfit)
		return note_unfit_worker(c, self, &m->unfit);
	err_set(e, ERR_FORBIDDEN, "\"%s\" is not for this session, which has not joined",
	    message_op(m->kind));
	return NULL;
}

json_t *coord_handle(struct coord *c, struct coord_self *self, const struct message *m, int64_t now,
    struct err *e)
{
	static const struct message_beat silent = { .busy = false };
	json_t *answer = NULL;

	if (must_rejoin(c, self) && m->kind != MESSAGE_server_join &&
	    m->kind != MESSAGE_relay_join) {
		err_set(e, ERR_CLOSED, "%s-%u was taken for lost",
		    self->kind == COORD_RELAY ? "relay" : "server", self->index);
		return NULL;
	}
	switch (m->kind) {
	case MESSAGE_beat:
		apply_heartbeat(c, self, &m->beat, now);
		return NULL;
	case MESSAGE_deaf:
		apply_heartbeat(c, self, &silent, now);
		self->deaf = true;
		return NULL;
	case MESSAGE_server_join:
		answer = coord_join_server(c, self, &m->server_join, now, e);
		break;
	case MESSAGE_worker_join:
		answer = coord_join_worker(c, self, &m->worker_join, now, e);
		break;
	case MESSAGE_relay_join:
		answer = coord_relay_join(c, self, &m->relay_join, now, e);
		break;
	case MESSAGE_facts:
		answer = ANSWER(facts, .facts = c->data.facts);
		break;
	case MESSAGE_table:
		if (self->kind == COORD_ADMIN)
			answer = coord_join_tables(c, m->table.tables, e);
		else
			err_set(e, ERR_FORBIDDEN, "\"table\" is not for this session");
		break;
	default:
		switch (self->kind) {
		case COORD_SERVER:
			return handle_server_message(c, self, m, now, e);
		case COORD_WORKER:
			return handle_worker_message(c, self, m, now, e);
		case COORD_RELAY:
			coord_relay_handle(c, self, m, e);
			break;
		default:
			answer = handle_newcomer_message(c, self, m, e);
		}
	}
	coord_progress(c, now);
	return answer;
}
