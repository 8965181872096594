/* SPDX-License-Identifier: ISC */
/* Errors, memory, buffers, suggestions, counts, names, back-off. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/batch/batch.h"
#include "core/backoff.h"
#include "core/buf.h"
#include "core/endian.h"
#include "core/err.h"
#include "core/hist.h"
#include "core/map.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/plain.h"
#include "core/read_retry.h"
#include "core/suggest.h"
#include "core/thread.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- errors ---- */

static void test_err(void)
{
	struct err other, e = { 0 };
	char big[2000];

	ok(err_set(&e, ERR_IO, "no %s %d", "x", 7) == ERR_IO && e.code == ERR_IO &&
	        strcmp(e.msg, "no x 7") == 0,
	    "err_set");
	ok(err_set(&e, ERR_AUTH, "again: %s", e.msg) == ERR_AUTH &&
	        strcmp(e.msg, "again: no x 7") == 0,
	    "err_set with its own message as an argument");
	ok(err_prefix(&e, "line %d", 3) == ERR_AUTH && strcmp(e.msg, "line 3: again: no x 7") == 0,
	    "err_prefix");
	ok(err_prefix(&e, "%s", e.msg) == ERR_AUTH &&
	        strcmp(e.msg, "line 3: again: no x 7: line 3: again: no x 7") == 0,
	    "err_prefix with its own message");
	ok(e.cause == CAUSE_UNKNOWN && err_blame(&e, CAUSE_KEY) == ERR_AUTH && e.cause == CAUSE_KEY,
	    "err_blame gives a cause");
	err_blame(&e, CAUSE_CLOCK);
	ok(e.cause == CAUSE_KEY && err_prefix(&e, "x") == ERR_AUTH && e.cause == CAUSE_KEY,
	    "and changes none, nor does err_prefix");
	ok(err_pass(&other, &e) == ERR_AUTH && other.cause == CAUSE_KEY &&
	        strcmp(other.msg, e.msg) == 0,
	    "err_pass");
	ok(err_set(&e, ERR_UNREACH, "x") == ERR_UNREACH && e.cause == CAUSE_UNREACHABLE,
	    "err_set: the usual cause of the code");
	errno = ENOSPC;
	ok(err_sys(&e, ERR_IO, "x") == ERR_IO && e.cause == CAUSE_NO_SPACE,
	    "err_sys: the cause of errno");
	ok(err_because(&e, ERR_CONFIG, CAUSE_MEM_LIMIT, "%d", 1) == ERR_CONFIG &&
	        e.cause == CAUSE_MEM_LIMIT && strcmp(e.msg, "1") == 0,
	    "err_because");
	ok(err_cause_by_name(err_cause_name(CAUSE_KILLED)) == CAUSE_KILLED &&
	        err_cause_by_name("of a later version") == CAUSE_UNKNOWN &&
	        err_blame(NULL, CAUSE_KEY) == ERR_FAILED,
	    "names of causes");
	errno = ENOENT;
	ok(err_sys(&e, ERR_NOTFOUND, "cannot open \"%s\"", "f") == ERR_NOTFOUND &&
	        strcmp(e.msg, "cannot open \"f\": No such file or directory") == 0,
	    "err_sys: %s", e.msg);
	errno = 99999;
	err_sys(&e, ERR_IO, "odd");
	ok(strcmp(e.msg, "odd: unknown error") == 0, "err_sys: a number that errno never has");
	ok(err_set(NULL, ERR_IO, "x") == ERR_IO && err_sys(NULL, ERR_AUTH, "x") == ERR_AUTH &&
	        err_prefix(NULL, "x") != ERR_OK,
	    "no error wanted");

	memset(big, 'p', sizeof big - 1);
	big[sizeof big - 1] = 0;
	err_set(&e, ERR_IO, "%s", big);
	ok(strlen(e.msg) == sizeof e.msg - 1, "err_set: a long message is cut");
	errno = EACCES;
	err_sys(&e, ERR_IO, "cannot open %s", big);
	ok(strlen(e.msg) == sizeof e.msg - 1 && strstr(e.msg, ": Permission denied"),
	    "err_sys: the reason outlives a long path");
	err_set(&e, ERR_IO, "the reason");
	err_prefix(&e, "%s", big);
	ok(strstr(e.msg, ": the reason"), "err_prefix: so does the message");
}

