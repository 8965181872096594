/* SPDX-License-Identifier: ISC */
#include "supervisor/policy.h"

#include <stdlib.h>

#include "core/backoff.h"
#include "core/clock.h"
#include "core/mem.h"

/* Shortest and longest pause before a restart. */
#define RESTART_MIN (100 * NSEC_PER_MSEC)
#define RESTART_MAX (10 * NSEC_PER_SEC)
/* Longest pause between attempts: short, so that new room on a disk is soon noticed. */
#define RETRY_MAX (2 * NSEC_PER_SEC)

/* Turns of the supervisor's main loop that are farther apart tell that it was stopped: a turn takes
 * at most some waits of SUPERVISOR_ASK (supervisor.h). */
#define STOOD_STILL (5 * NSEC_PER_SEC)

void policy_init(struct policy *p, int64_t now)
{
	*p = (struct policy){ .answered = now, .turned_at = now, .cause = POLICY_NOBODY };
}

void policy_release(struct policy *p)
{
	free(p->process);
	p->process = NULL;
	p->n = 0;
}

void policy_actions_release(struct policy_actions *a)
{
	free(a->item);
	*a = (struct policy_actions){ NULL, 0 };
}

/* Append an action. The caller may set its other members at once. */
static struct policy_action *add_action(struct policy_actions *a, enum policy_action_kind kind,
    size_t process)
{
	a->item = mem_regrow(a->item, a->n + 1, sizeof *a->item);
	a->item[a->n] = (struct policy_action){ .kind = kind, .process = process };
	return &a->item[a->n++];
}

/* ---- questions ---- */

bool policy_job_is_over(const struct policy *p)
{
	return p->job == POLICY_JOB_DONE || p->job == POLICY_JOB_FAILED ||
	    p->job == POLICY_JOB_STOPPED;
}

bool policy_restart_is_pending(const struct policy *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->process[i].restart_at)
			return true;
	return false;
}

bool policy_has_process(const struct policy *p, size_t process)
{
	return process < p->n && (p->process[process].alive || p->process[process].restart_at);
}

size_t policy_count_alive(const struct policy *p, enum policy_role role)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += p->process[i].role == role && p->process[i].alive;
	return n;
}

enum policy_state policy_state(const struct policy *p)
{
	if (p->signals > 0)
		return POLICY_SIGNALLED;
	if (p->failed)
		return POLICY_FAILED;
	if (p->job == POLICY_JOB_STOPPED ||
	    (policy_count_alive(p, POLICY_SERVER) == 0 && !p->members_due &&
	        !policy_restart_is_pending(p)))
		return POLICY_STOPPED;
	if (p->job == POLICY_JOB_DONE)
		return POLICY_DONE;
	if (p->job == POLICY_JOB_FAILED)
		return POLICY_FAILED;
	if (p->stopping)
		return POLICY_STOPPED;
	return p->job == POLICY_JOB_FORMING ? POLICY_FORMING : POLICY_RUNNING;
}

bool policy_wants_rollback(const struct policy *p)
{
	bool by_server = p->cause < p->n && p->process[p->cause].role == POLICY_SERVER;

	return p->trains && !p->signals && !p->stopping && p->rollbacks < p->max_restarts &&
	    (p->data_lost || by_server);
}

bool policy_may_begin_again(const struct policy *p)
{
	return policy_wants_rollback(p) && p->ran;
}

bool policy_gave_up_coordinator(const struct policy *p)
{
	const struct policy_process *m = p->cause < p->n ? &p->process[p->cause] : NULL;

	return p->trains && p->failed && !p->signals && !p->stopping && p->max_restarts > 0 && m &&
	    m->role == POLICY_COORDINATOR && m->end == POLICY_KILLED && !m->alive && p->ran &&
	    !p->data_lost && !p->lost_since && policy_count_alive(p, POLICY_SERVER) > 0;
}

