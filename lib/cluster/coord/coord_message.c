/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"

/* Requests of servers, workers, relays and users: each operation is dispatched here. */

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

static void apply_heartbeat(struct coord *c, const struct coord_self *self, const json_t *msg,
    int64_t now)
{
	json_t **stats, **about;

	if (coord_relay_heartbeat(c, self, msg, now))
		return;
	if (self->kind == COORD_SERVER && c->server[self->index].incarnation == self->incarnation) {
		c->server[self->index].seen = now;
		c->server[self->index].gone_at = 0;
		stats = &c->server[self->index].stats;
		about = &c->server[self->index].about;
	} else if (self->kind == COORD_WORKER &&
	    c->worker[self->index].incarnation == self->incarnation) {
		note_worker_heard(c, self->index, now);
		coord_probe_heard(&c->worker[self->index], json_object_get(msg, "stats"));
		stats = &c->worker[self->index].stats;
		about = &c->worker[self->index].about;
	} else {
		return;
	}
	/* Loading the initial model or a checkpoint may take longer than the deadline: it counts as
	 * progress. */
	if (c->phase == COORD_FORMING && json_flag(msg, "busy"))
		c->formed = now;
	json_keep(about, msg, "about");
	if (json_keep(stats, msg, "stats")) {
		coord_settings_check_applied(c);
		if (self->kind == COORD_SERVER)
			coord_watch_heartbeat(c, *stats, now);
	}
}

/* Keep the figures of a worker's last message. */
static void store_final_stats(struct coord_member_worker *w, const json_t *msg)
{
	if (!json_object_get(msg, "steps") || json_dumpb(msg, NULL, 0, 0) > FIGURES_MAX)
		return;
	json_decref(w->stats);
	w->stats = json_deep_copy(msg);
	json_object_del(w->stats, "op");
	json_object_set(w->stats, "step", json_object_get(msg, "steps"));
}

static json_t *handle_server_op(struct coord *c, struct coord_self *self, const char *op,
    const json_t *msg, int64_t now, struct err *e)
{
	struct coord_member_server *s = &c->server[self->index];

	s->seen = now;
	if (strcmp(op, "ack") == 0)
		s->acked = (uint64_t)json_int(msg, "rev", 0);
	else if (strcmp(op, "keys") == 0)
		coord_keys_report(c, &s->keys_made, msg);
	else if (strcmp(op, "snap") == 0)
		coord_snap_answer(c, self->index, msg);
	else if (strcmp(op, "leave") == 0)
		coord_scale_server_leaves(c, self->index, now);
	else if (strcmp(op, "copied") == 0)
		coord_place_server_copied(c, self->index, msg, now);
	else if (strcmp(op, "unreachable") == 0)
		coord_place_server_unreachable(c, self->index, msg, now);
	else if (strcmp(op, "vote") == 0)
		coord_change_vote(c, self->index, msg);
	else
		err_set(e, ERR_PROTO, "no such operation for a server");
	coord_progress(c, now);
	return NULL;
}

static json_t *answer_who(const struct coord *c, unsigned asker, int64_t step, int64_t now)
{
	char text[600];

	coord_why_text(c, asker, step > 0 ? (uint64_t)step : 0, now, text, sizeof text);
	return json_pack("{s:s}", "text", text);
}

/* Keep the result of an evaluation and tell it in an event, with all measures of the model. */
static void store_evaluation(struct coord *c, const json_t *msg, struct err *e)
{
	const json_t *eval = json_object_get(msg, "eval");
	char text[200] = "";
	const char *key;
	json_t *v;
	size_t n = 0;

	if (json_dumpb(msg, NULL, 0, 0) > FIGURES_MAX) {
		err_set(e, ERR_LIMIT, "an evaluation of more than %u bytes is refused",
		    FIGURES_MAX);
		return;
	}
	json_object_foreach((json_t *)(uintptr_t)eval, key, v)
		if (json_is_integer(v) && n < sizeof text - 60)
			n += (size_t)snprintf(text + n, sizeof text - n, " %.20s %lld", key,
			    (long long)json_integer_value(v));
		else if (json_is_real(v) && strcmp(key, "loss") != 0 && n < sizeof text - 60)
			n += (size_t)snprintf(text + n, sizeof text - n, " %.20s %.4f", key,
			    json_real_value(v));
	json_decref(c->last_eval);
	c->last_eval = json_deep_copy(msg);
	coord_event(c, "eval", "step %lld: loss %.6g%s", (long long)json_int(msg, "step", 0),
	    json_num(eval, "loss", 0), text);
}

