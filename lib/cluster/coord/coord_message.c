/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "metric/metrics.h"
#include "msg/answer.h"

/* Messages of servers, workers, relays and users: coord_handle finds the handler of each kind.
 * Handlers that concern only one file of this folder are in that file, the others are here. */

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
static void note_worker_heard(struct coord *c, unsigned rank, int64_t now)
{
	struct coord_member_worker *w = &c->worker[rank];

	w->seen = now;
	if (!w->lost_at || w->gave_up || c->cfg.on_worker_loss != COORD_WAIT)
		return;
	w->lost_at = 0;
	coord_event(c, EVENT_worker_back, "worker-%u is back", rank);
	coord_changed(c);
}

/* Reports the bad lines that a worker has skipped: the first ones, and each time that their number
 * reaches the next power of two. before: the number in the last heartbeat. */
static void note_bad_lines(struct coord *c, uint32_t rank, int64_t before)
{
	int64_t now = c->worker[rank].figures.bad_lines, power = 1;

	while (power <= now / 2)
		power *= 2;
	if (now && power > before)
		coord_event(c, EVENT_bad_lines,
		    "worker-%u has skipped %lld bad line%s of its data; its log has %s", rank,
		    (long long)now, NUM_S(now), now == 1 ? "it" : "the first ones");
}

/* Moves the window by which a slow worker is found. Before its first step there is nothing to
 * note. */
static void note_step_costs(struct coord_member_worker *w, int64_t now)
{
	struct straggler_costs totals = coord_worker_costs(w);

	if (totals.steps > 0)
		straggler_note(&w->window, &totals, now);
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
	if (c->phase == PHASE_FORMING && beat->busy)
		c->times.formed = now;
	coord_keep(about, beat->about);
	if (!coord_keep(stats, beat->stats))
		return;
	if (self->kind == COORD_WORKER) {
		int64_t bad = c->worker[self->index].figures.bad_lines;

		heartbeat_worker_decode(*stats, &c->worker[self->index].figures);
		note_bad_lines(c, self->index, bad);
		coord_probe_heard(&c->worker[self->index]);
		note_step_costs(&c->worker[self->index], now);
	}
	coord_settings_check_applied(c);
	if (self->kind == COORD_SERVER) {
		heartbeat_server_decode(*stats, &c->server[self->index].figures);
		coord_watch_heartbeat(c, &c->server[self->index].figures, now);
	}
}

json_t *coord_on_beat(struct coord *c, const struct coord_request *r)
{
	apply_heartbeat(c, r->self, &r->m->beat, r->now);
	return NULL;
}

json_t *coord_on_deaf(struct coord *c, const struct coord_request *r)
{
	static const struct message_beat silent = { .busy = false };

	apply_heartbeat(c, r->self, &silent, r->now);
	r->self->reconnecting = true;
	return NULL;
}

json_t *coord_on_facts(struct coord *c, const struct coord_request *r)
{
	(void)r;
	return ANSWER(facts, .facts = c->data.facts, .given = c->data.given);
}

/* A worker has seen the first examples of a stream. Others may have seen more of them, or fewer:
 * the first offer holds for all. */
json_t *coord_on_offer_facts(struct coord *c, const struct coord_request *r)
{
	if (!coord_description_is_here(c, r->m->offer_facts.facts)) {
		err_set(r->e, ERR_NOTREADY,
		    "the coordinator does not have the description that was offered: send it again");
		return NULL;
	}
	coord_description_store(c, r->m->offer_facts.facts);
	return ANSWER(offer_facts, .facts = c->data.facts);
}

json_t *coord_on_ack(struct coord *c, const struct coord_request *r)
{
	struct coord_member_server *s = &c->server[r->self->index];

	/* A message of an earlier session of the same process may come after those of the present
	 * one. */
	if ((uint64_t)r->m->ack.rev > s->acked)
		s->acked = (uint64_t)r->m->ack.rev;
	return NULL;
}

