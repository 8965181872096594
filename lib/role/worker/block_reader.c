/* SPDX-License-Identifier: ISC */
#include "worker/block_reader.h"

#include <pthread.h>

#include "core/lock.h"
#include "core/mem.h"

enum reader_state { READER_IDLE, READER_LOADING, READER_LOADED, READER_ENDING };

struct block_reader {
	const struct data_blocks *blocks;
	pthread_t thread;
	struct mutex lock;      /* all members below */
	pthread_cond_t changed; /* broadcast when `state` changes */
	enum reader_state state;
	uint32_t *number; /* of the blocks to load */
	size_t n;
	/* result of the last load, owned by the reader until block_reader_take hands it out */
	struct dataset *data;
	enum err_code rc;
	struct err why;
};

/* The caller holds r->lock. */
static void set_state(struct block_reader *r, enum reader_state state)
{
	r->state = state;
	pthread_cond_broadcast(&r->changed);
}

/* Body of the reader's thread. It releases the lock while it loads. When block_reader_free asks
 * it to end during that time, the state stays READER_ENDING, and block_reader_free releases the
 * loaded data. */
static void *run_block_reader(void *ctx)
{
	struct block_reader *r = ctx;

	mutex_lock(&r->lock);
	while (r->state != READER_ENDING) {
		struct dataset *data;
		struct err why = { 0 };
		enum err_code rc;

		if (r->state != READER_LOADING) {
			mutex_wait(&r->changed, &r->lock);
			continue;
		}
		/* block_reader_begin changes `number` only when the reader is idle. */
		mutex_unlock(&r->lock);
		rc = data_blocks_load(r->blocks, r->number, r->n, &data, &why);
		mutex_lock(&r->lock);
		r->data = data;
		r->rc = rc;
		r->why = why;
		if (r->state == READER_LOADING)
			set_state(r, READER_LOADED);
	}
	mutex_unlock(&r->lock);
	return NULL;
}

enum err_code block_reader_new(const struct data_blocks *blocks, struct block_reader **out,
    struct err *e)
{
	struct block_reader *r = mem_alloc(sizeof *r);

	*out = NULL;
	r->blocks = blocks;
	mutex_init(&r->lock, LOCK_BLOCKS);
	pthread_cond_init(&r->changed, NULL);
	if (pthread_create(&r->thread, NULL, run_block_reader, r)) {
		mutex_destroy(&r->lock);
		pthread_cond_destroy(&r->changed);
		free(r);
		return err_sys(e, ERR_IO, "cannot start a thread");
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
	free(r->number);
	mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->changed);
	free(r);
}

void block_reader_begin(struct block_reader *r, const uint32_t *number, size_t n)
{
	mutex_lock(&r->lock);
	r->number = mem_regrow(r->number, n, sizeof *r->number);
	memcpy(r->number, number, n * sizeof *number);
	r->n = n;
	set_state(r, READER_LOADING);
	mutex_unlock(&r->lock);
}

enum err_code block_reader_take(struct block_reader *r, struct dataset **out, struct err *e)
{
	enum err_code rc;

	mutex_lock(&r->lock);
	while (r->state == READER_LOADING)
		mutex_wait(&r->changed, &r->lock);
	*out = r->data;
	r->data = NULL;
	rc = r->rc;
	if (rc && e)
		*e = r->why;
	set_state(r, READER_IDLE);
	mutex_unlock(&r->lock);
	return rc;
}