static json_t *handle_worker_op(struct coord *c, struct coord_self *self, const char *op,
    const json_t *msg, int64_t now, struct err *e)
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
	if (strcmp(op, "done") == 0 || strcmp(op, "leave") == 0 || strcmp(op, "fail") == 0)
		store_final_stats(w, msg);
	if (strcmp(op, "lease") == 0)
		answer = coord_job_lease(c, self->index, msg, e);
	else if (strcmp(op, "confirm") == 0) {
		w->epoch = (uint32_t)json_int(msg, "epoch", 0);
		coord_place_finish_joins(c, now);
	} else if (strcmp(op, "who") == 0)
		answer = answer_who(c, self->index, json_int(msg, "step", 0), now);
	else if (strcmp(op, "done") == 0)
		coord_job_worker_done(c, self->index);
	else if (strcmp(op, "result") == 0)
		coord_job_result(c, self->index, msg, now);
	else if (strcmp(op, "eval") == 0) {
		store_evaluation(c, msg, e);
	} else if (strcmp(op, "relay_missed") == 0)
		relay_missed(c, self->index, msg);
	else if (strcmp(op, "fail") == 0)
		coord_fail(c, json_str(msg, "message", "a worker failed"), now);
	else if (strcmp(op, "leave") == 0) {
		if (c->tasks)
			tasks_return(c->tasks, self->index);
		if (w->state == WORKER_ACTIVE)
			coord_change_request(c, CHANGE_LEAVE, self->index, WORKER_LEFT);
	} else if (strcmp(op, "give_up") == 0) {
		w->quit = true;
		if (c->phase < COORD_DONE && !w->lost_at &&
		    (w->state == WORKER_ACTIVE || w->state == WORKER_JOINING))
			worker_lost(c, self->index, json_str(msg, "message", "it has given up"),
			    now);
	} else
		err_set(e, ERR_PROTO, "no such operation for a worker");
	coord_progress(c, now);
	if (!answer && (!e || !e->code))
		answer = json_object();
	return answer;
}

/* A process has announced that it will join this rank as soon as it has read its data. */
static json_t *note_coming_worker(struct coord *c, const struct coord_self *self, const json_t *msg)
{
	int64_t slot = json_int(msg, "slot", -1);
	char text[100];

	if (slot >= 0 && slot < (int64_t)c->nworkers && c->worker[slot].state == WORKER_EMPTY) {
		snprintf(text, sizeof text, "on %.60s (pid %lld)", json_str(msg, "host", "?"),
		    (long long)json_int(msg, "pid", 0));
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
static json_t *note_unfit_worker(struct coord *c, const struct coord_self *self, const json_t *msg)
{
	int64_t slot = json_int(msg, "slot", -1);
	struct coord_member_worker *w = slot >= 0 && slot < (int64_t)c->nworkers ? &c->worker[slot]
	                                                                         : NULL;
	char text[400];

	snprintf(text, sizeof text, "on %.60s (pid %lld): %.300s", json_str(msg, "host", "?"),
	    (long long)json_int(msg, "pid", 0), json_str(msg, "message", ""));
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

json_t *coord_handle(struct coord *c, struct coord_self *self, const json_t *msg, int64_t now,
    struct err *e)
{
	const char *op = json_str(msg, "op", "");
	json_t *answer = NULL;

	if (must_rejoin(c, self) && strcmp(op, "server_join") != 0 &&
	    strcmp(op, "relay_join") != 0) {
		err_set(e, ERR_CLOSED, "%s-%u was taken for lost",
		    self->kind == COORD_RELAY ? "relay" : "server", self->index);
		return NULL;
	}
	if (strcmp(op, "beat") == 0) {
		apply_heartbeat(c, self, msg, now);
		return NULL;
	}
	if (strcmp(op, "deaf") == 0) {
		apply_heartbeat(c, self, msg, now);
		self->deaf = true;
		return NULL;
	}
	if (strcmp(op, "server_join") == 0)
		answer = coord_join_server(c, self, msg, now, e);
	else if (strcmp(op, "worker_join") == 0)
		answer = coord_join_worker(c, self, msg, now, e);
	else if (strcmp(op, "relay_join") == 0)
		answer = coord_relay_join(c, self, msg, now, e);
	else if (strcmp(op, "coming") == 0 && self->kind == COORD_NOBODY)
		answer = note_coming_worker(c, self, msg);
	else if (strcmp(op, "unfit") == 0 && self->kind == COORD_NOBODY)
		answer = note_unfit_worker(c, self, msg);
	else if (strcmp(op, "facts") == 0)
		answer = json_pack("{s:O?}", "facts", c->facts);
	else if (strcmp(op, "table") == 0 && self->kind == COORD_ADMIN)
		answer = coord_join_tables(c, msg, e);
	else if (self->kind == COORD_SERVER)
		return handle_server_op(c, self, op, msg, now, e);
	else if (self->kind == COORD_RELAY)
		answer = coord_relay_handle_op(c, self, op, msg, e);
	else if (self->kind == COORD_WORKER)
		return handle_worker_op(c, self, op, msg, now, e);
	else
		err_set(e, ERR_FORBIDDEN, "operation \"%s\" is not for this session", op);
	coord_progress(c, now);
	return answer;
}
