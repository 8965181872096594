/* SPDX-License-Identifier: ISC */
#include "store/checkpoint_writer.h"

#include "core/json.h"
#include "core/lock.h"
#include "core/mem.h"
#include "core/thread.h"
#include "store/file_client.h"

/* An order of the coordinator that the thread has not begun yet. */
enum order { ORDER_NONE, ORDER_TAKE, ORDER_WRITE, ORDER_END };

struct checkpoint_writer {
	struct server *server;
	pthread_t thread;
	struct mutex lock; /* all members below */
	pthread_cond_t changed;
	bool stop, woken; /* woken: the shard has changed since the thread looked */
	enum order order;
	enum order last; /* the order that came last */
	bool repeated;   /* it has arrived again: its answer may be lost */
	uint64_t id, step, mark, base;
	char *dir;
	/* Only the thread uses this: its answer to the last order, or NULL. */
	json_t *answer;
};

static void drop_answer(struct checkpoint_writer *s)
{
	json_decref(s->answer);
	s->answer = NULL;
}

static void send_answer(struct checkpoint_writer *s)
{
	if (s->answer)
		agent_tell(s->server->agent, json_incref(s->answer));
}

/* Answers the order. Takes the reference, and keeps the message in case it is lost. */
static void answer_order(struct checkpoint_writer *s, json_t *msg)
{
	drop_answer(s);
	s->answer = msg;
	send_answer(s);
}

static void report_snapshot_failed(struct checkpoint_writer *s, uint64_t id, enum err_cause cause,
    const char *why)
{
	answer_order(s,
	    MESSAGE(snap, .id = (int64_t)id, .state = SNAP_ANSWER_FAILED, .message = why,
	        .cause = err_cause_name(cause)));
}

static void add_rank_clock(void *ctx, uint32_t rank, uint64_t clock, bool active)
{
	char name[16];

	(void)active;
	snprintf(name, sizeof name, "%u", rank);
	json_object_set_new(ctx, name, json_integer((json_int_t)clock));
}

/* The pushes in the snapshot: an array by rank of lists (layout/taken.h). */
static json_t *snapshot_taken_to_json(struct shard *sh)
{
	json_t *list = json_array();
	struct taken *taken;
	size_t n = shard_snap_taken(sh, &taken);

	for (size_t i = 0; i < n; i++) {
		json_array_append_new(list, taken_to_json(&taken[i]));
		taken_release(&taken[i]);
	}
	free(taken);
	return list;
}

/* ---- the work, without the lock ---- */

/* The step has passed: report the first one that is still possible. With backup workers the slowest
 * clock may be lower than the closed steps; with replicas, higher. When all workers are done, no
 * partition gets further. at: the furthest partition's step. */
static void report_snapshot_late(struct checkpoint_writer *s, struct shard *sh, uint64_t id,
    uint64_t at)
{
	uint64_t clocks = shard_slowest_clock(sh);

	answer_order(s,
	    MESSAGE(snap, .id = (int64_t)id, .state = SNAP_ANSWER_LATE,
	        .first_free = (int64_t)(at > clocks ? at : clocks)));
}

/* Add what can be added to the snapshot. True when it is complete, or cannot be completed. */
static bool collect_snapshot(struct checkpoint_writer *s, struct shard *sh, uint64_t id)
{
	json_t *clocks, *taken;
	struct err e;
	uint64_t at;

	switch (shard_snap_take(sh)) {
	case SHARD_OK:
		clocks = json_object();
		taken = snapshot_taken_to_json(sh);
		shard_snap_clocks(sh, add_rank_clock, clocks);
		answer_order(s,
		    MESSAGE(snap, .id = (int64_t)id, .state = SNAP_ANSWER_TAKEN, .clocks = clocks,
		        .taken = taken));
		json_decref(clocks);
		json_decref(taken);
		return true;
	case SHARD_BAD:
		if (shard_disk_fails(sh, &e))
			report_snapshot_failed(s, id, e.cause, e.msg);
		else
			report_snapshot_failed(s, id, CAUSE_MEMORY,
			    "no memory for a copy of the partitions");
		shard_snap_end(sh);
		return true;
	case SHARD_ELSEWHERE:
		report_snapshot_failed(s, id, CAUSE_UNKNOWN, "the layout has changed");
		return true;
	default:
		if (!shard_snap_is_late(sh, &at))
			return false;
		report_snapshot_late(s, sh, id, at);
		shard_snap_end(sh);
		return true;
	}
}

/* False: the snapshot cannot be taken. */
static bool begin_snapshot(struct checkpoint_writer *s, struct shard *sh, uint64_t id,
    uint64_t step, uint64_t mark, uint64_t base)
{
	uint64_t at;

	shard_snap_marks(sh, mark, base);
	if (shard_snap_begin(sh, step, &at))
		return true;
	report_snapshot_late(s, sh, id, at);
	return false;
}

