/* SPDX-License-Identifier: ISC */
#include "coord/why.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/suggest.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/utf8.h"
#include "msg/why_row.h"

/* Why the job does not advance: which member waits for which, since when, for what reason, and what
 * a person can do about it. The sources are the heartbeats and the coordinator's own state. */

/* Shorter waits, in seconds, belong to any step. */
#define WORTH_A_WORD 0.2
/* Servers may take so long to write the files of a checkpoint, in seconds. */
#define WRITING_TAKES 5.0

/* The remedy for the member `whom`, with what is known in place of DIR, K and COMMAND. A new
 * string. */
static char *fill_remedy(const struct coord *c, const char *whom, const char *remedy)
{
	const struct conf_job *job = &c->conf->job;
	const char *dash = whom ? strrchr(whom, '-') : NULL;
	const char *command = conf_is_named(job->exec) ? job->exec
	    : conf_is_named(job->command)              ? job->command
	                                               : NULL;
	char *quoted = command && !strchr(command, '\'') ? mem_printf("'%s'", command) : NULL;
	const struct fill_word list[] = { { "DIR", c->cfg.run_dir },
		{ "K", dash && dash[1] ? dash + 1 : NULL }, { "COMMAND", quoted } };
	char *text = fill_words(remedy, list, sizeof list / sizeof list[0]);

	free(quoted);
	return text;
}

void coord_why_add(struct why *y, const struct reason *r, enum why_code code, const char *remedy,
    const char *fmt, ...)
{
	char *filled = fill_remedy(y->c, r->whom, remedy);
	va_list ap;

	va_start(ap, fmt);
	utf8_vprintf(y->because, sizeof y->because, fmt, ap);
	va_end(ap);
	snprintf(y->remedy, sizeof y->remedy, "%s", filled);
	json_array_append_new(y->list,
	    why_row_encode(&(const struct why_row){ .id = r->who,
	                       .whom = r->whom,
	                       .since_seconds = r->seconds,
	                       .code = why_code_name(code),
	                       .because = y->because,
	                       .remedy = filled,
	                       .cause = r->cause ? err_cause_name(r->cause) : NULL,
	                       .together = r->together },
	        r->step));
	free(filled);
}

/* Seconds from t to now; 0 if t is 0. */
static double seconds_since(const struct why *y, int64_t t)
{
	return t ? (double)(y->now - t) / (double)NSEC_PER_SEC : 0;
}

/* Has the member been silent for several heartbeats? Its process is stopped, or it is cut off. */
static bool is_member_silent(const struct why *y, int64_t seen)
{
	return y->now - seen > y->c->cfg.server_lost * 2 / 3;
}

/* ---- missing members ---- */

static void explain_missing_server(struct why *y, unsigned i, const char *who)
{
	const struct coord_member_server *s = &y->c->server[i];
	struct reason r = { .who = who,
		.step = -1,
		.seconds = seconds_since(y, s->ever ? s->seen : y->c->times.started) };
	char id[24];

	snprintf(id, sizeof id, "server-%u", i);
	r.whom = id;
	if (s->ever)
		coord_why_add(y, &r, WHY_LOST,
		    "ps-ctl logs shows how it ended; start it again: ps-serve -C DIR --name server-K",
		    "it was on %s (pid %lld) and is lost", s->host, (long long)s->pid);
	else
		coord_why_add(y, &r, WHY_NOT_JOINED,
		    "start it: ps-serve -C DIR --name server-K here, ps-serve --join FILE "
		    "elsewhere (ps-ctl invite --role server)",
		    "it has not joined yet");
}

enum remedy { COME, MEND_RANK, MEND_JOINED, COME_BACK };

/* Remedies by the kind of worker: ps-work; ps-work with a program (job.exec); a program that uses
 * the library (pskit(3)). */
