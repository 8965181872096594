/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "core/read_retry.h"
#include "shard/repl.h"
#include "shard/settings_epoch.h"
#include "shard/shard_ops.h"
#include "shard/row_policy_state.h"

/* Applies a layout: the places of this server's partitions in their chains. The states of a
 * partition are in part.h. */

/* Gives the partition up and frees its values. */
static void leave_part(struct shard *s, struct part *p)
{
	mutex_lock(&p->lock);
	/* Pushes that are not safe by now will be sent to other servers again: acknowledge nothing
	 * more. */
	atomic_fetch_add(&p->tenure, 1);
	atomic_store(&p->gone, true);
	p->ready = p->in_chain = p->chain.head = p->chain.tail = false;
	p->chain.joining = NO_SERVER;
	repl_set_next(s, p, NO_SERVER, 0);
	part_release_values(s, p);
	p->has_waiters = false;
	mutex_unlock(&p->lock);
}

/* The incarnation of a server; 0: none. */
static uint64_t server_process(const uint64_t *process, uint16_t server)
{
	return process && server != NO_SERVER ? process[server] : 0;
}

/* May a state transfer that this server is sending to another go on under this layout? Only if this
 * server has seen every layout since it began: in one that it missed, the other may have been taken
 * out and have dropped what it had. */
static bool transfer_may_go_on(const struct shard *s, const struct part *p, uint32_t epoch)
{
	return p->in_chain && p->chain.tail && epoch == s->layout_epoch + 1 &&
	    p->chain.next == p->chain.joining && p->chain.next_process == p->chain.joining_process;
}

/* Takes place `place` of the chain (0: head). Also makes room for sums where it is the head. */
static enum err_code take_chain_place(struct shard *s, struct part *p, const struct run *run,
    int place, uint32_t epoch, const uint64_t *process, struct err *e)
{
	bool tail = place == run->nchain - 1, goes_on;
	uint16_t next = tail ? s->ops->next : run->chain[place + 1];
	enum err_code rc = ERR_OK;

	mutex_lock(&p->lock);
	atomic_store(&p->gone, false);
	goes_on = transfer_may_go_on(s, p, epoch);
	p->in_chain = true;
	p->chain.head = place == 0;
	p->chain.tail = tail;
	p->chain.joining = tail ? run->joining : NO_SERVER;
	p->chain.joining_process = server_process(process, p->chain.joining);
	atomic_store(&p->chain.replicas, run->nchain);
	if (next != NO_SERVER || !goes_on || p->chain.next != p->chain.joining ||
	    p->chain.next_process != p->chain.joining_process)
		repl_set_next(s, p, next, server_process(process, next));
	if (p->chain.head)
		rc = part_alloc_head(p, s, e);
	s->ops->tell_closed(s, p);
	part_update_safe(p);
	p->has_waiters = false;
	mutex_unlock(&p->lock);
	return rc;
}

/* Makes a partition; fresh: with its first values. *out is set in any case. */
static enum err_code make_part(struct shard *s, const struct table *shape, uint32_t i, bool fresh,
    struct part **out, struct err *e)
{
	struct part *p = part_new(s, shape, i);
	enum err_code rc = ERR_OK;

	/* No other thread can reach it yet, but part_init expects the lock. */
	mutex_lock(&p->lock);
	if (fresh)
		rc = s->ops->init(p, s, e);
	p->ready = fresh;
	if (fresh && !rc)
		settings_epoch_enter_mode(s, p);
	mutex_unlock(&p->lock);
	*out = p;
	return rc;
}

/* Does what make_part does, and tries again if its values cannot be read and cfg.read_again wants
 * it: without this process a cluster that forms cannot go on. */
static enum err_code make_part_patiently(struct shard *s, const struct table *shape, uint32_t i,
    bool fresh, struct part **out, struct err *e)
{
	struct read_retry retry = { 0 };
	struct err why = { 0 };
	enum err_code rc = make_part(s, shape, i, fresh, out, &why);

	while (rc == ERR_IO && s->cfg.read_again && s->cfg.read_again(s->cfg.ctx, &retry, &why)) {
		part_free(s, *out);
		rc = make_part(s, shape, i, fresh, out, &why);
	}
	return rc ? err_pass(e, &why) : ERR_OK;
}