static void write_checkpoint_files(struct checkpoint_writer *s, struct shard *sh, uint64_t id,
    const char *dir)
{
	json_t *description = NULL;
	struct ckpt_part *parts;
	struct err e = { 0 };
	enum err_code rc;
	size_t n;

	if (!shard_snap_parts(sh, &parts, &n)) {
		report_snapshot_failed(s, id, CAUSE_UNKNOWN, "the layout has changed");
		return;
	}
	/* After a success `e` may still have the error of an earlier attempt. */
	rc = s->server->cfg.id->run_dir
	    ? ckpt_write_server(dir, (unsigned)s->server->cfg.index, parts, n, &description, &e)
	    : file_client_save(s->server, id, parts, n, &description, &e);
	if (rc)
		report_snapshot_failed(s, id, e.cause, e.msg);
	else
		answer_order(s,
		    MESSAGE(snap, .id = (int64_t)id, .state = SNAP_ANSWER_SAVED,
		        .description = description));
	json_decref(description);
	shard_snap_release(parts, n);
}

/* ---- the thread ---- */

static void *run_checkpoint_writer(void *ctx)
{
	struct checkpoint_writer *s = ctx;
	bool waiting = false;

	mutex_lock(&s->lock);
	while (!s->stop) {
		struct shard *sh = atomic_load(&s->server->shard);
		enum order order = s->order;
		uint64_t id = s->id, step = s->step, mark = s->mark, base = s->base;
		bool repeated = s->repeated;
		char *dir = s->dir;

		if (!sh || (order == ORDER_NONE && !(waiting && s->woken) && !repeated)) {
			mutex_wait(&s->changed, &s->lock);
			continue;
		}
		s->order = ORDER_NONE;
		s->woken = s->repeated = false;
		s->dir = NULL;
		mutex_unlock(&s->lock);
		if (order != ORDER_NONE)
			drop_answer(s);
		else if (repeated)
			send_answer(s);
		if (order == ORDER_TAKE)
			waiting = begin_snapshot(s, sh, id, step, mark, base);
		if (order == ORDER_WRITE)
			write_checkpoint_files(s, sh, id, dir);
		if (order == ORDER_END)
			shard_snap_end(sh);
		if (order == ORDER_TAKE || order == ORDER_NONE)
			waiting = waiting && !collect_snapshot(s, sh, id);
		else
			waiting = false;
		free(dir);
		mutex_lock(&s->lock);
		atomic_store(&s->server->role_waits, waiting || s->order == ORDER_TAKE);
	}
	mutex_unlock(&s->lock);
	return NULL;
}

void checkpoint_writer_wake(struct checkpoint_writer *s)
{
	struct shard *sh = atomic_load(&s->server->shard);

	if (sh && !shard_snap_due(sh))
		return;
	mutex_lock(&s->lock);
	s->woken = true;
	pthread_cond_signal(&s->changed);
	mutex_unlock(&s->lock);
}

/* Replaces the order that the thread has not begun. at: id, and what the order needs of the rest.
 * An order that comes again, in a new session, is not carried out twice. */
static void give_order(struct server *server, enum order order, const struct message_snapshot *at,
    const char *dir)
{
	struct checkpoint_writer *s = store_of(server)->writer;

	mutex_lock(&s->lock);
	if (order == s->last && s->id == (uint64_t)at->id) {
		s->repeated = true;
		pthread_cond_signal(&s->changed);
		mutex_unlock(&s->lock);
		return;
	}
	free(s->dir);
	s->dir = mem_strdup(dir);
	s->order = s->last = order;
	s->repeated = false;
	s->id = (uint64_t)at->id;
	s->step = (uint64_t)at->step;
	s->mark = at->mark;
	s->base = at->base;
	atomic_store(&store_of(server)->saves, order == ORDER_END ? 0 : s->id);
	atomic_store(&server->role_waits, order == ORDER_TAKE);
	pthread_cond_signal(&s->changed);
	mutex_unlock(&s->lock);
}

void store_on_snapshot(struct server *s, const struct message *m)
{
	give_order(s, ORDER_TAKE, &m->snapshot, "");
}

void store_on_save(struct server *s, const struct message *m)
{
	const struct message_snapshot at = { .id = m->save.id, .step = m->save.step };

	give_order(s, ORDER_WRITE, &at, m->save.dir);
}

void store_on_snapshot_end(struct server *s, const struct message *m)
{
	const struct message_snapshot at = { .id = m->snapshot_end.id };

	give_order(s, ORDER_END, &at, "");
}

enum err_code checkpoint_writer_start(struct server *server, struct err *e)
{
	struct checkpoint_writer *s = mem_alloc(sizeof *s);
	enum err_code rc;

	s->server = server;
	mutex_init(&s->lock, LOCK_CHECKPOINT);
	pthread_cond_init(&s->changed, NULL);
	rc = thread_start(&s->thread, run_checkpoint_writer, s, e);
	if (rc)
		checkpoint_writer_free(s);
	else
		store_of(server)->writer = s;
	return rc;
}

void checkpoint_writer_stop(struct checkpoint_writer *s)
{
	if (!s)
		return;
	mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->changed);
	mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
}

void checkpoint_writer_free(struct checkpoint_writer *s)
{
	if (!s)
		return;
	mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	free(s->dir);
	json_decref(s->answer);
	free(s);
}
