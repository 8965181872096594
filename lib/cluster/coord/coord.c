/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include <stdarg.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/num.h"
#include "core/utf8.h"

/* How many of the missing members are named. */
#define MISSING_NAMED 8u
/* With workers MIN:MAX, wait this long for more than MIN workers. */
#define LATECOMERS_WAIT (2 * NSEC_PER_SEC)
/* After a time without any server: when the first one is heard again, the others have this long. */
#define ALL_BACK (5 * NSEC_PER_SEC)
/* A server or relay whose session broke has this long to make a new one. */
#define COME_BACK (300 * NSEC_PER_MSEC)
/* A longer turn counts as one of this length where a member has COME_BACK to make a new session:
 * what connects while this process gets no processor is accepted after it. */
#define TURN_COUNTS (100 * NSEC_PER_MSEC)
/* If two turns are farther apart, this process was stopped, or got no processor. */
#define STOOD_STILL NSEC_PER_SEC

struct coord *coord_new(const struct coord_config *cfg, const struct coord_io *io, int64_t now)
{
	struct coord *c = mem_alloc(sizeof *c);

	c->cfg = *cfg;
	c->io = *io;
	c->times.started = c->times.formed = c->times.turned = now;
	c->rev = c->state_rev = 1;
	c->server = mem_array(COORD_SERVERS_MAX, sizeof *c->server);
	c->nservers = cfg->servers;
	c->worker = mem_array(COORD_WORKERS_MAX, sizeof *c->worker);
	c->relay = mem_array(COORD_RELAYS_MAX, sizeof *c->relay);
	/* Only these: the array has room for thousands, whose memory nothing else would touch. */
	c->nworkers = cfg->workers;
	for (unsigned i = 0; i < c->nworkers; i++)
		c->worker[i].relay = -1;
	c->votes.changes_last = &c->votes.changes;
	c->keys.cut = json_object();
	c->keys.losses_before = json_object();
	c->evaluation.rank = -1;
	c->stopping.state = (struct early_stop)EARLY_STOP_INIT;
	c->learning.best_step = c->learning.least_step = -1;
	c->layout.generation = 1;
	coord_settings_begin(c);
	c->ring.used = strcmp(c->conf->via, "allreduce") == 0;
	c->checking.open = cfg->resume && cfg->check_resume;
	if (cfg->resume)
		coord_resume_begin(c);
	coord_progress(c, now);
	return c;
}

void coord_free(struct coord *c)
{
	struct change *ch;

	if (!c)
		return;
	for (unsigned i = 0; i < c->nservers; i++) {
		json_decref(c->server[i].stats);
		json_decref(c->server[i].about);
		heartbeat_server_release(&c->server[i].figures);
	}
	for (unsigned i = 0; i < c->nworkers; i++) {
		json_decref(c->worker[i].stats);
		json_decref(c->worker[i].about);
		heartbeat_worker_release(&c->worker[i].figures);
		heartbeat_probe_release(&c->worker[i].probe);
		free(c->worker[i].cannot_run_reason);
		free(c->worker[i].joining_host);
		free(c->worker[i].ended);
	}
	for (unsigned i = 0; i < c->nrelays; i++) {
		json_decref(c->relay[i].stats);
		json_decref(c->relay[i].about);
	}
	while ((ch = c->votes.changes)) {
		c->votes.changes = ch->next;
		free(ch);
	}
	free(c->votes.proposal.change);
	free(c->votes.proposal.answered);
	coord_settle_release(c);
	coord_snap_release(c);
	coord_members_release(c);
	coord_place_drop_weights(c);
	layout_release(&c->layout);
	leases_free(c->data.leases);
	free(c->data.kept);
	coord_report_release(&c->evaluation.result);
	coord_report_release(&c->evaluation.last);
	json_decref(c->stopping.eval);
	coord_description_free(c);
	coord_settings_release(c);
	json_decref(c->keys.cut);
	json_decref(c->keys.losses_before);
	free(c->checking.damage);
	free(c->server);
	free(c->worker);
	free(c->relay);
	free(c);
}

void coord_changed(struct coord *c)
{
	coord_ring_update(c);
	c->rev++;
	c->state_rev++;
	c->io.view_changed(c->io.ctx);
}

void coord_event(struct coord *c, enum event_kind kind, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	utf8_vprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	c->io.event(c->io.ctx, kind, text);
}

