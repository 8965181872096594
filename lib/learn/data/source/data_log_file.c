/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "data/source/data_log_state.h"
#include "data/reader/data_num.h"

/* A file that others append lines to: one partition, whose places are bytes of the file. A line without its
 * newline has not arrived yet. */

/* Bytes that are read at once. */
#define CHUNK ((size_t)256 << 10)
/* Longest time between two looks at the file: another host's writes send no notice. */
#define LOOK_MS 50
/* The time between two checks that the name still belongs to the file. */
#define NAME_CHECK NSEC_PER_SEC

struct own {
	int fd, notices;
	struct buf part; /* the beginning of a line; it is at the place partition->next */
	int64_t checked;
};

static bool is_growing_file(const char *file, const struct data_options *o)
{
	return o->follow && !strstr(file, "://");
}

static enum err_code open_log_file(struct data_log *l, struct err *e)
{
	struct own *own = l->own = mem_alloc(sizeof *own);
	struct stat st;

	own->notices = -1;
	own->fd = open(l->file, O_RDONLY | O_CLOEXEC);
	if (own->fd < 0 || fstat(own->fd, &st))
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open %s",
		    l->file);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CONFIG,
		    "%s: follow=yes requires a file that can be read again from any position",
		    l->file);
	own->notices = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (own->notices >= 0)
		inotify_add_watch(own->notices, l->file, IN_MODIFY);
	data_log_set_partitions(l, 1);
	return ERR_OK;
}

static void close_log_file(struct data_log *l)
{
	struct own *own = l->own;

	if (!own)
		return;
	if (own->fd >= 0)
		close(own->fd);
	if (own->notices >= 0)
		close(own->notices);
	buf_release(&own->part);
	free(own);
}

/* Sets *place to the end of the last whole line. */
static enum err_code find_whole_lines_end(struct data_log *l, int64_t *place, struct err *e)
{
	struct own *own = l->own;
	struct stat st;
	char some[4096];
	ssize_t n;

	if (fstat(own->fd, &st))
		return err_sys(e, ERR_IO, "cannot read %s", l->file);
	for (int64_t end = st.st_size; end > 0; end -= n) {
		int64_t begin = end > (int64_t)sizeof some ? end - (int64_t)sizeof some : 0;
		const char *nl;

		n = pread(own->fd, some, (size_t)(end - begin), begin);
		if (n != end - begin)
			return err_sys(e, ERR_IO, "cannot read %s", l->file);
		nl = memrchr(some, '\n', (size_t)n);
		if (nl) {
			*place = begin + (nl + 1 - some);
			return ERR_OK;
		}
	}
	*place = 0;
	return ERR_OK;
}

/* The place where a new job begins, by the option "from". */
static enum err_code find_begin_in_file(struct data_log *l, int64_t *place, struct err *e)
{
	const char *from = l->options.from;
	int64_t heading = l->heading_end;
	enum err_code rc = ERR_OK;
	double v;

	*place = heading;
	if (from && strcmp(from, "end") == 0)
		rc = find_whole_lines_end(l, place, e);
	else if (from && data_num_all(from, &v))
		*place = (int64_t)v;
	else if (from && strcmp(from, "group") == 0)
		rc = err_set(e, ERR_CONFIG, "%s: from=group requires a topic of Kafka", l->file);
	if (*place < heading)
		*place = heading;
	return rc;
}

/* Does a line end before this place, as it did when the place was noted? In a file that was written
 * again, the place is in the middle of a line, as a rule. A hole of a spool may end there. */
static enum err_code check_line_begins(const struct data_log *l, int64_t place, struct err *e)
{
	const struct own *own = l->own;
	char before;

	if (place <= 0 || pread(own->fd, &before, 1, place - 1) != 1 || before == '\n' ||
	    (l->punched && before == '\0'))
		return ERR_OK;
	return err_set(e, ERR_IO,
	    "%s: no line begins at byte %" PRId64
	    ", where training is to go on: the file was written again, but a followed file may only "
	    "grow; start a new job with --init-from to train the model on its lines",
	    l->file, place);
}

static enum err_code seek_file(struct data_log *l, size_t partition, int64_t place, struct err *e)
{
	struct own *own = l->own;
	enum err_code rc = ERR_OK;

	buf_clear(&own->part);
	if (place == DATA_LOG_OLDEST)
		place = 0;
	if (place == DATA_LOG_BEGIN)
		rc = find_begin_in_file(l, &place, e);
	else
		rc = check_line_begins(l, place, e);
	l->partition[partition].next = place;
	return rc;
}

static void drop_file(struct data_log *l, size_t partition)
{
	struct own *own = l->own;

	(void)partition;
	buf_clear(&own->part);
}

/* Has the file kept all bytes up to `end`, and its name? */
static enum err_code check_log_file(struct data_log *l, int64_t end, struct err *e)
{
	struct own *own = l->own;
	struct stat st, named;

