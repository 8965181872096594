#include "coord/coord_state.h"

#include <stdarg.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

/* A server whose connection broke has this long to make a new one. */
#define COME_BACK (300 * NSEC_PER_MSEC)

struct coord *coord_new(const struct coord_config *cfg, const struct coord_io *io, int64_t now)
{
	struct coord *c = mem_alloc(sizeof *c);

	c->cfg = *cfg;
	c->io = *io;
	c->started = now;
	c->rev = 1;
	c->server = mem_array(cfg->servers, sizeof *c->server);
	c->worker = mem_array(cfg->workers + 1, sizeof *c->worker);
	c->changes_last = &c->changes;
	c->evaluator = -1;
	c->layout.generation = 1;
	coord_progress(c, now);
	return c;
}

void coord_free(struct coord *c)
{
	struct change *ch;

	if (!c)
		return;
	for (unsigned i = 0; i < c->cfg.servers; i++)
		json_decref(c->server[i].stats);
	for (unsigned i = 0; i < c->cfg.workers; i++) {
		json_decref(c->worker[i].stats);
		json_decref(c->worker[i].report);
	}
	while ((ch = c->changes)) {
		c->changes = ch->next;
		free(ch);
	}
	free(c->prop.change);
	free(c->prop.answered);
	members_release(c);
	layout_release(&c->layout);
	tasks_free(c->tasks);
	json_decref(c->result);
	json_decref(c->last_eval);
	free(c->server);
	free(c->worker);
	free(c);
}

void coord_changed(struct coord *c)
{
	c->rev++;
	c->io.view_changed(c->io.ctx);
}

void coord_event(struct coord *c, const char *kind, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	c->io.event(c->io.ctx, kind, text);
}

static const char *const phase_name[] = { "forming", "running", "finishing", "done", "failed", "stopped" };

const char *coord_phase_name(enum coord_phase p)
{
	return phase_name[p];
}

enum coord_phase coord_phase(const struct coord *c)
{
	return c->phase;
}

const char *worker_state_name(enum worker_state s)
{
	static const char *const name[] = { "empty", "joining", "active", "done", "lost", "left" };

	return name[s];
}

unsigned coord_live_servers(const struct coord *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->cfg.servers; i++)
		n += c->server[i].live;
	return n;
}

static unsigned workers_here(const struct coord *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->cfg.workers; i++)
		n += c->worker[i].state == WORKER_JOINING || c->worker[i].state == WORKER_ACTIVE;
	return n;
}

/* "server-1, worker-0 and worker-3", in c->waiting. */
static void say_missing(struct coord *c)
{
	size_t at = 0;
	unsigned shown = 0, left = 0;

	c->waiting[0] = 0;
	for (unsigned i = 0; i < c->cfg.servers + c->cfg.workers; i++) {
		bool server = i < c->cfg.servers;
		unsigned k = server ? i : i - c->cfg.servers;

		if (server ? c->server[k].live : !c->cfg.has_job || c->worker[k].state != WORKER_EMPTY)
			continue;
		if (shown++ >= 8) {
			left++;
			continue;
		}
		at += (size_t)snprintf(c->waiting + at, sizeof c->waiting - at, "%s%s-%u", at ? ", " : "",
		    server ? "server" : "worker", k);
	}
	if (left)
		snprintf(c->waiting + at, sizeof c->waiting - at, " and %u more", left);
}

static bool all_acked(const struct coord *c)
{
	for (unsigned i = 0; i < c->cfg.servers; i++)
		if (c->server[i].live && c->server[i].acked < c->rev)
			return false;
	return true;
}

void coord_enter(struct coord *c, enum coord_phase phase, int64_t now)
{
	c->phase = phase;
	if (phase == COORD_RUNNING)
		c->running_at = now;
	if (phase >= COORD_FINISHING && !c->ended_at)
		c->ended_at = now;
	c->waiting[0] = 0;
	coord_event(c, coord_phase_name(phase), "the %s is %s%s%s", c->cfg.has_job ? "job" : "cluster",
	    coord_phase_name(phase), c->reason[0] ? ": " : "", c->reason);
	coord_changed(c);
}

/* Forming: wait for everybody, deal the partitions, wait until every server
 * has them and knows the slots, run. */