int policy_exit_code(const struct policy *p, enum policy_state state, bool saved, bool complete)
{
	switch (state) {
	case POLICY_DONE:
		return complete ? 0 : 1;
	case POLICY_SIGNALLED:
		return saved ? 75 : 128 + p->first_signal;
	case POLICY_STOPPED:
		/* A cluster without a job has nothing that a stop could leave unfinished. */
		return p->trains ? 1 : 0;
	default:
		return p->code ? p->code : 1;
	}
}

/* ---- decisions ---- */

/* Does the job still need the process? When the job is finishing or done, the coordinator still
 * answers for the result and the servers still serve the model, but workers have nothing left to
 * do. */
static bool is_needed(const struct policy *p, const struct policy_process *m)
{
	if (m->role == POLICY_WORKER)
		return !policy_job_is_over(p) && p->job != POLICY_JOB_FINISHING;
	return !policy_job_is_over(p) || p->job == POLICY_JOB_DONE;
}

/* Forgets the restarts of a process that has lived long enough, or whose window is over. Called
 * when it ends. */
static void forget_restarts(const struct policy *p, struct policy_process *m, int64_t now)
{
	if (now - m->started_at >= POLICY_QUIET && p->job != POLICY_JOB_FORMING)
		m->restarts = 0;
	if (now - m->window_from >= POLICY_WINDOW) {
		m->window_from = now;
		m->in_window = 0;
	}
}

static bool has_restarts_left(const struct policy *p, const struct policy_process *m)
{
	return m->restarts < p->max_restarts &&
	    m->in_window < p->max_restarts * POLICY_WINDOW_TIMES;
}

/* False when the process has used up its restarts, or the job does not need it any more. */
static bool schedule_restart(struct policy *p, size_t process, int64_t now,
    struct policy_actions *out)
{
	struct policy_process *m = &p->process[process];

	if (!has_restarts_left(p, m) || !is_needed(p, m))
		return false;
	m->restart_at = now + backoff_after(RESTART_MIN, RESTART_MAX, m->restarts);
	m->restarts++;
	m->in_window++;
	add_action(out, POLICY_REPORT_RESTART, process)->n = m->restarts;
	return true;
}

/* Fail the run, unless it has failed before: the first failure explains the later ones. */
static void fail_run(struct policy *p, size_t process, int code, enum policy_failure failure,
    struct policy_actions *out)
{
	if (p->failed)
		return;
	p->failed = true;
	p->cause = process;
	p->code = code;
	add_action(out, POLICY_FAIL, process)->failure = failure;
}

/* Keep the end of the process as the reason of a failure that may follow. */
static void set_cause(struct policy *p, size_t process, struct policy_actions *out)
{
	if (p->failed)
		return;
	p->cause = process;
	add_action(out, POLICY_SET_CAUSE, process);
}

/* While the cluster forms the job needs all of its processes. One that a signal killed is started
 * again; one that exits on its own would do so again. */
static void judge_forming_end(struct policy *p, size_t process, int64_t now,
    struct policy_actions *out)
{
	const struct policy_process *m = &p->process[process];
	bool killed = m->end == POLICY_KILLED;

	if (killed && schedule_restart(p, process, now, out))
		return;
	set_cause(p, process, out);
	fail_run(p, process, killed ? 1 : m->code, killed ? POLICY_BY_FORMING_END : POLICY_BY_CAUSE,
	    out);
}

/* A server or the coordinator has ended. With replicas the server is restarted, or the others go
 * on. With one replica of each partition the lost part of the model cannot be replaced: lost_since
 * starts the wait for the coordinator to fail the job. */
static void judge_server_end(struct policy *p, size_t process, bool released, int64_t now,
    struct policy_actions *out)
{
	const struct policy_process *m = &p->process[process];
	bool left = m->end == POLICY_LEFT, forming = p->job == POLICY_JOB_FORMING;

