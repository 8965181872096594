#include "coord/why.h"

#include <stdarg.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/num.h"

/* Who waits, for whom, since when, why, and what is to be done about it: from what all tell in
 * their heartbeats and what the coordinator knows itself. */

/* Shorter waits are the ordinary course of a step. */
#define WORTH_A_WORD 0.2

void why_say(struct why *y, const struct reason *r, const char *remedy, const char *fmt, ...)
{
	json_t *o = json_event("why");
	char because[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(because, sizeof because, fmt, ap);
	va_end(ap);
	json_object_set_new(o, "id", json_string(r->who));
	json_object_set_new(o, "for", json_string(r->whom));
	json_object_set_new(o, "step", r->step < 0 ? json_null() : json_integer(r->step));
	json_object_set_new(o, "since_seconds", json_of_num(r->seconds));
	json_object_set_new(o, "because", json_string(because));
	json_object_set_new(o, "remedy", json_string(remedy));
	json_array_append_new(y->list, o);
}

double why_since(const struct why *y, int64_t t)
{
	return t ? (double)(y->now - t) / (double)NSEC_PER_SEC : 0;
}

/* Not heard of for five heartbeats: somebody is stopped, or cut off. */
static bool is_silent(const struct why *y, int64_t seen)
{
	return y->now - seen > y->c->cfg.server_lost * 2 / 3;
}

/* ---- who is not there ------------------------------------------------------------------ */

static void missing_server(struct why *y, unsigned i, const char *who)
{
	const struct member_server *s = &y->c->server[i];
	struct reason r = { .who = who, .step = -1, .seconds = why_since(y, s->ever ? s->seen : y->c->started) };
	char id[24];

	snprintf(id, sizeof id, "server-%u", i);
	r.whom = id;
	if (s->ever)
		why_say(y, &r, "ps-ctl logs tells how it ended; start it again: ps-serve -C DIR --name server-K",
		    "it was on %s (pid %lld) and is lost", s->host, (long long)s->pid);
	else
		why_say(y, &r, "start it: ps-serve -C DIR --name server-K here, ps-serve --join FILE elsewhere (ps-ctl invite --role server)",
		    "it has not come yet");
}

enum remedy { COME, MEND_SLOT, MEND_JOINED, COME_BACK };

/* Whom a worker is of: ps-work alone; ps-work with a program; by the library (pskit(3)), by whatever starts it. */
#define OWN ", where COMMAND is the job's own worker (pskit(3))"
static const char *const remedies[3][4] = {
	{ [COME] = "start it: ps-work train -C DIR here, ps-work train --join FILE elsewhere (ps-ctl invite --role worker)",
	    [MEND_SLOT] = "mend that, and start it again: ps-work train -C DIR --slot K",
	    [MEND_JOINED] = "mend that, and start it again: ps-work train --join FILE",
	    [COME_BACK] = "start it again: ps-work train -C DIR --slot K, or --join FILE" },
	{ [COME] = "start it: ps-work train --exec COMMAND -C DIR here, ps-work train --exec COMMAND --join FILE elsewhere (ps-ctl "
	    "invite --role worker)",
	    [MEND_SLOT] = "mend that, and start it again: ps-work train --exec COMMAND -C DIR --slot K",
	    [MEND_JOINED] = "mend that, and start it again: ps-work train --exec COMMAND --join FILE",
	    [COME_BACK] = "start it again: ps-work train --exec COMMAND -C DIR --slot K, or --join FILE" },
	{ [COME] = "start it: PS_CLUSTER=DIR COMMAND here, PS_CLUSTER=FILE COMMAND elsewhere (FILE: ps-ctl invite --role worker)" OWN,
	    [MEND_SLOT] = "mend that, and start it again: PS_CLUSTER=DIR PSKIT_SLOT=K COMMAND" OWN,
	    [MEND_JOINED] = "mend that, and start it again: PS_CLUSTER=FILE COMMAND" OWN,
	    [COME_BACK] = "start it again: PS_CLUSTER=DIR PSKIT_SLOT=K COMMAND" OWN },
};

/* What is to be done about a worker that is not there, as this job's are started. */
static const char *start_worker(const struct coord *c, enum remedy which)
{
	const json_t *job = json_object_get(c->cfg.config, "job");

	if (strcmp(json_str(job, "model", ""), "custom") != 0)
		return remedies[0][which];
	return remedies[strcmp(json_str(job, "exec", "none"), "none") != 0 ? 1 : 2][which];
}

static void missing_worker(struct why *y, unsigned i, const char *who)
{
	struct reason r = { .who = who, .step = -1, .seconds = why_since(y, y->c->started) };
	char id[24];

	snprintf(id, sizeof id, "worker-%u", i);
	r.whom = id;
	if (y->c->worker[i].coming)
		why_say(y, &r, "this passes by itself; ps-ctl logs tells what it says; job.cache keeps parsed data for the next start",
		    "it is %s, and reads its data", y->c->worker[i].coming);
	else if (y->c->worker[i].unfit)
		why_say(y, &r, start_worker(y->c, MEND_SLOT), "it cannot begin %s", y->c->worker[i].unfit);
	else if (y->c->unfit[0])
		why_say(y, &r, start_worker(y->c, MEND_JOINED), "one has come, and cannot begin %s", y->c->unfit);
	else
		why_say(y, &r, start_worker(y->c, COME), "it has not come yet");
}

/* All are here, and the partitions are dealt out. */
static void placing(struct why *y, unsigned i)
{
	const struct member_server *s = &y->c->server[i];
	char id[24];

	snprintf(id, sizeof id, "server-%u", i);
	if (s->acked < y->c->rev)
		why_say(y, &(struct reason){ "the start", id, -1, why_since(y, y->c->formed) }, "this passes by itself; ps-ctl logs tells what it does",
		    "it takes over what it is to hold");
}

static void forming(struct why *y)
{
	const struct coord *c = y->c;

	for (unsigned i = 0; i < c->nservers; i++)
		if (!c->server[i].live)
			missing_server(y, i, "the start");
		else if (c->placed)
			placing(y, i);
	for (unsigned i = 0; c->cfg.has_job && i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_EMPTY)
			missing_worker(y, i, "the start");
}

/* ---- workers -------------------------------------------------------------------------------- */

static const char *doing(const struct member_worker *w)
{
	return json_str(w->stats, "doing", "");
}

static double busy_for(const struct why *y, const struct member_worker *w)
{
	return json_num(w->stats, "doing_seconds", 0) + why_since(y, w->seen);
}

uint64_t coord_needed(const struct coord *c, uint64_t step)
{
	const char *sync = mode_at(c, step);
	uint64_t stale;

	if (strcmp(sync, "bsp") == 0)
		return step;
	return strncmp(sync, "ssp:", 4) == 0 && num_uint(sync + 4, INT32_MAX, &stale) && step > stale ? step - stale : 0;
}

/* Of all workers but this one, or of those that go through the relay (ANY: of all), the one that
 * is farthest behind; of several, one that does not wait itself.  -1: none is. */
#define ANY INT_MAX
static int slowest(const struct coord *c, uint64_t below, unsigned but, int relay)
{
	int best = -1;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct member_worker *w = &c->worker[i];
		const struct member_worker *b = best < 0 ? NULL : &c->worker[best];

		if (w->state != WORKER_ACTIVE || worker_step(w) >= below || i == but || (relay != ANY && w->relay != relay))
			continue;
		if (!b || worker_step(w) < worker_step(b) ||
		    (worker_step(w) == worker_step(b) && worker_does(b, "wait") && !worker_does(w, "wait")))
			best = (int)i;
	}
	return best;
}

