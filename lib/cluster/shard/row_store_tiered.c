/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "core/clock.h"
#include "core/endian.h"
#include "core/lock.h"
#include "core/mem.h"
#include "core/read_retry.h"
#include "core/rng.h"
#include "shard/row_store.h"
#include "shard/spill.h"

/* Rows in two tiers: hot ones in slots of memory, whose number is bounded, and all others on the disk
 * (spill.h). A row that is in a slot may be on the disk, too, where its bytes are older if the slot is
 * dirty. A slot may also say that an id has no row, so that it need not be looked up again.
 *
 *   free --take_slot--> loading --load_slots--> clean, or absent
 *   clean, absent --put_many, make_many--> dirty
 *   dirty --write_slot--> writing --write_slots--> clean (dirty again, if it was changed meanwhile)
 *   clean, absent --free_slot--> free
 *
 * Slots become free by a clock: a hand goes around, spares the slots that were used since it came by,
 * writes dirty ones and frees clean ones. It moves only while no update or pull uses the store
 * (in_use), because these hold addresses of rows; from has_present, get_many, make_many or next until
 * settle. A record with more rows than the store's share of the memory takes more for as long as it is
 * being handled.
 *
 * The lock (ROW_STORE) covers everything but the bytes of rows, which belong to the partition's lock,
 * or to a task while the slot is loading. The functions that go over all rows write the dirty ones
 * first, and then go by what is on the disk. They wait for the disk, and if it fails they wait until it
 * works again, or the store gives up. */

#define NO_SLOT     UINT32_MAX
#define CHUNK_BYTES (64u << 10)
/* The chunks that the share of a partition should have at least. */
#define CHUNKS_LEAST 8u
/* The chunks that a store may have although all stores together have their memory. */
#define CHUNKS_FEW 2u
/* Rows that are read or written by one task. */
#define TASK_ROWS 512u
/* The part of the slots that should be free. */
#define FREE_SHARE 16u

enum slot_flag {
	SLOT_LOADING = 1, /* its row is being read */
	SLOT_ABSENT = 2,  /* its id has no row */
	SLOT_DIRTY = 4,   /* the disk has no row, or an older one */
	SLOT_WRITING = 8, /* a copy of the row is being written */
	SLOT_RECENT = 16, /* used since the hand came by */
	SLOT_USED = 32,   /* not free */
};

/* A row follows. */
struct slot {
	uint64_t id;
	uint32_t next; /* of those with the same hash, or of the free ones */
	uint32_t flags;
};

struct tiered_store {
	struct row_store store;
	struct spill *spill;
	struct spill_budget *budget;
	struct mutex lock;    /* covers the rest */
	pthread_cond_t ended; /* a task has ended */
	bool open, closing;
	/* An update or a pull may hold addresses of rows. */
	bool in_use;
	/* Callers that have the answer of make_present, and have not asked has_present yet: their rows
	 * should stay. */
	unsigned granted;
	/* The space may have rows. Before that, a row without a slot does not exist. */
	bool spilled;
	uint64_t top_id;     /* the highest id that has ever had a row here */
	uint64_t departures; /* slots that were freed, from 1 on; it never goes back */
	_Atomic bool failed; /* the store has given up */
	uint64_t space;
	size_t count;
	uint64_t chunk_goal; /* bytes of a chunk, about */
	/* Slots: chunk[i / per_chunk] has slot i; per_chunk is 1 << chunk_bits. */
	uint8_t **chunk;
	size_t nchunks, cap_chunks;
	unsigned chunk_bits;
	uint32_t slot_bytes, per_chunk, nslots, nfree, first_free, hand;
	uint32_t *bucket, nbuckets; /* a power of two; 0: none yet */
	/* slots that were written, to be freed when they are still clean; a ring */
	uint32_t *cleaned, cleaned_at, ncleaned, cap_cleaned;
	unsigned tasks;   /* under way */
	unsigned writing; /* slots being written */
	bool writes_fail; /* the last task that writes has failed, and will try again */
	/* to be called when a task has ended; NULL: nobody waits */
	void (*wake)(void *ctx);
	void *ctx;
	/* the walk of `next`, and room for a block of rows */
	struct spill_walk *walk;
	uint8_t *shown;
};

static struct tiered_store *tiered(const struct row_store *s)
{
	return (struct tiered_store *)(uintptr_t)s;
}

/* ---- slots ---- */

static struct slot *slot_at(const struct tiered_store *t, uint32_t i)
{
	return (struct slot *)(t->chunk[i >> t->chunk_bits] +
	    (size_t)(i & (t->per_chunk - 1)) * t->slot_bytes);
}

static void *row_of(struct slot *x)
{
	return x + 1;
}

static uint32_t bucket_of(const struct tiered_store *t, uint64_t id)
{
	return (uint32_t)rng_mix(id) & (t->nbuckets - 1);
}

/* Has the processor fetch the slots of at most ROWS_BLOCK ids, which are looked up next. */
static void prefetch_slots(const struct tiered_store *t, const uint8_t *ids, uint32_t n)
{
	uint32_t bucket[ROWS_BLOCK];

	if (!t->nbuckets)
		return;
	for (uint32_t i = 0; i < n; i++) {
		bucket[i] = bucket_of(t, get_le64(ids + (size_t)i * 8));
		__builtin_prefetch(&t->bucket[bucket[i]]);
	}
	for (uint32_t i = 0; i < n; i++)
		if (t->bucket[bucket[i]] != NO_SLOT)
			__builtin_prefetch(slot_at(t, t->bucket[bucket[i]]));
}

/* May an id without a slot have a row? A restore makes rows in ascending order of their ids, so that it
 * looks up none of them on the disk. */
static bool may_be_on_disk(const struct tiered_store *t, uint64_t id)
{
	return t->spilled && id <= t->top_id;
}