	if (left && (released || policy_job_is_over(p)))
		return;
	/* A coordinator that is a process of its own continues from its saved state. A coordinator
	 * inside server-0 has lost its partitions, and ends the run below. */
	if (m->role == POLICY_COORDINATOR && m->end == POLICY_KILLED) {
		add_action(out, POLICY_REPORT_END, process);
		if (schedule_restart(p, process, now, out))
			return;
	}
	if (m->has_coordinator && !left) {
		set_cause(p, process, out);
		fail_run(p, process, m->end == POLICY_KILLED || !forming ? 1 : m->code,
		    POLICY_BY_CAUSE, out);
		return;
	}
	if (!left && forming) {
		judge_forming_end(p, process, now, out);
		return;
	}
	set_cause(p, process, out);
	if (!p->replicated && !p->lost_since)
		p->lost_since = now;
	if (left)
		return;
	add_action(out, POLICY_REPORT_END, process);
	/* The coordinator decides about the job while any server is left. */
	if (p->replicated && !schedule_restart(p, process, now, out) &&
	    policy_count_alive(p, POLICY_SERVER) == 0 && !policy_restart_is_pending(p) &&
	    !policy_job_is_over(p))
		fail_run(p, process, 0, POLICY_BY_LAST_SERVER, out);
}

/* A worker has ended. The coordinator decides what its loss means for the job; here it is
 * reported to the user, and restarted if a signal killed it. */
static void judge_worker_end(struct policy *p, size_t process, int64_t now,
    struct policy_actions *out)
{
	const struct policy_process *m = &p->process[process];

	if (m->end == POLICY_LEFT) {
		/* Unless the job is over, someone else asked the worker to leave. Nothing is
		 * concluded from an old status. */
		if (p->answered + POLICY_FRESH < now)
			return;
		if (p->job == POLICY_JOB_RUNNING)
			add_action(out, POLICY_REPORT_LEFT, process);
		else if (p->job == POLICY_JOB_FORMING)
			fail_run(p, process, 0, POLICY_BY_WORKER_EXIT, out);
		return;
	}
	/* After the job has failed every worker exits with an error; the job's reason is the one
	 * to report. */
	if (m->end == POLICY_EXITED && p->job == POLICY_JOB_FAILED)
		return;
	if (p->job == POLICY_JOB_FORMING) {
		judge_forming_end(p, process, now, out);
		return;
	}
	if (m->end == POLICY_EXITED)
		add_action(out, POLICY_NOTIFY, process)->n = 1;
	/* Keep the first cause: later ends are often its consequence. */
	if (p->cause == POLICY_NOBODY)
		set_cause(p, process, out);
	add_action(out, POLICY_REPORT_END, process);
	if (m->end == POLICY_KILLED)
		schedule_restart(p, process, now, out);
}

static void judge_end(struct policy *p, const struct policy_event *ev, struct policy_actions *out)
{
	if (p->process[ev->process].role == POLICY_WORKER)
		judge_worker_end(p, ev->process, ev->now, out);
	else
		judge_server_end(p, ev->process, ev->released, ev->now, out);
}

/* The way in which the process has ended, for the decisions that follow. */
static enum policy_end judge_way(const struct policy *p, const struct policy_process *m,
    const struct policy_event *ev)
{
	if (ev->end == POLICY_CUT)
		return p->job == POLICY_JOB_FORMING ? POLICY_EXITED : POLICY_KILLED;
	if (m->role == POLICY_WORKER && ev->end == POLICY_EXITED && ev->code == POLICY_GAVE_UP)
		return POLICY_KILLED;
	return ev->end;
}

static void on_ended(struct policy *p, const struct policy_event *ev, struct policy_actions *out)
{
	struct policy_process *m = &p->process[ev->process];

	m->alive = false;
	m->code = ev->code;
	m->end = judge_way(p, m, ev);
	if (p->ending || p->signals > 0 || m->role == POLICY_TOOL)
		return;
	forget_restarts(p, m, ev->now);
	/* The coordinator itself sees only that a process is silent. */
	if (m->end == POLICY_KILLED)
		add_action(out, POLICY_NOTIFY, ev->process)->n = !has_restarts_left(p, m);
	/* The job decides whether the end of a worker, or the orderly end of a server, is a loss.
	 * A killed server is judged at once: its coordinator may not answer any more. */
	if (m->role == POLICY_WORKER || m->end == POLICY_LEFT)
		add_action(out, POLICY_ASK, ev->process);
	else
		judge_end(p, ev, out);
}