static void say_of(struct why *y, struct reason *r, unsigned i)
{
	const struct member_worker *w = &y->c->worker[i];
	double quiet = why_since(y, w->seen), busy = busy_for(y, w);
	long long step = (long long)worker_step(w);
	char id[24];

	snprintf(id, sizeof id, "worker-%u", i);
	r->whom = id;
	if (w->lost_at)
		why_say(y, r, start_worker(y->c, COME_BACK), "it is lost, and on_worker_loss lets %.0f s for it to come back",
		    (double)y->c->cfg.loss_wait / (double)NSEC_PER_SEC);
	else if (is_silent(y, w->seen))
		why_say(y, r, "look whether it is stopped or cut off; with sync=ssp:S or backup=1 the others need not wait",
		    "%s, pid %lld, has not been heard of for %.1f s; at %.0f s it is taken for lost", w->host, (long long)w->pid, quiet,
		    (double)y->c->cfg.lease / (double)NSEC_PER_SEC);
	else if (worker_does(w, "compute"))
		why_say(y, r, "sync=ssp:S or backup=1 let the others go on; a smaller batch is less work", "it computes step %lld, for %.1f s", step, busy);
	else if (worker_does(w, "data"))
		why_say(y, r, "job.cache keeps parsed data; compressed text is the slowest", "it reads its data for step %lld, for %.1f s", step, busy);
	else if (worker_does(w, "push"))
		why_say(y, r, "the line to the servers: ps-stat workers, ps-ctl plan; a codec sends less", "it pushes step %lld, for %.1f s", step, busy);
	else if (worker_does(w, "evaluate"))
		why_say(y, r, "a larger job.eval_every, or less evaluation data", "it evaluates the model, for %.1f s", busy);
	else
		why_say(y, r, "ps-ctl logs tells what it says", "it is at step %lld%s%s", step, *doing(w) ? ": " : "", doing(w));
}

