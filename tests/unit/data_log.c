/* SPDX-License-Identifier: ISC */
/* Streams that are files (data/source/data_log.h). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/reader/data_bad_lines.h"
#include "data/source/data_log.h"
#include "format/log_record.h"
#include "tap.h"
#include "worker/data_facts.h"

static char path[256];

static void append(const char *text)
{
	FILE *f = fopen(path, "ae");

	/* \1 stands for a NUL. */
	for (; f && *text; text++)
		if (fputc(*text == 1 ? 0 : *text, f) < 0)
			abort();
	if (!f || fclose(f))
		abort();
}

static void make(const char *text)
{
	unlink(path);
	append(text);
}

static struct data_log *open_log(const char *options)
{
	char name[400];
	struct data_log *l;
	struct err e;

	snprintf(name, sizeof name, "%s?follow=yes%s", path, options);
	return data_log_open(name, NULL, &l, &e) ? NULL : l;
}

static void lines_and_places(void)
{
	struct data_log *l;
	struct err e;

	make("1 1:1\n\n1 2:1\r\n1 3:");
	l = open_log("&format=libsvm");
	ok(l && data_log_partitions(l) == 1, "a file has one partition");
	ok(!data_log_seek(l, 0, DATA_LOG_BEGIN, &e) && !data_log_fetch(l, 0, &e) &&
	        data_log_ready(l, 0) == 2 && data_log_place(l, 0) == 0,
	    "a blank line is no event, and one without its end has not come yet");
	data_log_skip(l, 0, 1);
	ok(data_log_place(l, 0) == 7, "a place is the byte at which the line begins");
	data_log_skip(l, 0, 1);
	ok(data_log_place(l, 0) == 14 && data_log_lag(l, 0) > 0,
	    "also of the line that is to come");
	append("1\n");
	ok(!data_log_fetch(l, 1000, &e) && data_log_ready(l, 0) == 1 && data_log_place(l, 0) == 14,
	    "which comes once it is whole");
	data_log_skip(l, 0, 1);
	ok(data_log_lag(l, 0) == 0 && !data_log_fetch(l, 0, &e) && data_log_ready(l, 0) == 0,
	    "then nothing is left");
	ok(!data_log_seek(l, 0, 7, &e) && !data_log_fetch(l, 0, &e) && data_log_ready(l, 0) == 2 &&
	        data_log_place(l, 0) == 7,
	    "it is read again from any event on");
	data_log_close(l);
	l = open_log("&from=end&format=libsvm");
	append("1 4:1\n");
	ok(!data_log_seek(l, 0, DATA_LOG_BEGIN, &e) && !data_log_fetch(l, 0, &e) &&
	        data_log_ready(l, 0) == 0,
	    "from=end begins behind what is there");
	append("1 5:1\n");
	ok(!data_log_fetch(l, 1000, &e) && data_log_ready(l, 0) == 1, "and has what comes then");
	data_log_close(l);
}