#define OWN ", where COMMAND is the job's own worker (pskit(3))"
static const char *const remedies[3][4] = {
	{ [COME] =
	        "start it: ps-work train -C DIR here, ps-work train --join FILE elsewhere (ps-ctl "
	        "invite --role worker)",
	    [MEND_RANK] = "fix that, and start it again: ps-work train -C DIR --rank K",
	    [MEND_JOINED] = "fix that, and start it again: ps-work train --join FILE",
	    [COME_BACK] = "start it again: ps-work train -C DIR --rank K, or --join FILE" },
	{ [COME] =
	        "start it: ps-work train --exec COMMAND -C DIR here, ps-work train --exec COMMAND "
	        "--join FILE elsewhere (ps-ctl "
	        "invite --role worker)",
	    [MEND_RANK] =
	        "fix that, and start it again: ps-work train --exec COMMAND -C DIR --rank K",
	    [MEND_JOINED] =
	        "fix that, and start it again: ps-work train --exec COMMAND --join FILE",
	    [COME_BACK] =
	        "start it again: ps-work train --exec COMMAND -C DIR --rank K, or --join FILE" },
	{ [COME] =
	        "start it: PS_CLUSTER=DIR COMMAND here, PS_CLUSTER=FILE COMMAND elsewhere (FILE: "
	        "ps-ctl invite --role worker)" OWN,
	    [MEND_RANK] = "fix that, and start it again: PS_CLUSTER=DIR PSKIT_RANK=K COMMAND" OWN,
	    [MEND_JOINED] = "fix that, and start it again: PS_CLUSTER=FILE COMMAND" OWN,
	    [COME_BACK] = "start it again: PS_CLUSTER=DIR PSKIT_RANK=K COMMAND" OWN },
};

/* The remedy for a missing worker, for the kind of worker that this job has. */
static const char *worker_start_remedy(const struct coord *c, enum remedy which)
{
	const struct conf_job *job = &c->conf->job;

	if (!job->model || strcmp(job->model, "custom") != 0)
		return remedies[0][which];
	return remedies[conf_is_named(job->exec) ? 1 : 2][which];
}

static void explain_missing_worker(struct why *y, unsigned i, const char *who)
{
	struct reason r = { .who = who,
		.step = -1,
		.seconds = seconds_since(y, y->c->times.started) };
	char id[24];

	snprintf(id, sizeof id, "worker-%u", i);
	r.whom = id;
	if (y->c->worker[i].joining_host) {
		r.together = "they are reading their data";
		coord_why_add(y, &r, WHY_READING,
		    "no action is needed; ps-ctl logs shows its messages; job.cache keeps parsed "
		    "data for the next start",
		    "it is %s and reading its data", y->c->worker[i].joining_host);
	} else if (y->c->worker[i].cannot_run_reason) {
		r.cause = y->c->worker[i].cannot_run_cause;
		coord_why_add(y, &r, WHY_UNFIT, worker_start_remedy(y->c, MEND_RANK),
		    "it cannot begin %s", y->c->worker[i].cannot_run_reason);
	} else if (y->c->cannot_run.text[0]) {
		r.cause = y->c->cannot_run.cause;
		coord_why_add(y, &r, WHY_UNFIT, worker_start_remedy(y->c, MEND_JOINED),
		    "one has started, but cannot begin %s", y->c->cannot_run.text);
	} else {
		coord_why_add(y, &r, WHY_NOT_JOINED, worker_start_remedy(y->c, COME),
		    "it has not joined yet");
	}
}

/* All members have joined: a server may still be loading its partitions. */
static void explain_placing(struct why *y, unsigned i)
{
	const struct coord_member_server *s = &y->c->server[i];
	char id[24];

	snprintf(id, sizeof id, "server-%u", i);
	if (s->acked < y->c->rev)
		coord_why_add(y,
		    &(struct reason){ .who = "the start",
		        .whom = id,
		        .step = -1,
		        .seconds = seconds_since(y, y->c->times.formed),
		        .together = "they are copying their partitions" },
		    WHY_COPYING, "no action is needed; ps-ctl logs shows its messages",
		    "it is copying its partitions");
}

