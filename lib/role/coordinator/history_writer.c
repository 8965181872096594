/* SPDX-License-Identifier: ISC */
#include "coordinator/history_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lock.h"
#include "core/mem.h"

struct line {
	struct line *next;
	char *text;
};

/* A file, and the lines that are to be written to it, the oldest first. */
struct line_queue {
	int fd;
	const char *name;
	bool keeps_failed; /* a line that cannot be written stays the first one */
	struct line *first, **last;
	size_t n;
	bool failed;   /* the last write, which has been logged */
	uint64_t lost; /* lines since then */
};

struct history_writer {
	struct log *log;
	pthread_t thread;
	struct mutex lock; /* file, news, stop */
	pthread_cond_t woken;
	struct line_queue file[HISTORY_FILES];
	bool news; /* a line was added since the thread looked */
	bool stop;
};

static void free_line(struct line *l)
{
	free(l->text);
	free(l);
}

static struct line *remove_first(struct line_queue *q)
{
	struct line *l = q->first;

	q->first = l->next;
	if (!q->first)
		q->last = &q->first;
	q->n--;
	return l;
}

static void put_back(struct line_queue *q, struct line *l)
{
	l->next = q->first;
	if (!q->first)
		q->last = &l->next;
	q->first = l;
	q->n++;
}

/* Drops the oldest lines of a queue that is too long. */
static void shorten_queue(struct line_queue *q)
{
	while (q->n > HISTORY_QUEUE_MAX) {
		free_line(remove_first(q));
		q->lost++;
	}
}

/* Writes a whole line or nothing, because half a line would spoil the next one. Returns 0 or an
 * error number. */
static int write_line(int fd, const char *text)
{
	size_t len = strlen(text);
	off_t before = lseek(fd, 0, SEEK_END);
	ssize_t n = write(fd, text, len);

	if (n == (ssize_t)len)
		return 0;
	if (n < 0 || (n > 0 && ftruncate(fd, before)))
		return errno;
	return ENOSPC;
}

/* Writes the lines of one file, until one cannot be written. Releases the lock meanwhile. */
static void write_queue(struct history_writer *w, struct line_queue *q)
{
	while (q->first) {
		struct line *l = remove_first(q);
		int why;

		mutex_unlock(&w->lock);
		why = write_line(q->fd, l->text);
		mutex_lock(&w->lock);
		if (!why) {
			free_line(l);
			if (q->failed && q->lost)
				log_warn(w->log, "%s is written again; it lacks %" PRIu64 " line%s",
				    q->name, q->lost, q->lost == 1 ? "" : "s");
			q->failed = false;
			q->lost = 0;
			continue;
		}
		if (!q->failed)
			log_warn(w->log, "cannot write %s: %s; the job continues", q->name,
			    strerrordesc_np(why));
		q->failed = true;
		if (q->keeps_failed) {
			put_back(q, l);
			shorten_queue(q);
			return;
		}
		free_line(l);
		q->lost++;
	}
}

static void *run_writer(void *ctx)
{
	struct history_writer *w = ctx;

	mutex_lock(&w->lock);
	for (;;) {
		bool last = w->stop;

		w->news = false;
		for (int i = 0; i < HISTORY_FILES; i++)
			write_queue(w, &w->file[i]);
		if (last)
			break;
		while (!w->news && !w->stop)
			mutex_wait(&w->woken, &w->lock);
	}
	mutex_unlock(&w->lock);
	return NULL;
}

/* Closes the files and frees the writer, whose thread has ended. */
static void close_files(struct history_writer *w)
{
	for (int i = 0; i < HISTORY_FILES; i++) {
		struct line_queue *q = &w->file[i];

		while (q->first)
			free_line(remove_first(q));
		if (q->fd >= 0)
			close(q->fd);
	}
	mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->woken);
	free(w);
}

struct history_writer *history_writer_start(const int fd[static HISTORY_FILES], struct log *log)
{
	struct history_writer *w = mem_alloc(sizeof *w);
	int fault;

	w->log = log;
	w->file[HISTORY_EVENTS] = (struct line_queue){ .name = "events.jsonl",
		.keeps_failed = true };
	w->file[HISTORY_METRICS] = (struct line_queue){ .name = "metrics.jsonl" };
	for (int i = 0; i < HISTORY_FILES; i++) {
		w->file[i].fd = fd[i];
		w->file[i].last = &w->file[i].first;
	}
	mutex_init(&w->lock, LOCK_HISTORY);
	pthread_cond_init(&w->woken, NULL);
	fault = pthread_create(&w->thread, NULL, run_writer, w);
	if (!fault)
		return w;
	log_warn(log, "cannot write events.jsonl and metrics.jsonl: no thread for it: %s",
	    strerrordesc_np(fault));
	close_files(w);
	return NULL;
}

void history_writer_add(struct history_writer *w, enum history_file file, char *text)
{
	struct line_queue *q = w ? &w->file[file] : NULL;
	struct line *l;

	if (!q || q->fd < 0) {
		free(text);
		return;
	}
	l = mem_alloc(sizeof *l);
	l->text = text;
	mutex_lock(&w->lock);
	*q->last = l;
	q->last = &l->next;
	q->n++;
	shorten_queue(q);
	w->news = true;
	pthread_cond_signal(&w->woken);
	mutex_unlock(&w->lock);
}

void history_writer_stop(struct history_writer *w)
{
	if (!w)
		return;
	mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->woken);
	mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	close_files(w);
}