static uint32_t find_slot(const struct tiered_store *t, uint64_t id)
{
	uint32_t i = t->nbuckets ? t->bucket[bucket_of(t, id)] : NO_SLOT;

	while (i != NO_SLOT && slot_at(t, i)->id != id)
		i = slot_at(t, i)->next;
	return i;
}

/* The bytes that this store may take: an equal share of the table's. */
static uint64_t share_of(const struct tiered_store *t)
{
	uint32_t stores = atomic_load(&t->budget->stores);

	return t->budget->limit / (stores ? stores : 1);
}

static uint64_t chunk_bytes(const struct tiered_store *t)
{
	return (uint64_t)t->per_chunk * t->slot_bytes;
}

static uint64_t bytes_of(const struct tiered_store *t)
{
	return t->nchunks * chunk_bytes(t) + (uint64_t)t->nbuckets * sizeof *t->bucket +
	    (uint64_t)t->cap_cleaned * sizeof *t->cleaned;
}

/* A store may grow up to its share. Stores that were filled when fewer were open have more than their
 * share until they are used again; as long as all of them together have the whole limit, a store gets only
 * a few chunks. */
static bool may_grow(const struct tiered_store *t)
{
	uint64_t more = chunk_bytes(t) + chunk_bytes(t) / 8;

	return bytes_of(t) + more <= share_of(t) &&
	    (t->nchunks < CHUNKS_FEW || atomic_load(&t->budget->used) + more <= t->budget->limit);
}

/* Makes the table of buckets twice as large as the slots. */
static void grow_buckets(struct tiered_store *t)
{
	uint32_t had = t->nbuckets, n = had ? had : 64;

	while (n < t->nslots)
		n *= 2;
	if (n == had)
		return;
	free(t->bucket);
	t->bucket = mem_array(n, sizeof *t->bucket);
	memset(t->bucket, 0xff, n * sizeof *t->bucket);
	t->nbuckets = n;
	atomic_fetch_add(&t->budget->used, (uint64_t)(n - had) * sizeof *t->bucket);
	for (uint32_t i = 0; i < t->nslots; i++) {
		struct slot *x = slot_at(t, i);

		if (!(x->flags & SLOT_USED))
			continue;
		x->next = t->bucket[bucket_of(t, x->id)];
		t->bucket[bucket_of(t, x->id)] = i;
	}
}

static void push_free(struct tiered_store *t, uint32_t i)
{
	struct slot *x = slot_at(t, i);

	x->flags = 0;
	x->next = t->first_free;
	t->first_free = i;
	t->nfree++;
}

static void add_chunk(struct tiered_store *t)
{
	if (t->nchunks == t->cap_chunks) {
		t->cap_chunks = t->cap_chunks ? 2 * t->cap_chunks : 16;
		t->chunk = mem_regrow((void *)t->chunk, t->cap_chunks, sizeof *t->chunk);
	}
	t->chunk[t->nchunks++] = mem_array(t->per_chunk, t->slot_bytes);
	atomic_fetch_add(&t->budget->used, chunk_bytes(t));
	t->nslots += t->per_chunk;
	for (uint32_t i = t->nslots; i > t->nslots - t->per_chunk; i--)
		push_free(t, i - 1);
	grow_buckets(t);
}

/* Takes a free slot for an id that has none, or a new one. */
static uint32_t take_slot(struct tiered_store *t, uint64_t id, uint32_t flags)
{
	uint32_t i;
	struct slot *x;

	if (!t->nfree)
		add_chunk(t);
	i = t->first_free;
	x = slot_at(t, i);
	t->first_free = x->next;
	t->nfree--;
	x->id = id;
	x->flags = SLOT_USED | SLOT_RECENT | flags;
	x->next = t->bucket[bucket_of(t, id)];
	t->bucket[bucket_of(t, id)] = i;
	return i;
}

/* Takes the slot out of its bucket. */
static void unlink_slot(struct tiered_store *t, uint32_t i)
{
	uint32_t *at = &t->bucket[bucket_of(t, slot_at(t, i)->id)];

	while (*at != i)
		at = &slot_at(t, *at)->next;
	*at = slot_at(t, i)->next;
}

static void free_slot(struct tiered_store *t, uint32_t i)
{
	unlink_slot(t, i);
	push_free(t, i);
	t->departures++;
}

static void release_slots(struct tiered_store *t)
{
	atomic_fetch_sub(&t->budget->used, bytes_of(t));
	for (size_t i = 0; i < t->nchunks; i++)
		free(t->chunk[i]);
	free((void *)t->chunk);
	free(t->bucket);
	free(t->cleaned);
	t->chunk = NULL;
	t->bucket = t->cleaned = NULL;
	t->departures++;
	t->nchunks = t->cap_chunks = 0;
	t->nslots = t->nfree = t->nbuckets = t->hand = 0;
	t->cleaned_at = t->ncleaned = t->cap_cleaned = 0;
	t->first_free = NO_SLOT;
}

/* ---- tasks ---- */

/* Reads or writes some slots. */
struct slot_task {
	struct spill_task task;
	struct tiered_store *store;
	struct spill_batch *batch; /* writes */
	uint32_t n, slot[TASK_ROWS];
};

/* Ends a task with the lock held, and gives it up. */
static void end_task(struct tiered_store *t, struct slot_task *x)
{
	void (*wake)(void *ctx) = t->wake;
	void *ctx = t->ctx;

	t->tasks--;
	t->wake = NULL;
	pthread_cond_broadcast(&t->ended);
	mutex_unlock(&t->lock);
	if (x->batch)
		spill_batch_free(x->batch);
	free(x);
	if (wake)
		wake(ctx);
}