/* Keeps the figures of a worker's last message. A short job may have sent no heartbeat with its bad
 * lines. */
static void store_final_stats(struct coord *c, uint32_t rank, const json_t *msg)
{
	struct coord_member_worker *w = &c->worker[rank];
	struct heartbeat_worker figures = { 0 };
	int64_t bad = w->figures.bad_lines;

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
	note_bad_lines(c, rank, bad);
}

json_t *coord_on_confirm(struct coord *c, const struct coord_request *r)
{
	struct coord_member_worker *w = &c->worker[r->self->index];

	/* As in coord_on_ack. */
	if ((uint32_t)r->m->confirm.epoch > w->layout_epoch)
		w->layout_epoch = (uint32_t)r->m->confirm.epoch;
	coord_place_finish_joins(c, r->now);
	return NULL;
}

json_t *coord_on_who(struct coord *c, const struct coord_request *r)
{
	int64_t step = r->m->who.step;
	char text[600];

	coord_why_text(c, r->self->index, step > 0 ? (uint64_t)step : 0, r->now, text, sizeof text);
	return ANSWER(who, .text = text);
}

/* Keep the result of an evaluation and report it in an event, with the measures of the model that
 * fit into a line. */
json_t *coord_on_eval(struct coord *c, const struct coord_request *r)
{
	const struct message *m = r->m;
	const json_t *eval = m->eval.eval;
	char text[200] = "";
	const char *key;
	json_t *v;
	double loss = 0;
	size_t n = 0;

	if (json_dumpb(m->json, NULL, 0, 0) > FIGURES_MAX) {
		err_set(r->e, ERR_LIMIT, "the evaluation is larger than %u bytes", FIGURES_MAX);
		return NULL;
	}
	json_object_foreach((json_t *)(uintptr_t)eval, key, v) {
		if (metrics_is_detail(key))
			continue;
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
	coord_learning_take(c, m->eval.step, eval);
	coord_early_stop_take(c, m->eval.step, eval, false);
	coord_event(c, EVENT_eval, "step %lld: eval loss %.6g%s", (long long)m->eval.step, loss,
	    text);
	return NULL;
}

json_t *coord_on_done(struct coord *c, const struct coord_request *r)
{
	store_final_stats(c, r->self->index, r->m->json);
	coord_watch_ended(c, r->self->index, r->now);
	coord_job_worker_done(c, r->self->index);
	return NULL;
}

json_t *coord_on_fail(struct coord *c, const struct coord_request *r)
{
	const char *why = r->m->fail.message;

	store_final_stats(c, r->self->index, r->m->json);
	coord_watch_ended(c, r->self->index, r->now);
	coord_fail(c, err_cause_by_name(r->m->fail.cause), *why ? why : "a worker failed", r->now);
	return NULL;
}

static void worker_leaves(struct coord *c, unsigned rank, const json_t *msg, int64_t now)
{
	struct coord_member_worker *w = &c->worker[rank];

	store_final_stats(c, rank, msg);
	/* Once the partitions are placed the worker is a member, and only a vote removes it. */
	if (w->state == WORKER_JOINING && !c->placed) {
		w->state = WORKER_EMPTY;
		coord_changed(c);
	} else if (w->state != WORKER_ACTIVE && w->state != WORKER_JOINING) {
		return;
	} else if (c->data.leases && leases_are_assigned(c->data.leases)) {
		/* Nobody else trains on its ranges. */
		w->gave_up = true;
		if (!w->lost_at)
			coord_worker_lost(c, rank, CAUSE_UNKNOWN, "it has left", now);
	} else {
		coord_change_request(c, CHANGE_LEAVE, rank, WORKER_LEFT);
	}
}

json_t *coord_on_leave(struct coord *c, const struct coord_request *r)
{
	if (r->self->kind == COORD_WORKER)
		worker_leaves(c, r->self->index, r->m->json, r->now);
	else if (r->self->kind == COORD_SERVER)
		coord_scale_server_leaves(c, r->self->index, r->now);
	else
		coord_relay_lost(c, r->self->index, "it leaves");
	return NULL;
}

json_t *coord_on_give_up(struct coord *c, const struct coord_request *r)
{
	struct coord_member_worker *w = &c->worker[r->self->index];
	const char *why = r->m->give_up.message;

	w->gave_up = true;
	w->returns &= r->m->give_up.returns;
	if (c->phase < PHASE_DONE && !w->lost_at &&
	    (w->state == WORKER_ACTIVE || w->state == WORKER_JOINING))
		coord_worker_lost(c, r->self->index, err_cause_by_name(r->m->give_up.cause),
		    *why ? why : "it has given up", r->now);
	return NULL;
}

/* A process has announced that it will join this rank as soon as it has read its data. */
json_t *coord_on_coming(struct coord *c, const struct coord_request *r)
{
	const struct message_coming *m = &r->m->coming;
	int64_t rank = m->rank;
	char text[100];

	if (rank >= 0 && rank < (int64_t)c->nworkers && c->worker[rank].state == WORKER_EMPTY) {
		snprintf(text, sizeof text, "on %.60s (pid %lld)", *m->host ? m->host : "?",
		    (long long)m->pid);
		free(c->worker[rank].joining_host);
		c->worker[rank].joining_host = mem_strdup(text);
		c->worker[rank].joining_incarnation = r->self->incarnation;
	}
	return json_object();
}

void coord_coming_gone(struct coord *c, uint64_t incarnation)
{
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].joining_host && c->worker[i].joining_incarnation == incarnation) {
			free(c->worker[i].joining_host);
			c->worker[i].joining_host = NULL;
		}
}

