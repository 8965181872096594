/* SPDX-License-Identifier: ISC */
#include "coordinator/history.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/history_writer.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/cluster_status.h"
#include "rundir/event_list.h"
#include "rundir/rundir.h"
#include "web/curve.h"

/* Bytes at the end of the file that hold HISTORY_KEPT events: a text has 600 bytes at most. */
#define TAIL ((off_t)HISTORY_KEPT * 1024)

/* A full list is shortened to this length at once. */
#define HISTORY_TRIMMED (HISTORY_KEPT / 8 * 7)

struct history {
	struct log *log;
	char *dir;
	/* at most HISTORY_KEPT, the oldest first; at the limit, events of frequent kinds are
	 * dropped */
	json_t *events;
	/* number of the next event; of the first one that the writer has not been given */
	uint64_t next, queued;
	off_t whole; /* length of the file up to its last whole line; -1: it could not be read */
	struct history_writer *writer; /* NULL before history_open */
	json_t *counts;                /* number of events by kind */
};

/* Takes the event over. */
static void keep_event(struct history *h, json_t *e)
{
	json_array_append_new(h->events, e);
	if (json_array_size(h->events) > HISTORY_KEPT)
		event_list_trim(h->events, HISTORY_TRIMMED);
}

/* The number of an event. */
static uint64_t event_number(const json_t *e)
{
	return (uint64_t)json_int(e, "rev", 0);
}

/* ---- reading old events ---- */

static void load_event_line(struct history *h, const char *line, size_t len)
{
	json_t *e = json_loadb(line, len, 0, NULL);
	struct cluster_event event;

	if (cluster_event_decode(e, &event, NULL) || event.rev < 0) {
		json_decref(e);
		return;
	}
	/* Numbers that begin again belong to another history. */
	if ((uint64_t)event.rev < h->next)
		json_array_clear(h->events);
	keep_event(h, e);
	h->next = h->queued = (uint64_t)event.rev + 1;
}

static void read_events(struct history *h, int fd)
{
	struct stat st;
	off_t from;
	ssize_t n;
	char *text, *at, *end, *line;

	h->whole = -1;
	if (fstat(fd, &st))
		return;
	from = st.st_size > TAIL ? st.st_size - TAIL : 0;
	text = mem_alloc((size_t)(st.st_size - from) + 1);
	n = pread(fd, text, (size_t)(st.st_size - from), from);
	if (n < 0) {
		free(text);
		return;
	}
	at = text;
	end = text + n;
	/* The first line may be incomplete. */
	if (from && (line = memchr(at, '\n', (size_t)(end - at))))
		at = line + 1;
	for (; at < end && (line = memchr(at, '\n', (size_t)(end - at))); at = line + 1)
		load_event_line(h, at, (size_t)(line - at));
	h->whole = from + (at - text);
	free(text);
}

struct history *history_new(const char *dir, struct log *log)
{
	struct history *h = mem_alloc(sizeof *h);
	char *path;
	int fd;

	h->counts = json_object();
	h->events = json_array();
	for (enum event_kind i = 0; i < EVENT_KINDS; i++)
		json_object_set_new(h->counts, event_kind_name(i), json_integer(0));
	h->log = log;
	if (!dir)
		return h;
	h->dir = mem_strdup(dir);
	path = rundir_path(dir, "events.jsonl");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	h->whole = fd >= 0 || errno == ENOENT ? 0 : -1;
	if (fd >= 0) {
		read_events(h, fd);
		close(fd);
	}
	if (h->whole < 0)
		log_warn(log, "cannot read %s: %s; the numbers of events restart at 0", path,
		    strerrordesc_np(errno));
	free(path);
	return h;
}

/* ---- writing ---- */

static int open_to_append(struct history *h, const char *name)
{
	char *path = rundir_path(h->dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (fd < 0)
		log_warn(h->log, "cannot write %s: %s", path, strerrordesc_np(errno));
	free(path);
	return fd;
}

/* The object as a line, for history_writer_add. */
static char *make_line(const json_t *o)
{
	char *text = json_text(o), *line = mem_printf("%s\n", text);

	free(text);
	return line;
}

/* Passes on the events that the writer has not been given. */
static void queue_events(struct history *h)
{
	size_t i = json_array_size(h->events);

	while (i > 0 && event_number(json_array_get(h->events, i - 1)) >= h->queued)
		i--;
	for (; i < json_array_size(h->events); i++) {
		const json_t *e = json_array_get(h->events, i);

		history_writer_add(h->writer, HISTORY_EVENTS, make_line(e));
		h->queued = event_number(e) + 1;
	}
}

void history_open(struct history *h)
{
	int fd[HISTORY_FILES];

	if (!h->dir)
		return;
	fd[HISTORY_METRICS] = open_to_append(h, "metrics.jsonl");
	fd[HISTORY_EVENTS] = open_to_append(h, "events.jsonl");
	if (fd[HISTORY_EVENTS] >= 0 && h->whole >= 0 && ftruncate(fd[HISTORY_EVENTS], h->whole))
		log_warn(h->log, "cannot write events.jsonl: %s", strerrordesc_np(errno));
	h->writer = history_writer_start(fd, h->log);
	queue_events(h);
}

void history_add(struct history *h, enum event_kind kind, const char *text)
{
	const char *name = event_kind_name(kind);
	json_t *e = json_event("event");

	json_object_set_new(e, "rev", json_integer((json_int_t)h->next));
	json_object_set_new(e, "event", json_string(name));
	json_object_set_new(e, "text", json_string(text));
	keep_event(h, e);
	h->next++;
	json_object_set_new(h->counts, name, json_integer(json_int(h->counts, name, 0) + 1));
	if (h->writer)
		queue_events(h);
}

void history_metrics(struct history *h, const json_t *row)
{
	if (h->writer)
		history_writer_add(h->writer, HISTORY_METRICS, make_line(row));
}

/* ---- queries ---- */

void history_curve(const struct history *h, struct web_curve *curve)
{
	char *path = h->dir ? rundir_path(h->dir, "metrics.jsonl") : NULL;
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		web_curve_read(curve, fd);
		close(fd);
	}
	free(path);
}

json_t *history_events(const struct history *h, uint64_t since, uint64_t *next)
{
	json_t *list = json_array();
	size_t i = json_array_size(h->events);

	while (i > 0 && event_number(json_array_get(h->events, i - 1)) >= since)
		i--;
	for (; i < json_array_size(h->events); i++)
		json_array_append(list, json_array_get(h->events, i));
	*next = h->next;
	return list;
}

json_t *history_counts(const struct history *h)
{
	return json_deep_copy(h->counts);
}

void history_free(struct history *h)
{
	if (!h)
		return;
	history_writer_stop(h->writer);
	json_decref(h->events);
	json_decref(h->counts);
	free(h->dir);
	free(h);
}
