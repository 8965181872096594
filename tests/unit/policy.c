/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "supervisor/policy.h"
#include "tap.h"

/* The restart policy (supervisor/policy.h) by cases: a run, the events that happen to it, and the
 * actions and the state that must follow.  Time is written in seconds, from 100 on. */

#define S NSEC_PER_SEC

/* The runs of the cases.  Process 0 is the coordinator, or server-0 with the coordinator in it. */
enum run {
	ONE,      /* server-0 with the coordinator, server-1, worker-2 and worker-3: one copy */
	REPLICAS, /* coordinator, server-1, server-2, worker-3, worker-4; 3 restarts */
	NO_JOB,   /* server-0 with the coordinator, server-1: no job */
};

/* One event: what happens at second `at` to the process. */
struct happening {
	double at;
	const char *what; /* NULL ends the list */
	size_t process;
	int code;
};

#define AT(at, what) \
	{ \
		at, what, 0, 0 \
	}
#define OF(at, what, process) \
	{ \
		at, what, process, 0 \
	}
#define EXIT(at, what, process, code) \
	{ \
		at, what, process, code \
	}

struct one_case {
	const char *name;
	enum run run;
	struct happening event[12];
	const char *actions; /* of the last event, each with its process */
	enum policy_state state;
};

static const char *const action_name[] = {
	[POLICY_NOTIFY] = "notify",
	[POLICY_ASK] = "ask",
	[POLICY_REPORT_END] = "report",
	[POLICY_REPORT_LEFT] = "left",
	[POLICY_SET_CAUSE] = "cause",
	[POLICY_REPORT_RESTART] = "restart",
	[POLICY_START] = "start",
	[POLICY_REPORT_RETRY] = "retry",
	[POLICY_PUBLISH_RETRY] = "publish",
	[POLICY_REPORT_STARTED] = "started",
	[POLICY_ABANDON] = "abandon",
	[POLICY_FAIL] = "fail",
};
static const char *const failure_name[] = {
	[POLICY_BY_CAUSE] = "by cause",
	[POLICY_BY_FORMING_END] = "while forming",
	[POLICY_BY_LAST_SERVER] = "no server",
	[POLICY_BY_WORKER_EXIT] = "worker was ended",
	[POLICY_BY_SILENCE] = "silence",
	[POLICY_BY_START] = "not started",
	[POLICY_BY_SUPERVISOR] = "given up",
};

static void write_actions(const struct policy_actions *a, char *out, size_t size)
{
	size_t len = 0;

	out[0] = 0;
	for (size_t i = 0; i < a->n && len < size; i++) {
		const struct policy_action *x = &a->item[i];

		len += (size_t)snprintf(out + len, size - len, "%s%s", i ? ", " : "",
		    action_name[x->kind]);
		if (x->process != POLICY_NOBODY && len < size)
			len += (size_t)snprintf(out + len, size - len, " %zu", x->process);
		if (x->n && len < size)
			len += (size_t)snprintf(out + len, size - len, " (%u)", x->n);
		if (x->kind == POLICY_FAIL && len < size)
			len += (size_t)snprintf(out + len, size - len, ": %s",
			    failure_name[x->failure]);
	}
}

static void start_process(struct policy *p, size_t process, enum policy_role role,
    bool has_coordinator)
{
	struct policy_actions a = { NULL, 0 };

	policy_on_event(p,
	    &(struct policy_event){ .kind = POLICY_STARTED,
	        .now = 100 * S,
	        .process = process,
	        .role = role,
	        .has_coordinator = has_coordinator },
	    &a);
	policy_actions_release(&a);
}

static void start_run(struct policy *p, enum run run)
{
	bool replicas = run == REPLICAS;

	policy_init(p, 100 * S);
	p->trains = run != NO_JOB;
	p->own_workers = run != NO_JOB;
	p->replicated = replicas;
	p->max_restarts = 3;
	p->deadline = 30 * S;
	p->worker_patience = 20 * S;
	start_process(p, 0, replicas ? POLICY_COORDINATOR : POLICY_SERVER, true);
	start_process(p, 1, POLICY_SERVER, false);
	if (replicas)
		start_process(p, 2, POLICY_SERVER, false);
	if (run != NO_JOB) {
		start_process(p, replicas ? 3 : 2, POLICY_WORKER, false);
		start_process(p, replicas ? 4 : 3, POLICY_WORKER, false);
	}
}

