/* SPDX-License-Identifier: ISC */
#include "coordinator/lease_log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zlib.h>

#include "coord/leases.h"
#include "coordinator/coordinator.h"
#include "coordinator/state_file.h"
#include "state/state_store.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/thread.h"

/* Records of a log that has this many bytes are dropped. */
#define LONG  (1 << 20)
#define RETRY (200 * NSEC_PER_MSEC)

struct lease_log {
	struct coordinator *coordinator;
	pthread_t thread;
	pthread_cond_t woken;
	bool started, stop;
	/* Covered by the coordinator's lock: lines that are not being written yet, and the last
	 * line's number. */
	struct buf pending;
	uint64_t number;
	bool rewrite; /* the saved state has every change in the log, so its lines may be dropped */
	/* The state is being written, so that lines can be dropped: append none. The first
	 * `contained` bytes of `pending` are in that state. */
	bool paused;
	size_t contained;
	size_t length;         /* bytes in the log or being appended */
	int64_t failing_since; /* since when lines cannot be appended; 0: they can */
};

/* ---- writing ---- */

static const char letter[] = {
	[LEASE_GIVEN] = 'L',
	[LEASE_DONE] = 'D',
	[LEASE_TAKEN_BACK] = 'R',
	[LEASE_ADVANCED] = 'H', /* the worker still holds it */
};

static uint32_t line_checksum(const char *text, size_t n)
{
	return (uint32_t)crc32(0, (const Bytef *)text, (uInt)n);
}

void lease_log_add(struct lease_log *l, uint64_t number, const struct lease_change *change)
{
	static const struct taken nothing = { 0 };
	json_t *taken = taken_to_json(change->taken ? change->taken : &nothing);
	char *list = json_dumps(taken, JSON_COMPACT);
	char *text = mem_printf("%" PRIu64 " %c %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64
	                        " %" PRIu64 " %" PRId64 " %s",
	    number, letter[change->event], change->id, change->worker, change->from, change->step,
	    change->batch, change->place, list);

	mutex_assert_held(&l->coordinator->lock);
	buf_printf(&l->pending, "%08" PRIx32 " %s\n", line_checksum(text, strlen(text)), text);
	free(text);
	free(list);
	json_decref(taken);
	l->number = number;
	pthread_cond_signal(&l->woken);
}

bool lease_log_is_long(const struct lease_log *l)
{
	if (!l)
		return false;
	mutex_assert_held(&l->coordinator->lock);
	return l->length > LONG && !l->rewrite;
}

void lease_log_pause(struct lease_log *l)
{
	mutex_assert_held(&l->coordinator->lock);
	l->paused = lease_log_is_long(l);
	l->contained = l->pending.len;
}

void lease_log_saved(struct lease_log *l, bool ok)
{
	mutex_assert_held(&l->coordinator->lock);
	/* The state has the lines that waited when it was begun, and all lines in the log. */
	if (l->paused && ok) {
		buf_consume(&l->pending, l->contained);
		l->rewrite = true;
	}
	l->paused = false;
	pthread_cond_signal(&l->woken);
}

/* Wait for RETRY. False: the thread must stop. */
static bool wait_to_retry(struct lease_log *l)
{
	int64_t until = clock_now() + RETRY;
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };

	while (!l->stop && clock_now() < until)
		mutex_wait_until(&l->woken, &l->coordinator->lock, &ts);
	return !l->stop;
}

/* Called with the coordinator's lock held, which is released while the lines are written. */
static void write_pending(struct lease_log *l)
{
	struct coordinator *coordinator = l->coordinator;
	struct buf lines = l->pending;
	uint64_t number = l->number;
	struct state_store *store = coordinator->server->state_store;
	bool rewrite = l->rewrite;
	enum err_code rc;

	mutex_assert_held(&l->coordinator->lock);
	l->pending = (struct buf)BUF_INIT;
	l->rewrite = false;
	l->length = (rewrite ? 0 : l->length) + lines.len;
	do {
		struct err e = { 0 };

		mutex_unlock(&coordinator->lock);
		FAIL_POINT("lease_before");
		rc = store->ops->append(store, &lines, rewrite, &e);
		rewrite = false;
		FAIL_POINT("lease_after");
		mutex_lock(&coordinator->lock);
		if (rc)
			state_file_report_failure(coordinator, &l->failing_since, &e, clock_now());
		/* A state that was written in the meantime has these changes, too, and all that are
		 * in the log: drop its lines, because it would lack these. */
		if (rc && coordinator->file.saved_leases >= number) {
			l->rewrite = true;
			rc = ERR_OK;
		}
	} while (rc && !coordinator->file.fenced && wait_to_retry(l));
	if (!rc) {
		l->failing_since = 0;
		state_file_note_leases(coordinator, number);
	}
	buf_release(&lines);
}