static void test_err_table(void)
{
	static const struct {
		enum err_code code;
		int number, exit_code;
		const char *name;
	} row[] = {
		{ ERR_OK, 0, 0, "ok" },
		{ ERR_FAILED, 1, 1, "failed" },
		{ ERR_USAGE, 2, 2, "usage" },
		{ ERR_NOTREADY, 3, 3, "notready" },
		{ ERR_NOTFOUND, 4, 4, "notfound" },
		{ ERR_AUTH, 5, 5, "auth" },
		{ ERR_UNREACH, 6, 6, "unreach" },
		{ ERR_CONFIG, 7, 78, "config" },
		{ ERR_TIMEOUT, 8, 124, "timeout" },
		{ ERR_STOPPED, 9, 75, "stopped" },
		{ ERR_UNSUPPORTED, 21, 1, "unsupported" },
	};
	int twice = 0, blank = 0;

	for (size_t i = 0; i < COUNT(row); i++)
		ok((int)row[i].code == row[i].number &&
		        err_exit_code(row[i].code) == row[i].exit_code &&
		        strcmp(err_name(row[i].code), row[i].name) == 0 &&
		        err_by_name(row[i].name) == row[i].code,
		    "%s is %d and exits with %d", row[i].name, row[i].number, row[i].exit_code);
	for (int i = 0; i <= ERR_UNSUPPORTED; i++) {
		blank += !err_name((enum err_code)i) || !err_text((enum err_code)i);
		twice += err_by_name(err_name((enum err_code)i)) != (enum err_code)i;
	}
	ok(!blank && !twice, "every number has a text and a name of its own");
	ok(err_by_name("nonsense") == ERR_FAILED && err_by_name("") == ERR_FAILED,
	    "an unknown name");
	ok(err_exit_code((enum err_code)1000) == 1 &&
	        strcmp(err_name((enum err_code)1000), "failed") == 0 &&
	        strcmp(err_text((enum err_code) - 1), "failed") == 0,
	    "a number off the wire that is none");
}

/* ---- memory ---- */

static bool all_zero(const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		if (b[i])
			return false;
	return true;
}

/* Does fn end the process by abort()?  In a child, with its talk thrown away. */
static bool aborts(void (*fn)(void))
{
	int status, null;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(null, 2);
		fn();
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
	    WTERMSIG(status) == SIGABRT;
}

#ifndef PS_SANITIZED
static void overflow_array(void)
{
	free(mem_array(SIZE_MAX / 2, 3));
}

static void overflow_regrow(void)
{
	free(mem_regrow(NULL, SIZE_MAX / 2, 3));
}
#endif

static void overflow_reserve(void)
{
	struct buf b = BUF_INIT;

	buf_append(&b, "x", 1);
	buf_reserve(&b, SIZE_MAX - 1);
	buf_release(&b);
}

static void test_mem(void)
{
	char *s = mem_printf("%d-%s", 7, "x"), *t = mem_strdup(s);
	size_t room = 0;
	uint16_t *grown = NULL;
	char *a = mem_array(10, 10), *b = mem_try_array(3, 5), *c = mem_try_array(0, 8);
	size_t volatile huge = SIZE_MAX;

	ok(strcmp(s, "7-x") == 0 && strcmp(t, s) == 0 && t != s, "mem_printf, mem_strdup");
	ok(all_zero(a, 100), "mem_array is zeroed");
	a = mem_regrow(a, 200, 10);
	ok(all_zero(a, 100), "mem_regrow keeps what was there");
	for (size_t i = 0; i < 1000; i++) {
		grown = mem_grow(grown, &room, i + 1, sizeof *grown);
		grown[i] = (uint16_t)i;
	}
	ok(grown[999] == 999 && grown[0] == 0 && room >= 1000 && room < 2100, "mem_grow doubles");
	grown = mem_grow(grown, &room, 100000, sizeof *grown);
	ok(grown[999] == 999 && room == 100000, "or grows to what is needed");
	free(grown);
	ok(b && all_zero(b, 15) && (uintptr_t)b % 64 == 0, "mem_try_array is zeroed and aligned");
	ok(c && (uintptr_t)c % 64 == 0, "mem_try_array of nothing is something");
	ok(!mem_try_array(huge / 2, 3) && !mem_try_array(huge, 1) && !mem_try_array(huge - 32, 1),
	    "mem_try_array: a product that overflows is refused");
	/* The sanitizers' allocator ends the process in its own way. */
#ifndef PS_SANITIZED
	ok(!mem_try_array(huge / 4, 1), "mem_try_array: too much is NULL");
	ok(aborts(overflow_array) && aborts(overflow_regrow),
	    "mem_array, mem_regrow: overflow aborts");
#endif
	free(s);
	free(t);
	free(a);
	free(b);
	free(c);
	s = mem_alloc(0);
	ok(s, "mem_alloc of nothing is something");
	free(s);
}

