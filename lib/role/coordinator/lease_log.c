/* SPDX-License-Identifier: ISC */
#include "coordinator/lease_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "coord/leases.h"
#include "coordinator/coordinator.h"
#include "coordinator/owner_file.h"
#include "coordinator/state_file.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/thread.h"
#include "rundir/rundir.h"

#define NAME "state.leases-"
/* A log of this length is truncated. No log of ours is longer than LOG_MAX. */
#define LONG    (1 << 20)
#define LOG_MAX (256u << 20)
#define RETRY   (200 * NSEC_PER_MSEC)

struct lease_log {
	struct coordinator *coordinator;
	pthread_t thread;
	pthread_cond_t woken;
	bool started, stop;
	char *path;
	int fd;
	/* Covered by the coordinator's lock: lines that are not being written yet, and the last line's
	 * number. */
	struct buf pending;
	uint64_t number;
	bool anew; /* state.json has every change in the file, so the file may be truncated */
	/* state.json is being written, so that the log can be truncated: write no line. The first
	 * `contained` bytes of `pending` are in that state.json. */
	bool paused;
	size_t contained;
	off_t length;          /* bytes in the file or being written */
	int64_t failing_since; /* since when lines cannot be written; 0: they can */
	/* Used by the log's thread alone: the end of the durable bytes. */
	off_t end;
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
	return l->length > LONG && !l->anew;
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
	/* state.json has the lines that waited when it was begun, and all lines in the file. */
	if (l->paused && ok) {
		buf_consume(&l->pending, l->contained);
		l->anew = true;
	}
	l->paused = false;
	pthread_cond_signal(&l->woken);
}

const char *lease_log_name(const struct lease_log *l)
{
	mutex_assert_held(&l->coordinator->lock);
	return path_basename(l->path);
}

/* Write at a fixed offset, so that a second try overwrites what the first one left. */
static enum err_code write_lines(struct lease_log *l, const struct buf *lines, struct err *e)
{
	enum err_code rc = FAIL_ERROR("lease_write", e);
	size_t at = 0;

	while (!rc && at < lines->len) {
		ssize_t n = pwrite(l->fd, lines->data + at, lines->len - at, l->end + (off_t)at);

		if (n < 0)
			rc = err_sys(e, ERR_IO, "cannot write \"%s\"", l->path);
		else
			at += (size_t)n;
	}
	if (!rc && fdatasync(l->fd))
		rc = err_sys(e, ERR_IO, "cannot sync \"%s\"", l->path);
	if (!rc)
		rc = owner_file_verify(l->coordinator->server, e);
	if (!rc)
		l->end += (off_t)lines->len;
	return rc;
}

/* If truncating fails, old lines stay behind the new ones; their numbers are lower, so reading stops
 * there. */
static void truncate_log(struct lease_log *l)
{
	l->end = 0;
	if (ftruncate(l->fd, 0))
		log_warn(l->coordinator->server->cfg.log, "cannot truncate \"%s\"", l->path);
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
	bool anew = l->anew;
	enum err_code rc;

	mutex_assert_held(&l->coordinator->lock);
	l->pending = (struct buf)BUF_INIT;
	l->anew = false;
	l->length = (anew ? 0 : l->length) + (off_t)lines.len;
	do {
		struct err e = { 0 };

		mutex_unlock(&coordinator->lock);
		FAIL_POINT("lease_before");
		if (anew)
			truncate_log(l);
		anew = false;
		rc = write_lines(l, &lines, &e);
		FAIL_POINT("lease_after");
		mutex_lock(&coordinator->lock);
		if (rc)
			state_file_report_failure(coordinator, &l->failing_since, &e, clock_now());
		/* A state.json that was written in the meantime has these changes, too, and all that are
		 * in the file: begin the file anew, because these lines would be missing in it. */
		if (rc && coordinator->file.saved_leases >= number) {
			l->anew = true;
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
	char *name = mem_printf(NAME "%016" PRIx64, coordinator->server->incarnation);
	pthread_condattr_t attr;
	enum err_code rc;
	int64_t since = 0;

	*out = l;
	l->coordinator = coordinator;
	l->path = rundir_path(coordinator->server->cfg.id->run_dir, name);
	free(name);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->woken, &attr);
	pthread_condattr_destroy(&attr);
	do {
		l->fd = open(l->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		rc = l->fd < 0 ? err_sys(e, ERR_IO, "cannot create \"%s\"", l->path) : ERR_OK;
	} while (rc && server_wait_for_room(coordinator->server, &since, e));
	if (!rc)
		rc = file_sync_dir(coordinator->server->cfg.id->run_dir, e);
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
	if (l->fd >= 0)
		close(l->fd);
	pthread_cond_destroy(&l->woken);
	buf_release(&l->pending);
	free(l->path);
	free(l);
}

void lease_log_remove_others(const struct coordinator *coordinator)
{
	DIR *d = opendir(coordinator->server->cfg.id->run_dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (strncmp(entry->d_name, NAME, strlen(NAME)) == 0 &&
		    (!coordinator->file.leaselog ||
		        strcmp(entry->d_name, lease_log_name(coordinator->file.leaselog)) != 0))
			unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
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

static enum err_code replay_lines(struct coordinator *coordinator, const char *path,
    const struct buf *b, struct err *e)
{
	const char *at = (const char *)b->data, *end = at + b->len, *line;
	uint64_t number, before = 0;
	struct lease_change change;
	struct taken taken;

	for (; at < end; at = line + 1) {
		line = memchr(at, '\n', (size_t)(end - at));
		bool old, applied;

		if (!line || !parse_lease_line(at, (size_t)(line - at), &number, &change, &taken))
			break;
		/* Lines behind those of a log that could not be truncated. */
		old = number <= before;
		applied = !old && coord_replay_lease(coordinator->coord, number, &change);
		taken_release(&taken);
		if (old)
			break;
		before = number;
		if (!applied)
			return err_set(e, ERR_FORMAT,
			    "\"%s\" does not continue state.json at change %" PRIu64, path, number);
	}
	return ERR_OK;
}

enum err_code lease_log_replay(struct coordinator *coordinator, const struct state *state,
    struct err *e)
{
	const char *name = state->lease_log;
	struct buf b = BUF_INIT;
	enum err_code rc;
	char *path;

	if (!name || !*name)
		return ERR_OK;
	path = rundir_path(coordinator->server->cfg.id->run_dir, path_basename(name));
	rc = file_read(path, LOG_MAX, &b, e);
	if (!rc)
		rc = replay_lines(coordinator, path, &b, e);
	buf_release(&b);
	free(path);
	return rc;
}
