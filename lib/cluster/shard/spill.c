/* SPDX-License-Identifier: ISC */
#include "shard/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/lock.h"
#include "core/mem.h"
#include "core/thread.h"

/* Threads that wait for the disk at the same time. An SSD serves 16 reads at a time four to six times as
 * fast as one after the other; 12 threads instead of 4 made training in tests/bench/tiers 8 % faster. */
#define THREADS 8u
#define PAUSE   NSEC_PER_SEC
#define KEY     16u
/* Keys of one call of RocksDB. */
#define GET_MANY 64u
/* RocksDB keeps at least this much memory: its caches cannot work with less. */
#define CACHE_LEAST (8u << 20)
/* The disk counts as full when less is free, before RocksDB fails in the middle of a file. */
#define FREE_LEAST (UINT64_C(64) << 20)
/* A write looks at the disk's free space if nobody has for this time. */
#define SPACE_PERIOD   (NSEC_PER_SEC / 2)
#define WALK_READAHEAD (256u << 10)

struct spill {
	struct log *log;
	char *place, *rows; /* NAME, and rows in it */
	int fd;             /* of the lock */
	rocksdb_t *db;
	rocksdb_column_family_handle_t *family;
	rocksdb_options_t *options;
	rocksdb_block_based_table_options_t *table_options;
	rocksdb_cache_t *cache;
	rocksdb_readoptions_t *get;
	rocksdb_writeoptions_t *put;
	_Atomic uint64_t space, reads, writes, disk_limit;
	_Atomic uint32_t walks;     /* how many exist */
	_Atomic int64_t space_seen; /* when the free space was looked at; 0: never */
	_Atomic bool full;
	_Atomic bool gives_up; /* changed with the lock */
	struct mutex lock;     /* covers the rest */
	pthread_cond_t more;
	struct spill_task *first; /* by the time at which they are due */
	struct spill_budget *budgets;
	uint64_t cache_bytes;
	_Atomic bool unlimited; /* a table has no limit on the disk */
	pthread_t thread[THREADS];
	unsigned nthreads;
	bool ending;
	/* By what is done with the disk: the last attempt has failed, and why. */
	struct outcome {
		bool failing;
		int64_t since; /* of the last failure */
		struct err why;
	} reading, writing;
};

struct spill_batch {
	rocksdb_writebatch_t *b;
};

static void put_key(char out[static KEY], uint64_t space, uint64_t id)
{
	for (unsigned i = 0; i < 8; i++) {
		out[i] = (char)(space >> (56 - 8 * i));
		out[8 + i] = (char)(id >> (56 - 8 * i));
	}
}

static uint64_t id_of_key(const char *key)
{
	uint64_t id = 0;

	for (unsigned i = 0; i < 8; i++)
		id = id << 8 | (uint8_t)key[8 + i];
	return id;
}

/* Takes RocksDB's error, if there is one, and frees it. RocksDB has no codes in its C interface but the
 * system's word for a full disk; whether it is full is found by looking. */
static enum err_code take_error(struct spill *s, char *why, struct err *e)
{
	struct statvfs fs;
	bool full;

	if (!why)
		return ERR_OK;
	full = statvfs(s->rows, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < FREE_LEAST;
	err_because(e, ERR_IO, full ? CAUSE_NO_SPACE : CAUSE_DISK_FAILS, "spill_dir: %s: %s",
	    s->rows, why);
	rocksdb_free(why);
	return ERR_IO;
}

/* ---- tasks ---- */

/* Tells once that the disk fails, and once that it works again. A success soon after a failure says nothing:
 * it is of a thread that had begun before. */
static void note_outcome(struct spill *s, struct outcome *o, const struct err *failed)
{
	int64_t now = clock_now();
	bool was, is;

	mutex_lock(&s->lock);
	was = o->failing;
	if (failed) {
		o->failing = true;
		o->since = now;
		o->why = *failed;
	} else if (was && now - o->since > PAUSE) {
		o->failing = false;
	}
	is = o->failing;
	mutex_unlock(&s->lock);
	if (failed && !was)
		log_err(s->log, failed);
	else if (was && !is)
		log_info(s->log, "spill_dir: %s works again", s->rows);
}

static void queue_task(struct spill *s, struct spill_task *t, int64_t due)
{
	struct spill_task **at = &s->first;

	t->due = due;
	mutex_lock(&s->lock);
	while (*at && (*at)->due <= due)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
	pthread_cond_signal(&s->more);
	mutex_unlock(&s->lock);
}

void spill_run(struct spill *s, struct spill_task *t)
{
	queue_task(s, t, 0);
}

void spill_run_again(struct spill *s, struct spill_task *t)
{
	queue_task(s, t, clock_now() + PAUSE);
}

bool spill_gives_up(struct spill *s)
{
	return atomic_load(&s->gives_up);
}

void spill_give_up(struct spill *s)
{
	if (!s)
		return;
	mutex_lock(&s->lock);
	atomic_store(&s->gives_up, true);
	pthread_cond_broadcast(&s->more);
	mutex_unlock(&s->lock);
}

/* Waits for a task that is due. NULL: the spill is closed, and no task is left. */
static struct spill_task *await_task(struct spill *s)
{
	struct spill_task *t;
	struct timespec until;