/* Applies the layout to one partition. fresh: the table had no such partition before. */
static enum err_code install_part(struct shard *s, struct shard_table *table,
    const struct table *shape, uint32_t i, bool fresh, uint32_t epoch, const uint64_t *process,
    struct err *e)
{
	struct part *p = atomic_load(&table->part[i]);
	const struct run *run = table_run(shape, i);
	int place = run ? run_chain_index(run, s->cfg.self) : -1;
	enum err_code rc = ERR_OK;

	if (place < 0 && (!run || run->joining != s->cfg.self)) {
		if (p)
			leave_part(s, p);
		return ERR_OK;
	}
	/* This server was a member and now joins again: its values are outdated. */
	if (p && place < 0 && p->in_chain)
		leave_part(s, p);
	if (!p) {
		/* All members of a new chain make the same first values. */
		rc = make_part_patiently(s, &table->shape, i, place >= 0 && fresh, &p, e);
		atomic_store(&table->part[i], p);
	}
	if (place >= 0 && !p->ready)
		return err_set(e, ERR_PROTO,
		    "the layout has a replica of table \"%s\" partition %u that this server has "
		    "not received",
		    shape->name, i);
	return rc || place < 0 ? rc : take_chain_place(s, p, run, place, epoch, process, e);
}

/* Makes a table of this shape with the partitions that are here already. */
static struct shard_table *new_shard_table(const struct table *shape, struct shard_table *before)
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

/* Applies the layout to one table, which may be new or have grown. */
static enum err_code install_table(struct shard *s, size_t t, const struct table *shape,
    uint32_t epoch, const uint64_t *process, struct err *e)
{
	struct shard_table *table = atomic_load(&s->table[t]);
	uint32_t had = table ? table->shape.nparts : 0;
	bool fresh = had < shape->nparts;
	enum err_code rc = ERR_OK;

	/* The counts of ids are allocated by the first push, which is too late for an error. */
	if (!had && shape->sparse && row_policy_state_sketch_bytes(shape) &&
	    shard_fits_table(s, shape, 0, 1, e))
		return err_prefix(e, "table \"%s\": the counts for admit (sketch)", shape->name);
	if (fresh)
		table = new_shard_table(shape, table);
	for (uint32_t i = 0; !rc && i < shape->nparts; i++) {
		rc = install_part(s, table, shape, i, i >= had, epoch, process, e);
		if (s->cfg.alive)
			s->cfg.alive(s->cfg.ctx);
	}
	if (!fresh)
		return rc;
	if (!rc && !had)
		rc = fill_table(s, table, e);
	/* Publish the table only when it is complete: readers take no lock. */
	atomic_store(&s->table[t], table);
	if (t >= atomic_load(&s->ntables))
		atomic_store(&s->ntables, (uint32_t)t + 1);
	return rc;
}

/* Leaves all partitions of a table that the layout no longer has. `gone` is set later, by
 * shard_install. */
static void drop_table(struct shard *s, struct shard_table *table)
{
	for (uint32_t i = 0; i < table->shape.nparts; i++) {
		struct part *p = atomic_load(&table->part[i]);

		if (p)
			leave_part(s, p);
	}
}

void shard_set_init_file(struct shard *s, const char *path)
{
	s->cfg.first = path;
}

void shard_restore_done(struct shard *s)
{
	s->cfg.restore = NULL;
	s->cfg.source = NULL;
}

enum err_code shard_install(struct shard *s, const struct layout *l, const uint64_t *process,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	/* Abort a snapshot that is under way: its partitions change places. */
	shard_snap_end(s);
	for (size_t t = 0; !rc && t < l->ntables; t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		if (l->table[t].nruns)
			rc = install_table(s, t, &l->table[t], l->epoch, process, e);
		else if (l->table[t].dropped && table && !atomic_load(&table->gone))
			drop_table(s, table);
	}
	s->layout_epoch = l->epoch;
	shard_advance(s);
	/* Set `gone` only now, because shard_each skips such tables: shard_advance had to visit
	 * their partitions once more, to see that nothing is pending there. */
	for (size_t t = 0; t < l->ntables; t++) {
		struct shard_table *table = atomic_load(&s->table[t]);

		if (l->table[t].dropped && table)
			atomic_store(&table->gone, true);
	}
	return rc;
}