static void form(struct coord *c, int64_t now)
{
	char before[sizeof c->waiting];

	memcpy(before, c->waiting, sizeof before);
	if (!c->placed) {
		say_missing(c);
		if (coord_live_servers(c) < c->cfg.servers ||
		    (c->cfg.has_job && workers_here(c) < c->cfg.workers)) {
			if (strcmp(before, c->waiting) != 0)
				coord_changed(c);
			return;
		}
		layout_place(&c->layout, c->cfg.servers);
		c->layout.epoch++;
		c->placed = true;
		if (c->cfg.has_job) {
			members_begin(c);
			job_begin(c);
		}
		coord_event(c, "layout", "epoch %u: %zu tables over %u servers", c->layout.epoch,
		    c->layout.ntables, c->cfg.servers);
		coord_changed(c);
		return;
	}
	if (!all_acked(c))
		return;
	for (unsigned i = 0; c->cfg.has_job && i < c->cfg.workers; i++)
		if (c->worker[i].state == WORKER_JOINING)
			c->worker[i].state = WORKER_ACTIVE;
	coord_enter(c, COORD_RUNNING, now);
}

void coord_progress(struct coord *c, int64_t now)
{
	if (c->phase == COORD_FORMING)
		form(c, now);
	if (c->phase == COORD_RUNNING && !c->prop.open)
		change_next(c);
	if (c->phase == COORD_RUNNING || c->phase == COORD_FINISHING)
		job_settle(c, now);
}

void coord_touch(struct coord *c)
{
	coord_changed(c);
}

uint64_t coord_rev(const struct coord *c)
{
	return c->rev;
}

void coord_stop(struct coord *c, const char *why, int64_t now)
{
	if (c->phase >= COORD_DONE)
		return;
	snprintf(c->reason, sizeof c->reason, "%.590s", why);
	coord_enter(c, COORD_STOPPED, now);
}

void coord_end(struct coord *c)
{
	c->ended = true;
	coord_changed(c);
}

bool coord_ended(const struct coord *c)
{
	return c->ended;
}

void coord_fail(struct coord *c, const char *why, int64_t now)
{
	if (c->phase >= COORD_DONE)
		return;
	snprintf(c->reason, sizeof c->reason, "%.590s", why);
	coord_enter(c, COORD_FAILED, now);
}

/* ---- leases ----------------------------------------------------------- */

static void worker_lost(struct coord *c, unsigned slot, const char *how, int64_t now)
{
	struct member_worker *w = &c->worker[slot];
	char why[300];

	w->lost_at = now;
	coord_event(c, "worker_lost", "worker-%u (%s, pid %lld) is lost: %s", slot, w->host, (long long)w->pid, how);
	if (c->tasks)
		tasks_return(c->tasks, slot);
	/* Once the partitions are dealt out it is a member, to be voted out. */
	if (c->phase == COORD_FORMING && !c->placed) {
		w->state = WORKER_EMPTY;
		coord_changed(c);
		return;
	}
	if (c->cfg.on_worker_loss == COORD_FAIL) {
		snprintf(why, sizeof why, "worker-%u is lost (%s) and on_worker_loss is fail", slot, how);
		coord_fail(c, why, now);
		return;
	}
	/* Waited for: it stays a member, and its step stays open. */
	if (c->cfg.on_worker_loss == COORD_WAIT) {
		coord_changed(c);
		return;
	}
	change_queue(c, CHANGE_LEAVE, slot, WORKER_LOST);
}

static void check_workers(struct coord *c, int64_t now)
{
	char how[120];

	for (unsigned i = 0; i < c->cfg.workers; i++) {
		struct member_worker *w = &c->worker[i];

		if (w->state == WORKER_ACTIVE && w->lost_at && c->cfg.on_worker_loss == COORD_WAIT &&
		    c->phase == COORD_RUNNING && now - w->lost_at > c->cfg.loss_wait) {
			snprintf(how, sizeof how, "worker-%u did not come back within %lld s", i,
			    (long long)(c->cfg.loss_wait / NSEC_PER_SEC));
			coord_fail(c, how, now);
			return;
		}
		if ((w->state != WORKER_ACTIVE && w->state != WORKER_JOINING && w->state != WORKER_DONE) ||
		    w->lost_at || now - w->seen <= c->cfg.lease)
			continue;
		if (w->state == WORKER_DONE) {
			w->state = WORKER_LEFT;         /* its work is in; only evaluation needs somebody */
			coord_changed(c);
			continue;
		}
		snprintf(how, sizeof how, "not heard of for %lld ms, longer than its lease",
		    (long long)((now - w->seen) / NSEC_PER_MSEC));
		worker_lost(c, i, how, now);
	}
}