static void explain_forming(struct why *y)
{
	const struct coord *c = y->c;

	for (unsigned i = 0; i < c->nservers; i++)
		if (!c->server[i].live)
			explain_missing_server(y, i, "the start");
		else if (c->placed)
			explain_placing(y, i);
	for (unsigned i = 0; c->cfg.has_job && i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_EMPTY)
			explain_missing_worker(y, i, "the start");
}

/* ---- workers ---- */

static double activity_seconds(const struct why *y, const struct coord_member_worker *w)
{
	return w->figures.doing_seconds + seconds_since(y, w->seen);
}

uint64_t coord_needed_step(const struct coord *c, uint64_t step)
{
	struct sync_mode mode = coord_mode_at(c, step);

	return sync_needed_step(&mode, step);
}

/* The slowest worker below step `below`, other than `but`, whose pushes go through
 * `relay` (ANY: any of them); among equals, one that does not wait itself. -1: there is none. */
#define ANY INT_MAX
static int find_slowest_worker(const struct coord *c, uint64_t below, unsigned but, int relay)
{
	int best = -1;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];
		const struct coord_member_worker *b = best < 0 ? NULL : &c->worker[best];

		if (w->state != WORKER_ACTIVE || coord_worker_step(w) >= below || i == but ||
		    (relay != ANY && w->relay != relay))
			continue;
		if (!b || coord_worker_step(w) < coord_worker_step(b) ||
		    (coord_worker_step(w) == coord_worker_step(b) && coord_worker_does(b, "wait") &&
		        !coord_worker_does(w, "wait")))
			best = (int)i;
	}
	return best;
}

static void explain_worker(struct why *y, struct reason *r, unsigned i)
{
	const struct coord_member_worker *w = &y->c->worker[i];
	double quiet = seconds_since(y, w->seen), busy = activity_seconds(y, w);
	long long step = (long long)coord_worker_step(w);
	char id[24];

	snprintf(id, sizeof id, "worker-%u", i);
	r->whom = id;
	if (w->lost_at && !w->ended)
		coord_why_add(y, r, WHY_SILENT,
		    "check whether its host is stopped or disconnected: it goes on when it is back",
		    "%s, pid %lld, is silent and lost, and on_worker_loss gives it %.0f s to come back",
		    w->host, (long long)w->pid, (double)y->c->cfg.loss_wait / (double)NSEC_PER_SEC);
	else if (w->lost_at)
		coord_why_add(y, r, WHY_LOST, worker_start_remedy(y->c, COME_BACK),
		    "it is lost, and on_worker_loss gives it %.0f s to come back",
		    (double)y->c->cfg.loss_wait / (double)NSEC_PER_SEC);
	else if (w->ended)
		coord_why_add(y, r, WHY_ENDED, worker_start_remedy(y->c, COME_BACK),
		    "%s, pid %lld, %.200s; it is declared lost unless it is restarted within "
		    "%.0f s",
		    w->host, (long long)w->pid, w->ended,
		    (double)y->c->cfg.lease / (double)NSEC_PER_SEC);
	else if (is_member_silent(y, w->seen))
		coord_why_add(y, r, WHY_SILENT,
		    "check whether it is stopped or disconnected; with sync=ssp:S or backup=1 "
		    "the others need not wait",
		    "%s, pid %lld, has been silent for %.1f s; it is declared lost after %.0f s",
		    w->host, (long long)w->pid, quiet,
		    (double)y->c->cfg.lease / (double)NSEC_PER_SEC);
	else if (coord_worker_does(w, "compute"))
		coord_why_add(y, r, WHY_COMPUTES,
		    "sync=ssp:S or backup=1 let the others continue; a smaller batch is less work",
		    "it computes step %lld, for %.1f s", step, busy);
	else if (coord_worker_does(w, "data"))
		coord_why_add(y, r, WHY_DATA,
		    "job.cache keeps parsed data; compressed text takes the longest",
		    "it reads its data for step %lld, for %.1f s", step, busy);
	else if (coord_worker_does(w, "push"))
		coord_why_add(y, r, WHY_PUSHES,
		    "check the link to the servers: ps-stat workers, ps-ctl plan; a codec sends "
		    "less",
		    "it pushes step %lld, for %.1f s", step, busy);
	else if (coord_worker_does(w, "evaluate"))
		coord_why_add(y, r, WHY_EVALUATES,
		    "raise job.eval_every, or use less evaluation data",
		    "it evaluates the model, for %.1f s", busy);
	else
		coord_why_add(y, r, WHY_BUSY, "ps-ctl logs shows its messages",
		    "it is at step %lld%s%s", step, *w->figures.doing ? ": " : "",
		    w->figures.doing);
}

