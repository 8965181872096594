#include "server/keep.h"

#include <errno.h>
#include <sodium.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/dirs.h"
#include "ckpt/write.h"
#include "launch/rundir.h"

/* The coordinator's checkpoints: one thread decides when, agrees with the
 * servers on a step, has them write, and commits.  The host's lock is held but
 * while files are touched. */

#define AHEAD 2
#define TRIES 40

struct keep {
	struct host *host;
	pthread_t thread;
	bool started, stop;
	char *dir;
	struct conf_every every;
	struct ckpt_keep rule;
	int64_t next_time;
	uint64_t next_step, wanted;     /* wanted: how many were asked for */
	uint64_t told;                  /* of the one under way: how far servers have said that they are */
	struct keep_last last;
	struct keep_figures figures;
	bool waits;                     /* one is under way that nobody has asked for */
	bool changed;                   /* meanwhile: how often there shall be one */
	/* The last whole one, of which servers know what has changed since (NULL: none), its mark, and how many were
	 * made since; and how many there may be. */
	char *whole;
	uint64_t whole_mark;
	int64_t deltas, deltas_most;
	bool failing;                   /* the last one could not be made, and that was told */
	const char *tmp;                /* where the servers write at present, or NULL */
};

/* ---- one checkpoint, step by step -------------------------------------------------------- */

/* Is the job paused, with all at rest, so that no step is closed until they go on?  *step: the one that can be had. */
static bool rests(const struct keep *k, uint64_t *step)
{
	if (!coord_rests(k->host->coord, step))
		return false;
	if (*step < k->told)
		*step = k->told;
	return true;
}

/* The first step that can be had: one that is ahead of everybody; at rest, and outside of bsp, there is none to be
 * ahead of. */
static uint64_t soonest(const struct keep *k)
{
	uint64_t step;

	return rests(k, &step) ? step : coord_frontier(k->host->coord) + (coord_is_bsp(k->host->coord) ? AHEAD : 0);
}

/* Until the state is no longer this one, or one that was asked for waits for a step before which all rest now; false
 * when it is to be given up. */
static bool while_state(struct keep *k, enum coord_snap state, uint64_t wanted)
{
	struct host *h = k->host;

	while (coord_snap_state(h->coord) == state) {
		enum coord_phase phase = coord_phase(h->coord);
		uint64_t step;

		if (k->stop || (phase != COORD_RUNNING && phase != COORD_FINISHING))
			return false;
		/* One that waits for its step gives way to one that is asked for. */
		if (state == SNAP_ASKED && (k->wanted > wanted || k->changed))
			return false;
		if (state == SNAP_ASKED && wanted == UINT64_MAX && rests(k, &step) && step < coord_snap_step(h->coord))
			return true;
		host_wait(h, 0);
	}
	return true;
}

/* Shall this one have but the changes? */
static bool is_delta(const struct keep *k)
{
	return k->whole && k->deltas < k->deltas_most;
}

static void forget_whole(struct keep *k)
{
	free(k->whole);
	k->whole = NULL;
	k->deltas = 0;
}

static enum err_code commit(struct keep *k, struct ckpt *c, const char *base, const json_t *descriptions,
    const json_t *head, char **path, struct err *e)
{
	enum err_code rc = ERR_OK;
	const json_t *d;
	size_t i;

	if (base)
		rc = ckpt_base(c, base, e);
	json_array_foreach((json_t *)descriptions, i, d)
		if (!rc)
			rc = ckpt_add(c, d, e);
	if (rc) {
		ckpt_abort(c);
		return rc;
	}
	rc = ckpt_commit(c, head, path, e);
	k->rule.also = base;
	if (!rc && ckpt_prune(k->dir, &k->rule, NULL, NULL, e))
		log_warn(k->host->server->cfg.log, "old checkpoints stay: %s", e->msg);
	k->rule.also = NULL;
	return rc;
}

/* The servers have their partitions as they are at one step: have them written. */
static enum err_code write_all(struct keep *k, char **path, struct err *e)
{
	struct host *h = k->host;
	uint64_t step = coord_snap_step(h->coord);
	int64_t begin = clock_now();
	json_t *shared, *head, *descriptions;
	char *base = is_delta(k) ? mem_strdup(k->whole) : NULL;
	struct ckpt *c;
	enum err_code rc;
	bool written;