/* A worker process cannot join; keep the reason, so that coord_why can show it. */
json_t *coord_on_unfit(struct coord *c, const struct coord_request *r)
{
	const struct message_unfit *m = &r->m->unfit;
	int64_t rank = m->rank;
	struct coord_member_worker *w = rank >= 0 && rank < (int64_t)c->nworkers ? &c->worker[rank]
	                                                                         : NULL;
	char text[400];

	snprintf(text, sizeof text, "on %.60s (pid %lld): %.300s", *m->host ? m->host : "?",
	    (long long)m->pid, m->message);
	coord_event(c, EVENT_worker_unfit, "%s cannot begin %s", r->self->name, text);
	if (!w) {
		snprintf(c->cannot_run.text, sizeof c->cannot_run.text, "%s", text);
		c->cannot_run.cause = err_cause_by_name(m->cause);
	} else if (w->state == WORKER_EMPTY) {
		free(w->cannot_run_reason);
		free(w->joining_host);
		w->cannot_run_reason = mem_strdup(text);
		w->cannot_run_cause = err_cause_by_name(m->cause);
		w->joining_host = NULL;
	}
	return json_object();
}

/* Must this session's peer join again? It was taken for lost but was only slow. A server's replicas
 * may be out of date; the rank of a worker that was lost before the job had members is free. */
static bool must_rejoin(const struct coord *c, const struct coord_self *self)
{
	const struct coord_member_server *s;

	if (self->kind == COORD_WORKER)
		return coord_worker_is_dismissed(&c->worker[self->index]) &&
		    c->worker[self->index].incarnation == self->incarnation;
	if (self->kind == COORD_RELAY)
		return !c->relay[self->index].live ||
		    c->relay[self->index].incarnation != self->incarnation;
	if (self->kind != COORD_SERVER)
		return false;
	s = &c->server[self->index];
	return s->incarnation != self->incarnation || (s->ever && !s->live);
}

/* ---- finding the handler ---- */

/* The sessions that may send a message. */
enum origin { FROM_NOBODY, FROM_JOINING, FROM_ANY, FROM_NEW, FROM_MEMBER };