/* Explain a wait by a server that is lost or silent. False: there is none. */
static bool explain_silent_server(struct why *y, struct reason *r)
{
	const struct coord *c = y->c;
	char id[24];

	for (unsigned i = 0; i < c->nservers; i++) {
		const struct coord_member_server *s = &c->server[i];

		snprintf(id, sizeof id, "server-%u", i);
		r->whom = id;
		if (s->ever && !s->live) {
			coord_why_add(y, r, WHY_LOST,
			    "start it again: ps-serve -C DIR --name server-K; with replicas=2 "
			    "the others would continue",
			    "it is lost");
			return true;
		}
		if (s->live && !s->own && is_member_silent(y, s->seen)) {
			coord_why_add(y, r, WHY_SILENT,
			    "check whether it is stopped or disconnected",
			    "%s, pid %lld, has been silent for %.1f s", s->host, (long long)s->pid,
			    seconds_since(y, s->seen));
			return true;
		}
	}
	return false;
}

static void explain_servers(struct why *y, struct reason *r)
{
	const struct coord *c = y->c;

	if (explain_silent_server(y, r))
		return;
	/* The figures of the workers are of different moments: one that is slow may be as far as
	 * the others in them, although they wait for it. */
	if (!c->votes.proposal.open && coord_why_straggler(y, r))
		return;
	r->whom = "the servers";
	if (c->votes.proposal.open)
		coord_why_add(y, r, WHY_AGREEING,
		    "no action is needed; ps-ctl events shows the members",
		    "they are agreeing on its first step");
	else
		coord_why_add(y, r, WHY_NO_ANSWER,
		    "ps-stat servers 1 shows their figures; ps-ctl logs their messages",
		    "no worker is behind, but they have not answered yet");
}

/* Explain a wait by a silent relay on the way to the servers. False: there is none. */
static bool explain_relays(struct why *y, struct reason *r, int relay)
{
	for (unsigned hops = 0; relay >= 0 && hops < COORD_RELAYS_MAX;
	     relay = y->c->relay[relay].upstream, hops++) {
		const struct coord_member_relay *m = &y->c->relay[relay];
		char id[24];

		if (m->live && !is_member_silent(y, m->seen))
			continue;
		snprintf(id, sizeof id, "relay-%d", relay);
		r->whom = id;
		coord_why_add(y, r, WHY_SILENT,
		    "check whether it is stopped or disconnected; when it is lost its workers "
		    "continue without it",
		    "%s, pid %lld, of zone %s, has been silent for %.1f s", m->host,
		    (long long)m->pid, m->zone, seconds_since(y, m->seen));
		return true;
	}
	return false;
}

