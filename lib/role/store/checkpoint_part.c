/* SPDX-License-Identifier: ISC */
#include "store/checkpoint_part.h"

#include "core/json.h"
#include "core/mem.h"
#include "store/file_client.h"

/* An order of the coordinator that the thread has not begun yet. */
enum order { ORDER_NONE, ORDER_TAKE, ORDER_WRITE, ORDER_END };

struct checkpoint_part {
	struct server *server;
	pthread_t thread;
	pthread_mutex_t lock; /* all members below */
	pthread_cond_t changed;
	bool stop, woken; /* woken: the shard has changed since the thread looked */
	enum order order;
	uint64_t id, step, mark, base;
	char *dir;
};

static void send_snapshot_state(struct checkpoint_part *s, uint64_t id, json_t *msg)
{
	json_object_set_new(msg, "op", json_string("snap"));
	json_object_set_new(msg, "id", json_integer((json_int_t)id));
	agent_tell(s->server->agent, msg);
	json_decref(msg);
}

static void report_snapshot_failed(struct checkpoint_part *s, uint64_t id, const char *why)
{
	send_snapshot_state(s, id, json_pack("{s:s, s:s}", "state", "failed", "message", why));
}

static void add_slot_clock(void *ctx, uint32_t slot, uint64_t clock, bool active)
{
	char name[16];

	(void)active;
	snprintf(name, sizeof name, "%u", slot);
	json_object_set_new(ctx, name, json_integer((json_int_t)clock));
}

/* ---- the work, without the lock ---- */

/* Add what can be added to the snapshot.  True when it is complete or has failed. */
static bool collect_snapshot(struct checkpoint_part *s, struct shard *sh, uint64_t id)
{
	json_t *clocks;

	switch (shard_snap_take(sh)) {
	case SHARD_OK:
		clocks = json_object();
		shard_snap_clocks(sh, add_slot_clock, clocks);
		send_snapshot_state(s, id,
		    json_pack("{s:s, s:o}", "state", "taken", "clocks", clocks));
		return true;
	case SHARD_BAD:
		report_snapshot_failed(s, id, "no memory for a copy of the partitions");
		shard_snap_end(sh);
		return true;
	default:
		return false;
	}
}

static void begin_snapshot(struct checkpoint_part *s, struct shard *sh, uint64_t id, uint64_t step,
    uint64_t mark, uint64_t base)
{
	uint64_t at, clocks;

	shard_snap_marks(sh, mark, base);
	if (shard_snap_begin(sh, step, &at))
		return;
	/* The step has passed: report the first one that is still possible.  With backup workers
	 * the slowest clock may be behind the closed steps; with replicas, ahead of them. */
	clocks = shard_step(sh);
	send_snapshot_state(s, id,
	    json_pack("{s:s, s:I}", "state", "late", "frontier",
	        (json_int_t)(at > clocks ? at : clocks)));
}

static void write_checkpoint_files(struct checkpoint_part *s, struct shard *sh, uint64_t id,
    const char *dir)
{
	json_t *description = NULL;
	struct ckpt_part *parts;
	struct err e = { 0 };
	size_t n;

	if (!shard_snap_parts(sh, &parts, &n)) {
		report_snapshot_failed(s, id, "the layout has changed meanwhile");
		return;
	}
	if (!s->server->cfg.id->run_dir)
		file_client_save(s->server, id, parts, n, &description, &e);
	else
		ckpt_write_server(dir, (unsigned)s->server->cfg.index, parts, n, &description, &e);
	if (e.code)
		report_snapshot_failed(s, id, e.msg);
	else
		send_snapshot_state(s, id,
		    json_pack("{s:s, s:o}", "state", "saved", "description", description));
	shard_snap_release(parts, n);
}

/* ---- the thread ---- */

static void *run_checkpoint_part(void *ctx)
{
	struct checkpoint_part *s = ctx;
	bool waiting = false;

	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		struct shard *sh = atomic_load(&s->server->shard);
		enum order order = s->order;
		uint64_t id = s->id, step = s->step, mark = s->mark, base = s->base;
		char *dir = s->dir;

		if (!sh || (order == ORDER_NONE && !(waiting && s->woken))) {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		s->order = ORDER_NONE;
		s->woken = false;
		s->dir = NULL;
		pthread_mutex_unlock(&s->lock);
		if (order == ORDER_TAKE)
			begin_snapshot(s, sh, id, step, mark, base);
		if (order == ORDER_WRITE)
			write_checkpoint_files(s, sh, id, dir);
		if (order == ORDER_END)
			shard_snap_end(sh);
		if (order == ORDER_TAKE || order == ORDER_NONE)
			waiting = !collect_snapshot(s, sh, id);
		else
			waiting = false;
		free(dir);
		pthread_mutex_lock(&s->lock);
		atomic_store(&s->server->saving, waiting || s->order == ORDER_TAKE);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

void checkpoint_part_wake(struct checkpoint_part *s)
{
	struct shard *sh = atomic_load(&s->server->shard);

	if (sh && !shard_snap_due(sh))
		return;
	pthread_mutex_lock(&s->lock);
	s->woken = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static enum order parse_snapshot_order(const char *op)
{
	static const char *const name[] = { [ORDER_TAKE] = "snapshot",
		[ORDER_WRITE] = "save",
		[ORDER_END] = "snapshot_end" };

	for (int i = ORDER_TAKE; i <= ORDER_END; i++)
		if (strcmp(op, name[i]) == 0)
			return (enum order)i;
	return ORDER_NONE;
}

bool checkpoint_part_order(struct checkpoint_part *s, const json_t *msg)
{
	enum order order = parse_snapshot_order(json_str(msg, "op", ""));

	if (order == ORDER_NONE)
		return false;
	pthread_mutex_lock(&s->lock);
	s->order = order;
	s->id = (uint64_t)json_int(msg, "id", 0);
	s->step = (uint64_t)json_int(msg, "step", 0);
	s->mark = json_u64s(msg, "mark", 0);
	s->base = json_u64s(msg, "base", 0);
	free(s->dir);
	s->dir = mem_strdup(json_str(msg, "dir", ""));
	atomic_store(&s->server->saves, order == ORDER_END ? 0 : s->id);
	atomic_store(&s->server->saving, s->order == ORDER_TAKE);
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return true;
}

enum err_code checkpoint_part_start(struct server *server, struct err *e)
{
	struct checkpoint_part *s = mem_alloc(sizeof *s);

	s->server = server;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (pthread_create(&s->thread, NULL, run_checkpoint_part, s)) {
		free(s);
		return err_sys(e, ERR_IO, "cannot start a thread");
	}
	server->save = s;
	return ERR_OK;
}

void checkpoint_part_stop(struct checkpoint_part *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
}

void checkpoint_part_free(struct checkpoint_part *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	free(s->dir);
	free(s);
}