static void examples(void)
{
	const struct data_want want = { .classes = false };
	struct data_log *l;
	struct dataset *head, *known = NULL, *d;
	json_t *facts;
	struct log quiet = { .fd = -1 };
	struct data_want skips = { .classes = false };
	struct err e;

	make("a,b,y\n1,2,3\n4,5,6\n");
	l = open_log("&label=y&head=2");
	ok(!data_log_head(l, &want, 0, NULL, NULL, &head, &e) && head && head->rows == 1 &&
	        head->cols == 2,
	    "the head has the first lines, a heading among them");
	ok(!data_log_seek(l, 0, DATA_LOG_BEGIN, &e) && !data_log_fetch(l, 0, &e) &&
	        data_log_ready(l, 0) == 2 && data_log_place(l, 0) == 6,
	    "a heading is no event");
	data_log_skip(l, 0, 1);
	ok(!data_log_load(l, 0, 1, &want, head, &d, &e) && d && d->rows == 1 && d->x[0] == 4 &&
	        d->x[1] == 5 && d->y[0] == 6,
	    "an event is parsed by the names of the heading");
	dataset_free(d);
	append("7,oops,9\n10,11,12\n");
	data_log_skip(l, 0, 1);
	ok(!data_log_fetch(l, 1000, &e) && data_log_ready(l, 0) == 2 &&
	        data_log_load(l, 0, 2, &want, head, &d, &e) == ERR_FORMAT &&
	        strstr(e.msg, "[0]+18:1:2: expected a number"),
	    "one that cannot be parsed is an error with its place (%s)", e.msg);
	data_log_close(l);
	skips.bad = data_bad_lines_new(1, &quiet);
	l = open_log("&label=y");
	facts = data_facts(head);
	ok(!data_of_facts(facts, &known, &e) && known->reading.heading == 1 &&
	        known->reading.separator == ',' && !data_log_know_head(l, known, NULL, NULL, &e),
	    "where another worker has told about the head, only the heading is looked at");
	json_decref(facts);
	dataset_free(known);
	ok(!data_log_seek(l, 0, 18, &e) && !data_log_fetch(l, 0, &e) &&
	        !data_log_load(l, 0, 2, &skips, head, &d, &e) && d && d->rows == 1 &&
	        d->x[0] == 10 && data_bad_lines_count(skips.bad) == 1,
	    "or is left out where a bad line may be skipped");
	dataset_free(d);
	ok(!data_log_load(l, 0, 1, &skips, head, &d, &e) && !d &&
	        data_bad_lines_count(skips.bad) == 1,
	    "it counts once, and a batch of it alone has no example");
	append("1,2\n");
	data_log_skip(l, 0, 2);
	ok(!data_log_fetch(l, 1000, &e) &&
	        data_log_load(l, 0, 1, &skips, head, &d, &e) == ERR_FORMAT &&
	        strstr(e.msg, "the limit of job.bad_lines"),
	    "the next one may not (%s)", e.msg);
	dataset_free(head);
	data_log_close(l);
	make("1 1:1\nwhat\n1 2:1\n");
	l = open_log("&format=libsvm&head=3");
	ok(data_log_head(l, &want, 0, NULL, NULL, &head, &e) == ERR_FORMAT &&
	        !data_log_head(l, &skips, 0, NULL, NULL, &head, &e) && head && head->rows == 2 &&
	        data_bad_lines_count(skips.bad) == 1,
	    "a bad event of the head is counted when it is trained on");
	dataset_free(head);
	data_bad_lines_free(skips.bad);
	data_log_close(l);
}

/* Events that arrive after the head, `each` at a time: how many examples and how many bad ones they become. *later:
 * '*' stands for the events of the head themselves, from the first one on. */
static bool become(const char *options, bool classes, const char *first, const char *later,
    size_t each, size_t examples, uint64_t bad)
{
	struct data_want want = { .classes = classes };
	struct log quiet = { .fd = -1 };
	struct data_log *l;
	struct dataset *head = NULL, *d;
	struct err e = { 0 };
	size_t rows = 0, n;
	bool good;

	make(first);
	l = open_log(options);
	good = l && !data_log_head(l, &want, 0, NULL, NULL, &head, &e) &&
	    !data_log_seek(l, 0, DATA_LOG_BEGIN, &e) && !data_log_fetch(l, 0, &e);
	if (good && *later != '*') {
		data_log_skip(l, 0, data_log_ready(l, 0));
		append(later);
	}
	want.bad = data_bad_lines_new(1000, &quiet);
	while (good && !data_log_fetch(l, 0, &e) && data_log_ready(l, 0)) {
		n = data_log_ready(l, 0) < each ? data_log_ready(l, 0) : each;
		good = !data_log_load(l, 0, n, &want, head, &d, &e);
		rows += good && d ? d->rows : 0;
		if (good)
			dataset_free(d);
		data_log_skip(l, 0, n);
	}
	if (!good || rows != examples || data_bad_lines_count(want.bad) != bad)
		printf("# %zu examples, %d bad: %s\n", rows, (int)data_bad_lines_count(want.bad),
		    e.msg);
	good = good && rows == examples && data_bad_lines_count(want.bad) == bad;
	data_bad_lines_free(want.bad);
	dataset_free(head);
	data_log_close(l);
	return good;
}

#define WORDS "red,cat,yes\nblue,dog,no\nred,dog,yes\nblue,cat,no\nred,cat,no\nblue,dog,yes\n"