/* Explain why a worker or relay, which sends through `relay` (-1: none), waits at step r->step. */
static void explain_wait(struct why *y, struct reason *r, int relay)
{
	uint64_t need = coord_needed_step(y->c, (uint64_t)r->step);
	int who;

	/* Most workers wait for the same step, so the slowest one is looked up once. */
	if (!y->slow_known || y->slow_need != need) {
		y->slow_known = true;
		y->slow_need = need;
		y->slow = find_slowest_worker(y->c, need, UINT_MAX, ANY);
	}
	who = y->slow;

	/* The slowest worker only waits itself: a silent server is the better explanation. */
	if (who >= 0 && coord_worker_does(&y->c->worker[who], "wait") &&
	    !is_member_silent(y, y->c->worker[who].seen) && explain_silent_server(y, r))
		return;
	if (who >= 0)
		explain_worker(y, r, (unsigned)who);
	else if (!explain_relays(y, r, relay))
		explain_servers(y, r);
}

/* Does the worker wait, according to a recent heartbeat? An old one says nothing about it. */
static bool is_worker_waiting(const struct why *y, const struct coord_member_worker *w)
{
	return w->state == WORKER_ACTIVE && coord_worker_does(w, "wait") &&
	    activity_seconds(y, w) >= WORTH_A_WORD && y->now - w->seen <= y->c->cfg.server_lost / 3;
}

static void explain_waiting_worker(struct why *y, unsigned i)
{
	const struct coord_member_worker *w = &y->c->worker[i];
	struct reason r = { .step = (int64_t)coord_worker_step(w),
		.seconds = activity_seconds(y, w) };
	char id[24];

	if (!is_worker_waiting(y, w))
		return;
	snprintf(id, sizeof id, "worker-%u", i);
	r.who = id;
	explain_wait(y, &r, w->relay);
}

/* Explain what a relay waits for. It can send a step's sum when all its workers have pushed, and
 * answer them when all other workers have: its own workers are looked at first. */
static void explain_waiting_relay(struct why *y, unsigned i)
{
	const struct coord *c = y->c;
	const struct coord_member_relay *m = &c->relay[i];
	struct reason r = { .step = -1 };
	char id[24];
	int who;

	for (unsigned k = 0; k < c->nworkers; k++) {
		const struct coord_member_worker *w = &c->worker[k];

		if (w->relay != (int)i || !is_worker_waiting(y, w) ||
		    (r.step >= 0 && (int64_t)coord_worker_step(w) > r.step))
			continue;
		r.step = (int64_t)coord_worker_step(w);
		r.seconds = activity_seconds(y, w);
	}
	if (!m->live || r.step < 0 || is_member_silent(y, m->seen))
		return;
	snprintf(id, sizeof id, "relay-%u", i);
	r.who = id;
	who = find_slowest_worker(c, coord_needed_step(c, (uint64_t)r.step), UINT_MAX, (int)i);
	if (who >= 0)
		explain_worker(y, &r, (unsigned)who);
	else
		explain_wait(y, &r, m->upstream);
}

void coord_why_text(const struct coord *c, unsigned asker, uint64_t step, int64_t now, char *out,
    size_t n)
{
	struct why y = { .c = c, .now = now, .list = json_array() };
	struct reason r = { .who = "", .step = (int64_t)step };
	int who = find_slowest_worker(c, coord_needed_step(c, step), asker, ANY);

	out[0] = 0;
	if (who >= 0) {
		const struct coord_member_worker *w = &c->worker[who];

		explain_worker(&y, &r, (unsigned)who);
		snprintf(out, n, "worker-%d (%s, pid %lld) is at step %llu: %s; %s", who, w->host,
		    (long long)w->pid, (unsigned long long)coord_worker_step(w), y.because,
		    y.remedy);
	}
	json_decref(y.list);
}

/* ---- all reasons ---- */