	mutex_lock(&s->lock);
	for (;;) {
		t = s->first;
		if (t && (atomic_load(&s->gives_up) || t->due <= clock_now()))
			break;
		if (!t && s->ending)
			break;
		if (!t) {
			mutex_wait(&s->more, &s->lock);
			continue;
		}
		until = (struct timespec){ .tv_sec = t->due / NSEC_PER_SEC,
			.tv_nsec = t->due % NSEC_PER_SEC };
		mutex_wait_until(&s->more, &s->lock, &until);
	}
	if (t)
		s->first = t->next;
	mutex_unlock(&s->lock);
	return t;
}

static void *run_tasks(void *ctx)
{
	struct spill *s = ctx;
	struct spill_task *t;

	while ((t = await_task(s)) != NULL)
		t->run(t);
	return NULL;
}

/* ---- opening ---- */

/* Makes and locks the server's own directory. */
static enum err_code take_place(struct spill *s, const char *dir, const char *name, struct err *e)
{
	char *lock;
	enum err_code rc;

	s->place = path_join(dir, name);
	s->rows = path_join(s->place, "rows");
	lock = path_join(s->place, "lock");
	rc = file_mkdirs(s->place, 0700, e);
	if (!rc) {
		s->fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (s->fd < 0)
			rc = err_sys(e, ERR_IO, "spill_dir: cannot open \"%s\"", lock);
		else if (flock(s->fd, LOCK_EX | LOCK_NB) != 0)
			rc = errno == EWOULDBLOCK
			    ? err_set(e, ERR_EXISTS,
			          "spill_dir: another process uses \"%s\"; give each cluster a "
			          "spill_dir or a name of its own",
			          s->place)
			    : err_sys(e, ERR_IO, "spill_dir: cannot lock \"%s\"", lock);
	}
	if (!rc)
		rc = file_remove_tree(s->rows, e);
	free(lock);
	return rc;
}

static void set_options(struct spill *s)
{
	rocksdb_options_t *o = s->options = rocksdb_options_create();
	rocksdb_block_based_table_options_t *t = s->table_options =
	    rocksdb_block_based_options_create();

	s->cache = rocksdb_cache_create_lru(CACHE_LEAST);
	rocksdb_block_based_options_set_block_cache(t, s->cache);
	rocksdb_block_based_options_set_filter_policy(t,
	    rocksdb_filterpolicy_create_bloom_full(10));
	/* Indexes and filters are in the cache, in pieces, so that its size bounds them. */
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(t, 1);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(t, 1);
	rocksdb_block_based_options_set_index_type(t,
	    rocksdb_block_based_table_index_type_two_level_index_search);
	rocksdb_block_based_options_set_partition_filters(t, 1);
	rocksdb_block_based_options_set_format_version(t, 5);
	rocksdb_options_set_block_based_table_factory(o, t);
	rocksdb_options_set_create_if_missing(o, 1);
	/* Otherwise one error of a flush or a merge of files makes it refuse all writes until the process
	 * ends. It tries again, and keeps what it could not write. The checksums of blocks are verified all
	 * the same. */
	rocksdb_options_set_paranoid_checks(o, 0);
	rocksdb_options_set_info_log_level(o, 3);
	rocksdb_options_set_keep_log_file_num(o, 1);
	rocksdb_options_set_max_background_jobs(o, 2);
	rocksdb_options_set_write_buffer_size(o, 8u << 20);
	rocksdb_options_set_max_write_buffer_number(o, 3);
	rocksdb_options_set_target_file_size_base(o, 32u << 20);
	rocksdb_options_set_max_bytes_for_level_base(o, 64u << 20);
	/* Most rows are in the last level then, so that old versions take little. */
	rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
	/* Values of floats do not compress. */
	rocksdb_options_set_compression(o, rocksdb_no_compression);
	rocksdb_options_set_bytes_per_sync(o, 1u << 20);
	s->get = rocksdb_readoptions_create();
	s->put = rocksdb_writeoptions_create();
	rocksdb_writeoptions_disable_WAL(s->put, 1);
}

static enum err_code start_threads(struct spill *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	while (!rc && s->nthreads < THREADS) {
		rc = thread_start(&s->thread[s->nthreads], run_tasks, s, e);
		s->nthreads += !rc;
	}
	return rc;
}

enum err_code spill_open(const char *dir, const char *name, struct log *log, struct spill **out,
    struct err *e)
{
	struct spill *s = mem_alloc(sizeof *s);
	const char *family = "default";
	pthread_condattr_t attr;
	char *why = NULL;
	enum err_code rc;