/* ---- buffers ---- */

static void test_buf(void)
{
	struct buf b = BUF_INIT, zero = { 0 };
	int bad = 0;

	buf_append(&b, NULL, 0);
	ok(b.len == 0 && b.data && b.data[0] == 0, "nothing appended to an empty one");
	plain_put_tsv_cell(&b, "a\tb\r\nc\\d");
	ok(strcmp((char *)b.data, "a\\tb\\r\\nc\\\\d") == 0, "a cell between tabs: %s", b.data);
	buf_clear(&b);
	plain_put_tsv_cell(&b, "");
	ok(b.len == 0, "an empty cell");
	buf_puts(&b, "abc");
	buf_printf(&b, "-%d-%s", 5, "x");
	buf_printf(&b, "%s", "");
	ok(b.len == 7 && strcmp((char *)b.data, "abc-5-x") == 0, "puts and printf: %s", b.data);
	buf_consume(&b, 4);
	ok(b.len == 3 && strcmp((char *)b.data, "5-x") == 0, "consumed from the front");
	buf_consume(&b, 0);
	buf_consume(&b, 3);
	ok(b.len == 0 && b.data[0] == 0, "consumed whole");
	memcpy(buf_reserve(&b, 5), "hello", 5);
	ok(b.len == 0, "reserved is not yet there");
	buf_commit(&b, 4);
	ok(b.len == 4 && strcmp((char *)b.data, "hell") == 0, "committed in part");
	buf_clear(&b);
	ok(b.len == 0 && b.cap > 0 && b.data[0] == 0, "cleared");
	for (int i = 0; i < 100000; i++) {
		uint8_t byte = (uint8_t)(i * 7);

		buf_append(&b, &byte, 1);
		bad += b.data[b.len] != 0 || b.len >= b.cap;
	}
	for (int i = 0; i < 100000; i++)
		bad += b.data[i] != (uint8_t)(i * 7);
	ok(b.len == 100000 && !bad, "grows byte by byte, always ended by NUL");
	buf_clear(&b);
	buf_printf(&b, "%0500d", 1);
	ok(b.len == 500 && b.data[499] == '1' && b.data[500] == 0, "printf longer than the room");
	buf_release(&b);
	ok(!b.data && !b.len && !b.cap, "released");
	buf_release(&b);
	buf_clear(&b);
	buf_consume(&zero, 0);
	buf_puts(&zero, "x");
	ok(zero.len == 1, "all zeroes is an empty one");
	buf_release(&zero);
	ok(aborts(overflow_reserve), "a reserve that overflows aborts");
}

static void test_endian(void)
{
	uint8_t p[16] = { 0 };

	put_le16(p + 1, 0xfedc);
	put_le32(p + 3, 0xfedcba98);
	put_le64(p + 7, UINT64_C(0xfedcba9876543210));
	ok(p[1] == 0xdc && p[2] == 0xfe && p[3] == 0x98 && p[6] == 0xfe && p[7] == 0x10 &&
	        p[14] == 0xfe,
	    "little-endian bytes");
	ok(get_le16(p + 1) == 0xfedc && get_le32(p + 3) == 0xfedcba98 &&
	        get_le64(p + 7) == UINT64_C(0xfedcba9876543210),
	    "and back, at odd places");
}

/* ---- suggestions, counts, names ---- */