/* Nobody is behind: it is the servers. */
/* One that is lost or silent.  False: there is none. */
static bool say_silent(struct why *y, struct reason *r)
{
	const struct coord *c = y->c;
	char id[24];

	for (unsigned i = 0; i < c->nservers; i++) {
		const struct member_server *s = &c->server[i];

		snprintf(id, sizeof id, "server-%u", i);
		r->whom = id;
		if (s->ever && !s->live) {
			why_say(y, r, "start it again: ps-serve -C DIR --name server-K; with replicas=2 others would go on", "it is lost");
			return true;
		}
		if (s->live && !s->own && is_silent(y, s->seen)) {
			why_say(y, r, "look whether it is stopped or cut off", "%s, pid %lld, has not been heard of for %.1f s", s->host,
			    (long long)s->pid, why_since(y, s->seen));
			return true;
		}
	}
	return false;
}

static void say_servers(struct why *y, struct reason *r)
{
	const struct coord *c = y->c;

	if (say_silent(y, r))
		return;
	r->whom = "the servers";
	if (c->prop.open)
		why_say(y, r, "this passes by itself; ps-ctl events tells who", "they settle from which step on somebody takes part");
	else
		why_say(y, r, "ps-stat servers 1 shows what they do; ps-ctl logs what they say", "no worker is behind, and they have not answered yet");
}

/* On the way to the servers: has one of the relays gone quiet? */
static bool say_relays(struct why *y, struct reason *r, int relay)
{
	for (unsigned hops = 0; relay >= 0 && hops < COORD_RELAYS_MAX; relay = y->c->relay[relay].upstream, hops++) {
		const struct member_relay *m = &y->c->relay[relay];
		char id[24];

		if (m->live && !is_silent(y, m->seen))
			continue;
		snprintf(id, sizeof id, "relay-%d", relay);
		r->whom = id;
		why_say(y, r, "look whether it is stopped or cut off; when it is lost its workers go on without it",
		    "%s, pid %lld, of zone %s, has not been heard of for %.1f s", m->host, (long long)m->pid, m->zone, why_since(y, m->seen));
		return true;
	}
	return false;
}

/* Waits at a step, behind this relay (-1: none). */
static void say_why(struct why *y, struct reason *r, int relay)
{
	uint64_t need = coord_needed(y->c, (uint64_t)r->step);
	int who;

	/* Most wait for the same step. */
	if (!y->slow_known || y->slow_need != need) {
		y->slow_known = true;
		y->slow_need = need;
		y->slow = slowest(y->c, need, UINT_MAX, ANY);
	}
	who = y->slow;

	/* Who is behind and only waits itself is not whom they wait for. */
	if (who >= 0 && worker_does(&y->c->worker[who], "wait") && !is_silent(y, y->c->worker[who].seen) && say_silent(y, r))
		return;
	if (who >= 0)
		say_of(y, r, (unsigned)who);
	else if (!say_relays(y, r, relay))
		say_servers(y, r);
}

/* What one does that is late with its heartbeat nobody knows. */
static bool is_waiting(const struct why *y, const struct member_worker *w)
{
	return w->state == WORKER_ACTIVE && worker_does(w, "wait") && busy_for(y, w) >= WORTH_A_WORD &&
	    y->now - w->seen <= y->c->cfg.server_lost / 3;
}

static void waiting(struct why *y, unsigned i)
{
	const struct member_worker *w = &y->c->worker[i];
	struct reason r = { .step = (int64_t)worker_step(w), .seconds = busy_for(y, w) };
	char id[24];

	if (!is_waiting(y, w))
		return;
	snprintf(id, sizeof id, "worker-%u", i);
	r.who = id;
	say_why(y, &r, w->relay);
}

/* A relay has the sum of a step when all of its workers have pushed, and an answer for them when
 * everybody else has: it waits for whom they wait, but for its own first. */
static void relay_waiting(struct why *y, unsigned i)
{
	const struct coord *c = y->c;
	const struct member_relay *m = &c->relay[i];
	struct reason r = { .step = -1 };
	char id[24];
	int who;

	for (unsigned k = 0; k < c->nworkers; k++) {
		const struct member_worker *w = &c->worker[k];

		if (w->relay != (int)i || !is_waiting(y, w) || (r.step >= 0 && (int64_t)worker_step(w) > r.step))
			continue;
		r.step = (int64_t)worker_step(w);
		r.seconds = busy_for(y, w);
	}
	if (!m->live || r.step < 0 || is_silent(y, m->seen))
		return;
	snprintf(id, sizeof id, "relay-%u", i);
	r.who = id;
	who = slowest(c, coord_needed(c, (uint64_t)r.step), UINT_MAX, (int)i);
	if (who >= 0)
		say_of(y, &r, (unsigned)who);
	else
		say_why(y, &r, m->upstream);
}

