/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lock_holder.h"
#include "core/mem.h"
#include "core/thread.h"
#include "data/source/data_log_state.h"
#include "data/source/data_uri.h"

/* A named pipe, which cannot be read again. A thread of one worker moves what comes from it to the end of a
 * file beside it, the spool, and that is read as a file that grows (data_log_file.c).
 *
 * The bytes are moved by splice(2), inside the kernel: each of them is either in the pipe or in the spool, at
 * whatever moment the worker is killed. The lock of the spool says whose thread moves them; the next one that
 * gets it goes on. All workers of the host hold the pipe open, so that writers see no broken pipe while one
 * of them lives; and so does the process that starts them (data_log_hold), so that the kernel does not drop
 * what the pipe has when all of them are killed. What a checkpoint has is punched out of the spool, which
 * keeps its length.
 *
 * A worker that is stopped (SIGSTOP) keeps the lock, although the coordinator has long declared it lost. The
 * lock cannot be taken from it: when it goes on, it would write where it was about to write. So the thread
 * of another worker that has waited for long ends it, while lines wait in the pipe. */

#define SUFFIX ".spool"
/* Bytes that are moved at once. */
#define CHUNK ((size_t)1 << 20)
/* The spool keeps its first bytes, and is freed by blocks. */
#define KEPT  ((int64_t)65536)
#define BLOCK LOG_HOLE_BLOCK
/* How often the thread looks whether it is to end, and for the lock. */
#define LOOK_MS 100
/* How long a worker that ends waits for the lock: until another one that ends with it has moved the rest. */
/* For how many looks at a stopped holder of the lock lines must wait until it is ended. */
#define STOPPED_LOOKS 100
#define LAST_MS       10
#define LAST_TRIES    30
#define LAST_MOVES    256

struct own {
	void *file; /* what data_log_file has as its own */
	char *spool;
	int pipe, out;
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	_Atomic int failed; /* errno of the thread */
	_Atomic int ended;  /* the process that the thread has ended, until it is told; 0: none */
};