	s->log = log;
	s->fd = -1;
	mutex_init(&s->lock, LOCK_SPILL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->more, &attr);
	pthread_condattr_destroy(&attr);
	rc = take_place(s, dir, name, e);
	if (!rc) {
		set_options(s);
		s->db = rocksdb_open_column_families(s->options, s->rows, 1, &family,
		    (const rocksdb_options_t *const *)&s->options, &s->family, &why);
		rc = take_error(s, why, e);
	}
	if (!rc)
		rc = start_threads(s, e);
	*out = rc ? NULL : s;
	if (rc)
		spill_close(s);
	return rc;
}

static void free_options(struct spill *s)
{
	if (!s->options)
		return;
	rocksdb_options_destroy(s->options);
	rocksdb_block_based_options_destroy(s->table_options);
	rocksdb_cache_destroy(s->cache);
	rocksdb_readoptions_destroy(s->get);
	rocksdb_writeoptions_destroy(s->put);
}

void spill_close(struct spill *s)
{
	struct err e;

	if (!s)
		return;
	spill_give_up(s);
	mutex_lock(&s->lock);
	s->ending = true;
	pthread_cond_broadcast(&s->more);
	mutex_unlock(&s->lock);
	for (unsigned i = 0; i < s->nthreads; i++)
		pthread_join(s->thread[i], NULL);
	if (s->family)
		rocksdb_column_family_handle_destroy(s->family);
	if (s->db) {
		rocksdb_close(s->db);
		if (file_remove_tree(s->rows, &e))
			log_warn(s->log, "spill_dir: %s", e.msg);
	}
	free_options(s);
	if (s->fd >= 0)
		close(s->fd);
	pthread_cond_destroy(&s->more);
	mutex_destroy(&s->lock);
	for (struct spill_budget *b = s->budgets, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(s->place);
	free(s->rows);
	free(s);
}

struct spill_budget *spill_budget(struct spill *s, const char *table, uint64_t memory,
    uint64_t disk)
{
	struct spill_budget *b;

	mutex_lock(&s->lock);
	b = s->budgets;
	while (b && strcmp(b->table, table) != 0)
		b = b->next;
	if (!b) {
		b = mem_alloc(sizeof *b + strlen(table) + 1);
		memcpy(b->table, table, strlen(table) + 1);
		b->limit = memory - memory / 4;
		b->next = s->budgets;
		s->budgets = b;
		s->cache_bytes += memory / 4;
		rocksdb_cache_set_capacity(s->cache,
		    s->cache_bytes < CACHE_LEAST ? CACHE_LEAST : (size_t)s->cache_bytes);
		atomic_fetch_add(&s->disk_limit, disk);
		s->unlimited |= disk == 0;
	}
	mutex_unlock(&s->lock);
	return b;
}

/* ---- spaces ---- */

uint64_t spill_new_space(struct spill *s)
{
	return atomic_fetch_add(&s->space, 1) + 1;
}

struct drop_task {
	struct spill_task task;
	struct spill *spill;
	uint64_t space;
};

/* Whole files go at once, if nobody reads them, and what is left of the space by a mark that later merges
 * of files carry out. A failure leaves rows that nobody reads. */
static void drop_rows_of_space(struct spill_task *t)
{
	struct drop_task *d = (struct drop_task *)t;
	struct spill *s = d->spill;
	rocksdb_writebatch_t *b = rocksdb_writebatch_create();
	char from[KEY], to[KEY], *why = NULL;

	put_key(from, d->space, 0);
	put_key(to, d->space + 1, 0);
	if (!spill_gives_up(s)) {
		/* A walk may still read them. */
		if (!atomic_load(&s->walks))
			rocksdb_delete_file_in_range(s->db, from, KEY, to, KEY, &why);
		rocksdb_free(why);
		why = NULL;
		rocksdb_writebatch_delete_range(b, from, KEY, to, KEY);
		rocksdb_write(s->db, s->put, b, &why);
		rocksdb_free(why);
	}
	rocksdb_writebatch_destroy(b);
	free(d);
}

void spill_drop_space(struct spill *s, uint64_t space)
{
	struct drop_task *d = mem_alloc(sizeof *d);

	d->task.run = drop_rows_of_space;
	d->spill = s;
	d->space = space;
	spill_run(s, &d->task);
}

/* ---- reading and writing ---- */

/* Reads at most GET_MANY rows. */
static enum err_code read_some(struct spill *s, uint64_t space, size_t n, const uint64_t *ids,
    size_t bytes, void *const *row, bool *found, struct err *e)
{
	char key[GET_MANY][KEY], *errs[GET_MANY] = { NULL }, *why = NULL;
	const char *keys[GET_MANY];
	size_t sizes[GET_MANY], got;
	rocksdb_pinnableslice_t *value[GET_MANY] = { NULL };
	enum err_code rc;

	for (size_t i = 0; i < n; i++) {
		put_key(key[i], space, ids[i]);
		keys[i] = key[i];
		sizes[i] = KEY;
	}
	rocksdb_batched_multi_get_cf(s->db, s->get, s->family, n, keys, sizes, value, errs, false);
	for (size_t i = 0; i < n; i++) {
		const char *v = value[i] ? rocksdb_pinnableslice_value(value[i], &got) : NULL;

		found[i] = v != NULL;
		if (v && got == bytes)
			memcpy(row[i], v, bytes);
		if (value[i])
			rocksdb_pinnableslice_destroy(value[i]);
		if (errs[i] && why)
			rocksdb_free(errs[i]);
		else if (errs[i])
			why = errs[i];
		if (v && got != bytes && !why)
			why = strdup("a row has another number of bytes");
	}
	rc = take_error(s, why, e);
	return rc;
}

enum err_code spill_read(struct spill *s, uint64_t space, size_t n, const uint64_t *ids,
    size_t bytes, void *const *row, bool *found, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t at = 0, some; !rc && at < n; at += some) {
		some = n - at < GET_MANY ? n - at : GET_MANY;
		rc = read_some(s, space, some, ids + at, bytes, row + at, found + at, e);
	}
	atomic_fetch_add(&s->reads, n);
	note_outcome(s, &s->reading, rc ? e : NULL);
	return rc;
}

struct spill_batch *spill_batch_new(void)
{
	struct spill_batch *b = mem_alloc(sizeof *b);