static const struct handler {
	coord_message_fn *fn; /* NULL: the state machine does not handle it */
	enum origin from;
} handlers[MESSAGE_KINDS] = {
#define TO_JOIN(name)   [MESSAGE_##name] = { coord_on_##name, FROM_JOINING },
#define TO_ANY(name)    [MESSAGE_##name] = { coord_on_##name, FROM_ANY },
#define TO_NEW(name)    [MESSAGE_##name] = { coord_on_##name, FROM_NEW },
#define TO_MEMBER(name) [MESSAGE_##name] = { coord_on_##name, FROM_MEMBER },
#include "msg/message.def"
};

/* May this process, which has joined, still act for its rank or number? If so, it has been
 * heard. */
static bool admit_member(struct coord *c, const struct coord_self *self, int64_t now, struct err *e)
{
	const struct coord_member_worker *w;

	if (self->kind == COORD_SERVER)
		c->server[self->index].seen = now;
	if (self->kind != COORD_WORKER)
		return true;
	w = &c->worker[self->index];
	if (w->incarnation != self->incarnation) {
		err_set(e, ERR_FENCED, "worker-%u has a newer incarnation: this one is fenced",
		    self->index);
		return false;
	}
	if (w->state == WORKER_LOST || w->state == WORKER_LEFT) {
		err_set(e, ERR_FENCED, "worker-%u was declared lost and its rank given up",
		    self->index);
		return false;
	}
	note_worker_heard(c, self->index, now);
	return true;
}

/* Handles a message of a process that has joined. A worker gets an answer to each. */
static json_t *handle_member_message(struct coord *c, const struct handler *h,
    const struct coord_request *r)
{
	static const struct {
		const char *name;
		enum role role;
	} member[] = { [COORD_SERVER] = { "server", ROLE_SERVER },
		[COORD_WORKER] = { "worker", ROLE_WORKER },
		[COORD_RELAY] = { "relay", ROLE_RELAY } };
	json_t *answer = NULL;

	if (!admit_member(c, r->self, r->now, r->e))
		return NULL;
	if (h->from == FROM_MEMBER && message_may_send(member[r->self->kind].role, r->m->kind))
		answer = h->fn(c, r);
	else
		err_set(r->e, ERR_PROTO,
		    "\"%s\" is not a message that a %s can send after it has joined",
		    message_op(r->m->kind), member[r->self->kind].name);
	coord_progress(c, r->now);
	if (r->self->kind == COORD_WORKER && !answer && (!r->e || !r->e->code))
		answer = json_object();
	return answer;
}

json_t *coord_handle(struct coord *c, struct coord_self *self, const struct message *m, int64_t now,
    struct err *e)
{
	const struct handler *h = &handlers[m->kind];
	const struct coord_request r = { self, m, now, e };
	bool joined = self->kind == COORD_SERVER || self->kind == COORD_WORKER ||
	    self->kind == COORD_RELAY;
	json_t *answer = NULL;

	if (must_rejoin(c, self) && h->from != FROM_JOINING) {
		err_because(e, ERR_CLOSED, CAUSE_FENCED, "%s-%u was declared lost",
		    self->kind == COORD_RELAY        ? "relay"
		        : self->kind == COORD_WORKER ? "worker"
		                                     : "server",
		    self->index);
		return NULL;
	}
	/* Heartbeats arrive by the thousand, so their handlers skip the checks below. */
	if (h->from == FROM_ANY)
		return h->fn(c, &r);
	if (joined && h->from != FROM_JOINING)
		return handle_member_message(c, h, &r);
	if (h->from == FROM_JOINING || h->from == FROM_NEW)
		answer = h->fn(c, &r);
	else
		err_set(e, ERR_FORBIDDEN, "\"%s\" requires that the session has joined",
		    message_op(m->kind));
	coord_progress(c, now);
	return answer;
}