/* Translate the words of a case to an event. */
static struct policy_event read_event(const struct policy *p, const struct happening *h)
{
	static const struct {
		const char *word;
		struct policy_event event;
	} words[] = {
		{ "forming", { .kind = POLICY_STATUS, .job = POLICY_JOB_FORMING } },
		{ "running", { .kind = POLICY_STATUS, .job = POLICY_JOB_RUNNING, .workers = 2 } },
		{ "no worker", { .kind = POLICY_STATUS, .job = POLICY_JOB_RUNNING } },
		{ "finishing", { .kind = POLICY_STATUS, .job = POLICY_JOB_FINISHING } },
		{ "done", { .kind = POLICY_STATUS, .job = POLICY_JOB_DONE } },
		{ "failed", { .kind = POLICY_STATUS, .job = POLICY_JOB_FAILED } },
		{ "data lost",
		    { .kind = POLICY_STATUS, .job = POLICY_JOB_FAILED, .data_lost = true } },
		{ "stopped", { .kind = POLICY_STATUS, .job = POLICY_JOB_STOPPED } },
		{ "killed", { .kind = POLICY_ENDED, .end = POLICY_KILLED } },
		{ "exits", { .kind = POLICY_ENDED, .end = POLICY_EXITED } },
		{ "leaves", { .kind = POLICY_ENDED, .end = POLICY_LEFT } },
		{ "cut", { .kind = POLICY_ENDED, .end = POLICY_CUT } },
		{ "asked", { .kind = POLICY_ASKED } },
		{ "released", { .kind = POLICY_ASKED, .released = true } },
		{ "starts", { .kind = POLICY_STARTED } },
		{ "cannot start", { .kind = POLICY_START_FAILED } },
		{ "due?", { .kind = POLICY_CHECK_RESTARTS } },
		{ "limits?", { .kind = POLICY_CHECK_LIMITS } },
		{ "signal", { .kind = POLICY_SIGNAL, .signal = 15 } },
		{ "stop", { .kind = POLICY_STOP } },
		{ "give up", { .kind = POLICY_GIVE_UP } },
		{ "end all", { .kind = POLICY_END_ALL } },
		{ "roll back", { .kind = POLICY_ROLL_BACK } },
		{ "reset", { .kind = POLICY_RESET } },
		{ "turn", { .kind = POLICY_TURN } },
	};
	struct policy_event event = { .kind = POLICY_CHECK_LIMITS };
	bool known = false;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(words[i].word, h->what) == 0) {
			event = words[i].event;
			known = true;
		}
	if (!known)
		ok(false, "\"%s\" is an event", h->what);
	event.now = (int64_t)(h->at * (double)S);
	event.process = h->process;
	event.code = h->code;
	if (event.kind == POLICY_STARTED && h->process < p->n) {
		event.role = p->process[h->process].role;
		event.has_coordinator = p->process[h->process].has_coordinator;
	}
	return event;
}