static void on_started(struct policy *p, const struct policy_event *ev, struct policy_actions *out)
{
	struct policy_process *m;

	while (p->n <= ev->process) {
		p->process = mem_regrow(p->process, p->n + 1, sizeof *p->process);
		p->process[p->n++] = (struct policy_process){ 0 };
	}
	m = &p->process[ev->process];
	m->role = ev->role;
	m->has_coordinator = ev->has_coordinator;
	m->alive = true;
	m->started_at = ev->now;
	m->restart_at = 0;
	if (m->tries > 0)
		add_action(out, POLICY_REPORT_STARTED, ev->process)->n = m->tries;
	m->tries = 0;
	m->failing_since = 0;
}

/* Make no further attempt to start a process. The others may train on without a worker or without
 * one server, but the run fails without its coordinator or without any server. */
static void abandon_process(struct policy *p, size_t process, struct policy_actions *out)
{
	struct policy_process *m = &p->process[process];

	m->failing_since = 0;
	m->tries = 0;
	add_action(out, POLICY_ABANDON, process);
	if (m->role == POLICY_COORDINATOR ||
	    (policy_count_alive(p, POLICY_SERVER) == 0 && !policy_restart_is_pending(p) &&
	        !policy_job_is_over(p)))
		fail_run(p, process, 0, POLICY_BY_START, out);
}

static void on_start_failed(struct policy *p, const struct policy_event *ev,
    struct policy_actions *out)
{
	struct policy_process *m = &p->process[ev->process];
	int64_t end;

	if (!m->failing_since) {
		m->failing_since = ev->now;
		add_action(out, POLICY_REPORT_RETRY, ev->process);
	}
	end = m->failing_since + p->deadline;
	if (ev->now >= end) {
		abandon_process(p, ev->process, out);
		return;
	}
	m->restart_at = ev->now + backoff_after(RESTART_MIN, RETRY_MAX, m->tries);
	if (m->restart_at > end)
		m->restart_at = end;
	m->tries++;
	add_action(out, POLICY_PUBLISH_RETRY, ev->process)->n = m->tries;
}

static void start_due_processes(struct policy *p, int64_t now, struct policy_actions *out)
{
	for (size_t i = 0; i < p->n; i++) {
		if (!p->process[i].restart_at || now < p->process[i].restart_at)
			continue;
		p->process[i].restart_at = 0;
		add_action(out, POLICY_START, i);
	}
}

/* Fail the run when all of our own workers have ended, none of them well, and the coordinator has
 * not failed the job within the time that it may take to notice. One that was killed may be
 * replaced from outside; after failures alone going on makes no sense. */
static void check_own_workers(struct policy *p, int64_t now, struct policy_actions *out)
{
	bool well = false, killed = false;

	for (size_t i = 0; i < p->n; i++)
		if (p->process[i].role == POLICY_WORKER && !p->process[i].alive) {
			well |= p->process[i].end == POLICY_LEFT;
			killed |= p->process[i].end == POLICY_KILLED;
		}
	if (p->members_due || !p->own_workers || p->workers > 0 || well ||
	    policy_count_alive(p, POLICY_WORKER) > 0)
		p->alone_since = 0;
	else if (!p->alone_since)
		p->alone_since = now;
	else if (now - p->alone_since > (killed ? p->worker_patience : POLICY_NOTICE_WORKER))
		fail_run(p, p->cause, 0, POLICY_BY_CAUSE, out);
}

/* The process that the coordinator runs in, or POLICY_NOBODY. */
static size_t find_coordinator(const struct policy *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->process[i].has_coordinator)
			return i;
	return POLICY_NOBODY;
}