	host_unlock(h);
	rc = ckpt_begin(k->dir, step, &c, e);
	host_lock(h);
	if (rc) {
		free(base);
		return rc;
	}
	k->tmp = ckpt_tmp(c);
	if (coord_snap_state(h->coord) == SNAP_TAKEN)
		coord_snap_write(h->coord, k->tmp);
	written = while_state(k, SNAP_WRITING, UINT64_MAX) && coord_snap_state(h->coord) == SNAP_SAVED;
	k->tmp = NULL;
	if (!written) {
		err_set(e, coord_snap_state(h->coord) == SNAP_FAILED ? ERR_FAILED : ERR_NOTREADY, "%s",
		    coord_snap_state(h->coord) == SNAP_FAILED ? coord_snap_message(h->coord) : "the servers have changed meanwhile");
		host_unlock(h);
		ckpt_abort(c);
		free(base);
		host_lock(h);
		return e->code;
	}
	/* Without the lock nothing may be shared. */
	shared = coord_snap_head(h->coord);
	head = json_deep_copy(shared);
	json_decref(shared);
	descriptions = json_deep_copy(coord_snap_descriptions(h->coord));
	host_unlock(h);
	rc = commit(k, c, base, descriptions, head, path, e);
	free(base);
	json_decref(head);
	json_decref(descriptions);
	host_lock(h);
	if (!rc)
		k->figures.took = clock_now() - begin;
	return rc;
}

/* What was made is what changes will be to; without it they would be to what no server knows. */
static void note_made(struct keep *k, enum err_code rc, uint64_t mark)
{
	if (is_delta(k) && (!rc || rc == ERR_STOPPED || rc == ERR_NOTREADY)) {
		k->deltas += !rc;
		return;
	}
	forget_whole(k);
	if (rc || !k->deltas_most)
		return;
	k->whole = mem_strdup(k->last.path);
	k->whole_mark = mark;
}

/* What it was asked of has come to nothing: the step to ask for at this try. */
static uint64_t another(struct keep *k, enum coord_snap state, unsigned try)
{
	uint64_t step;

	if (state == SNAP_LATE && k->told < coord_snap_frontier(k->host->coord))
		k->told = coord_snap_frontier(k->host->coord);
	if (rests(k, &step))
		return step;
	/* The servers are further: beyond them, and further each time. */
	return coord_snap_frontier(k->host->coord) + AHEAD + (UINT64_C(1) << (try < 30 ? try : 30));
}

/* exact: of that step, or none; else of the first that can be had. */
static enum err_code one(struct keep *k, uint64_t step, bool exact, uint64_t wanted, struct err *e)
{
	struct host *h = k->host;
	enum err_code rc = err_set(e, ERR_NOTREADY, "no job is running: there is nothing to save");
	uint64_t mark;
	char *path = NULL;

	randombytes_buf(&mark, sizeof mark);
	coord_snap_marks(h->coord, mark, is_delta(k) ? k->whole_mark : 0);
	for (unsigned i = 0; i < TRIES && coord_snap_begin(h->coord, step); i++) {
		enum coord_snap state;

		rc = err_set(e, ERR_STOPPED, "it was given up");
		if (!while_state(k, SNAP_ASKED, wanted))
			break;
		state = coord_snap_state(h->coord);
		if (state == SNAP_BROKEN)
			continue;
		if (state == SNAP_TAKEN)
			rc = write_all(k, &path, e);
		else if (state == SNAP_FAILED)
			rc = err_set(e, ERR_FAILED, "%s", coord_snap_message(h->coord));
		if (state == SNAP_FAILED || (state == SNAP_TAKEN && rc != ERR_NOTREADY) || (state == SNAP_LATE && exact))
			break;
		step = another(k, state, i);
	}
	if (!rc) {
		*e = (struct err){ 0 };
		k->failing = false;
		k->last.step = coord_snap_step(h->coord);
		free(k->last.path);
		k->last.path = path;
		k->figures.made++;
		k->figures.step = k->last.step;
		k->figures.at = clock_wall();
		host_event(h, "checkpoint", "checkpoint of step %llu: %s", (unsigned long long)k->last.step, path);
	}
	note_made(k, rc, mark);
	k->told = 0;
	coord_snap_end(h->coord);
	return rc;
}

/* ---- when ------------------------------------------------------------------------------------ */

/* The first of several is an event; the log has them all. */
static void say_failed(struct keep *k, const struct err *e)
{
	k->figures.failed++;
	if (k->failing)
		log_warn(k->host->server->cfg.log, "no checkpoint: %s", e->msg);
	else
		host_event(k->host, "checkpoint_failed", "no checkpoint: %s", e->msg);
	k->failing = true;
}

static void asked_for(struct keep *k)
{
	uint64_t wanted = k->wanted;
	struct err e = { 0 };

	k->last.rc = one(k, soonest(k), false, UINT64_MAX, &e);
	k->last.why = e;
	k->last.done = wanted;
	if (k->last.rc)
		say_failed(k, &e);
	host_kick(k->host);
	if (k->host->leaving && k->wanted == k->last.done)
		host_left(k->host);
}