static void *run_log(void *ctx)
{
	struct lease_log *l = ctx;

	mutex_lock(&l->coordinator->lock);
	while (!l->stop && !l->coordinator->file.fenced) {
		if (l->pending.len && !l->paused)
			write_pending(l);
		else
			mutex_wait(&l->woken, &l->coordinator->lock);
	}
	mutex_unlock(&l->coordinator->lock);
	return NULL;
}

/* ---- start and stop ---- */

enum err_code lease_log_open(struct coordinator *coordinator, struct lease_log **out, struct err *e)
{
	struct lease_log *l = mem_alloc(sizeof *l);
	struct state_store *store = coordinator->server->state_store;
	pthread_condattr_t attr;
	enum err_code rc;
	int64_t since = 0;

	*out = l;
	l->coordinator = coordinator;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->woken, &attr);
	pthread_condattr_destroy(&attr);
	do
		rc = store->ops->begin_log(store, e);
	while (rc && server_wait_for_room(coordinator->server, &since, e));
	if (!rc)
		rc = thread_start(&l->thread, run_log, l, e);
	l->started = !rc;
	return rc;
}

void lease_log_stop(struct lease_log *l)
{
	if (!l || !l->started)
		return;
	mutex_lock(&l->coordinator->lock);
	l->stop = true;
	pthread_cond_signal(&l->woken);
	mutex_unlock(&l->coordinator->lock);
	pthread_join(l->thread, NULL);
	l->started = false;
}

void lease_log_free(struct lease_log *l)
{
	if (!l)
		return;
	pthread_cond_destroy(&l->woken);
	buf_release(&l->pending);
	free(l);
}

/* ---- reading ---- */

/* Parse the text of a line after its checksum. *taken is to be released if true. */
static bool parse_lease_change(const char *text, uint64_t *number, struct lease_change *out,
    struct taken *taken)
{
	const char *event;
	json_t *list;
	char c;
	int tail = 0;
	bool ok;

	if (sscanf(text,
	        "%" SCNu64 " %c %" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64
	        " %" SCNd64 " %n",
	        number, &c, &out->id, &out->worker, &out->from, &out->step, &out->batch,
	        &out->place, &tail) != 8 ||
	    !tail || !(event = memchr(letter, c, sizeof letter)))
		return false;
	out->event = (enum lease_event)(event - letter);
	list = json_loads(text + tail, 0, NULL);
	ok = list && !taken_from_json(list, taken, NULL);
	json_decref(list);
	out->taken = taken;
	return ok;
}

/* Parse a line without its newline. False: it is torn. Otherwise *taken is to be released. */
static bool parse_lease_line(const char *line, size_t n, uint64_t *number, struct lease_change *out,
    struct taken *taken)
{
	char *text = mem_printf("%.*s", (int)n, line);
	uint32_t sum;
	int head = 0;
	bool ok;

	ok = sscanf(text, "%8" SCNx32 " %n", &sum, &head) == 1 && head == 9 &&
	    line_checksum(text + head, strlen(text + head)) == sum &&
	    parse_lease_change(text + head, number, out, taken);
	free(text);
	return ok;
}

static enum err_code replay_lines(struct coordinator *coordinator, const struct buf *b,
    struct err *e)
{
	const char *at = (const char *)b->data, *end = at + b->len, *line;
	struct state_store *store = coordinator->server->state_store;
	uint64_t number, before = 0;
	struct lease_change change;
	struct taken taken;

	for (; at < end; at = line + 1) {
		line = memchr(at, '\n', (size_t)(end - at));
		bool old, applied;

		if (!line || !parse_lease_line(at, (size_t)(line - at), &number, &change, &taken))
			break;
		/* Lines after the kept ones, which could not be dropped. */
		old = number <= before;
		applied = !old && coord_replay_lease(coordinator->coord, number, &change);
		taken_release(&taken);
		if (old)
			break;
		before = number;
		if (!applied)
			return err_set(e, ERR_FORMAT,
			    "the log of leases does not continue the state in %s at change %" PRIu64,
			    store->ops->where(store), number);
	}
	return ERR_OK;
}

enum err_code lease_log_replay(struct coordinator *coordinator, struct err *e)
{
	struct state_store *store = coordinator->server->state_store;
	struct buf b = BUF_INIT;
	enum err_code rc = store->ops->read_log(store, &b, e);

	if (!rc)
		rc = replay_lines(coordinator, &b, e);
	buf_release(&b);
	return rc;
}