static const struct one_case cases[] = {
	/* ---- workers ---- */
	{ "a worker that is killed before it has joined is started again", ONE,
	    { AT(101, "forming"), OF(102, "killed", 2), OF(102, "asked", 2) }, "restart 2 (1)",
	    POLICY_FORMING },
	{ "its end is reported to the coordinator, which is asked", ONE,
	    { AT(101, "forming"), OF(102, "killed", 2) }, "notify 2, ask 2", POLICY_FORMING },
	{ "a worker that exits before it has joined would exit again", ONE,
	    { AT(101, "forming"), EXIT(102, "exits", 2, 78), OF(102, "asked", 2) },
	    "cause 2, fail 2: by cause", POLICY_FAILED },
	{ "a worker that leaves while the cluster forms was ended by someone", ONE,
	    { AT(101, "forming"), OF(101.5, "leaves", 2), OF(101.5, "asked", 2) },
	    "fail 2: worker was ended", POLICY_FAILED },
	{ "a worker that is killed later is reported and started again", ONE,
	    { AT(101, "running"), OF(102, "killed", 2), OF(102, "asked", 2) },
	    "cause 2, report 2, restart 2 (1)", POLICY_RUNNING },
	{ "not before 0.1 s", ONE,
	    { AT(101, "running"), OF(102, "killed", 2), OF(102, "asked", 2), AT(102.05, "due?") },
	    "", POLICY_RUNNING },
	{ "after 0.1 s", ONE,
	    { AT(101, "running"), OF(102, "killed", 2), OF(102, "asked", 2), AT(102.1, "due?") },
	    "start 2", POLICY_RUNNING },
	{ "killed again at once, it waits twice as long", ONE,
	    { AT(101, "running"), OF(102, "killed", 2), OF(102, "asked", 2), AT(102.1, "due?"),
	        OF(102.1, "starts", 2), OF(102.2, "killed", 2), OF(102.2, "asked", 2),
	        AT(102.35, "due?") },
	    "", POLICY_RUNNING },
	{ "and comes back", ONE,
	    { AT(101, "running"), OF(102, "killed", 2), OF(102, "asked", 2), AT(102.1, "due?"),
	        OF(102.1, "starts", 2), OF(102.2, "killed", 2), OF(102.2, "asked", 2),
	        AT(102.4, "due?") },
	    "start 2", POLICY_RUNNING },
	{ "the fourth time it is left alone", ONE,
	    { AT(101, "running"), OF(102, "killed", 2), OF(102, "asked", 2), OF(103, "starts", 2),
	        OF(103, "killed", 2), OF(103, "asked", 2), OF(104, "starts", 2),
	        OF(104, "killed", 2), OF(104, "asked", 2), OF(105, "starts", 2),
	        OF(105, "killed", 2), OF(105, "asked", 2) },
	    "report 2", POLICY_RUNNING },
	{ "one that has lived for 5 s begins to count again", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 0), OF(103, "starts", 0), OF(103, "killed", 0),
	        OF(104, "starts", 0), OF(104, "killed", 0), OF(105, "starts", 0),
	        OF(110, "killed", 0) },
	    "notify 0, report 0, restart 0 (1)", POLICY_RUNNING },
	{ "and is started again after 0.1 s", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 0), OF(103, "starts", 0), OF(103, "killed", 0),
	        OF(104, "starts", 0), OF(109, "killed", 0), AT(109.1, "due?") },
	    "start 0", POLICY_RUNNING },
	{ "but not while the cluster forms", ONE,
	    { AT(101, "forming"), OF(106, "killed", 1), OF(107, "starts", 1),
	        OF(112, "killed", 1) },
	    "notify 1, restart 1 (2)", POLICY_FORMING },
	{ "a worker that exits with an error is reported, not started", ONE,
	    { AT(101, "running"), EXIT(102, "exits", 2, 1), OF(102, "asked", 2) },
	    "notify 2 (1), cause 2, report 2", POLICY_RUNNING },
	{ "the coordinator hears that one that was killed may return", ONE,
	    { AT(101, "running"), OF(102, "killed", 2) }, "notify 2, ask 2", POLICY_RUNNING },
	{ "the first of two causes is kept", ONE,
	    { AT(101, "running"), EXIT(102, "exits", 2, 1), OF(102, "asked", 2),
	        EXIT(102, "exits", 3, 1), OF(102, "asked", 3) },
	    "notify 3 (1), report 3", POLICY_RUNNING },
	{ "a worker that leaves is reported", ONE,
	    { AT(101, "running"), OF(101.5, "leaves", 2), OF(101.5, "asked", 2) }, "left 2",
	    POLICY_RUNNING },
	{ "nothing is concluded from an old status", ONE,
	    { AT(101, "running"), OF(103, "leaves", 2), OF(103, "asked", 2) }, "", POLICY_RUNNING },
	{ "after the job has failed every worker exits: nothing to say", ONE,
	    { AT(101, "failed"), EXIT(102, "exits", 2, 1), OF(102, "asked", 2) }, "",
	    POLICY_FAILED },
	{ "a worker that is killed while the job finishes is not started again", ONE,
	    { AT(101, "finishing"), OF(102, "killed", 2), OF(102, "asked", 2) },
	    "cause 2, report 2", POLICY_RUNNING },
	{ "no own worker is left, all failed: 1 s for the coordinator", ONE,
	    { AT(101, "no worker"), EXIT(102, "exits", 2, 1), OF(102, "asked", 2),
	        EXIT(102, "exits", 3, 1), OF(102, "asked", 3), AT(102, "limits?"),
	        AT(103.1, "limits?") },
	    "fail 2: by cause", POLICY_FAILED },
	{ "one was killed: it may be replaced from outside", ONE,
	    { AT(101, "no worker"), EXIT(102, "exits", 2, 1), OF(102, "asked", 2),
	        OF(102, "killed", 3), AT(102, "limits?"), AT(103.1, "limits?") },
	    "", POLICY_RUNNING },
	{ "but not for ever", ONE,
	    { AT(101, "no worker"), EXIT(102, "exits", 2, 1), OF(102, "asked", 2),
	        OF(102, "killed", 3), AT(102, "limits?"), AT(122.1, "limits?") },
	    "fail 2: by cause", POLICY_FAILED },
	{ "one has left well: no failure", ONE,
	    { AT(101, "no worker"), EXIT(102, "exits", 2, 1), OF(102, "leaves", 3),
	        AT(102, "limits?"), AT(122.1, "limits?") },
	    "", POLICY_RUNNING },

	/* ---- sessions with other hosts ---- */
	{ "no session while the cluster forms: the host is not there", REPLICAS,
	    { AT(101, "forming"), EXIT(102, "cut", 3, 6), OF(102, "asked", 3) },
	    "cause 3, fail 3: by cause", POLICY_FAILED },
	{ "a worker that gave up waiting is started again", REPLICAS,
	    { AT(101, "running"), EXIT(102, "exits", 3, 75), OF(102, "asked", 3) },
	    "cause 3, report 3, restart 3 (1)", POLICY_RUNNING },
	{ "a session that is cut later counts as a kill", REPLICAS,
	    { AT(101, "running"), EXIT(102, "cut", 3, 6), OF(102, "asked", 3) },
	    "cause 3, report 3, restart 3 (1)", POLICY_RUNNING },
	{ "and is reported to the coordinator", REPLICAS,
	    { AT(101, "running"), EXIT(102, "cut", 3, 6) }, "notify 3, ask 3", POLICY_RUNNING },

	/* ---- servers ---- */
	{ "a server with replicas is started again", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 1) },
	    "notify 1, cause 1, report 1, restart 1 (1)", POLICY_RUNNING },
	{ "also one that exits with an error", REPLICAS,
	    { AT(101, "running"), EXIT(102, "exits", 1, 1) }, "cause 1, report 1, restart 1 (1)",
	    POLICY_RUNNING },
	{ "the last server, without restarts left, ends the run", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 1), OF(103, "starts", 1), OF(103, "killed", 1),
	        OF(104, "starts", 1), OF(104, "killed", 1), OF(105, "starts", 1),
	        OF(105, "killed", 1), OF(106, "leaves", 2), OF(106, "released", 2),
	        OF(107, "starts", 1), OF(107, "killed", 1) },
	    "notify 1 (1), cause 1, report 1, fail 1: no server", POLICY_FAILED },
	{ "a server without replicas is lost: the coordinator is given time", ONE,
	    { AT(101, "running"), OF(102, "killed", 1) }, "notify 1, cause 1, report 1",
	    POLICY_RUNNING },
	{ "5 s of it", ONE, { AT(101, "running"), OF(102, "killed", 1), AT(107.1, "limits?") },
	    "fail 1: by cause", POLICY_FAILED },
	{ "a server that was drained may leave", REPLICAS,
	    { AT(101, "running"), OF(102, "leaves", 1), OF(102, "released", 1) }, "",
	    POLICY_RUNNING },
	{ "a server that is killed while the cluster forms is started again", ONE,
	    { AT(101, "forming"), OF(102, "killed", 1) }, "notify 1, restart 1 (1)",
	    POLICY_FORMING },
	{ "one that exits is not", ONE, { AT(101, "forming"), EXIT(102, "exits", 1, 78) },
	    "cause 1, fail 1: by cause", POLICY_FAILED },
	{ "a server that is killed after the job is done still serves the model", REPLICAS,
	    { AT(101, "done"), OF(102, "killed", 1) }, "notify 1, cause 1, report 1, restart 1 (1)",
	    POLICY_DONE },

	/* ---- the coordinator ---- */
	{ "a coordinator on its own is started again", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 0) }, "notify 0, report 0, restart 0 (1)",
	    POLICY_RUNNING },
	{ "one that exits with an error is not", REPLICAS,
	    { AT(101, "running"), EXIT(102, "exits", 0, 1) }, "cause 0, fail 0: by cause",
	    POLICY_FAILED },
	{ "server-0 has lost the partitions with it", ONE,
	    { AT(101, "running"), OF(102, "killed", 0) }, "notify 0, cause 0, fail 0: by cause",
	    POLICY_FAILED },
	{ "silent for the deadline", REPLICAS, { AT(101, "running"), AT(131.1, "limits?") },
	    "fail 0: silence", POLICY_FAILED },
	{ "unless the supervisor itself stood still", REPLICAS,
	    { AT(101, "running"), AT(101.5, "turn"), AT(141.5, "turn"), AT(141.5, "limits?") }, "",
	    POLICY_RUNNING },
	{ "silent for the deadline after that", REPLICAS,
	    { AT(101, "running"), AT(101.5, "turn"), AT(141.5, "turn"), AT(171.1, "limits?") },
	    "fail 0: silence", POLICY_FAILED },
	{ "nor if it stood still before its first turn", REPLICAS,
	    { AT(140, "turn"), AT(140, "limits?"), AT(141, "running") }, "", POLICY_RUNNING },
	{ "silent while the job is done: nothing waits for it", REPLICAS,
	    { AT(101, "done"), AT(131.1, "limits?") }, "", POLICY_DONE },

	/* ---- starts that fail ---- */
	{ "a start that fails is tried again", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 1), AT(102.1, "due?"),
	        OF(102.1, "cannot start", 1) },
	    "retry 1, publish 1 (1)", POLICY_RUNNING },
	{ "the second failure is not said again", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 1), OF(102.1, "cannot start", 1),
	        OF(102.2, "cannot start", 1) },
	    "publish 1 (2)", POLICY_RUNNING },
	{ "success is", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 1), OF(102.1, "cannot start", 1),
	        OF(102.2, "cannot start", 1), OF(103, "starts", 1) },
	    "started 1 (2)", POLICY_RUNNING },
	{ "after the deadline the process is abandoned, and the others go on", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 1), OF(102.1, "cannot start", 1),
	        OF(132.1, "cannot start", 1) },
	    "abandon 1", POLICY_RUNNING },
	{ "without the coordinator they do not", REPLICAS,
	    { AT(101, "running"), OF(102, "killed", 0), OF(102.1, "cannot start", 0),
	        OF(132.1, "cannot start", 0) },
	    "abandon 0, fail 0: not started", POLICY_FAILED },

	/* ---- the end ---- */
	{ "ps-ctl stop", ONE, { AT(101, "running"), AT(102, "stop") }, "", POLICY_STOPPED },
	{ "a job that is done at that moment is done", ONE, { AT(101, "stop"), AT(102, "done") },
	    "", POLICY_DONE },
	{ "the coordinator was asked to stop", ONE, { AT(101, "stopped") }, "", POLICY_STOPPED },
	{ "a signal goes before all others", ONE,
	    { AT(101, "failed"), AT(102, "stop"), AT(102, "signal") }, "", POLICY_SIGNALLED },
	{ "ends after a signal are expected", REPLICAS,
	    { AT(101, "running"), AT(102, "signal"), OF(102, "killed", 1) }, "", POLICY_SIGNALLED },
	{ "ends are expected while all processes are ended", REPLICAS,
	    { AT(101, "running"), AT(102, "end all"), OF(102, "killed", 1) }, "", POLICY_RUNNING },
	{ "the run directory is deleted: what ends then is not to blame", ONE,
	    { AT(101, "running"), AT(102, "give up"), OF(102, "killed", 0) }, "notify 0",
	    POLICY_FAILED },
	{ "a cluster without a job, all of whose servers have left, has stopped", NO_JOB,
	    { AT(101, "running"), OF(102, "leaves", 0), OF(102, "released", 0),
	        OF(102, "leaves", 1), OF(102, "released", 1) },
	    "", POLICY_STOPPED },
	{ "after a reset the cluster forms anew", ONE,
	    { AT(101, "running"), OF(102, "killed", 0), AT(102, "roll back"), AT(103, "reset"),
	        OF(103, "starts", 0) },
	    "", POLICY_FORMING },
};