void why_text(const struct coord *c, unsigned asker, uint64_t step, int64_t now, char *out, size_t n)
{
	struct why y = { .c = c, .now = now, .list = json_array() };
	struct reason r = { .who = "", .step = (int64_t)step };
	int who = slowest(c, coord_needed(c, step), asker, ANY);
	const json_t *o;

	out[0] = 0;
	if (who >= 0) {
		const struct member_worker *w = &c->worker[who];

		say_of(&y, &r, (unsigned)who);
		o = json_array_get(y.list, 0);
		snprintf(out, n, "worker-%d (%s, pid %lld) is at step %llu: %s; %s", who, w->host, (long long)w->pid,
		    (unsigned long long)worker_step(w), json_str(o, "because", ""), json_str(o, "remedy", ""));
	}
	json_decref(y.list);
}

/* ---- all of it ---------------------------------------------------------------------------------- */

static void quarantined(struct why *y)
{
	const struct coord *c = y->c;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct member_worker *w = &c->worker[i];
		char id[24], whom[100];

		if (w->state != WORKER_ACTIVE || !worker_barred(w))
			continue;
		snprintf(id, sizeof id, "worker-%u", i);
		snprintf(whom, sizeof whom, "ps-ctl key release %s", w->key_name);
		why_say(y, &(struct reason){ id, whom, (int64_t)worker_step(w), why_since(y, w->barred_at) }, "look at its data before you do",
		    "it is in quarantine from step %llu on: %s", (unsigned long long)w->barred, barred_because(c, w));
	}
}

static void held_back(struct why *y)
{
	const struct coord *c = y->c;
	char bytes[16], id[24];

	num_human((double)json_int(c->cfg.config, "quota_bytes", 0), bytes);
	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct member_worker *w = &c->worker[i];

		if (w->state != WORKER_ACTIVE || !worker_held(w, y->now))
			continue;
		snprintf(id, sizeof id, "worker-%u", i);
		why_say(y, &(struct reason){ id, "its quota", (int64_t)worker_step(w), why_since(y, w->quota_since) },
		    "ps-ctl set quota_bytes=N quota_pushes=N; 0 takes it away",
		    "%s is held back by its quota: quota_bytes %s, quota_pushes %lld a second and server", id, bytes,
		    (long long)json_int(c->cfg.config, "quota_pushes", 0));
	}
}

static void running(struct why *y)
{
	const struct coord *c = y->c;
	char id[24];

	if (c->paused)
		why_say(y, &(struct reason){ "everybody", "ps-ctl resume", (int64_t)coord_step(c), why_since(y, c->paused_at) }, "ps-ctl resume",
		    "the job is paused, by %s", c->paused_by);
	for (unsigned i = 0; i < c->nservers; i++)
		if (!c->server[i].live && (c->server[i].called || (c->server[i].ever && i < c->cfg.servers && !c->server[i].released)))
			missing_server(y, i, c->server[i].called ? "the scaling" : "the second copies");
	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct member_worker *w = &c->worker[i];

		snprintf(id, sizeof id, "worker-%u", i);
		if (w->state == WORKER_EMPTY && w->called)
			missing_worker(y, i, "the scaling");
		else if (w->state == WORKER_JOINING)
			why_say(y, &(struct reason){ id, "the servers", -1, why_since(y, w->seen) }, "this passes by itself",
			    "they settle from which step on it takes part");
		else if (!c->paused)
			waiting(y, i);
	}
	for (unsigned i = 0; !c->paused && i < c->nrelays; i++)
		relay_waiting(y, i);
	if (!c->paused)
		why_stragglers(y);
	held_back(y);
	quarantined(y);
}

static void finishing(struct why *y)
{
	for (unsigned i = 0; i < y->c->nworkers; i++)
		if (y->c->worker[i].state == WORKER_ACTIVE)
			say_of(y, &(struct reason){ .who = "the end", .step = (int64_t)worker_step(&y->c->worker[i]),
			    .seconds = busy_for(y, &y->c->worker[i]) }, i);
}

json_t *coord_why(const struct coord *c, int64_t now)
{
	struct why y = { .c = c, .now = now, .list = json_array() };

	if (c->phase == COORD_FORMING)
		forming(&y);
	else if (c->phase == COORD_RUNNING && c->cfg.has_job)
		running(&y);
	else if (c->phase == COORD_FINISHING)
		finishing(&y);
	return y.list;
}