const char *coord_phase_name(enum phase p)
{
	return words_phase[p];
}

enum phase coord_phase(const struct coord *c)
{
	return c->phase;
}

const char *coord_worker_state_name(enum worker_state s)
{
	return words_worker_state[s];
}

unsigned coord_live_servers(const struct coord *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->nservers; i++)
		n += c->server[i].live;
	return n;
}

static unsigned count_present_workers(const struct coord *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->nworkers; i++)
		n += c->worker[i].state == WORKER_JOINING || c->worker[i].state == WORKER_ACTIVE;
	return n;
}

/* Write the names of missing members to c->waiting: "server-1, worker-0 and 3 more". */
static void describe_missing(struct coord *c)
{
	struct buf names = BUF_INIT;
	unsigned n = 0;
	char id[24];

	for (unsigned i = 0; i < c->nservers + c->nworkers; i++) {
		bool server = i < c->nservers;
		unsigned k = server ? i : i - c->nservers;

		if (server ? c->server[k].live
		           : !c->cfg.has_job || c->worker[k].state != WORKER_EMPTY)
			continue;
		snprintf(id, sizeof id, "%s-%u", server ? "server" : "worker", k);
		names_put(&names, &n, MISSING_NAMED, id);
	}
	names_put_rest(&names, n, MISSING_NAMED);
	snprintf(c->waiting, sizeof c->waiting, "%s", n ? (char *)names.data : "");
	buf_release(&names);
}

static bool all_servers_acked_view(const struct coord *c)
{
	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].live && c->server[i].acked < c->rev)
			return false;
	return true;
}

/* The event that reports the beginning of a phase. */
static const enum event_kind event_of_phase[] = {
	[PHASE_FORMING] = EVENT_forming,
	[PHASE_RUNNING] = EVENT_running,
	[PHASE_FINISHING] = EVENT_finishing,
	[PHASE_DONE] = EVENT_done,
	[PHASE_FAILED] = EVENT_failed,
	[PHASE_STOPPED] = EVENT_stopped,
};

void coord_enter(struct coord *c, enum phase phase, int64_t now)
{
	c->phase = phase;
	if (phase == PHASE_RUNNING)
		c->times.running = now;
	if (phase >= PHASE_FINISHING && !c->times.ended)
		c->times.ended = now;
	if (phase >= PHASE_FINISHING)
		coord_settings_refuse_pending(c);
	c->waiting[0] = 0;
	coord_event(c, event_of_phase[phase], "the %s is %s%s%s",
	    c->cfg.has_job ? "job" : "cluster", coord_phase_name(phase), c->end.text[0] ? ": " : "",
	    c->end.text);
	coord_changed(c);
}

/* Are all workers present? With workers MIN:MAX, MIN of them suffice after a while. */
static bool enough_workers_present(const struct coord *c, int64_t now)
{
	unsigned here = count_present_workers(c);

	return here >= c->nworkers ||
	    (c->cfg.workers_min && here >= c->cfg.workers_min &&
	        now - c->times.started > LATECOMERS_WAIT);
}

/* One step of the phase forming: wait until all members have joined; place the partitions; wait
 * until every server has acknowledged its partitions and the ranks; then run. */
static void advance_forming(struct coord *c, int64_t now)
{
	char before[sizeof c->waiting];

	memcpy(before, c->waiting, sizeof before);
	if (!c->placed) {
		coord_resume_end_check(c);
		if (coord_resume_is_checked(c) || coord_live_servers(c) < c->nservers)
			describe_missing(c);
		else
			coord_resume_describe_check(c, c->waiting, sizeof c->waiting);
		if (coord_live_servers(c) < c->nservers || !coord_resume_is_checked(c) ||
		    (c->cfg.has_job && !enough_workers_present(c, now))) {
			if (strcmp(before, c->waiting) != 0)
				coord_changed(c);
			return;
		}
		/* Latecomers are no longer waited for. */
		c->waiting[0] = 0;
		coord_place_tables(c);
		c->layout.epoch++;
		c->placed = true;
		if (c->cfg.has_job) {
			if (c->cfg.resume) {
				coord_resume_members(c);
				coord_resume_fit_data(c);
			}
			coord_members_begin(c);
			coord_job_begin_leases(c, coord_resume_saved_leases(c));
		}
		coord_event(c, EVENT_layout, "layout epoch %u: %zu table%s over %u server%s",
		    c->layout.epoch, c->layout.ntables, c->layout.ntables == 1 ? "" : "s",
		    c->nservers, c->nservers == 1 ? "" : "s");
		coord_changed(c);
		return;
	}
	if (!all_servers_acked_view(c))
		return;
	for (unsigned i = 0; c->cfg.has_job && i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_JOINING)
			c->worker[i].state = WORKER_ACTIVE;
	coord_enter(c, PHASE_RUNNING, now);
}

