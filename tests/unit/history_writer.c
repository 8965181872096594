/* SPDX-License-Identifier: ISC */
/* The writer of events.jsonl and metrics.jsonl: nobody waits for a disk, and an event that can still be
 * written is not lost. */
#include "coordinator/history_writer.h"

#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/mem.h"
#include "tap.h"

#define LINES 100

/* The bytes before the first line in a pipe: it takes no more until they are read. */
static size_t fill_pipe(int fd)
{
	char page[4096] = "";
	size_t filled = 0;
	ssize_t n;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while ((n = write(fd, page, sizeof page)) > 0)
		filled += (size_t)n;
	fcntl(fd, F_SETFL, 0);
	return filled;
}

/* The lines that add_lines adds, as one text. */
static char *expected_lines(int n)
{
	char *text = mem_strdup("");

	for (int i = 0; i < n; i++) {
		char *longer = mem_printf("%sline %d\n", text, i);

		free(text);
		text = longer;
	}
	return text;
}

static void add_lines(struct history_writer *w, enum history_file file, int from, int n)
{
	for (int i = from; i < from + n; i++)
		history_writer_add(w, file, mem_printf("line %d\n", i));
}

static void read_all(int fd, char *out, size_t len)
{
	ssize_t n;

	for (; len && (n = read(fd, out, len)) > 0; out += n)
		len -= (size_t)n;
}

/* A pipe that nobody reads stands for a disk that does not answer. */
static void test_slow_disk(struct log *log)
{
	char *want = expected_lines(LINES), *got = mem_alloc(strlen(want) + 1);
	int fd[2], both[HISTORY_FILES];
	struct history_writer *w;
	size_t filled;
	char *filling;

	if (pipe(fd))
		abort();
	filled = fill_pipe(fd[1]);
	both[HISTORY_EVENTS] = fd[1];
	both[HISTORY_METRICS] = -1;
	w = history_writer_start(both, log);
	add_lines(w, HISTORY_EVENTS, 0, LINES);
	add_lines(w, HISTORY_METRICS, 0, 1);
	ok(true, "lines are taken while the disk does not answer");
	filling = mem_alloc(filled);
	read_all(fd[0], filling, filled);
	read_all(fd[0], got, strlen(want));
	history_writer_stop(w);
	ok(!strcmp(got, want), "they are written in their order when it does");
	close(fd[0]);
	free(filling);
	free(want);
	free(got);
}

static sem_t warned;
static int nwarnings;
static char last_warning[256];

static void keep_warning(void *ctx, int level, const char *text)
{
	(void)ctx;
	(void)level;
	snprintf(last_warning, sizeof last_warning, "%s", text);
	nwarnings++;
	sem_post(&warned);
}

static void set_file_limit(rlim_t bytes)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes;
	setrlimit(RLIMIT_FSIZE, &limit);
}

/* A limit of the size of files stands for a disk that is full. */
static void test_full_disk(struct log *log)
{
	char path[] = "/tmp/history.XXXXXX", metrics[] = "/tmp/history.XXXXXX",
	     *want = expected_lines(4);
	int both[HISTORY_FILES] = { mkstemp(path), mkstemp(metrics) };
	struct history_writer *w;
	char got[256] = "";
	bool logged;

	signal(SIGXFSZ, SIG_IGN);
	sem_init(&warned, 0, 0);
	set_file_limit(10);
	w = history_writer_start(both, log);
	add_lines(w, HISTORY_EVENTS, 0, 3);
	sem_wait(&warned);
	history_writer_add(w, HISTORY_METRICS, mem_strdup("a row that is too long for the disk\n"));
	sem_wait(&warned);
	logged = strstr(last_warning, "cannot write metrics.jsonl") != NULL;
	set_file_limit(RLIM_INFINITY);
	ok(logged, "a failure is logged");
	add_lines(w, HISTORY_EVENTS, 3, 1);
	history_writer_add(w, HISTORY_METRICS, mem_strdup("row\n"));
	history_writer_stop(w);
	ok(nwarnings == 3, "each failure is logged once, and that a row is lost");
	ok(strstr(last_warning, "metrics.jsonl is written again; it lacks 1 line") != NULL,
	    "it says how many");
	read_all(open(path, O_RDONLY), got, sizeof got - 1);
	ok(!strcmp(got, want), "events are written when there is room");
	memset(got, 0, sizeof got);
	read_all(open(metrics, O_RDONLY), got, sizeof got - 1);
	ok(!strcmp(got, "row\n"), "half a line is cut off");
	unlink(path);
	unlink(metrics);
	free(want);
}

int main(void)
{
	struct log log = { .level = LOG_LEVEL_WARN, .sink = keep_warning };

	test_slow_disk(&log);
	test_full_disk(&log);
	return tap_done();
}