/* Tries again later, unless nobody needs the result any more. False: the task is still the caller's. */
static bool try_again(struct tiered_store *t, struct slot_task *x)
{
	bool again;

	mutex_lock(&t->lock);
	again = !t->closing;
	t->writes_fail |= x->batch != NULL;
	pthread_cond_broadcast(&t->ended);
	mutex_unlock(&t->lock);
	if (again && spill_gives_up(t->spill)) {
		atomic_store(&t->failed, true);
		return false;
	}
	if (again)
		spill_run_again(t->spill, &x->task);
	return again;
}

static void load_slots(struct spill_task *task)
{
	struct slot_task *x = (struct slot_task *)task;
	struct tiered_store *t = x->store;
	uint64_t ids[TASK_ROWS];
	void *row[TASK_ROWS];
	bool found[TASK_ROWS];
	struct err e;
	enum err_code rc;

	mutex_lock(&t->lock);
	for (uint32_t i = 0; i < x->n; i++) {
		ids[i] = slot_at(t, x->slot[i])->id;
		row[i] = row_of(slot_at(t, x->slot[i]));
	}
	mutex_unlock(&t->lock);
	rc = spill_read(t->spill, t->space, x->n, ids, t->store.layout.bytes, row, found, &e);
	if (rc && try_again(t, x))
		return;
	mutex_lock(&t->lock);
	for (uint32_t i = 0; i < x->n; i++) {
		struct slot *s = slot_at(t, x->slot[i]);

		/* After an error the store is being closed, or has given up. */
		s->flags &= ~(uint32_t)SLOT_LOADING;
		s->flags |= rc || !found[i] ? SLOT_ABSENT : 0;
	}
	end_task(t, x);
}

/* Notes that the slot was written. */
static void push_cleaned(struct tiered_store *t, uint32_t i)
{
	if (t->ncleaned == t->cap_cleaned) {
		uint32_t n = t->cap_cleaned ? 2 * t->cap_cleaned : 256,
		         *ring = mem_array(n, sizeof *ring);

		for (uint32_t k = 0; k < t->ncleaned; k++)
			ring[k] = t->cleaned[(t->cleaned_at + k) & (t->cap_cleaned - 1)];
		atomic_fetch_add(&t->budget->used, (uint64_t)(n - t->cap_cleaned) * sizeof *ring);
		free(t->cleaned);
		t->cleaned = ring;
		t->cleaned_at = 0;
		t->cap_cleaned = n;
	}
	t->cleaned[(t->cleaned_at + t->ncleaned++) & (t->cap_cleaned - 1)] = i;
}

/* May slots leave the memory? */
static bool may_leave(const struct tiered_store *t)
{
	return !t->in_use && !t->granted;
}

static void free_clean_slots(struct tiered_store *t);

static void write_slots(struct spill_task *task)
{
	struct slot_task *x = (struct slot_task *)task;
	struct tiered_store *t = x->store;
	struct err e;

	if (spill_write(t->spill, x->batch, &e) && try_again(t, x))
		return;
	mutex_lock(&t->lock);
	for (uint32_t i = 0; i < x->n; i++) {
		slot_at(t, x->slot[i])->flags &= ~(uint32_t)SLOT_WRITING;
		push_cleaned(t, x->slot[i]);
	}
	t->writing -= x->n;
	t->writes_fail = false;
	if (may_leave(t))
		free_clean_slots(t);
	end_task(t, x);
}

static struct slot_task *new_task(struct tiered_store *t, void (*run)(struct spill_task *task))
{
	struct slot_task *x = mem_alloc(sizeof *x);

	x->task.run = run;
	x->store = t;
	return x;
}

static void start_task(struct tiered_store *t, struct slot_task *x)
{
	t->tasks++;
	spill_run(t->spill, &x->task);
}

/* Adds a dirty slot to a task that writes, which begins when it is full. */
static void write_slot(struct tiered_store *t, struct slot_task **task, uint32_t i)
{
	struct slot *s = slot_at(t, i);

	if (!*task) {
		*task = new_task(t, write_slots);
		(*task)->batch = spill_batch_new();
	}
	spill_batch_put((*task)->batch, t->space, s->id, row_of(s), t->store.layout.bytes);
	s->flags = (s->flags & ~(uint32_t)SLOT_DIRTY) | SLOT_WRITING;
	(*task)->slot[(*task)->n++] = i;
	t->writing++;
	t->spilled = true;
	if ((*task)->n == TASK_ROWS) {
		start_task(t, *task);
		*task = NULL;
	}
}

/* ---- room ---- */

static bool is_free_to_go(const struct slot *x)
{
	return x->flags & SLOT_USED &&
	    !(x->flags & (SLOT_LOADING | SLOT_WRITING | SLOT_RECENT | SLOT_DIRTY));
}

/* Frees the slots that were written and not used since. */
static void free_clean_slots(struct tiered_store *t)
{
	for (; t->ncleaned; t->ncleaned--) {
		uint32_t i = t->cleaned[t->cleaned_at];

		t->cleaned_at = (t->cleaned_at + 1) & (t->cap_cleaned - 1);
		if (i < t->nslots && is_free_to_go(slot_at(t, i)))
			free_slot(t, i);
	}
}

static uint32_t free_wanted(const struct tiered_store *t)
{
	return t->nslots / FREE_SHARE + (t->nslots / 8 < 64 ? t->nslots / 8 : 64);
}

/* Moves the hand until enough slots are free, or will be when they are written; at most once around
 * for each call. The slots must not be in use. */