static void abandon_worker(struct coord *c, unsigned rank, enum err_cause cause, const char *how,
    int64_t now)
{
	char why[300];

	if (c->cfg.on_worker_loss == COORD_FAIL) {
		snprintf(why, sizeof why, "worker-%u is lost (%s) and on_worker_loss is fail", rank,
		    how);
		coord_fail(c, cause, why, now);
		return;
	}
	coord_change_request(c, CHANGE_LEAVE, rank, WORKER_LOST);
}

/* The change that takes the rank from the members, on which the servers have yet to vote, or
 * NULL. */
static const struct change *pending_leave(const struct coord *c, unsigned rank)
{
	if (c->votes.proposal.open && c->votes.proposal.change->kind == CHANGE_LEAVE &&
	    c->votes.proposal.change->rank == rank)
		return c->votes.proposal.change;
	for (const struct change *ch = c->votes.changes; ch; ch = ch->next)
		if (ch->kind == CHANGE_LEAVE && ch->rank == rank)
			return ch;
	return NULL;
}

/* Has the worker sent "leave"? Its process may end before the servers have voted. */
static bool is_leaving(const struct coord *c, unsigned rank)
{
	const struct change *leave = pending_leave(c, rank);

	return leave && leave->after == WORKER_LEFT &&
	    leave->incarnation == c->worker[rank].incarnation;
}

/* on_worker_loss was "wait" and is not any more: apply its new value to the workers that are still
 * waited for. */
static void abandon_waited_workers(struct coord *c, int64_t now)
{
	c->settings.unwaited = false;
	for (unsigned i = 0;
	     i < c->nworkers && c->phase == PHASE_RUNNING && c->cfg.on_worker_loss != COORD_WAIT;
	     i++)
		if (c->worker[i].state == WORKER_ACTIVE && c->worker[i].lost_at &&
		    !pending_leave(c, i))
			abandon_worker(c, i, CAUSE_UNKNOWN, "on_worker_loss no longer waits for it",
			    now);
}

void coord_progress(struct coord *c, int64_t now)
{
	if (c->phase == PHASE_FORMING)
		advance_forming(c, now);
	if (c->settings.unwaited)
		abandon_waited_workers(c, now);
	if (c->phase == PHASE_RUNNING && !c->votes.proposal.open)
		coord_change_propose_next(c);
	/* A joining server waits for every active worker to confirm the layout. The last of these
	 * workers may have left or been lost just now. */
	if (c->placed && !c->data_lost && c->phase < PHASE_FAILED)
		coord_place_finish_joins(c, now);
	if (c->placed && !c->data_lost && c->phase < PHASE_FAILED) {
		bool repaired = coord_place_repair(c, now);

		if (coord_scale_release_servers(c) || repaired)
			coord_changed(c);
	}
	if (c->phase == PHASE_RUNNING || c->phase == PHASE_FINISHING)
		coord_job_check_end(c, now);
}

void coord_publish_view(struct coord *c)
{
	coord_changed(c);
}

uint64_t coord_rev(const struct coord *c)
{
	return c->rev;
}

void coord_stop(struct coord *c, const char *why, int64_t now)
{
	if (c->phase >= PHASE_DONE)
		return;
	utf8_printf(c->end.text, sizeof c->end.text, "%s", why);
	coord_enter(c, PHASE_STOPPED, now);
}

void coord_stop_saved(struct coord *c, uint64_t step, const char *why, int64_t now)
{
	if (c->phase < PHASE_DONE)
		c->stopping.saved_step = step;
	coord_stop(c, why, now);
}

void coord_end(struct coord *c)
{
	c->ended = true;
	coord_changed(c);
}

/* coord_recover sets `seen` to the time until which the server may make its session. */
bool coord_awaits_return(const struct coord *c, int64_t now)
{
	bool some = false;

	for (unsigned i = 0; i < c->nservers; i++)
		some |= c->server[i].live && c->server[i].seen > now;
	return some;
}

bool coord_ended(const struct coord *c)
{
	return c->ended;
}

