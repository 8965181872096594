/* SPDX-License-Identifier: ISC */
#include "worker/block_reader.h"

#include <pthread.h>

#include "core/lock.h"
#include "core/mem.h"
#include "core/thread.h"

enum reader_state { READER_IDLE, READER_READING, READER_READ, READER_ENDING };

struct block_reader {
	pthread_t thread;
	struct mutex lock;      /* all members below */
	pthread_cond_t changed; /* broadcast when `state` changes */
	enum reader_state state;
	struct data_walk *walk;
	/* result of the last dataset, owned by the reader until block_reader_take hands it out */
	struct dataset *data;
	bool last;
	enum err_code rc;
	struct err why;
};

/* The caller holds r->lock. */
static void set_state(struct block_reader *r, enum reader_state state)
{
	mutex_assert_held(&r->lock);
	r->state = state;
	pthread_cond_broadcast(&r->changed);
}

/* Body of the reader's thread. It releases the lock while it reads. When block_reader_free asks
 * it to end during that time, the state stays READER_ENDING, and block_reader_free releases the
 * dataset. */
static void *run_block_reader(void *ctx)
{
	struct block_reader *r = ctx;

	mutex_lock(&r->lock);
	while (r->state != READER_ENDING) {
		struct dataset *data;
		bool last = false;
		struct err why = { 0 };
		enum err_code rc;

		if (r->state != READER_READING) {
			mutex_wait(&r->changed, &r->lock);
			continue;
		}
		/* block_reader_begin changes `walk` only when the reader is idle. */
		mutex_unlock(&r->lock);
		rc = data_walk_next(r->walk, &data, &last, &why);
		mutex_lock(&r->lock);
		r->data = data;
		r->last = last;
		r->rc = rc;
		r->why = why;
		if (r->state == READER_READING)
			set_state(r, READER_READ);
	}
	mutex_unlock(&r->lock);
	return NULL;
}

enum err_code block_reader_new(struct block_reader **out, struct err *e)
{
	struct block_reader *r = mem_alloc(sizeof *r);
	enum err_code rc;

	*out = NULL;
	mutex_init(&r->lock, LOCK_BLOCKS);
	pthread_cond_init(&r->changed, NULL);
	rc = thread_start(&r->thread, run_block_reader, r, e);
	if (rc) {
		mutex_destroy(&r->lock);
		pthread_cond_destroy(&r->changed);
		free(r);
		return rc;
	}
	*out = r;
	return ERR_OK;
}

void block_reader_free(struct block_reader *r)
{
	if (!r)
		return;
	mutex_lock(&r->lock);
	set_state(r, READER_ENDING);
	mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	dataset_free(r->data);
	mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->changed);
	free(r);
}

void block_reader_begin(struct block_reader *r, struct data_walk *c)
{
	mutex_lock(&r->lock);
	r->walk = c;
	set_state(r, READER_READING);
	mutex_unlock(&r->lock);
}

enum err_code block_reader_take(struct block_reader *r, struct dataset **out, bool *last,
    struct err *e)
{
	enum err_code rc;

	mutex_lock(&r->lock);
	while (r->state == READER_READING)
		mutex_wait(&r->changed, &r->lock);
	*out = r->data;
	*last = r->last;
	r->data = NULL;
	rc = r->rc;
	if (rc && e)
		*e = r->why;
	set_state(r, READER_IDLE);
	mutex_unlock(&r->lock);
	return rc;
}