static void server_lost(struct coord *c, unsigned i, const char *how, int64_t now)
{
	char why[400];

	c->server[i].live = false;
	coord_event(c, "server_lost", "server-%u (%s, pid %lld) is lost: %s", i, c->server[i].host,
	    (long long)c->server[i].pid, how);
	if (!c->placed) {
		coord_changed(c);
		return;
	}
	snprintf(why, sizeof why, "server-%u (%s, pid %lld) is lost: %s; with one copy of each partition its "
	    "part of the model is gone", i, c->server[i].host, (long long)c->server[i].pid, how);
	coord_fail(c, why, now);
}

void coord_tick(struct coord *c, int64_t now)
{
	char how[660];

	if (c->phase >= COORD_DONE)
		return;
	for (unsigned i = 0; i < c->cfg.servers; i++)
		if (c->server[i].live && c->server[i].gone_at && now - c->server[i].gone_at > COME_BACK) {
			server_lost(c, i, "its connection broke", now);
		} else if (c->server[i].live && now - c->server[i].seen > c->cfg.server_lost) {
			snprintf(how, sizeof how, "no heartbeat for %lld ms",
			    (long long)((now - c->server[i].seen) / NSEC_PER_MSEC));
			server_lost(c, i, how, now);
		}
	check_workers(c, now);
	if (c->phase == COORD_FORMING && now - c->started > c->cfg.deadline) {
		snprintf(how, sizeof how, "waited %lld s for %s", (long long)(c->cfg.deadline / NSEC_PER_SEC),
		    c->waiting[0] ? c->waiting : "the servers to take the layout over");
		coord_fail(c, how, now);
	}
	coord_progress(c, now);
}

void coord_gone(struct coord *c, const struct coord_self *self, int64_t now)
{
	struct member_server *s;

	/* A worker's broken session proves nothing: it may come back within its
	 * lease.  A living server comes back at once, and is given a moment. */
	if (self->kind != COORD_SERVER)
		return;
	s = &c->server[self->index];
	if (s->live && s->incarnation == self->incarnation)
		s->gone_at = now;
}

/* ---- messages --------------------------------------------------------- */

/* A worker under `wait` that was silent for too long, but is the same: nobody
 * has taken its slot, and its step is still open. */
static void heard(struct coord *c, unsigned slot, int64_t now)
{
	struct member_worker *w = &c->worker[slot];

	w->seen = now;
	if (!w->lost_at || c->cfg.on_worker_loss != COORD_WAIT)
		return;
	w->lost_at = 0;
	coord_event(c, "worker_back", "worker-%u is back", slot);
	coord_changed(c);
}

static void beat(struct coord *c, const struct coord_self *self, const json_t *msg, int64_t now)
{
	json_t *stats = json_object_get(msg, "stats"), **keep;

	if (self->kind == COORD_SERVER && c->server[self->index].incarnation == self->incarnation) {
		c->server[self->index].seen = now;
		c->server[self->index].gone_at = 0;
		keep = &c->server[self->index].stats;
	} else if (self->kind == COORD_WORKER && c->worker[self->index].incarnation == self->incarnation) {
		heard(c, self->index, now);
		keep = &c->worker[self->index].stats;
	} else {
		return;
	}
	if (stats) {
		json_decref(*keep);
		*keep = json_incref(stats);
	}
}

static json_t *from_server(struct coord *c, struct coord_self *self, const char *op, const json_t *msg, int64_t now,
    struct err *e)
{
	struct member_server *s = &c->server[self->index];