static void make_room(struct tiered_store *t)
{
	struct slot_task *task = NULL;
	uint32_t wanted = free_wanted(t);

	free_clean_slots(t);
	for (uint32_t steps = 0; steps < t->nslots && t->nfree + t->writing < wanted; steps++) {
		struct slot *x = slot_at(t, t->hand);

		if (is_free_to_go(x))
			free_slot(t, t->hand);
		else if (x->flags & SLOT_USED && !(x->flags & (SLOT_LOADING | SLOT_WRITING))) {
			if (x->flags & SLOT_RECENT)
				x->flags &= ~(uint32_t)SLOT_RECENT;
			else
				write_slot(t, &task, t->hand);
		}
		t->hand = t->hand + 1 < t->nslots ? t->hand + 1 : 0;
	}
	if (task)
		start_task(t, task);
}

/* Moves the slots of the last chunk to free ones and gives the chunk back. False: it cannot be now. */
static bool drop_chunk(struct tiered_store *t)
{
	uint32_t begin = t->nslots - t->per_chunk, used = 0, *at;

	for (uint32_t i = begin; i < t->nslots; i++) {
		const struct slot *x = slot_at(t, i);

		if (x->flags & (SLOT_LOADING | SLOT_WRITING))
			return false;
		used += (x->flags & SLOT_USED) != 0;
	}
	if (t->nfree < t->per_chunk || t->nfree - (t->per_chunk - used) < used)
		return false;
	/* Free slots of the chunk leave the list. */
	for (at = &t->first_free; *at != NO_SLOT;)
		if (*at >= begin) {
			*at = slot_at(t, *at)->next;
			t->nfree--;
		} else {
			at = &slot_at(t, *at)->next;
		}
	for (uint32_t i = begin; i < t->nslots; i++) {
		struct slot *x = slot_at(t, i);
		uint32_t to;

		if (!(x->flags & SLOT_USED))
			continue;
		unlink_slot(t, i);
		to = take_slot(t, x->id, 0);
		slot_at(t, to)->flags = x->flags;
		memcpy(row_of(slot_at(t, to)), row_of(x), t->store.layout.bytes);
	}
	t->nslots = begin;
	if (t->hand >= t->nslots)
		t->hand = 0;
	free(t->chunk[--t->nchunks]);
	atomic_fetch_sub(&t->budget->used, chunk_bytes(t));
	return true;
}

/* Makes room when no slot may be added, and gives back memory beyond the store's share. */
static void keep_to_share(struct tiered_store *t)
{
	if (t->nfree < free_wanted(t) && !may_grow(t))
		make_room(t);
	while (t->nchunks > 1 && bytes_of(t) > share_of(t) && drop_chunk(t))
		;
}

/* ---- life ---- */

extern const struct row_store_ops row_store_tiered;

static struct row_store *make_store(const struct table *table, struct spill *spill)
{
	struct tiered_store *t = mem_alloc(sizeof *t);

	t->store.ops = &row_store_tiered;
	t->store.element_bytes = sizeof(float);
	t->spill = spill;
	t->budget = spill_budget(spill, table->name, table->policy.ram, table->policy.disk);
	t->chunk_goal = t->budget->limit / table->nparts / CHUNKS_LEAST;
	if (t->chunk_goal > CHUNK_BYTES)
		t->chunk_goal = CHUNK_BYTES;
	mutex_init(&t->lock, LOCK_ROW_STORE);
	pthread_cond_init(&t->ended, NULL);
	t->first_free = NO_SLOT;
	t->departures = 1;
	return &t->store;
}

/* Waits for the tasks; then there are none but those that the caller starts. */
static void await_tasks(struct tiered_store *t)
{
	while (t->tasks)
		mutex_wait(&t->ended, &t->lock);
}

static void end_walk(struct tiered_store *t)
{
	spill_walk_free(t->walk);
	t->walk = NULL;
}

/* With the lock. */
static void close_open_store(struct tiered_store *t)
{
	if (!t->open)
		return;
	t->closing = true;
	await_tasks(t);
	t->closing = t->open = t->in_use = false;
	t->granted = 0;
	t->wake = NULL;
	end_walk(t);
	release_slots(t);
	free(t->shown);
	t->shown = NULL;
	t->count = 0;
	if (t->spilled)
		spill_drop_space(t->spill, t->space);
	t->spilled = false;
	t->top_id = 0;
	atomic_fetch_sub(&t->budget->stores, 1);
}

static void close_store(struct row_store *s)
{
	struct tiered_store *t = tiered(s);

	mutex_lock(&t->lock);
	close_open_store(t);
	mutex_unlock(&t->lock);
}

static void free_store(struct row_store *s)
{
	struct tiered_store *t = tiered(s);

	close_store(s);
	pthread_cond_destroy(&t->ended);
	mutex_destroy(&t->lock);
	free(t);
}

/* Bytes of a row in memory, in whole numbers of an id. */
static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

static void set_layout(struct tiered_store *t, const struct row_layout *l)
{
	t->store.layout = *l;
	t->slot_bytes = (uint32_t)(sizeof(struct slot) + padded(l->bytes));
	for (t->chunk_bits = 0; (UINT64_C(2) << t->chunk_bits) * t->slot_bytes <= t->chunk_goal;)
		t->chunk_bits++;
	t->per_chunk = UINT32_C(1) << t->chunk_bits;
	free(t->shown);
	t->shown = mem_array(ROWS_BLOCK, padded(l->bytes));
}

static void open_store(struct row_store *s, const struct row_layout *l)
{
	struct tiered_store *t = tiered(s);

	mutex_lock(&t->lock);
	close_open_store(t);
	set_layout(t, l);
	t->space = spill_new_space(t->spill);
	atomic_fetch_add(&t->budget->stores, 1);
	atomic_store(&t->failed, false);
	t->open = true;
	mutex_unlock(&t->lock);
}

/* ---- presence ---- */

/* Has the store to wait until some slots were written, before it gets one more for a record of n rows?
 * Not while it is in use, because the update may need the row to end; and not for a record that takes
 * most of the store's share alone: its rows would drive each other out. */
