/* SPDX-License-Identifier: ISC */
#include "data/reader/data_bad_lines.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "core/keyed_hash.h"
#include "core/lock.h"
#include "core/mem.h"
#include "core/num.h"

/* Every line up to this count is logged; later, only those at which the count has doubled. */
#define LOGGED 10u
/* Places that are kept. A stream without an end may have any number of bad events. */
#define PLACES_MAX ((size_t)1 << 20)

struct data_bad_lines {
	struct log *log;
	uint64_t allowed;
	struct mutex lock; /* the members below */
	uint64_t n;
	/* An open hash table of the places of the last lines, at most half full; 0: free. */
	uint64_t *place;
	size_t slots, kept;
};

enum err_code data_bad_lines_parse(const char *text, uint64_t *allowed, struct err *e)
{
	*allowed = 0;
	if (strcmp(text, "fail") == 0)
		return ERR_OK;
	if (strncmp(text, "skip:", 5) == 0 && num_uint(text + 5, INT64_MAX, allowed) && *allowed)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "must be fail, or skip:N for at most N bad lines per worker, got \"%.60s\"", text);
}

struct data_bad_lines *data_bad_lines_new(uint64_t allowed, struct log *log)
{
	struct data_bad_lines *b = mem_alloc(sizeof *b);

	keyed_hash_begin();
	b->log = log;
	b->allowed = allowed;
	mutex_init(&b->lock, LOCK_BAD_LINES);
	return b;
}

void data_bad_lines_free(struct data_bad_lines *b)
{
	if (!b)
		return;
	mutex_destroy(&b->lock);
	free(b->place);
	free(b);
}

/* A number for a file and a place there; never 0. */
static uint64_t hash_place(const char *name, uint64_t place)
{
	uint64_t h = keyed_hash(keyed_hash_bytes(name, strlen(name)) ^ place);

	return h ? h : 1;
}

static uint64_t *find_slot(const struct data_bad_lines *b, uint64_t place)
{
	size_t i = (size_t)place & (b->slots - 1);

	while (b->place[i] && b->place[i] != place)
		i = (i + 1) & (b->slots - 1);
	return &b->place[i];
}

/* Makes room for one more place, and forgets all when too many are kept. */
static void reserve_place(struct data_bad_lines *b)
{
	uint64_t *old = b->place;
	size_t n = b->slots;

	if (b->kept == PLACES_MAX) {
		memset(b->place, 0, b->slots * sizeof *b->place);
		b->kept = 0;
	}
	if (2 * (b->kept + 1) <= n)
		return;
	b->slots = n ? 2 * n : 64;
	b->place = mem_array(b->slots, sizeof *b->place);
	for (size_t i = 0; i < n; i++)
		if (old[i])
			*find_slot(b, old[i]) = old[i];
	free(old);
}

/* Counts a line. False: no more may be skipped. *n: the count when the line is new, else 0. */
static bool count_place(struct data_bad_lines *b, uint64_t place, uint64_t *n)
{
	uint64_t *slot;

	*n = 0;
	reserve_place(b);
	slot = find_slot(b, place);
	if (*slot)
		return true;
	if (b->n == b->allowed)
		return false;
	*slot = place;
	b->kept++;
	*n = ++b->n;
	return true;
}

enum err_code data_bad_lines_skip(struct data_bad_lines *b, const struct stream *s, struct err *e)
{
	bool bytes;
	uint64_t place = stream_place(s, &bytes);

	return data_bad_lines_skip_at(b, stream_name(s), bytes ? ~place : place, e);
}

enum err_code data_bad_lines_skip_at(struct data_bad_lines *b, const char *name, uint64_t place,
    struct err *e)
{
	struct err why = e ? *e : (struct err){ 0 };
	uint64_t n;
	bool good;

	if (!b)
		return ERR_FORMAT;
	mutex_lock(&b->lock);
	good = count_place(b, hash_place(name, place), &n);
	mutex_unlock(&b->lock);
	if (!good)
		return err_because(e, ERR_FORMAT, why.cause,
		    "%.400s; this worker has skipped %" PRIu64 " bad lines, the limit of "
		    "job.bad_lines",
		    why.msg, b->allowed);
	if (b->log && n && n <= LOGGED)
		log_warn(b->log, "bad line %" PRIu64 " skipped: %s", n, why.msg);
	else if (b->log && n && (n & (n - 1)) == 0)
		log_warn(b->log, "%" PRIu64 " bad lines skipped; the last one: %s", n, why.msg);
	if (e)
		*e = (struct err){ 0 };
	return ERR_OK;
}

uint64_t data_bad_lines_count(struct data_bad_lines *b)
{
	uint64_t n = 0;

	if (b) {
		mutex_lock(&b->lock);
		n = b->n;
		mutex_unlock(&b->lock);
	}
	return n;
}