static void test_suggest(void)
{
	static const char *const names[] = { "workers", "servers", "batch", "lr", "sync", "steps" };
	static const struct {
		const char *word, *want;
	} row[] = {
		{ "worker", "workers" },
		{ "wokrers", "workers" },
		{ "serverss", "servers" },
		{ "bach", "batch" },
		{ "btach", "batch" },
		{ "snyc", "sync" },
		{ "setps", "steps" },
		{ "workers", "workers" },
		{ "zebra", NULL },
		{ "x", NULL },
		{ "", NULL },
		{ "optimizer", NULL },
		{ "a-word-much-longer-than-any-name-that-anyone-would-ever-give-to-a-key", NULL },
	};

	for (size_t i = 0; i < COUNT(row); i++) {
		const char *got = suggest(row[i].word, names, COUNT(names));

		ok(row[i].want ? got && strcmp(got, row[i].want) == 0 : !got, "\"%s\" suggests %s",
		    row[i].word, got ? got : "nothing");
	}
	ok(!suggest("workers", names, 0), "no names, no suggestion");
}

static void test_hist(void)
{
	struct hist h = { 0 };

	ok(hist_quantile(&h, 0.5) == 0, "an empty histogram");
	hist_add(&h, 0);
	hist_add(&h, 1);
	hist_add(&h, 2);
	hist_add(&h, 3);
	hist_add(&h, 4);
	ok(h.bucket[0] == 1 && h.bucket[1] == 1 && h.bucket[2] == 2 && h.bucket[3] == 1 &&
	        h.count == 5 && h.sum == 10,
	    "buckets by powers of two");
	ok(hist_quantile(&h, 0.2) == 0 && hist_quantile(&h, 0.4) == 2 &&
	        hist_quantile(&h, 0.5) == 4 && hist_quantile(&h, 0.8) == 4 &&
	        hist_quantile(&h, 1) == 8,
	    "quantiles are bounds of buckets");
	hist_add(&h, UINT64_MAX);
	hist_add(&h, UINT64_C(1) << 46);
	ok(h.bucket[HIST_BUCKETS - 1] == 2 &&
	        hist_quantile(&h, 1) == UINT64_C(1) << (HIST_BUCKETS - 1),
	    "the last bucket takes all that is larger");
	h = (struct hist){ 0 };
	for (int i = 0; i < 999; i++)
		hist_add(&h, 100);
	hist_add(&h, 1000000);
	ok(hist_quantile(&h, 0.99) == 128 && hist_quantile(&h, 0.999) == 128 &&
	        hist_quantile(&h, 1) == 1 << 20,
	    "one in a thousand is slow");
}

static void *add_many(void *h)
{
	for (uint64_t i = 0; i < 50000; i++)
		hist_add(h, i % 64);
	return NULL;
}

static void test_hist_threads(void)
{
	struct hist h = { 0 };
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, add_many, &h);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ok(h.count == 200000 &&
	        h.bucket[0] + h.bucket[1] + h.bucket[2] + h.bucket[3] + h.bucket[4] + h.bucket[5] +
	                h.bucket[6] ==
	            200000,
	    "four threads lose no count");
}

static void test_map(void)
{
	char one[] = "1", two[] = "2", three[] = "3", name[32] = "zeta";
	struct map *m = map_new();
	int bad = 0;

	ok(!map_get(m, "x"), "an empty map");
	map_put(m, name, one);
	memset(name, 'q', 4);
	map_put(m, "alpha", two);
	map_put(m, "", three);
	ok(map_get(m, "zeta") == one && map_get(m, "") == three && !map_get(m, "qqqq"),
	    "names are copied");
	map_put(m, "alpha", one);
	ok(map_get(m, "alpha") == one, "put again changes in place");
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "key-%d", i);
		map_put(m, name, one + i % 2);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "key-%d", i);
		bad += map_get(m, name) != one + i % 2;
	}
	ok(!bad, "five thousand names");
	map_free(m);
	map_free(NULL);
}

static void test_batch(void)
{
	struct batch b = { .rows = 2,
		.cols = 3,
		.x = mem_array(6, sizeof(float)),
		.y = mem_array(2, sizeof(float)) };

	batch_release(&b);
	ok(b.rows == 0 && !b.x && !b.y, "a batch is released");
	batch_release(&b);
}

/* ---- names in a list ---- */

static void test_names(void)
{
	const char *list = "w0,b0,w10", *at = names_first(list);

	ok(names_is(at, "w0") && !names_is(at, "w") && !names_is(at, "w0,b0"),
	    "the first name, whole");
	at = names_next(at);
	ok(names_is(at, "b0") && names_is(names_next(at), "w10") && !names_next(names_next(at)),
	    "those after it");
	ok(names_has(list, "w10") && !names_has(list, "w1") && !names_has(list, "10"),
	    "a name that the list has");
	ok(!names_first("none") && !names_has("none", "none") && names_has("none,w0", "none"),
	    "none is no name, alone");
}