static void head_decides(void)
{
	char numbers[2000];
	size_t at = 0;

	for (int i = 0; i < 40; i++)
		at += (size_t)snprintf(numbers + at, sizeof numbers - at,
		    i % 10 == 3 ? "%d,n/k,%d\n" : "%d,7,%d\n", i, 10 * i);
	ok(become("&format=csv", true, WORDS, "red,cat,yes\nblue,dog,no\nred,dog,no\n", 1, 3, 0),
	    "an event of words, alone in its batch, is no heading");
	ok(become("&format=csv", true, WORDS, "red,cat,yes\nblue,dog,no\nred,dog,no\n", 3, 3, 0),
	    "nor is the first one of three");
	ok(become("&format=csv", false, numbers, "2,n/k,10\n2,3,20\n4,5,30\n", 3, 3, 0),
	    "nor one that has a word in a column of numbers");
	ok(become("&format=csv", false, numbers, "oops,3,10\n2,3,20\n4,5,30\n", 3, 2, 1),
	    "a bad event at the begin of a batch is counted");
	ok(become("&format=csv", true, "colour,animal,buys\n" WORDS, "red,cat,yes\nblue,dog,no\n",
	       1, 2, 0),
	    "a heading of the head holds for each event");
	ok(become("", false, "1 1:1\n2 2:1\n3 1:2\n", "1\n2 2:1\n", 1, 2, 0),
	    "and so does the format that the head has shown");
	ok(become("&format=csv", false, "1.5,a,3\n2.5,b,4\n3.5,a,5\n1.5,b,6\n2,a,7\n",
	       "1.5,x; y; z,3\n2.5,a,4\n", 1, 2, 0),
	    "and the separator");
	ok(become("&format=csv", true, WORDS, "#1,cat,yes\nsep=,\nred,dog,no\n", 1, 2, 1),
	    "an event that begins as a comment is an event");
	ok(become("&format=csv&label=y&head=5", false, "\n\n \na,b,y\n1,2,10\n2,3,20\n", "*", 1, 2,
	       0),
	    "a heading may stand below blank lines");
	ok(become("&format=csv", false, numbers, "2,3,10\n\1,3,20\n4,\1,30\n4,5,30\n", 3, 2, 2),
	    "an event with a NUL byte is a bad one");
	ok(become("&format=libsvm", false,
	       "\xef\xbb\xbf"
	       "1 1:1\n2 2:1\n",
	       "\xef\xbb\xbf"
	       "1 1:1\n",
	       1, 1, 0),
	    "byte order marks are no part of events");
}

static void damage(void)
{
	struct data_log *l;
	struct err e;

	make("1 1:1\n1 2:1\n");
	l = open_log("&format=libsvm");
	data_log_seek(l, 0, DATA_LOG_BEGIN, &e);
	data_log_fetch(l, 0, &e);
	ok(truncate(path, 3) == 0 && data_log_fetch(l, 0, &e) == ERR_IO && strstr(e.msg, "shorter"),
	    "a file that becomes shorter is an error (%s)", e.msg);
	data_log_close(l);
	make("1 1:1\n");
	l = open_log("&format=libsvm");
	data_log_seek(l, 0, DATA_LOG_BEGIN, &e);
	make("1 1:1\n1 2:1\n");
	ok(data_log_fetch(l, 0, &e) == ERR_IO && strstr(e.msg, "replaced"),
	    "and so is another file of its name (%s)", e.msg);
	data_log_close(l);
	make("1 1:1\n1 2:1\n");
	l = open_log("&format=libsvm");
	ok(!data_log_seek(l, 0, 6, &e) && data_log_seek(l, 0, 8, &e) == ERR_IO &&
	        strstr(e.msg, "no line begins at byte 8"),
	    "a place within a line shows that the file was written again (%s)", e.msg);
	data_log_close(l);
	ok(!data_log_is("a.csv?label=y") && !data_log_is("s3://b/k?label=y") &&
	        data_log_is("kafka://h:1/t?group=g") && data_log_is("a.csv?follow=yes"),
	    "a path tells whether it is a stream");
	ok(data_log_open("kafka://h:1?group=g", NULL, &l, &e) == ERR_CONFIG &&
	        data_log_open("kafka://h:1/a/b", NULL, &l, &e) == ERR_CONFIG,
	    "a topic needs a name (%s)", e.msg);
	ok(data_log_open("/dev/null?follow=yes&text=body&text_weight=tfidf", NULL, &l, &e) ==
	            ERR_CONFIG &&
	        strstr(e.msg, "a stream does not end"),
	    "frequencies of words are those of data that end: %s", e.msg);
	ok(data_log_open("/dev/null?follow=yes", NULL, &l, &e) == ERR_CONFIG,
	    "a device is not a stream (%s)", e.msg);
}