void coord_fail(struct coord *c, enum err_cause cause, const char *why, int64_t now)
{
	if (c->phase >= PHASE_DONE)
		return;
	c->end.cause = cause;
	utf8_printf(c->end.text, sizeof c->end.text, "%s", why);
	coord_enter(c, PHASE_FAILED, now);
}

/* ---- leases ---- */

bool coord_overdue(struct coord *c, int64_t seen, int64_t limit, int64_t now)
{
	if (now - seen <= limit)
		return false;
	/* Believe the silence when the member was silent up to the last processed input. When input
	 * is still unprocessed, doubt it, but for no longer than half of the deadline. */
	if (!c->hearing.until || c->hearing.until - seen > limit ||
	    now - seen > c->cfg.deadline / 2)
		return true;
	c->hearing.doubts = true;
	return false;
}

void coord_worker_lost(struct coord *c, unsigned rank, enum err_cause cause, const char *how,
    int64_t now)
{
	struct coord_member_worker *w = &c->worker[rank];
	char memory[COORD_MEMORY_NOTE];

	if (is_leaving(c, rank))
		return;
	w->lost_at = now;
	if (coord_memory_was_short(w->about, memory) && cause == CAUSE_UNKNOWN)
		cause = CAUSE_MEMORY;
	coord_event(c, EVENT_worker_lost, "worker-%u (%s, pid %lld) is lost: %s%s", rank, w->host,
	    (long long)w->pid, how, memory);
	snprintf(c->last_lost.text, sizeof c->last_lost.text, "worker-%u: %.280s%s", rank, how,
	    memory);
	c->last_lost.cause = cause;
	/* Once the partitions are placed the worker is a member, and only a vote removes it. */
	if (c->phase == PHASE_FORMING && !c->placed) {
		w->state = WORKER_EMPTY;
		coord_changed(c);
		return;
	}
	/* The worker is waited for: it stays a member, and its step stays open. */
	if (c->cfg.on_worker_loss == COORD_WAIT)
		coord_changed(c);
	else
		abandon_worker(c, rank, cause, how, now);
}

/* NULL: no rank has this name. */
static struct coord_member_worker *find_worker(const struct coord *c, const char *id)
{
	for (unsigned i = 0; i < c->nworkers; i++)
		if (strcmp(c->worker[i].name, id) == 0)
			return &c->worker[i];
	return NULL;
}

int64_t coord_worker_pid(const struct coord *c, const char *id, const char *host)
{
	const struct coord_member_worker *w = find_worker(c, id);

	return w && strcmp(w->host, host) == 0 ? w->pid : 0;
}

void coord_process_ended(struct coord *c, const char *id, bool gone, enum err_cause cause,
    const char *how, bool returns, int64_t now)
{
	struct coord_member_worker *w = gone ? find_worker(c, id) : NULL;

	/* A worker that gave up has reported the reason. */
	if (!w || !w->gave_up)
		coord_event(c, EVENT_process_ended, "%.48s %.300s", id, how);
	if (!w || w->lost_at || c->phase >= PHASE_DONE ||
	    (w->state != WORKER_ACTIVE && w->state != WORKER_JOINING))
		return;
	if (returns) {
		free(w->ended);
		w->ended = mem_strdup(how);
		return;
	}
	w->gave_up = true;
	w->returns = false;
	coord_worker_lost(c, (unsigned)(w - c->worker), cause, how, now);
}

static void expire_worker_leases(struct coord *c, int64_t now)
{
	char how[400];

	for (unsigned i = 0; i < c->nworkers; i++) {
		struct coord_member_worker *w = &c->worker[i];

		if (w->state == WORKER_ACTIVE && w->lost_at &&
		    c->cfg.on_worker_loss == COORD_WAIT && c->phase == PHASE_RUNNING &&
		    now - w->lost_at > c->cfg.loss_wait) {
			snprintf(how, sizeof how, "worker-%u did not come back within %lld s", i,
			    (long long)(c->cfg.loss_wait / NSEC_PER_SEC));
			coord_fail(c, CAUSE_UNKNOWN, how, now);
			return;
		}
		if ((w->state != WORKER_ACTIVE && w->state != WORKER_JOINING &&
		        w->state != WORKER_DONE) ||
		    w->lost_at || !coord_overdue(c, w->seen, c->cfg.lease, now))
			continue;
		if (w->state == WORKER_DONE) {
			/* Its work is done; at most the final evaluation needs it */
			w->state = WORKER_LEFT;
			coord_changed(c);
			continue;
		}
		snprintf(how, sizeof how, "%.300s%sno message for %lld ms, longer than its lease",
		    w->ended ? w->ended : "", w->ended ? "; " : "",
		    (long long)((now - w->seen) / NSEC_PER_MSEC));
		coord_worker_lost(c, i, CAUSE_UNKNOWN, how, now);
	}
}