/* ---- words of others ---- */

static void test_plain(void)
{
	char text[] = "a\033[31m\tb\n\x7f\xc3\xa9", *out = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&out, &n);

	plain_text(text);
	ok(strcmp(text, "a?[31m?b??\xc3\xa9") == 0,
	    "what would steer a terminal is no more, letters stay");
	plain_print(f, "%s\n", "two\nlines\033");
	plain_print(f, "end");
	fclose(f);
	ok(strcmp(out, "two?lines?\nend") == 0, "a line is one line");
	free(out);
}

/* ---- threads ---- */

static void *set_true(void *ctx)
{
	*(bool *)ctx = true;
	return NULL;
}

static void test_thread(void)
{
	struct err e = { 0 };
	bool ran = false;
	pthread_t thread;

	ok(!thread_start(&thread, set_true, &ran, &e) && !pthread_join(thread, NULL) && ran,
	    "a thread runs");
#ifndef PS_SANITIZED
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		enum err_code rc = ERR_OK;

		/* There is no room for more stacks than those of threads that have ended. */
		if (setrlimit(RLIMIT_AS, &(struct rlimit){ 0, 0 }))
			_exit(2);
		for (int i = 0; !rc && i < 100; i++)
			rc = thread_start(&thread, set_true, &ran, &e);
		_exit(rc != ERR_IO ||
		    strcmp(e.msg, "cannot start a thread: Resource temporarily unavailable") != 0);
	}
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	    "a thread that cannot be started is reported with the reason");
#endif
}

static void test_backoff(void)
{
	struct backoff b = { .least = 20, .most = 70 };

	backoff_reset(&b);
	ok(backoff_is_due(&b, 0), "the first attempt is due at once");
	backoff_failed(&b, 1000);
	ok(!backoff_is_due(&b, 1019) && backoff_is_due(&b, 1020),
	    "the second attempt is due after the least pause");
	ok(backoff_next(&b) == 40 && backoff_next(&b) == 70 && backoff_next(&b) == 70,
	    "the pause doubles up to the most");
	backoff_reset(&b);
	ok(backoff_is_due(&b, 0) && backoff_next(&b) == 20, "a success sets it back");
	ok(backoff_after(20, 70, 0) == 20 && backoff_after(20, 70, 1) == 40 &&
	        backoff_after(20, 70, 2) == 70 && backoff_after(20, 70, UINT_MAX) == 70,
	    "the pause after a number of failures");
}

static unsigned lines;

static void count_line(void *ctx, int level, const char *text)
{
	(void)ctx;
	(void)level;
	lines += strstr(text, "a disk: trying again") != NULL;
}

static void test_read_retry(void)
{
	struct log log = { .level = LOG_LEVEL_WARN, .sink = count_line };
	struct read_retry r = { 0 };
	struct err disk = { .code = ERR_IO, .msg = "a disk" }, damage = { .code = ERR_FORMAT },
	           none = { 0 };

	ok(!read_retry_wanted(&r, &none, &log, 1) && !read_retry_wanted(&r, &damage, &log, 1) &&
	        !lines,
	    "neither a success nor damage is read again");
	ok(read_retry_wanted(&r, &disk, &log, 7) &&
	        read_retry_wanted(&r, &disk, &log, 6 + READ_RETRY_TIME),
	    "a disk that fails is read again for a while");
	ok(lines == 1, "which is logged once");
	ok(!read_retry_wanted(&r, &disk, &log, 7 + READ_RETRY_TIME), "and not for ever");
	ok(!read_retry_wanted(&r, &none, &log, 8 + READ_RETRY_TIME) &&
	        read_retry_wanted(&r, &disk, NULL, 9 + READ_RETRY_TIME),
	    "after a success the time begins again");
}

int main(void)
{
	test_err();
	test_err_table();
	test_mem();
	test_buf();
	test_endian();
	test_suggest();
	test_hist();
	test_hist_threads();
	test_map();
	test_batch();
	test_names();
	test_plain();
	test_thread();
	test_backoff();
	test_read_retry();
	return tap_done();
}