static void periodic(struct keep *k)
{
	uint64_t every = (uint64_t)k->every.steps, step = coord_frontier(k->host->coord);
	struct err e = { 0 };
	enum err_code rc;
	bool changed;

	k->waits = true;
	if (every) {
		/* The next multiple that is still ahead of everybody; outside of bsp the one that
		 * the fastest has come to, as things are now. */
		if (k->next_step <= step)
			k->next_step = (step / every + coord_is_bsp(k->host->coord)) * every;
		rc = one(k, k->next_step, true, k->wanted, &e);
		if (!k->changed && (!rc || k->wanted == k->last.done))
			k->next_step += every;
	} else {
		k->next_time = clock_now() + k->every.time;
		rc = one(k, step + AHEAD, false, k->wanted, &e);
	}
	changed = k->changed;
	k->waits = k->changed = false;
	/* A full disk costs a checkpoint, not the job. */
	if (rc && rc != ERR_STOPPED && rc != ERR_NOTREADY)
		say_failed(k, &e);
	if (rc && !k->stop && !changed && k->wanted == k->last.done)
		host_wait(k->host, 0);
}

/* In bsp it is asked for ahead of the step; else there is none to be ahead of. */
static bool steps_due(struct keep *k)
{
	uint64_t every = (uint64_t)k->every.steps, step;

	if (!every || coord_is_bsp(k->host->coord))
		return every;
	/* Of all workers: only where it is asked for. */
	step = coord_frontier(k->host->coord);
	if (!k->next_step)
		k->next_step = (step / every + 1) * every;
	return step >= k->next_step;
}

static void *run(void *ctx)
{
	struct keep *k = ctx;
	struct host *h = k->host;

	host_lock(h);
	while (!k->stop) {
		bool due = steps_due(k) || (k->every.time && clock_now() >= k->next_time);

		if (k->wanted > k->last.done)
			asked_for(k);
		else if (due && coord_phase(h->coord) == COORD_RUNNING)
			periodic(k);
		else
			host_wait(h, k->every.time ? k->next_time : 0);
	}
	host_unlock(h);
	return NULL;
}

/* ---- from outside, under the host's lock --------------------------------------------------------- */

uint64_t keep_want(struct keep *k)
{
	/* One that is under way may have begun before what the asker means. */
	k->wanted++;
	return k->wanted;
}

const struct keep_last *keep_last(const struct keep *k)
{
	return &k->last;
}

const char *keep_dir(const struct keep *k)
{
	return k->dir;
}

struct keep_figures keep_figures(const struct keep *k)
{
	return k->figures;
}

char *keep_receives(const struct keep *k, uint64_t id)
{
	return k && k->tmp && coord_snap_id(k->host->coord) == id ? mem_strdup(k->tmp) : NULL;
}

void keep_every(struct keep *k, const struct conf_every *every)
{
	if (!k || (k->every.steps == every->steps && k->every.time == every->time))
		return;
	k->every = *every;
	k->figures.every = every->time;
	k->next_step = 0;
	k->next_time = clock_now() + every->time;
	/* One that waits for a step of before waits for nothing. */
	k->changed = k->waits;
	host_rouse(k->host);
}

/* Made before this coordinator. */
static void find_newest(struct keep *k)
{
	struct ckpt_entry *list = NULL;
	struct stat st;
	size_t n = 0;

	if (ckpt_list(k->dir, false, &list, &n, NULL))
		return;
	for (size_t i = 0; i < n; i++)
		if (list[i].whole && stat(list[i].path, &st) == 0) {
			k->figures.step = list[i].step;
			k->figures.at = st.st_mtim.tv_sec * NSEC_PER_SEC + st.st_mtim.tv_nsec;
		}
	ckpt_list_free(list, n);
}

enum err_code keep_start(struct host *h, const struct conf *c, struct err *e)
{
	struct keep *k;

	if (!h->server->cfg.id->run_dir)
		return ERR_OK;
	k = mem_alloc(sizeof *k);
	k->host = h;
	k->dir = rundir_path(h->server->cfg.id->run_dir, "checkpoints");
	k->every = c->checkpoint_every;
	k->deltas_most = c->checkpoint_deltas;
	k->rule = (struct ckpt_keep){ .last = (size_t)c->keep_last, .every = (uint64_t)c->keep_every, .best = (size_t)c->keep_best };
	k->next_time = clock_now() + k->every.time;
	k->figures.every = k->every.time;
	find_newest(k);
	/* The ticker is at work, and so are those who answer requests. */
	host_lock(h);
	h->keep = k;
	host_unlock(h);
	if (pthread_create(&k->thread, NULL, run, k))
		return err_sys(e, ERR_IO, "cannot start a thread");
	k->started = true;
	return ERR_OK;
}

void keep_stop(struct host *h)
{
	struct keep *k = h->keep;

	if (!k)
		return;
	host_lock(h);
	k->stop = true;
	host_unlock(h);
	if (k->started)
		pthread_join(k->thread, NULL);
}

void keep_free(struct keep *k)
{
	if (!k)
		return;
	free(k->last.path);
	free(k->whole);
	free(k->dir);
	free(k);
}