/* Is the coordinator itself cut off? It is assumed when no server outside of its own process has
 * been heard lately. No server would learn of a failover then, so the layout stays as it is. With
 * replicas, one silent remote server is enough for this: it may be the last of a chain, and there
 * would be no server to fail over to. Without replicas two must be silent. */
static bool is_cut_off(const struct coord *c, int64_t now)
{
	unsigned n = 0, least = c->cfg.replicas < 2 ? 2 : 1;

	for (unsigned i = 0; i < c->nservers; i++) {
		if (!c->server[i].live || c->server[i].own)
			continue;
		if (now - c->server[i].seen <= c->cfg.server_lost / 2)
			return false;
		n++;
	}
	return c->placed && n >= least;
}

/* May the loss of a silent server be deferred? It may while the coordinator seems cut off, or if
 * the server holds the only replica of a partition: its loss would end the job, so waiting costs
 * nothing. Half of the deadline is the limit in both cases. */
static bool is_loss_deferred(struct coord *c, unsigned i, bool cut_off, int64_t now)
{
	struct coord_member_server *s = &c->server[i];
	uint32_t only = c->placed ? layout_count_sole_replicas(&c->layout, i) : 0;

	if ((!cut_off && !only) || now - s->seen > c->cfg.deadline / 2)
		return false;
	if (!cut_off && !s->silence_reported) {
		coord_event(c, EVENT_silent,
		    "server-%u (%s, pid %lld) is silent and has the only replica of %u "
		    "partition%s: waiting up to %lld s before declaring it lost",
		    i, s->host, (long long)s->pid, only, NUM_S(only),
		    (long long)(c->cfg.deadline / 2 / NSEC_PER_SEC));
		s->silence_reported = true;
	}
	return true;
}

/* Has the server's process ended? Its kernel closes the connection at once then. A connection that
 * breaks after a silence was cut off: the server is judged by its heartbeats, as over a slow link
 * it needs longer than COME_BACK to make another one. */
static bool has_server_ended(const struct coord *c, const struct coord_member_server *s,
    int64_t now)
{
	return s->gone_at && now > s->back_by && s->gone_at - s->seen <= c->cfg.server_lost / 2;
}

static void expire_silent_servers(struct coord *c, int64_t now)
{
	/* After being cut off, leave the other servers time to be heard, too. */
	bool cut_off = is_cut_off(c, now) || now < c->hearing.cut_off_until, defers = false;
	char how[80];

	for (unsigned i = 0; i < c->nservers; i++) {
		struct coord_member_server *s = &c->server[i];

		if (!s->live)
			continue;
		if (has_server_ended(c, s, now)) {
			coord_place_server_lost(c, i, "its connection broke", now);
		} else if (!coord_overdue(c, s->seen, c->cfg.server_lost, now)) {
			s->silence_reported = false;
		} else if (is_loss_deferred(c, i, cut_off, now)) {
			defers |= cut_off;
		} else {
			snprintf(how, sizeof how, "no heartbeat for %lld ms",
			    (long long)((now - s->seen) / NSEC_PER_MSEC));
			coord_place_server_lost(c, i, how, now);
		}
	}
	if (defers && !c->hearing.cut_off)
		coord_event(c, EVENT_cut_off,
		    "all servers are silent: waiting up to %lld s before declaring one lost",
		    (long long)(c->cfg.deadline / 2 / NSEC_PER_SEC));
	if (defers && is_cut_off(c, now))
		c->hearing.cut_off_until = now + ALL_BACK;
	c->hearing.cut_off = defers;
}

void coord_input_processed_until(struct coord *c, int64_t until)
{
	c->hearing.until = until;
}

static void shift_time(int64_t *time, int64_t by, int64_t now)
{
	if (*time)
		*time = *time + by < now ? *time + by : now;
}

/* Prolong the time that a member has to make a new session by the part of the last turn that does
 * not count. */