static bool is_pipe(const char *file, const struct data_options *o)
{
	struct stat st;

	return o->follow && !strstr(file, "://") && stat(file, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* ---- the thread ---- */

/* Moves what the pipe has, or receives within wait_ms. The number of bytes; -1: it cannot. */
static ssize_t move_bytes(struct own *own, int wait_ms)
{
	struct pollfd p = { own->pipe, POLLIN, 0 };
	off_t end = lseek(own->out, 0, SEEK_END);
	loff_t at = end;
	ssize_t n;

	if (end < 0)
		return -1;
	if (poll(&p, 1, wait_ms) <= 0)
		return 0;
	n = splice(own->pipe, NULL, own->out, &at, CHUNK, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

/* The kernel drops what a pipe holds when its last opener closes it. So each worker that ends waits for the
 * lock, unless another process keeps it, and moves the rest. */
static void move_rest(struct own *own, bool locked)
{
	struct pollfd none = { -1, 0, 0 };

	for (int tries = 0; !locked && tries < LAST_TRIES; tries++) {
		locked = !flock(own->out, LOCK_EX | LOCK_NB);
		if (!locked)
			poll(&none, 1, LAST_MS);
	}
	/* A writer that never rests is not waited for. */
	for (int n = 0; locked && n < LAST_MOVES && move_bytes(own, 0) > 0; n++)
		;
}

/* Ends the process that holds the lock, if it was stopped at each of many looks in succession while lines
 * waited. Looks are counted, not time: this process may have been stopped, too. */
static void watch_holder(struct own *own, unsigned *looks)
{
	struct pollfd p = { own->pipe, POLLIN, 0 };
	int pid = 0, holder = poll(&p, 1, 0) > 0 ? lock_holder_stopped(own->out, &pid) : -1;

	*looks = holder >= 0 ? *looks + 1 : 0;
	if (*looks >= STOPPED_LOOKS && !pidfd_send_signal(holder, SIGKILL, NULL, 0)) {
		own->ended = pid;
		*looks = 0;
	}
	if (holder >= 0)
		close(holder);
}

static void *run_spool(void *ctx)
{
	struct own *own = ctx;
	struct pollfd none = { -1, 0, 0 };
	bool locked = false;
	unsigned looks = 0;

	while (!own->stop && !(locked = !flock(own->out, LOCK_EX | LOCK_NB))) {
		watch_holder(own, &looks);
		poll(&none, 1, LOOK_MS);
	}
	while (!own->stop && !own->failed)
		if (move_bytes(own, LOOK_MS) < 0)
			own->failed = errno;
	move_rest(own, locked);
	close(own->pipe);
	own->pipe = -1;
	return NULL;
}

/* ---- the interface ---- */

/* The functions of data_log_file work on its own struct. */
static struct own *enter_file(struct data_log *l)
{
	struct own *own = l->own;

	l->own = own->file;
	return own;
}

static void leave_file(struct data_log *l, struct own *own)
{
	own->file = l->own;
	l->own = own;
}

/* Opens the pipe, for reading and writing, so that a pipe without a writer does not end. */
static enum err_code open_own_pipe(struct own *own, const char *path, struct err *e)
{
	own->pipe = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	return own->pipe < 0 ? err_sys(e, ERR_IO, "cannot open %s", path) : ERR_OK;
}

static enum err_code open_own_spool(struct own *own, struct err *e)
{
	own->out = open(own->spool, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (own->out < 0)
		return err_sys(e, ERR_IO, "cannot create %s, the copy of the pipe's data",
		    own->spool);
	return ERR_OK;
}

static enum err_code start_spool(struct own *own, const char *path, struct err *e)
{
	enum err_code rc = open_own_pipe(own, path, e);

	if (!rc)
		rc = open_own_spool(own, e);
	if (rc)
		return rc;
	rc = thread_start(&own->thread, run_spool, own, e);
	own->started = !rc;
	return rc;
}

static enum err_code open_pipe(struct data_log *l, struct err *e)
{
	struct own *own = l->own = mem_alloc(sizeof *own);
	enum err_code rc;

	own->pipe = own->out = -1;
	own->spool = mem_printf("%s" SUFFIX, l->file);
	rc = start_spool(own, l->file, e);
	if (rc)
		return rc;
	free(l->file);
	l->file = mem_strdup(own->spool);
	l->own = NULL;
	l->punched = true;
	rc = data_log_file.open(l, e);
	leave_file(l, own);
	return rc;
}

static void close_own(struct own *own)
{
	if (own->pipe >= 0)
		close(own->pipe);
	if (own->out >= 0)
		close(own->out);
	free(own->spool);
	free(own);
}

static void close_pipe_log(struct data_log *l)
{
	struct own *own = l->own;

	if (!own)
		return;
	own->stop = true;
	if (own->started)
		pthread_join(own->thread, NULL);
	enter_file(l);
	data_log_file.close(l);
	close_own(own);
}

static enum err_code seek_pipe(struct data_log *l, size_t partition, int64_t place, struct err *e)
{
	struct own *own = enter_file(l);
	enum err_code rc = data_log_file.seek(l, partition, place, e);

	leave_file(l, own);
	return rc;
}

static void drop_pipe(struct data_log *l, size_t partition)
{
	struct own *own = enter_file(l);

	data_log_file.drop(l, partition);
	leave_file(l, own);
}

static enum err_code fetch_pipe(struct data_log *l, int timeout_ms, struct err *e)
{
	struct own *own = l->own;
	enum err_code rc;

	if (own->failed) {
		errno = own->failed;
		return err_sys(e, ERR_IO, "cannot write to %s", own->spool);
	}
	enter_file(l);
	rc = data_log_file.fetch(l, timeout_ms, e);
	leave_file(l, own);
	return rc;
}

/* The blocks before the place that no checkpoint needs become a hole, but for the first ones, which may have
 * a heading. A file system without holes keeps them. */
static void punch_spool(struct data_log *l, size_t partition, int64_t place, int64_t oldest)
{
	const struct own *own = l->own;
	int64_t end = oldest / BLOCK * BLOCK;

	(void)partition;
	(void)place;
	if (end > KEPT)
		fallocate(own->out, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, KEPT, end - KEPT);
}

static void ignore_skipped(struct data_log *l, size_t partition, size_t n)
{
	(void)l;
	(void)partition;
	(void)n;
}

static int tell_ended_holder(struct data_log *l)
{
	struct own *own = l->own;

	return atomic_exchange(&own->ended, 0);
}

/* ---- holding ---- */

struct data_log_hold {
	struct own *own;
};

enum err_code data_log_hold(const char *path, struct data_log_hold **out, struct err *e)
{
	struct data_options o;
	struct own *own;
	char *file;
	enum err_code rc = data_uri_parse(path, &file, &o, e);

	*out = NULL;
	if (!rc && is_pipe(file, &o)) {
		own = mem_alloc(sizeof *own);
		own->out = -1;
		own->spool = mem_printf("%s" SUFFIX, file);
		rc = open_own_pipe(own, file, e);
		if (rc) {
			close_own(own);
		} else {
			*out = mem_alloc(sizeof **out);
			(*out)->own = own;
		}
	}
	data_uri_release(&o);
	free(file);
	return rc;
}

void data_log_release(struct data_log_hold *h)
{
	struct pollfd p = { -1, POLLIN, 0 };

	if (!h)
		return;
	p.fd = h->own->pipe;
	/* A pipe that was never written to needs no spool. */
	if (poll(&p, 1, 0) > 0 && !open_own_spool(h->own, NULL))
		move_rest(h->own, false);
	close_own(h->own);
	free(h);
}

const struct log_ops data_log_pipe = {
	.is = is_pipe,
	.open = open_pipe,
	.seek = seek_pipe,
	.drop = drop_pipe,
	.fetch = fetch_pipe,
	.commit = punch_spool,
	.skipped = ignore_skipped,
	.ended_holder = tell_ended_holder,
	.close = close_pipe_log,
};