static bool must_wait_for_room(struct tiered_store *t, uint32_t n)
{
	if (t->nfree || may_grow(t) || (uint64_t)n * t->slot_bytes > share_of(t) / 4)
		return false;
	if (may_leave(t))
		make_room(t);
	return !t->nfree && may_leave(t) && t->writing;
}

static enum shard_answer make_present(struct row_store *s, const uint8_t *ids, uint32_t n,
    void (*wake)(void *ctx), void *ctx, uint64_t *since)
{
	struct tiered_store *t = tiered(s);
	struct slot_task *task = NULL;
	bool waits = false;
	uint32_t missed = 0;

	if (atomic_load(&t->failed))
		return SHARD_WAIT;
	mutex_lock(&t->lock);
	for (uint32_t k = 0; t->spilled && k < n; k++) {
		uint64_t id = get_le64(ids + (size_t)k * 8);
		uint32_t i;

		if (k % ROWS_BLOCK == 0)
			prefetch_slots(t, ids + (size_t)k * 8,
			    n - k < ROWS_BLOCK ? n - k : ROWS_BLOCK);
		i = find_slot(t, id);
		if (i != NO_SLOT) {
			slot_at(t, i)->flags |= SLOT_RECENT;
			waits |= (slot_at(t, i)->flags & SLOT_LOADING) != 0;
			continue;
		}
		if (must_wait_for_room(t, n)) {
			waits = true;
			break;
		}
		/* Requests that wait for their turn take no more than the store's share. */
		if (!since && !t->nfree && !may_grow(t))
			break;
		if (!may_be_on_disk(t, id)) {
			take_slot(t, id, SLOT_ABSENT);
			continue;
		}
		missed++;
		if (!task)
			task = new_task(t, load_slots);
		task->slot[task->n++] = take_slot(t, id, SLOT_LOADING);
		waits = true;
		if (task->n == TASK_ROWS) {
			start_task(t, task);
			task = NULL;
		}
	}
	if (task)
		start_task(t, task);
	if (waits && wake) {
		t->wake = wake;
		t->ctx = ctx;
	} else if (!waits && since) {
		t->granted++;
		*since = t->departures;
	}
	mutex_unlock(&t->lock);
	atomic_fetch_add_explicit(&t->budget->missed, missed, memory_order_relaxed);
	if (!waits && since)
		atomic_fetch_add_explicit(&t->budget->asked, n, memory_order_relaxed);
	return waits ? SHARD_WAIT : SHARD_OK;
}

static bool has_present(struct row_store *s, const uint8_t *ids, uint32_t n, uint64_t since)
{
	struct tiered_store *t = tiered(s);
	bool present = !atomic_load(&t->failed);

	mutex_lock(&t->lock);
	t->granted -= since && t->granted;
	for (uint32_t k = 0; t->spilled && t->departures != since && present && k < n; k++) {
		uint32_t i = find_slot(t, get_le64(ids + (size_t)k * 8));

		present = i != NO_SLOT && !(slot_at(t, i)->flags & SLOT_LOADING);
	}
	if (present)
		t->in_use = true;
	mutex_unlock(&t->lock);
	return present;
}

static void settle(struct row_store *s)
{
	struct tiered_store *t = tiered(s);

	mutex_lock(&t->lock);
	t->in_use = false;
	if (t->open && may_leave(t))
		keep_to_share(t);
	mutex_unlock(&t->lock);
}

/* ---- waiting for the disk ---- */

/* Waits before the disk is tried again. False: the store gives up. */
static bool pause_for_disk(struct tiered_store *t)
{
	if (spill_gives_up(t->spill)) {
		atomic_store(&t->failed, true);
		return false;
	}
	clock_sleep(READ_RETRY_PAUSE_MS);
	return true;
}

static bool has_failed(const struct row_store *s)
{
	return atomic_load(&tiered(s)->failed);
}

/* Writes a batch and empties it. The lock may be held or not. */
static void write_now(struct tiered_store *t, struct spill_batch **b)
{
	struct err e;

	while (*b && spill_write(t->spill, *b, &e) && pause_for_disk(t))
		;
	if (*b)
		spill_batch_free(*b);
	*b = NULL;
}

/* Slots for n ids that have none, with their rows from the disk. The partition's lock keeps others from
 * adding them; a task may. */
static void load_now(struct tiered_store *t, const uint64_t *ids, uint32_t n)
{
	size_t each = padded(t->store.layout.bytes);
	uint8_t *rows = mem_array(n, each);
	void *row[ROWS_BLOCK];
	bool found[ROWS_BLOCK] = { false };
	struct err e;

	for (uint32_t k = 0; k < n; k++)
		row[k] = rows + k * each;
	mutex_unlock(&t->lock);
	while (spill_read(t->spill, t->space, n, ids, t->store.layout.bytes, row, found, &e) &&
	    pause_for_disk(t))
		;
	mutex_lock(&t->lock);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t i;

		if (find_slot(t, ids[k]) != NO_SLOT)
			continue;
		i = take_slot(t, ids[k], found[k] ? 0 : SLOT_ABSENT);
		if (found[k])
			memcpy(row_of(slot_at(t, i)), row[k], t->store.layout.bytes);
	}
	free(rows);
}

/* Waits for the row of a slot that is being read. */
static void await_row(struct tiered_store *t, uint32_t i)
{
	while (slot_at(t, i)->flags & SLOT_LOADING)
		mutex_wait(&t->ended, &t->lock);
}

/* Finds the slots of n ids, whose rows are read here where nobody has seen to it that they are in
 * memory. NO_SLOT: there is no such row. */