	s->seen = now;
	if (strcmp(op, "ack") == 0)
		s->acked = (uint64_t)json_int(msg, "rev", 0);
	else if (strcmp(op, "vote") == 0)
		change_vote(c, self->index, msg);
	else
		err_set(e, ERR_PROTO, "no such operation for a server");
	coord_progress(c, now);
	return NULL;
}

/* Who has not yet completed the steps before this one. */
static json_t *who_is_behind(const struct coord *c, unsigned asker, int64_t step, int64_t now)
{
	char text[600] = "";
	size_t at = 0;

	for (unsigned i = 0; i < c->cfg.workers && at < sizeof text - 100; i++) {
		const struct member_worker *w = &c->worker[i];
		int64_t theirs = json_int(w->stats, "step", 0);

		if (i == asker || w->state != WORKER_ACTIVE || theirs >= step)
			continue;
		at += (size_t)snprintf(text + at, sizeof text - at, "%sworker-%u (%s, pid %lld) is at step %lld, heard of %lld ms ago",
		    at ? "; " : "", i, w->host, (long long)w->pid, (long long)theirs,
		    (long long)((now - w->seen) / NSEC_PER_MSEC));
	}
	return json_pack("{s:s}", "text", text);
}

static json_t *from_worker(struct coord *c, struct coord_self *self, const char *op, const json_t *msg, int64_t now,
    struct err *e)
{
	struct member_worker *w = &c->worker[self->index];
	json_t *answer = NULL;

	if (w->incarnation != self->incarnation) {
		err_set(e, ERR_FENCED, "worker-%u has a newer incarnation: this one is fenced", self->index);
		return NULL;
	}
	if (w->state == WORKER_LOST || w->state == WORKER_LEFT) {
		err_set(e, ERR_FENCED, "worker-%u was taken for dead and its slot given up: start it again", self->index);
		return NULL;
	}
	heard(c, self->index, now);
	if (strcmp(op, "lease") == 0)
		answer = job_lease(c, self->index, msg, e);
	else if (strcmp(op, "who") == 0)
		answer = who_is_behind(c, self->index, json_int(msg, "step", 0), now);
	else if (strcmp(op, "done") == 0)
		job_done(c, self->index, msg, now);
	else if (strcmp(op, "result") == 0)
		job_result(c, self->index, msg, now);
	else if (strcmp(op, "eval") == 0) {
		json_decref(c->last_eval);
		c->last_eval = json_deep_copy(msg);
		coord_event(c, "eval", "step %lld: loss %.6g accuracy %.4f", (long long)json_int(msg, "step", 0),
		    json_num(json_object_get(msg, "eval"), "loss", 0),
		    json_num(json_object_get(msg, "eval"), "accuracy", 0));
	} else if (strcmp(op, "fail") == 0)
		coord_fail(c, json_str(msg, "message", "a worker failed"), now);
	else if (strcmp(op, "leave") == 0) {
		if (c->tasks)
			tasks_return(c->tasks, self->index);
		if (w->state == WORKER_ACTIVE)
			change_queue(c, CHANGE_LEAVE, self->index, WORKER_LEFT);
	} else
		err_set(e, ERR_PROTO, "no such operation for a worker");
	coord_progress(c, now);
	if (!answer && (!e || !e->code))
		answer = json_object();
	return answer;
}

json_t *coord_handle(struct coord *c, struct coord_self *self, const json_t *msg, int64_t now, struct err *e)
{
	const char *op = json_str(msg, "op", "");
	json_t *answer = NULL;

	if (strcmp(op, "beat") == 0) {
		beat(c, self, msg, now);
		return NULL;
	}
	if (strcmp(op, "server_join") == 0)
		answer = join_server(c, self, msg, now, e);
	else if (strcmp(op, "worker_join") == 0)
		answer = join_worker(c, self, msg, now, e);
	else if (strcmp(op, "table") == 0 && self->kind == COORD_ADMIN)
		answer = join_tables(c, msg, e);
	else if (self->kind == COORD_SERVER)
		return from_server(c, self, op, msg, now, e);
	else if (self->kind == COORD_WORKER)
		return from_worker(c, self, op, msg, now, e);
	else
		err_set(e, ERR_FORBIDDEN, "operation \"%s\" is not for this session", op);
	coord_progress(c, now);
	return answer;
}