	b->b = rocksdb_writebatch_create();
	return b;
}

void spill_batch_put(struct spill_batch *b, uint64_t space, uint64_t id, const void *row,
    size_t bytes)
{
	char key[KEY];

	put_key(key, space, id);
	rocksdb_writebatch_put(b->b, key, KEY, row, bytes);
}

void spill_batch_remove(struct spill_batch *b, uint64_t space, uint64_t id)
{
	char key[KEY];

	put_key(key, space, id);
	rocksdb_writebatch_delete(b->b, key, KEY);
}

size_t spill_batch_bytes(const struct spill_batch *b)
{
	size_t n;

	rocksdb_writebatch_data(b->b, &n);
	return n;
}

void spill_batch_free(struct spill_batch *b)
{
	rocksdb_writebatch_destroy(b->b);
	free(b);
}

static uint64_t files_bytes(struct spill *s)
{
	uint64_t n = 0;

	rocksdb_property_int(s->db, "rocksdb.total-sst-files-size", &n);
	return n;
}

/* Is the disk, or the room that the user gives to rows, full? Looks now and then. */
static enum err_code check_disk(struct spill *s, struct err *e)
{
	int64_t now = clock_now(), seen = atomic_load(&s->space_seen);
	uint64_t limit = atomic_load(&s->unlimited) ? 0 : atomic_load(&s->disk_limit), bytes;
	struct statvfs fs;

	if ((!seen || now - seen >= SPACE_PERIOD || atomic_load(&s->full)) &&
	    statvfs(s->rows, &fs) == 0) {
		atomic_store(&s->space_seen, now);
		bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
		atomic_store(&s->full, bytes < FREE_LEAST || (limit && files_bytes(s) > limit));
	}
	if (!atomic_load(&s->full))
		return ERR_OK;
	bytes = files_bytes(s);
	return limit && bytes > limit
	    ? err_because(e, ERR_IO, CAUSE_NO_SPACE,
	          "spill_dir: the rows in %s take %llu bytes, and disk= allows %llu", s->rows,
	          (unsigned long long)bytes, (unsigned long long)limit)
	    : err_because(e, ERR_IO, CAUSE_NO_SPACE,
	          "spill_dir: less than %llu MiB are free on the disk of %s",
	          (unsigned long long)(FREE_LEAST >> 20), s->rows);
}

enum err_code spill_write(struct spill *s, const struct spill_batch *b, struct err *e)
{
	enum err_code rc = check_disk(s, e);
	char *why = NULL;