static void find_slots(struct tiered_store *t, const uint8_t *ids, uint32_t n,
    uint32_t slot[static ROWS_BLOCK])
{
	uint64_t missing[ROWS_BLOCK];
	uint32_t k = 0;

	t->in_use = true;
	prefetch_slots(t, ids, n);
	for (uint32_t i = 0; i < n; i++) {
		slot[i] = find_slot(t, get_le64(ids + (size_t)i * 8));
		if (slot[i] == NO_SLOT && may_be_on_disk(t, get_le64(ids + (size_t)i * 8)))
			missing[k++] = get_le64(ids + (size_t)i * 8);
	}
	if (!t->spilled)
		return;
	if (k)
		load_now(t, missing, k);
	for (uint32_t i = 0; i < n; i++) {
		if (slot[i] == NO_SLOT)
			slot[i] = find_slot(t, get_le64(ids + (size_t)i * 8));
		if (slot[i] != NO_SLOT)
			await_row(t, slot[i]);
	}
}

/* ---- rows by their ids ---- */

static uint64_t find_many(const struct row_store *s, const uint8_t *ids, uint32_t n)
{
	struct tiered_store *t = tiered(s);
	uint32_t slot[ROWS_BLOCK];
	uint64_t found = 0;

	mutex_lock(&t->lock);
	find_slots(t, ids, n, slot);
	for (uint32_t i = 0; i < n; i++)
		found |=
		    (uint64_t)(slot[i] != NO_SLOT && !(slot_at(t, slot[i])->flags & SLOT_ABSENT))
		    << i;
	mutex_unlock(&t->lock);
	return found;
}

static void get_many(struct row_store *s, const uint8_t *ids, uint32_t n, void **row)
{
	struct tiered_store *t = tiered(s);
	uint32_t slot[ROWS_BLOCK];

	mutex_lock(&t->lock);
	find_slots(t, ids, n, slot);
	for (uint32_t i = 0; i < n; i++) {
		struct slot *x = slot[i] == NO_SLOT ? NULL : slot_at(t, slot[i]);

		row[i] = NULL;
		if (!x)
			continue;
		x->flags |= SLOT_RECENT;
		row[i] = x->flags & SLOT_ABSENT ? NULL : row_of(x);
	}
	mutex_unlock(&t->lock);
}

static bool make_many(struct row_store *s, const uint8_t *ids, uint32_t n, void **row,
    uint64_t *made)
{
	struct tiered_store *t = tiered(s);
	uint32_t slot[ROWS_BLOCK];

	*made = 0;
	mutex_lock(&t->lock);
	find_slots(t, ids, n, slot);
	for (uint32_t i = 0; i < n; i++) {
		struct slot *x;

		/* It may be there twice, and have got its slot just now. */
		if (slot[i] == NO_SLOT)
			slot[i] = find_slot(t, get_le64(ids + (size_t)i * 8));
		if (slot[i] == NO_SLOT)
			slot[i] = take_slot(t, get_le64(ids + (size_t)i * 8), SLOT_ABSENT);
		x = slot_at(t, slot[i]);
		row[i] = row_of(x);
		if (x->flags & SLOT_ABSENT) {
			memset(row[i], 0, t->store.layout.bytes);
			*made |= UINT64_C(1) << i;
			t->count++;
			if (x->id > t->top_id)
				t->top_id = x->id;
		}
		x->flags = (x->flags & ~(uint32_t)SLOT_ABSENT) | SLOT_RECENT |
		    (*made >> i & 1 ? SLOT_DIRTY : 0);
	}
	mutex_unlock(&t->lock);
	return true;
}

/* Is it one of the rows that `next` has copied from the disk? */
static bool is_shown(const struct tiered_store *t, const void *row)
{
	const uint8_t *at = row;

	return at >= t->shown && at < t->shown + ROWS_BLOCK * padded(t->store.layout.bytes);
}

/* Puts a row that `next` has copied from the disk. A task may have read it into a slot since. */
static void put_shown(struct tiered_store *t, uint64_t id, const void *row, struct spill_batch **b)
{
	uint32_t i = find_slot(t, id);

	if (i != NO_SLOT) {
		await_row(t, i);
		memcpy(row_of(slot_at(t, i)), row, t->store.layout.bytes);
		slot_at(t, i)->flags |= SLOT_DIRTY;
		return;
	}
	if (!*b)
		*b = spill_batch_new();
	spill_batch_put(*b, t->space, id, row, t->store.layout.bytes);
}

static void put_many(struct row_store *s, uint64_t version, const uint8_t *ids, uint32_t n,
    void *const *row)
{
	struct tiered_store *t = tiered(s);
	struct spill_batch *b = NULL;

	(void)version;
	mutex_lock(&t->lock);
	for (uint32_t i = 0; i < n; i++)
		if (is_shown(t, row[i]))
			put_shown(t, get_le64(ids + (size_t)i * 8), row[i], &b);
		else
			((struct slot *)row[i] - 1)->flags |= SLOT_DIRTY;
	write_now(t, &b);
	mutex_unlock(&t->lock);
}

/* ---- all rows ---- */

/* Writes the next dirty rows, from slot *at on, which it moves. False: the disk fails, and *at stays. */
static bool write_some_dirty(struct tiered_store *t, uint32_t *at)
{
	struct spill_batch *b = spill_batch_new();
	uint32_t slot[TASK_ROWS], n = 0, i = *at;
	enum err_code rc;
	struct err e;

	for (; i < t->nslots && n < TASK_ROWS; i++) {
		const struct slot *x = slot_at(t, i);

		if (!(x->flags & SLOT_DIRTY))
			continue;
		spill_batch_put(b, t->space, x->id, row_of(slot_at(t, i)), t->store.layout.bytes);
		slot[n++] = i;
	}
	rc = n ? spill_write(t->spill, b, &e) : ERR_OK;
	spill_batch_free(b);
	if (rc)
		return false;
	for (uint32_t k = 0; k < n; k++)
		slot_at(t, slot[k])->flags &= ~(uint32_t)SLOT_DIRTY;
	t->spilled |= n > 0;
	*at = i;
	return true;
}

