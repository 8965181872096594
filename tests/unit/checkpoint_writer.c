/* SPDX-License-Identifier: ISC */
/* A store's answers to the orders of a checkpoint. The agent never gets a session, so that each message
 * to the coordinator stays in its queue, where the test finds it. */
#include <dirent.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "session/agent_state.h"
#include "shard_fixture.h"
#include "store/checkpoint_writer.h"

struct process {
	struct server *server;
	struct store store;
	struct identity id;
	struct log log;
	struct world world; /* its shard */
	char dir[40];
};

static void process_open(struct process *p, const char *mode, uint32_t ranks)
{
	struct agent_config cfg = { .deadline = 600 * NSEC_PER_SEC };

	memset(p, 0, sizeof *p);
	snprintf(p->dir, sizeof p->dir, "/tmp/pskit-writer.XXXXXX");
	if (!mkdtemp(p->dir))
		abort();
	log_init(&p->log, "server", 6, LOG_LEVEL_ERROR);
	p->id.run_dir = p->dir;
	p->server = mem_alloc(sizeof *p->server);
	p->server->cfg.id = &p->id;
	p->server->cfg.log = &p->log;
	p->server->role_state = &p->store;
	world_open(&p->world, mode, false, "sgd", 1, ranks);
	atomic_store(&p->server->shard, p->world.shard);
	cfg.id = &p->id.conn;
	cfg.log = &p->log;
	if (agent_start(&cfg, &p->server->agent, NULL) || checkpoint_writer_start(p->server, NULL))
		abort();
}

static void process_close(struct process *p)
{
	DIR *d = opendir(p->dir);
	const struct dirent *entry;

	checkpoint_writer_stop(p->store.writer);
	agent_stop(p->server->agent);
	checkpoint_writer_free(p->store.writer);
	world_close(&p->world);
	free(p->server);
	while ((entry = readdir(d)))
		unlinkat(dirfd(d), entry->d_name, 0);
	closedir(d);
	rmdir(p->dir);
}

/* Waits for the n-th message (from 1). "" when there is none after a while. The text lives as long as the
 * agent. */
static const char *await_message(struct process *p, unsigned n)
{
	struct agent *a = p->server->agent;
	int64_t end = clock_now() + 10 * NSEC_PER_SEC;
	const char *text = NULL;

	while (!text && clock_now() < end) {
		unsigned k = 0;

		mutex_lock(&a->lock);
		for (const struct ask *ask = a->asks; ask; ask = ask->next)
			if (++k == n)
				text = ask->text;
		mutex_unlock(&a->lock);
		if (!text)
			usleep(1000);
	}
	return text ? text : "";
}

/* The thread tells so after its answer. */
static bool comes_to_rest(struct process *p)
{
	int64_t end = clock_now() + 10 * NSEC_PER_SEC;

	while (atomic_load(&p->server->role_waits) && clock_now() < end)
		usleep(1000);
	return !atomic_load(&p->server->role_waits);
}

static bool reports(const char *text, unsigned id, const char *state)
{
	struct err e;
	json_t *o = json_parse(text, strlen(text), 1 << 20, &e);
	bool is = json_int(o, "id", 0) == id && strcmp(json_str(o, "state", ""), state) == 0;

	json_decref(o);
	return is;
}

static void order_snapshot(struct process *p, unsigned id, unsigned step)
{
	store_on_snapshot(p->server,
	    &(struct message){ .kind = MESSAGE_snapshot, .snapshot = { .id = id, .step = step } });
}

static void order_save(struct process *p, unsigned id)
{
	store_on_save(p->server,
	    &(struct message){ .kind = MESSAGE_save, .save = { .id = id, .dir = p->dir } });
}

static void an_answer_is_lost(void)
{
	struct process p;
	char taken[4096], saved[4096];

	process_open(&p, "asp", 1);
	step_of(&p.world, 0, 0, 10, 1);
	order_snapshot(&p, 7, 0);
	snprintf(taken, sizeof taken, "%s", await_message(&p, 1));
	ok(reports(taken, 7, "taken"), "a snapshot is taken: %.60s", taken);
	step_of(&p.world, 0, 1, 10, 1);
	order_snapshot(&p, 7, 0);
	ok(strcmp(await_message(&p, 2), taken) == 0,
	    "when the order is repeated, the answer is, and not the snapshot: %.60s",
	    await_message(&p, 2));
	order_save(&p, 7);
	snprintf(saved, sizeof saved, "%s", await_message(&p, 3));
	ok(reports(saved, 7, "saved"), "it is written: %.60s", saved);
	order_save(&p, 7);
	ok(strcmp(await_message(&p, 4), saved) == 0, "and not written twice: %.60s",
	    await_message(&p, 4));
	order_snapshot(&p, 8, 0);
	ok(reports(await_message(&p, 5), 8, "taken"), "the next snapshot is another one");
	process_close(&p);
}

/* The coordinator is killed while a snapshot waits for its step, and the layout of the next one comes. */
static void a_snapshot_is_ended(void)
{
	struct process p;

	process_open(&p, "bsp", 1);
	order_snapshot(&p, 7, 2);
	while (!shard_snap_covers(p.world.shard, 2))
		usleep(1000);
	order_snapshot(&p, 7, 2);
	shard_install(p.world.shard, &p.world.layout, NULL, NULL);
	for (unsigned i = 0; i < 3; i++)
		step_of(&p.world, 0, i, 10, 1);
	checkpoint_writer_wake(p.store.writer);
	ok(reports(await_message(&p, 1), 7, "failed"),
	    "a snapshot that a new layout has ended fails: %s", await_message(&p, 1));
	order_snapshot(&p, 9, 0);
	ok(reports(await_message(&p, 2), 9, "late"), "a step that has passed is late");
	ok(comes_to_rest(&p), "and nothing waits any more");
	process_close(&p);
}

int main(void)
{
	an_answer_is_lost();
	a_snapshot_is_ended();
	return tap_done();
}