/* Bound every wait from this side, too, in case the coordinator does not: for its own answer, for
 * a lost server and for lost workers. */
static void check_limits(struct policy *p, int64_t now, struct policy_actions *out)
{
	if (policy_job_is_over(p) || p->ending || p->signals > 0)
		return;
	if (now - p->answered > p->deadline)
		fail_run(p, find_coordinator(p), 0, POLICY_BY_SILENCE, out);
	if (p->lost_since && now - p->lost_since > POLICY_NOTICE)
		fail_run(p, p->cause, 0, POLICY_BY_CAUSE, out);
	check_own_workers(p, now, out);
	if (p->job == POLICY_JOB_RUNNING && now - p->rolled_back_at >= POLICY_ROLLBACK_QUIET)
		p->rollbacks = 0;
}

static void shift_time(int64_t *time, int64_t by, int64_t now)
{
	if (*time)
		*time = *time + by < now ? *time + by : now;
}

/* The supervisor was stopped, and perhaps the whole run with it. For as long nobody can have been
 * heard. */
static void skip_time(struct policy *p, int64_t stood, int64_t now)
{
	shift_time(&p->answered, stood, now);
	shift_time(&p->lost_since, stood, now);
	shift_time(&p->alone_since, stood, now);
	for (size_t i = 0; i < p->n; i++) {
		shift_time(&p->process[i].started_at, stood, now);
		shift_time(&p->process[i].failing_since, stood, now);
	}
}

static void note_turn(struct policy *p, int64_t now)
{
	int64_t stood = now - p->turned_at;

	p->turned_at = now;
	if (stood > STOOD_STILL)
		skip_time(p, stood, now);
}

/* All processes have ended; the counts of restarts, roll-backs and signals stay. */
static void reset_policy(struct policy *p, int64_t now)
{
	for (size_t i = 0; i < p->n; i++) {
		p->process[i].alive = false;
		p->process[i].restart_at = 0;
		p->process[i].tries = 0;
		p->process[i].failing_since = 0;
	}
	p->job = POLICY_JOB_FORMING;
	p->answered = now;
	p->workers = 0;
	p->data_lost = p->failed = p->ran = false;
	p->cause = POLICY_NOBODY;
	p->code = 0;
	p->lost_since = p->alone_since = 0;
}

void policy_on_event(struct policy *p, const struct policy_event *ev, struct policy_actions *out)
{
	switch (ev->kind) {
	case POLICY_STARTED:
		on_started(p, ev, out);
		break;
	case POLICY_START_FAILED:
		on_start_failed(p, ev, out);
		break;
	case POLICY_ENDED:
		on_ended(p, ev, out);
		break;
	case POLICY_ASKED:
		judge_end(p, ev, out);
		break;
	case POLICY_STATUS:
		p->job = ev->job;
		p->answered = ev->now;
		p->workers = ev->workers;
		p->data_lost = ev->data_lost;
		p->ran |= ev->job == POLICY_JOB_RUNNING;
		break;
	case POLICY_CHECK_RESTARTS:
		start_due_processes(p, ev->now, out);
		break;
	case POLICY_CHECK_LIMITS:
		check_limits(p, ev->now, out);
		break;
	case POLICY_SIGNAL:
		if (p->signals++ == 0)
			p->first_signal = ev->signal;
		break;
	case POLICY_STOP:
		p->stopping = true;
		break;
	case POLICY_GIVE_UP:
		fail_run(p, POLICY_NOBODY, 0, POLICY_BY_SUPERVISOR, out);
		break;
	case POLICY_END_ALL:
		p->ending = true;
		break;
	case POLICY_ROLL_BACK:
		p->rollbacks++;
		p->rolled_back_at = ev->now;
		break;
	case POLICY_RESET:
		reset_policy(p, ev->now);
		break;
	case POLICY_TURN:
		note_turn(p, ev->now);
		break;
	}
}