/* Writes all dirty rows, so that the disk has all rows as they are. */
static void write_dirty(struct tiered_store *t)
{
	uint32_t at = 0;

	while (t->writing)
		mutex_wait(&t->ended, &t->lock);
	while (at < t->nslots && (write_some_dirty(t, &at) || pause_for_disk(t)))
		;
}

/* Does what write_dirty does, but does not wait for a disk that fails. False: it does. */
static bool try_to_write_dirty(struct tiered_store *t)
{
	uint32_t at = 0;

	/* A task that tries again would write older rows over those that are written here. */
	while (t->writing && !t->writes_fail)
		mutex_wait(&t->ended, &t->lock);
	if (t->writing)
		return false;
	while (at < t->nslots)
		if (!write_some_dirty(t, &at))
			return false;
	return true;
}

/* Writes all rows in this thread and frees their slots. The caller makes many rows, none of which is used
 * soon, and tasks would write only a few of them each time. */
static void drain(struct row_store *s)
{
	struct tiered_store *t = tiered(s);

	mutex_lock(&t->lock);
	t->in_use = false;
	if (t->open && t->nfree < ROWS_BLOCK && !may_grow(t) && may_leave(t)) {
		write_dirty(t);
		for (uint32_t i = 0; i < t->nslots; i++)
			if ((slot_at(t, i)->flags & ~(uint32_t)(SLOT_RECENT | SLOT_ABSENT)) ==
			    SLOT_USED)
				free_slot(t, i);
	}
	if (t->open && may_leave(t))
		keep_to_share(t);
	mutex_unlock(&t->lock);
}

/* The row at which the walk is, or the next one after the disk has worked again; false at the end. next:
 * the id from which on rows have not been seen. */
static bool walk_row(struct tiered_store *t, struct spill_walk *w, uint64_t next, uint64_t *id,
    const void **row)
{
	struct err e;
	size_t bytes;

	while (!spill_walk_at(w, id, row, &bytes)) {
		if (!spill_walk_error(w, &e) || !pause_for_disk(t))
			return false;
		spill_walk_seek(w, next);
	}
	return true;
}

static uint32_t next_rows(struct row_store *s, uint64_t *at, uint32_t most, uint64_t *ids,
    void **row)
{
	struct tiered_store *t = tiered(s);
	size_t each = padded(t->store.layout.bytes);
	const void *from;
	uint64_t id, next;
	uint32_t n = 0;

	mutex_lock(&t->lock);
	t->in_use = true;
	if (!*at) {
		end_walk(t);
		write_dirty(t);
		t->walk = spill_walk_new(t->spill, t->space);
	}
	for (next = 0; t->walk && n < most && walk_row(t, t->walk, next, &id, &from); n++) {
		uint32_t i = find_slot(t, id);

		ids[n] = id;
		next = id + 1;
		row[n] = t->shown + n * each;
		if (i == NO_SLOT) {
			memcpy(row[n], from, t->store.layout.bytes);
		} else {
			await_row(t, i);
			row[n] = row_of(slot_at(t, i));
		}
		spill_walk_next(t->walk);
	}
	*at += n;
	if (!n)
		end_walk(t);
	mutex_unlock(&t->lock);
	return n;
}

static size_t remove_rows(struct row_store *s, rows_keeps_fn *keeps, void *ctx)
{
	struct tiered_store *t = tiered(s);
	uint8_t *copy = mem_array(1, padded(t->store.layout.bytes));
	struct spill_batch *b = NULL;
	struct spill_walk *w;
	const void *from;
	size_t removed = 0;
	uint64_t id;

	mutex_lock(&t->lock);
	write_dirty(t);
	w = spill_walk_new(t->spill, t->space);
	for (uint64_t next = 0; walk_row(t, w, next, &id, &from);
	     next = id + 1, spill_walk_next(w)) {
		uint32_t i;

		memcpy(copy, from, t->store.layout.bytes);
		if (keeps(ctx, id, copy))
			continue;
		i = find_slot(t, id);
		if (i != NO_SLOT)
			slot_at(t, i)->flags |= SLOT_ABSENT;
		if (!b)
			b = spill_batch_new();
		spill_batch_remove(b, t->space, id);
		if (++removed % TASK_ROWS == 0)
			write_now(t, &b);
	}
	write_now(t, &b);
	spill_walk_free(w);
	t->count -= removed;
	mutex_unlock(&t->lock);
	free(copy);
	return removed;
}

static bool convert_rows(struct row_store *s, const struct row_layout *l, row_convert_fn *fn,
    void *ctx)
{
	struct tiered_store *t = tiered(s);
	uint8_t *from = mem_array(1, padded(t->store.layout.bytes)),
	        *to = mem_array(1, padded(l->bytes));
	uint64_t space = spill_new_space(t->spill), id, n = 0;
	struct spill_batch *b = NULL;
	struct spill_walk *w;
	const void *row;

	mutex_lock(&t->lock);
	await_tasks(t);
	write_dirty(t);
	w = spill_walk_new(t->spill, t->space);
	for (uint64_t next = 0; walk_row(t, w, next, &id, &row);
	     next = id + 1, spill_walk_next(w)) {
		memcpy(from, row, t->store.layout.bytes);
		memset(to, 0, l->bytes);
		fn(ctx, from, to);
		if (!b)
			b = spill_batch_new();
		spill_batch_put(b, space, id, to, l->bytes);
		if (++n % TASK_ROWS == 0)
			write_now(t, &b);
	}
	write_now(t, &b);
	spill_walk_free(w);
	end_walk(t);
	release_slots(t);
	set_layout(t, l);
	spill_drop_space(t->spill, t->space);
	t->space = space;
	t->in_use = false;
	mutex_unlock(&t->lock);
	free(from);
	free(to);
	return true;
}