/* Run the events of a case; actions: those of the last one. */
static void run_case(struct policy *p, const struct one_case *c, char *actions, size_t size)
{
	actions[0] = 0;
	start_run(p, c->run);
	for (size_t i = 0; i < sizeof c->event / sizeof *c->event && c->event[i].what; i++) {
		struct policy_actions a = { NULL, 0 };
		struct policy_event event = read_event(p, &c->event[i]);

		policy_on_event(p, &event, &a);
		write_actions(&a, actions, size);
		policy_actions_release(&a);
	}
}

static void check_cases(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct one_case *c = &cases[i];
		struct policy p;
		char actions[400];

		run_case(&p, c, actions, sizeof actions);
		ok(strcmp(actions, c->actions) == 0 && policy_state(&p) == c->state, "%s", c->name);
		if (strcmp(actions, c->actions) != 0 || policy_state(&p) != c->state)
			printf("# actions \"%s\", state %d; expected \"%s\", state %d\n", actions,
			    (int)policy_state(&p), c->actions, (int)c->state);
		policy_release(&p);
	}
}

/* Run the events on a run of that kind, and say whether a roll-back is wanted. */
static bool wants_rollback_after(enum run run, const struct happening *events, size_t n)
{
	struct one_case c = { .run = run };
	char actions[400];
	struct policy p;
	bool wants;

	memcpy(c.event, events, n * sizeof *events);
	run_case(&p, &c, actions, sizeof actions);
	wants = policy_wants_rollback(&p);
	policy_release(&p);
	return wants;
}