static void prolong_return(int64_t gone_at, int64_t *back_by, int64_t turned_at, int64_t now)
{
	int64_t from = gone_at > turned_at ? gone_at : turned_at;

	if (gone_at && now - from > TURN_COUNTS)
		*back_by += now - from - TURN_COUNTS;
}

static void prolong_returns(struct coord *c, int64_t now)
{
	for (unsigned i = 0; i < c->nservers; i++)
		prolong_return(c->server[i].gone_at, &c->server[i].back_by, c->times.turned, now);
	for (unsigned i = 0; i < c->nrelays; i++)
		prolong_return(c->relay[i].gone_at, &c->relay[i].back_by, c->times.turned, now);
}

static void skip_standstill(struct coord *c, int64_t stood, int64_t now)
{
	/* Other processes may be resumed a little later. */
	int64_t unheard = stood + c->cfg.server_lost / 2;

	shift_time(&c->times.formed, stood, now);
	shift_time(&c->times.stalls, stood, now);
	shift_time(&c->times.deserted, stood, now);
	shift_time(&c->hearing.cut_off_until, stood, now + stood);
	for (unsigned i = 0; i < c->nservers; i++) {
		shift_time(&c->server[i].seen, unheard, now);
		shift_time(&c->server[i].gone_at, stood, now);
	}
	for (unsigned i = 0; i < COORD_RELAYS_MAX; i++) {
		shift_time(&c->relay[i].seen, unheard, now);
		shift_time(&c->relay[i].gone_at, stood, now);
	}
	for (unsigned i = 0; i < c->nworkers; i++) {
		shift_time(&c->worker[i].seen, unheard, now);
		shift_time(&c->worker[i].lost_at, stood, now);
	}
}

void coord_note_turn(struct coord *c, int64_t now)
{
	int64_t stood = now - c->times.turned;

	prolong_returns(c, now);
	c->times.turned = now;
	if (stood > STOOD_STILL)
		skip_standstill(c, stood, now);
}

bool coord_tick(struct coord *c, int64_t now)
{
	char how[660];

	if (c->phase > PHASE_DONE || c->ended)
		return false;
	c->hearing.doubts = false;
	expire_silent_servers(c, now);
	/* The servers of a job that is done serve its model: only their replicas are kept up. */
	if (c->phase == PHASE_DONE) {
		coord_progress(c, now);
		return c->hearing.doubts;
	}
	coord_relays_check(c, now);
	expire_worker_leases(c, now);
	coord_stall_check(c, now);
	coord_settings_check_applied(c);
	/* Members may be started much later than the coordinator, by another program. */
	if (c->waiting[0] && now - c->times.started <= c->cfg.join_wait)
		c->times.formed = now;
	if (c->phase == PHASE_FORMING && now - c->times.formed > c->cfg.deadline) {
		snprintf(how, sizeof how, "waited %lld s for %s",
		    (long long)(((c->waiting[0] ? c->cfg.join_wait : 0) + c->cfg.deadline) /
		        NSEC_PER_SEC),
		    c->waiting[0] ? c->waiting : "the servers to take over the layout");
		coord_fail(c, CAUSE_UNKNOWN, how, now);
	}
	coord_progress(c, now);
	return c->hearing.doubts;
}

void coord_own_server_alive(struct coord *c, uint64_t incarnation, int64_t now)
{
	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].live && c->server[i].incarnation == incarnation) {
			c->server[i].seen = now;
			c->server[i].own = true;
		}
}

void coord_set_gone(int64_t *gone_at, int64_t *back_by, int64_t now)
{
	*gone_at = now;
	*back_by = now + COME_BACK;
}

void coord_session_gone(struct coord *c, const struct coord_self *self, int64_t now)
{
	struct coord_member_server *s;

	if (self->kind == COORD_NOBODY)
		coord_coming_gone(c, self->incarnation);
	if (self->kind == COORD_RELAY && !self->reconnecting)
		coord_relay_gone(c, self, now);
	/* A worker's broken session proves nothing: it may come back within its lease. A living
	 * server reconnects at once, so a short grace is enough. */
	if (self->kind == COORD_WORKER && c->worker[self->index].incarnation == self->incarnation)
		c->worker[self->index].gone_at = now;
	if (self->kind != COORD_SERVER || self->reconnecting)
		return;
	s = &c->server[self->index];
	if (s->live && s->incarnation == self->incarnation)
		coord_set_gone(&s->gone_at, &s->back_by, now);
}