/* ---- snapshots ---- */

struct tiered_snapshot {
	struct row_snapshot snapshot;
	struct spill *spill;
	struct spill_walk *walk;
	uint64_t *wanted; /* ids of the rows, ascending; NULL: all */
	size_t at, row_bytes;
	uint64_t next;
	uint8_t *rows;
};

static void free_snapshot(struct row_snapshot *x)
{
	struct tiered_snapshot *m = (struct tiered_snapshot *)x;

	spill_walk_free(m->walk);
	free(m->wanted);
	free(m->rows);
	free(m);
}

/* Lists the rows that are wanted. False: the disk fails. */
static bool list_wanted(struct tiered_store *t, struct tiered_snapshot *m, rows_keeps_fn *wants,
    void *ctx)
{
	uint8_t *copy = mem_array(1, padded(t->store.layout.bytes));
	size_t room = 0, bytes;
	const void *row;
	struct err e;
	uint64_t id;
	bool good;

	for (; spill_walk_at(m->walk, &id, &row, &bytes); spill_walk_next(m->walk)) {
		memcpy(copy, row, t->store.layout.bytes);
		if (!wants(ctx, id, copy))
			continue;
		if (m->snapshot.n == room) {
			room = room ? 2 * room : 1024;
			m->wanted = mem_regrow(m->wanted, room, sizeof *m->wanted);
		}
		m->wanted[m->snapshot.n++] = id;
	}
	if (!m->wanted)
		m->wanted = mem_array(1, sizeof *m->wanted);
	good = !spill_walk_error(m->walk, &e);
	spill_walk_rewind(m->walk);
	free(copy);
	return good;
}

static struct row_snapshot *take_snapshot(struct row_store *s, rows_keeps_fn *wants, void *ctx)
{
	struct tiered_store *t = tiered(s);
	struct tiered_snapshot *m = mem_alloc(sizeof *m);
	bool good;

	m->snapshot.ops = &row_store_tiered;
	m->spill = t->spill;
	m->row_bytes = t->store.layout.bytes;
	m->rows = mem_array(ROWS_BLOCK, padded(m->row_bytes));
	/* The caller holds the partition's lock, which others need for more than rows. A checkpoint may fail:
	 * later ones follow. */
	mutex_lock(&t->lock);
	good = !atomic_load(&t->failed) && try_to_write_dirty(t);
	if (good)
		m->walk = spill_walk_new(t->spill, t->space);
	if (good && wants)
		good = list_wanted(t, m, wants, ctx);
	else
		m->snapshot.n = t->count;
	mutex_unlock(&t->lock);
	if (good)
		return &m->snapshot;
	free_snapshot(&m->snapshot);
	return NULL;
}

/* The next row of the snapshot's walk; false at the end, or when the disk has failed for some time. */
static bool snapshot_row(struct tiered_snapshot *m, uint64_t *id, const void **row)
{
	struct read_retry retry = { 0 };
	struct err e;
	size_t bytes;

	while (!spill_walk_at(m->walk, id, row, &bytes)) {
		if (!spill_walk_error(m->walk, &e) || spill_gives_up(m->spill) ||
		    !read_retry_wanted(&retry, &e, NULL, clock_now()))
			return false;
		clock_sleep(READ_RETRY_PAUSE_MS);
		spill_walk_seek(m->walk, m->next);
	}
	return true;
}

static void rewind_snapshot(struct row_snapshot *x)
{
	struct tiered_snapshot *m = (struct tiered_snapshot *)x;

	spill_walk_rewind(m->walk);
	m->next = 0;
	m->at = 0;
}

static uint32_t next_of_snapshot(struct row_snapshot *x, uint32_t most, uint64_t *ids, void **row)
{
	struct tiered_snapshot *m = (struct tiered_snapshot *)x;
	const void *from;
	uint32_t n = 0;
	uint64_t id;

	while (n < most && m->at < x->n && snapshot_row(m, &id, &from)) {
		m->next = id + 1;
		if (!m->wanted || m->wanted[m->at] == id) {
			ids[n] = id;
			row[n] = m->rows + n * padded(m->row_bytes);
			memcpy(row[n++], from, m->row_bytes);
			m->at++;
		}
		spill_walk_next(m->walk);
	}
	if (m->at == x->n)
		spill_walk_rewind(m->walk);
	return n;
}

/* ---- figures ---- */

static uint64_t row_bytes(const struct row_store *s, const struct row_layout *l)
{
	(void)s;
	return l->bytes + ROW_OVERHEAD;
}

static size_t count_rows(const struct row_store *s)
{
	return tiered(s)->count;
}

static size_t bytes_taken(const struct row_store *s)
{
	struct tiered_store *t = tiered(s);
	size_t n;

	mutex_lock(&t->lock);
	n = t->open ? (size_t)bytes_of(t) : 0;
	mutex_unlock(&t->lock);
	return n;
}

const struct row_store_ops row_store_tiered = {
	.row_bytes = row_bytes,
	.make = make_store,
	.free = free_store,
	.open = open_store,
	.close = close_store,
	.make_present = make_present,
	.has_present = has_present,
	.settle = settle,
	.drain = drain,
	.find_many = find_many,
	.get_many = get_many,
	.make_many = make_many,
	.put_many = put_many,
	.next = next_rows,
	.remove = remove_rows,
	.convert = convert_rows,
	.snapshot = take_snapshot,
	.snapshot_next = next_of_snapshot,
	.snapshot_free = free_snapshot,
	.snapshot_rewind = rewind_snapshot,
	.has_failed = has_failed,
	.count = count_rows,
	.bytes = bytes_taken,
};