static void explain_quotas(struct why *y)
{
	const struct coord *c = y->c;
	char bytes[16], id[24];

	num_human((double)c->conf->quota_bytes, bytes);
	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];

		if (w->state != WORKER_ACTIVE || !coord_watch_is_delayed(w, y->now))
			continue;
		snprintf(id, sizeof id, "worker-%u", i);
		coord_why_add(y,
		    &(struct reason){ .who = id,
		        .whom = "its quota",
		        .step = (int64_t)coord_worker_step(w),
		        .seconds = seconds_since(y, w->quota_since) },
		    WHY_QUOTA, "ps-ctl set quota_bytes=N quota_pushes=N; 0 removes it",
		    "%s is held back by its quota: quota_bytes %sB, quota_pushes %lld a second and server",
		    id, bytes, (long long)c->conf->quota_pushes);
	}
}

/* Servers whose disk fails: pushes and pulls of rows on it wait, and so do checkpoints and servers that
 * begin from one. */
static void explain_disks(struct why *y)
{
	const struct coord *c = y->c;
	char id[24];

	for (unsigned i = 0; i < c->nservers; i++) {
		const struct coord_member_server *s = &c->server[i];

		if (!s->figures.disk_error[0])
			continue;
		snprintf(id, sizeof id, "server-%u", i);
		coord_why_add(y, &(struct reason){ .who = "rows", .whom = id, .step = -1 },
		    WHY_DISK,
		    "make room on that disk, raise disk= of sparse, or end the server: its replicas go on",
		    "%s on %s cannot use its disk: %s", id, s->host, s->figures.disk_error);
	}
}

/* Explain a silent worker for which nobody waits, as in asp: its host is stopped or cut off. False:
 * the worker is not silent, or others wait for it. */
static bool explain_silent_worker(struct why *y, unsigned i)
{
	const struct coord *c = y->c;
	const struct coord_member_worker *w = &c->worker[i];
	uint64_t step = coord_newest_step(c);
	char id[24];

	/* If others wait for it, their rows name it. */
	if (w->state != WORKER_ACTIVE || w->lost_at || w->ended || !is_member_silent(y, w->seen) ||
	    coord_needed_step(c, step + 1) > 0)
		return false;
	snprintf(id, sizeof id, "worker-%u", i);
	coord_why_add(y,
	    &(struct reason){ .who = "the coordinator",
	        .whom = id,
	        .step = (int64_t)coord_worker_step(w),
	        .seconds = seconds_since(y, w->seen) },
	    WHY_SILENT, "check whether its host is stopped or disconnected; the others go on",
	    "%s, pid %lld, has been silent for %.1f s; it is declared lost after %.0f s", w->host,
	    (long long)w->pid, seconds_since(y, w->seen),
	    (double)c->cfg.lease / (double)NSEC_PER_SEC);
	return true;
}

/* No worker is left, but one is started again. */
static void explain_deserted_job(struct why *y)
{
	const struct coord *c = y->c;
	int rank = coord_job_returning(c);
	char id[24];

	if (!c->times.deserted || rank < 0)
		return;
	snprintf(id, sizeof id, "worker-%d", rank);
	coord_why_add(y,
	    &(struct reason){ .who = "the job",
	        .whom = id,
	        .step = (int64_t)coord_step(c),
	        .seconds = seconds_since(y, c->times.deserted) },
	    WHY_ENDED, "see why it is not started again: ps-work train --returns",
	    "no worker is left; it has ended and is started again, or the job fails after %.0f s",
	    (double)c->cfg.deadline / (double)NSEC_PER_SEC);
}