/* A worker ends while another process moves the bytes of a pipe, and that one ends, too. */
static void rest_of_a_pipe(void)
{
	static const char line[] = "1 1:1\n";
	char *spool = mem_printf("%s.spool", path);
	struct data_log *l;
	struct stat st;
	int fd, lock;

	unlink(path);
	unlink(spool);
	if (mkfifo(path, 0600) || (lock = open(spool, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0 ||
	    flock(lock, LOCK_EX))
		abort();
	l = open_log("&format=libsvm");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok(l && fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line) &&
	        fstat(lock, &st) == 0 && st.st_size == 0,
	    "a line waits in a pipe, and another process has the lock");
	close(fd);
	close(lock);
	data_log_close(l);
	ok(stat(spool, &st) == 0 && st.st_size == (off_t)strlen(line),
	    "the last worker moves it before it closes the pipe");
	unlink(path);
	unlink(spool);
	free(spool);
}

/* All workers are killed while a line is in a pipe, which the process that starts them holds. */
static void held_pipe(void)
{
	static const char line[] = "1 1:1\n";
	char *spool = mem_printf("%s.spool", path), *name = mem_printf("%s?follow=yes", path);
	struct data_log_hold *hold;
	struct data_log *l;
	struct stat st;
	struct err e;
	int fd;

	unlink(path);
	unlink(spool);
	make("1 1:1\n");
	ok(!data_log_hold(name, &hold, &e) && !hold, "a file is not held");
	unlink(path);
	if (mkfifo(path, 0600))
		abort();
	ok(!data_log_hold(name, &hold, &e) && hold, "a pipe is held");
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	ok(fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line) && !close(fd),
	    "so that a line can be written while no worker lives");
	l = open_log("&format=libsvm");
	ok(!data_log_seek(l, 0, DATA_LOG_BEGIN, &e) && !data_log_fetch(l, 10000, &e) &&
	        data_log_ready(l, 0) == 1,
	    "and the next worker reads it");
	data_log_close(l);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	ok(fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line) && !close(fd),
	    "a line is written after the last worker has ended");
	data_log_release(hold);
	ok(stat(spool, &st) == 0 && st.st_size == 2 * (off_t)strlen(line),
	    "and who held the pipe moves it before it closes it");
	unlink(path);
	unlink(spool);
	free(spool);
	free(name);
}

static void records(void)
{
	struct log_record r = { LOG_RECORD_EVENT, 3, 9, 5, INT64_C(1) << 40,
		(INT64_C(1) << 40) + 2 },
	                  s;
	struct buf b = BUF_INIT;

	log_record_put(&b, &r, "event");
	ok(b.len == LOG_RECORD_BYTES + 5 && log_record_get(b.data, &s) && s.kind == r.kind &&
	        s.partition == 3 && s.serial == 9 && s.len == 5 && s.place == r.place &&
	        s.next == r.next && memcmp(b.data + LOG_RECORD_BYTES, "event", 5) == 0,
	    "a record is read as it was written");
	b.data[0] = 77;
	ok(!log_record_get(b.data, &s), "one of an unknown kind is refused");
	buf_release(&b);
}

int main(void)
{
	const char *dir = getenv("TMPDIR");

	snprintf(path, sizeof path, "%s/pskit-data_log.%d", dir ? dir : "/tmp", (int)getpid());
	lines_and_places();
	examples();
	head_decides();
	damage();
	records();
	rest_of_a_pipe();
	held_pipe();
	unlink(path);
	return tap_done();
}
