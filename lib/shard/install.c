#include "base/mem.h"
#include "shard/copy.h"
#include "shard/life.h"
#include "shard/regime.h"

/* A partition's place in its chain changes with the layout's epoch. */

static void leave(struct shard *s, struct part *p)
{
	pthread_mutex_lock(&p->lock);
	/* What is not safe by now will be pushed to others again: promise nothing. */
	atomic_store(&p->gone, true);
	p->here = p->live = p->head = p->tail = false;
	p->feed = NO_SERVER;
	copy_redirect(s, p, NO_SERVER, 0);
	part_retire(p, &s->budget);
	p->waited = false;
	pthread_mutex_unlock(&p->lock);
}

static uint64_t process_of(const uint64_t *process, uint16_t server)
{
	return process && server != NO_SERVER ? process[server] : 0;
}

static enum err_code take_place(struct shard *s, struct part *p, const struct run *run, int place,
    const uint64_t *process, struct err *e)
{
	bool tail = place == run->nchain - 1;
	uint16_t next = s->cfg.relay ? SHARD_UPSTREAM : tail ? NO_SERVER : run->chain[place + 1];
	enum err_code rc = ERR_OK;

	pthread_mutex_lock(&p->lock);
	atomic_store(&p->gone, false);
	p->live = true;
	p->head = place == 0;
	p->tail = tail;
	p->feed = tail ? run->joining : NO_SERVER;
	p->feed_process = process_of(process, p->feed);
	atomic_store(&p->copies, run->nchain);
	/* A copy that is being made goes on. */
	if (next != NO_SERVER || p->to != p->feed || p->to_process != p->feed_process)
		copy_redirect(s, p, next, process_of(process, next));
	if (p->head)
		rc = part_alloc_head(p, s, e);
	gate_recap(s, p);
	copy_settle(p);
	p->waited = false;
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static enum err_code install_part(struct shard *s, struct shard_table *table, const struct table *shape, uint32_t i,
    bool fresh, const uint64_t *process, struct err *e)
{
	struct part *p = atomic_load(&table->part[i]);
	const struct run *run = table_run(shape, i);
	int place = run ? run_place(run, s->cfg.self) : -1;
	enum err_code rc = ERR_OK;

	if (place < 0 && (!run || run->joining != s->cfg.self)) {
		if (p)
			leave(s, p);
		return ERR_OK;
	}
	/* It had left, and is to come again: what is here is of another time. */
	if (p && place < 0 && p->live)
		leave(s, p);
	if (!p) {
		p = part_new(&table->shape, i);
		/* Of a new one everybody makes the same first values. */
		if (place >= 0 && fresh)
			rc = part_init(p, s, e);
		p->here = place >= 0 && fresh;
		if (p->here && !rc)
			gate_enter(s, p);
		atomic_store(&table->part[i], p);
	}
	if (place >= 0 && !p->here)
		return err_set(e, ERR_PROTO, "the layout counts on a copy of table \"%s\" partition %u that this server "
		    "has not been given", shape->name, i);
	return rc || place < 0 ? rc : take_place(s, p, run, place, process, e);
}

/* With the partitions that it has here already. */
static struct shard_table *table_new(const struct table *shape, struct shard_table *before)
{
	struct shard_table *table = mem_alloc(sizeof *table);

	table->shape = *shape;
	table->shape.run = NULL;
	table->shape.nruns = 0;
	table->part = mem_array(shape->nparts, sizeof *table->part);
	table->before = before;
	for (uint32_t i = 0; before && i < before->shape.nparts; i++)
		atomic_store(&table->part[i], atomic_load(&before->part[i]));
	return table;
}

static enum err_code install_table(struct shard *s, size_t t, const struct table *shape, const uint64_t *process,
    struct err *e)
{
	struct shard_table *table = atomic_load(&s->table[t]);
	uint32_t had = table ? table->shape.nparts : 0;
	bool fresh = had < shape->nparts;
	enum err_code rc = ERR_OK;

	/* The counts of ids come with the first push, which is too late to say that there is no room. */
	if (!had && !s->cfg.relay && shape->sparse && life_sketch(shape) && shard_fits_table(s, shape, 0, 1, e))
		return err_prefix(e, "table \"%s\": the counts for admit (sketch)", shape->name);
	if (fresh)
		table = table_new(shape, table);
	for (uint32_t i = 0; !rc && i < shape->nparts; i++) {
		rc = install_part(s, table, shape, i, i >= had, process, e);
		if (s->cfg.alive)
			s->cfg.alive(s->cfg.ctx);
	}
	if (!fresh)
		return rc;
	/* Published whole: readers need no lock from here on. */
	atomic_store(&s->table[t], table);
	if (t >= atomic_load(&s->ntables))
		atomic_store(&s->ntables, (uint32_t)t + 1);
	return rc;
}

static void drop_table(struct shard *s, struct shard_table *table)
{
	for (uint32_t i = 0; i < table->shape.nparts; i++) {
		struct part *p = atomic_load(&table->part[i]);

		if (p)
			leave(s, p);
	}
}

void shard_begin_with(struct shard *s, const char *path)
{
	s->cfg.first = path;
}

void shard_begun(struct shard *s)
{
	s->cfg.restore = NULL;
}

enum err_code shard_install(struct shard *s, const struct layout *l, const uint64_t *process, struct err *e)
{
	enum err_code rc = ERR_OK;

	/* Who takes a picture of what changes with the places. */
	shard_snap_end(s);
	for (size_t t = 0; !rc && t < l->ntables; t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		if (l->table[t].nruns)
			rc = install_table(s, t, &l->table[t], process, e);
		else if (l->table[t].dropped && table && !atomic_load(&table->gone))
			drop_table(s, table);
	}
	shard_settle(s);
	/* Who has gone over all of them knows that nothing is owed there. */
	for (size_t t = 0; t < l->ntables; t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		if (l->table[t].dropped && table)
			atomic_store(&table->gone, true);
	}
	return rc;
}