static void explain_running(struct why *y)
{
	const struct coord *c = y->c;
	char id[24];

	if (coord_is_paused(c))
		coord_why_add(y,
		    &(struct reason){ .who = "everybody",
		        .whom = "ps-ctl resume",
		        .step = (int64_t)coord_step(c),
		        .seconds = seconds_since(y, c->pause.at) },
		    WHY_PAUSED, "ps-ctl resume",
		    c->pause.on ? "the job is paused, by %s"
		                : "the job is held for its last checkpoint, by %s",
		    c->pause.on ? c->pause.by : c->pause.holder);
	explain_deserted_job(y);
	for (unsigned i = 0; i < c->nservers; i++)
		if (!c->server[i].live &&
		    (c->server[i].requested ||
		        (c->server[i].ever && i < c->cfg.servers && !c->server[i].released)))
			explain_missing_server(y, i,
			    c->server[i].requested ? "the scaling" : "the second replicas");
	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];

		snprintf(id, sizeof id, "worker-%u", i);
		if (w->state == WORKER_EMPTY && w->requested)
			explain_missing_worker(y, i, "the scaling");
		else if (w->state == WORKER_JOINING)
			coord_why_add(y,
			    &(struct reason){ .who = id,
			        .whom = "the servers",
			        .step = -1,
			        .seconds = seconds_since(y, w->seen) },
			    WHY_AGREEING, "no action is needed",
			    "they are agreeing on its first step");
		else if (!explain_silent_worker(y, i) && !coord_is_paused(c))
			explain_waiting_worker(y, i);
	}
	for (unsigned i = 0; !coord_is_paused(c) && i < c->nrelays; i++)
		explain_waiting_relay(y, i);
	if (!coord_is_paused(c))
		coord_why_stragglers(y);
	explain_quotas(y);
}

static void explain_finishing(struct why *y)
{
	for (unsigned i = 0; i < y->c->nworkers; i++)
		if (y->c->worker[i].state == WORKER_ACTIVE)
			explain_worker(y,
			    &(struct reason){ .who = "the end",
			        .step = (int64_t)coord_worker_step(&y->c->worker[i]),
			        .seconds = activity_seconds(y, &y->c->worker[i]) },
			    i);
}

/* Explain a checkpoint by the servers that have not carried out its last order. A snapshot of a
 * step that is to come waits for the workers and not for a server. */
static void explain_checkpoint(struct why *y)
{
	const struct coord *c = y->c;
	const struct snap *s = &c->snap;
	enum coord_snap state = coord_snap_state(c);
	struct reason r = { .who = "the checkpoint",
		.step = c->cfg.has_job ? (int64_t)s->step : -1,
		.seconds = seconds_since(y, s->ordered_at) };
	char id[24];

	if ((state != SNAP_ASKED && state != SNAP_WRITING) ||
	    r.seconds < (state == SNAP_ASKED ? WORTH_A_WORD : WRITING_TAKES) ||
	    (state == SNAP_ASKED && coord_is_lockstep(c) && coord_newest_step(c) < s->step))
		return;
	r.whom = id;
	for (unsigned i = 0; i < c->nservers; i++) {
		if (!s->asked[i] || s->answered[i])
			continue;
		snprintf(id, sizeof id, "server-%u", i);
		if (c->server[i].live && !c->server[i].own &&
		    is_member_silent(y, c->server[i].seen))
			coord_why_add(y, &r, WHY_SILENT,
			    "check whether it is stopped or disconnected",
			    "%s, pid %lld, has been silent for %.1f s", c->server[i].host,
			    (long long)c->server[i].pid, seconds_since(y, c->server[i].seen));
		else if (state == SNAP_ASKED)
			coord_why_add(y, &r, WHY_SNAPSHOT, "ps-ctl logs shows its messages",
			    "it has not taken its snapshot");
		else
			coord_why_add(y, &r, WHY_FILES,
			    "a slow disk or link delays its files: ps-ctl doctor checks both",
			    "it has not written its files");
	}
}

json_t *coord_why(const struct coord *c, int64_t now)
{
	struct why y = { .c = c, .now = now, .list = json_array() };

	if (c->phase == PHASE_FORMING)
		explain_forming(&y);
	else if (c->phase == PHASE_RUNNING && c->cfg.has_job)
		explain_running(&y);
	else if (c->phase == PHASE_FINISHING)
		explain_finishing(&y);
	explain_checkpoint(&y);
	explain_disks(&y);
	return y.list;
}