	if (!rc) {
		rocksdb_write(s->db, s->put, b->b, &why);
		rc = take_error(s, why, e);
	}
	if (!rc)
		atomic_fetch_add(&s->writes, (uint64_t)rocksdb_writebatch_count(b->b));
	note_outcome(s, &s->writing, rc ? e : NULL);
	return rc;
}

/* ---- walks ---- */

struct spill_walk {
	struct spill *spill;
	uint64_t space;
	char end[KEY];
	const rocksdb_snapshot_t *snapshot;
	rocksdb_readoptions_t *options;
	rocksdb_iterator_t *i;
};

struct spill_walk *spill_walk_new(struct spill *s, uint64_t space)
{
	struct spill_walk *w = mem_alloc(sizeof *w);

	w->spill = s;
	w->space = space;
	put_key(w->end, space + 1, 0);
	atomic_fetch_add(&s->walks, 1);
	w->snapshot = rocksdb_create_snapshot(s->db);
	w->options = rocksdb_readoptions_create();
	rocksdb_readoptions_set_snapshot(w->options, w->snapshot);
	/* Rows that are only passed by must not push out the indexes. */
	rocksdb_readoptions_set_fill_cache(w->options, 0);
	rocksdb_readoptions_set_readahead_size(w->options, WALK_READAHEAD);
	rocksdb_readoptions_set_iterate_upper_bound(w->options, w->end, KEY);
	return w;
}

/* The iterator, from its first use on: it has a buffer for each file that it reads, and a checkpoint makes
 * the walks of all partitions before it begins with the first. */
static rocksdb_iterator_t *iterator_of(struct spill_walk *w)
{
	if (!w->i) {
		w->i = rocksdb_create_iterator(w->spill->db, w->options);
		spill_walk_seek(w, 0);
	}
	return w->i;
}

void spill_walk_free(struct spill_walk *w)
{
	if (!w)
		return;
	if (w->i)
		rocksdb_iter_destroy(w->i);
	rocksdb_readoptions_destroy(w->options);
	rocksdb_release_snapshot(w->spill->db, w->snapshot);
	atomic_fetch_sub(&w->spill->walks, 1);
	free(w);
}

void spill_walk_seek(struct spill_walk *w, uint64_t id)
{
	char key[KEY];

	put_key(key, w->space, id);
	if (!w->i)
		w->i = rocksdb_create_iterator(w->spill->db, w->options);
	rocksdb_iter_seek(w->i, key, KEY);
}

void spill_walk_rewind(struct spill_walk *w)
{
	if (w->i)
		rocksdb_iter_destroy(w->i);
	w->i = NULL;
}

bool spill_walk_at(struct spill_walk *w, uint64_t *id, const void **row, size_t *bytes)
{
	size_t n;

	if (!rocksdb_iter_valid(iterator_of(w)))
		return false;
	*id = id_of_key(rocksdb_iter_key(w->i, &n));
	*row = rocksdb_iter_value(w->i, bytes);
	return true;
}

void spill_walk_next(struct spill_walk *w)
{
	rocksdb_iter_next(iterator_of(w));
}

enum err_code spill_walk_error(const struct spill_walk *w, struct err *e)
{
	char *why = NULL;

	if (w->i)
		rocksdb_iter_get_error(w->i, &why);
	return take_error(w->spill, why, e);
}

/* ---- figures ---- */

void spill_stats(struct spill *s, struct spill_stats *out)
{
	*out = (struct spill_stats){ .reads = atomic_load(&s->reads),
		.writes = atomic_load(&s->writes),
		.disk_bytes = files_bytes(s) };
	mutex_lock(&s->lock);
	out->failing = s->reading.failing || s->writing.failing;
	out->why = s->writing.failing ? s->writing.why : s->reading.why;
	for (const struct spill_budget *b = s->budgets; b; b = b->next) {
		out->asked += atomic_load(&b->asked);
		out->missed += atomic_load(&b->missed);
		out->memory += atomic_load(&b->used);
	}
	mutex_unlock(&s->lock);
}