/* As wants_rollback_after: may it begin again? */
static bool may_begin_again_after(const struct happening *events, size_t n)
{
	struct one_case c = { .run = ONE };
	char actions[400];
	struct policy p;
	bool may;

	memcpy(c.event, events, n * sizeof *events);
	run_case(&p, &c, actions, sizeof actions);
	may = policy_may_begin_again(&p);
	policy_release(&p);
	return may;
}

static void check_rollbacks(void)
{
	static const struct happening lost[] = { AT(101, "data lost") },
	                              server[] = { AT(101, "running"), OF(102, "killed", 0) },
	                              worker[] = { AT(101, "running"), EXIT(102, "exits", 2, 1),
		                              OF(102, "asked", 2), AT(103, "failed") },
	                              signalled[] = { AT(101, "data lost"), AT(102, "signal") },
	                              stopped[] = { AT(101, "data lost"), AT(102, "stop") },
	                              early[] = { OF(101, "killed", 0) },
	                              again[] = { AT(101, "running"), OF(102, "killed", 0),
		                              AT(103, "reset"), OF(104, "killed", 0) },
	                              often[] = { AT(101, "roll back"), AT(101, "roll back"),
		                              AT(101, "roll back"), AT(102, "data lost") };

	ok(wants_rollback_after(ONE, lost, 1),
	    "the coordinator says that data was lost: roll back");
	ok(wants_rollback_after(ONE, server, 2), "server-0 was killed: roll back");
	ok(!wants_rollback_after(ONE, worker, 4), "a worker's failure would come again");
	ok(!wants_rollback_after(ONE, signalled, 2), "a signal ends the run");
	ok(!wants_rollback_after(ONE, stopped, 2), "ps-ctl stop ends the run");
	ok(!wants_rollback_after(ONE, often, 4), "at most max_restarts roll-backs");
	ok(may_begin_again_after(server, 2), "a job that has run may begin again");
	ok(!may_begin_again_after(early, 1) && !may_begin_again_after(again, 4),
	    "not one whose server ends before the job runs, also after a roll-back");
	ok(!may_begin_again_after(worker, 4), "nor one that wants no roll-back");
	ok(!wants_rollback_after(NO_JOB, server, 2), "without a job there is nothing to roll back");
}

static void check_exit_codes(void)
{
	struct policy p = { .trains = true, .first_signal = 15, .code = 78 };
	struct policy idle = { .trains = false };

	ok(policy_exit_code(&p, POLICY_DONE, false, true) == 0, "done: 0");
	ok(policy_exit_code(&p, POLICY_DONE, false, false) == 1, "done, but not saved: 1");
	ok(policy_exit_code(&p, POLICY_SIGNALLED, true, true) == 75,
	    "a signal, with a checkpoint: 75, to be queued again");
	ok(policy_exit_code(&p, POLICY_SIGNALLED, false, true) == 143, "without one: 128+N");
	ok(policy_exit_code(&p, POLICY_FAILED, false, true) == 78,
	    "failed: the exit code of the process that caused it");
	ok(policy_exit_code(&idle, POLICY_FAILED, false, true) == 1, "else 1");
	ok(policy_exit_code(&p, POLICY_STOPPED, false, true) == 1, "a job that was stopped: 1");
	ok(policy_exit_code(&idle, POLICY_STOPPED, false, true) == 0,
	    "a cluster without a job that was stopped: 0");
}

int main(void)
{
	check_cases();
	check_rollbacks();
	check_exit_codes();
	return tap_done();
}