	if (fstat(own->fd, &st))
		return err_sys(e, ERR_IO, "cannot read %s", l->file);
	l->partition[0].log_end = st.st_size;
	if (st.st_size < end)
		return err_set(e, ERR_IO,
		    "%s became shorter: training is at byte %" PRId64 " of %" PRId64 "; a followed "
		    "file may only grow",
		    l->file, end, (int64_t)st.st_size);
	if (clock_now() - own->checked < NAME_CHECK)
		return ERR_OK;
	own->checked = clock_now();
	if (stat(l->file, &named) == 0 && (named.st_ino != st.st_ino || named.st_dev != st.st_dev))
		return err_set(e, ERR_IO,
		    "%s was replaced by another file; a followed file may only grow", l->file);
	return ERR_OK;
}

/* Has the line of len bytes at this place NUL bytes up to the end of a block? Those of a spool are a
 * hole, where its events are in all checkpoints. Other NUL bytes belong to an event, which its reader
 * reports. */
static bool has_hole(const struct data_log *l, const char *p, size_t len, int64_t place)
{
	if (!l->punched || !memchr(p, '\0', len))
		return false;
	for (size_t i = 0; i < len; i++)
		if (p[i] == '\0' && (place + (int64_t)i + 1) % LOG_HOLE_BLOCK == 0)
			return true;
	return false;
}

/* Makes events of the whole lines in `part`. */
static enum err_code take_lines(struct data_log *l, struct err *e)
{
	struct own *own = l->own;
	const char *text = (const char *)own->part.data, *at = text, *end = text + own->part.len;
	int64_t place = l->partition[0].next;

	for (const char *nl; at < end && (nl = memchr(at, '\n', (size_t)(end - at))); at = nl + 1) {
		size_t len = (size_t)(nl - at);

		if (has_hole(l, at, len, place + (at - text)))
			return err_set(e, ERR_IO,
			    "%s no longer has an event at byte %" PRId64 ": it has NUL bytes "
			    "there, like a file whose events were deleted",
			    l->file, place + (at - text));
		if (len && at[len - 1] == '\r')
			len--;
		data_log_add(l, 0, at, len, place + (at - text), place + (nl + 1 - text));
	}
	buf_consume(&own->part, (size_t)(at - text));
	return ERR_OK;
}

/* Reads what has been appended. *some: there was something. */
static enum err_code read_appended(struct data_log *l, bool *some, struct err *e)
{
	struct own *own = l->own;
	int64_t at = l->partition[0].next + (int64_t)own->part.len;
	enum err_code rc = check_log_file(l, at, e);
	ssize_t n;

	*some = false;
	if (rc)
		return rc;
	n = pread(own->fd, buf_reserve(&own->part, CHUNK), CHUNK, at);
	if (n < 0)
		return err_sys(e, ERR_IO, "cannot read %s", l->file);
	buf_commit(&own->part, (size_t)n);
	if (own->part.len > STREAM_LINE_MAX)
		return err_set(e, ERR_LIMIT, "%s: the line at byte %" PRId64 " is too long",
		    l->file, l->partition[0].next);
	*some = n > 0;
	return take_lines(l, e);
}

/* Waits until somebody writes to the file. */
static void await_write(const struct own *own, int64_t ms)
{
	struct pollfd p = { own->notices, POLLIN, 0 };
	char some[4096];

	poll(&p, own->notices >= 0, (int)(ms < LOOK_MS ? ms : LOOK_MS));
	while (own->notices >= 0 && read(own->notices, some, sizeof some) > 0)
		;
}

static enum err_code fetch_log_file(struct data_log *l, int timeout_ms, struct err *e)
{
	int64_t until = clock_now() + timeout_ms * NSEC_PER_MSEC, left;
	enum err_code rc = ERR_OK;
	bool some = false;

	if (!l->partition[0].reading || !data_log_has_room(l, 0))
		return ERR_OK;
	for (;;) {
		rc = read_appended(l, &some, e);
		left = (until - clock_now()) / NSEC_PER_MSEC;
		if (rc || some || left <= 0)
			return rc;
		await_write(l->own, left);
	}
}

static void ignore_commit(struct data_log *l, size_t partition, int64_t place, int64_t oldest)
{
	(void)l;
	(void)oldest;
	(void)partition;
	(void)place;
}

static void ignore_skipped_in_file(struct data_log *l, size_t partition, size_t n)
{
	(void)l;
	(void)partition;
	(void)n;
}

const struct log_ops data_log_file = {
	.is = is_growing_file,
	.open = open_log_file,
	.seek = seek_file,
	.drop = drop_file,
	.fetch = fetch_log_file,
	.commit = ignore_commit,
	.skipped = ignore_skipped_in_file,
	.close = close_log_file,
};
