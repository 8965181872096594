/* SPDX-License-Identifier: ISC */
/* Files, names of files, log lines and clocks. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "core/mem.h"
#include "tap.h"

static char root[] = "/tmp/base-file-XXXXXX";

static mode_t mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_mode & 07777;
}

static bool holds(const char *path, const char *want)
{
	struct buf b = BUF_INIT;
	bool same = file_read(path, 1000, &b, NULL) == ERR_OK && strcmp((char *)b.data, want) == 0;

	buf_release(&b);
	return same;
}

static size_t entries(const char *dir)
{
	char *cmd = mem_printf("ls -A '%s' | wc -l", dir);
	FILE *f = popen(cmd, "r");
	size_t n = 0;

	if (!f || fscanf(f, "%zu", &n) != 1)
		n = SIZE_MAX;
	if (f)
		pclose(f);
	free(cmd);
	return n;
}

static void test_replace(void)
{
	char *dir = path_join(root, "replace"), *path = path_join(dir, "f"),
	     *sub = path_join(dir, "sub");
	char *lost = path_join(root, "no/such/f");
	struct err e = { 0 };

	umask(022);
	ok(file_mkdirs(dir, 0700, &e) == ERR_OK, "a directory");
	ok(file_replace(path, "one", 3, 0600, &e) == ERR_OK && holds(path, "one") &&
	        mode_of(path) == 0600,
	    "made");
	ok(file_replace(path, "second", 6, 0644, &e) == ERR_OK && holds(path, "second") &&
	        mode_of(path) == 0644,
	    "replaced");
	ok(file_replace(path, "", 0, 0600, &e) == ERR_OK && holds(path, ""), "replaced by nothing");
	ok(file_replace(lost, "x", 1, 0600, &e) == ERR_IO && strstr(e.msg, "no/such"),
	    "a directory that is not there: %s", e.msg);
	ok(file_replace(lost, "x", 1, 0600, NULL) == ERR_IO, "no error wanted");
	mkdir(sub, 0700);
	ok(file_replace(sub, "x", 1, 0600, &e) == ERR_IO && strstr(e.msg, sub),
	    "a directory in the way: %s", e.msg);
	ok(entries(dir) == 2, "no temporary file is left behind");
	ok(chdir(dir) == 0 && file_replace("here", "x", 1, 0600, &e) == ERR_OK &&
	        holds("here", "x"),
	    "a name without a directory");
	ok(symlink("f", "link") == 0 && file_replace("link", "new", 3, 0600, &e) == ERR_OK &&
	        holds("f", "") && holds("link", "new"),
	    "a link is replaced, not followed");
	ok(chdir("/") == 0, "back");
	free(lost);
	free(sub);
	free(path);
	free(dir);
}

/* Files whose writers never came to close them. */
static void test_torn(void)
{
	char *dir = path_join(root, "torn"), *mine = path_join(dir, "me-1-f"),
	     *other = path_join(dir, "me-11-f");
	const char *const alike[] = { "me-1-f.tmp-0123456789abcdeg", "me-1-f.tmp-0123456789abcde",
		"me-1-f.tmp-0123456789abcdef0", ".tmp-x" };
	struct file_new f[3];

	file_mkdirs(dir, 0700, NULL);
	ok(file_new_open(mine, 0600, &f[0], NULL) == ERR_OK &&
	        file_new_open(mine, 0600, &f[1], NULL) == ERR_OK &&
	        file_new_open(other, 0600, &f[2], NULL) == ERR_OK && entries(dir) == 3,
	    "three are being written");
	for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
		char *path = path_join(dir, alike[i]);

		file_replace(path, "", 0, 0600, NULL);
		free(path);
	}
	file_remove_torn(dir, "me-1-");
	ok(entries(dir) == 5 && access(f[0].tmp, F_OK) && access(f[1].tmp, F_OK) &&
	        !access(f[2].tmp, F_OK),
	    "those of the name are gone, not another's, nor what is named alike");
	ok(file_new_close(&f[2], ERR_OK, NULL) == ERR_OK && holds(other, ""), "which goes on");
	for (int i = 0; i < 2; i++)
		ok(file_new_close(&f[i], ERR_IO, NULL) == ERR_IO,
		    "what is gone is taken back all the same");
	file_remove_torn("/no/such", "me-1-");
	free(dir);
	free(mine);
	free(other);
}

static void *replace_often(void *path)
{
	char text[4096];
	uintptr_t bad = 0;

	for (int i = 0; i < 25; i++) {
		memset(text, 'a' + i, sizeof text);
		bad += file_replace(path, text, sizeof text, 0600, NULL) != ERR_OK;
	}
	return (void *)bad;
}

/* Whatever the order, one of the writers' texts stands there, whole. */
static void test_replace_threads(void)
{
	char *dir = path_join(root, "race"), *path = path_join(dir, "f");
	struct buf b = BUF_INIT;
	uintptr_t bad = 0;
	pthread_t t[4];
	void *failed;

	file_mkdirs(dir, 0700, NULL);
	replace_often(path);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, replace_often, path);
	for (int i = 0; i < 200; i++) {
		buf_clear(&b);
		bad += file_read(path, 5000, &b, NULL) != ERR_OK || b.len != 4096 ||
		    b.data[0] != b.data[4095];
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &failed);
		bad += (uintptr_t)failed;
	}
	ok(!bad && entries(dir) == 1,
	    "four threads replace one file: it is whole at any time (%zu)", (size_t)bad);
	buf_release(&b);
	free(path);
	free(dir);
}

static void test_read(void)
{
	char *path = path_join(root, "r");
	struct buf b = BUF_INIT;
	struct err e = { 0 };
	char *big = mem_array(200001, 1);

	memset(big, 'x', 200000);
	file_replace(path, big, 200000, 0600, &e);
	buf_puts(&b, "before");
	ok(file_read(path, 200000, &b, &e) == ERR_OK && b.len == 200006 &&
	        memcmp(b.data, "beforexx", 8) == 0,
	    "appended, at its limit");
	ok(file_read(path, 199999, &b, &e) == ERR_LIMIT && strstr(e.msg, "199999") &&
	        b.len == 200006 && b.data[b.len] == 0,
	    "one byte too long: %s", e.msg);
	ok(file_read(root, 100, &b, &e) == ERR_IO && strstr(e.msg, root), "a directory: %s", e.msg);
	unlink(path);
	ok(file_read(path, 100, &b, &e) == ERR_NOTFOUND && strstr(e.msg, path), "absent: %s",
	    e.msg);
	ok(file_read(path, 100, &b, NULL) == ERR_NOTFOUND && b.len == 200006, "no error wanted");
	buf_release(&b);
	free(big);
	free(path);
}

struct feed {
	int fd;
	const char *data;
	size_t n;
};

static void *feed(void *arg)
{
	struct feed *f = arg;

	file_write_all(f->fd, f->data, f->n, NULL);
	close(f->fd);
	return NULL;
}

static void test_fd(void)
{
	enum { N = 300000 };
	char *data = mem_array(N, 1), *back = mem_array(N, 1);
	struct feed f = { .data = data, .n = N };
	struct err e = { 0 };
	pthread_t t;
	int p[2];

	for (size_t i = 0; i < N; i++)
		data[i] = (char)(i * 13);
	if (pipe(p))
		return;
	f.fd = p[1];
	pthread_create(&t, NULL, feed, &f);
	ok(file_read_all(p[0], back, N, &e) == ERR_OK && memcmp(data, back, N) == 0,
	    "more than a pipe holds");
	ok(file_read_all(p[0], back, 10, &e) == ERR_CLOSED && strstr(e.msg, "10 bytes early"),
	    "the end: %s", e.msg);
	ok(file_read_all(p[0], back, 0, &e) == ERR_OK, "nothing is there even so");
	pthread_join(t, NULL);
	close(p[0]);
	ok(file_read_all(-1, back, 1, &e) == ERR_IO && file_write_all(-1, data, 1, &e) == ERR_IO,
	    "no descriptor: %s", e.msg);
	free(data);
	free(back);
}

static void test_mkdirs(void)
{
	char *deep = path_join(root, "m/a/b"), *slash = path_join(root, "m/secret//"),
	     *file = path_join(root, "m/file");
	char *under = path_join(file, "x"), *plain = path_join(root, "m/secret");
	struct err e = { 0 };

	ok(file_mkdirs(deep, 0700, &e) == ERR_OK && mode_of(deep) == 0700, "made with its parents");
	ok(file_mkdirs(deep, 0755, &e) == ERR_OK && mode_of(deep) == 0700, "there already");
	ok(file_mkdirs(slash, 0700, &e) == ERR_OK && mode_of(plain) == 0700,
	    "a slash at the end: the mode holds");
	file_replace(file, "x", 1, 0600, NULL);
	ok(file_mkdirs(file, 0700, &e) == ERR_IO && strstr(e.msg, file), "a file in the way: %s",
	    e.msg);
	ok(file_mkdirs(under, 0700, &e) == ERR_IO, "a file for a parent: %s", e.msg);
	ok(file_mkdirs("", 0700, &e) == ERR_IO, "no name: %s", e.msg);
	ok(file_mkdirs("/", 0700, &e) == ERR_OK && file_mkdirs(".", 0700, &e) == ERR_OK,
	    "what is always there");
	free(deep);
	free(slash);
	free(plain);
	free(under);
	free(file);
}

static void test_unique_dir(void)
{
	char *pattern, *one = NULL, *two = NULL;
	struct err e = { 0 };

	ok(!file_make_unique_dir(mem_printf("%s/d-XXXXXX", root), &one, &e) &&
	        !file_make_unique_dir(mem_printf("%s/d-XXXXXX", root), &two, &e) &&
	        strcmp(one, two) != 0 && mode_of(one) == 0700 && entries(two) == 0,
	    "two directories of one pattern");
	free(one);
	free(two);
	ok(file_make_unique_dir(mem_strdup("/proc/d-XXXXXX"), &one, &e) == ERR_IO && !one &&
	        strstr(e.msg, "/proc/d-"),
	    "where none can be made: %s", e.msg);
	setenv("TMPDIR", root, 1);
	pattern = path_temporary("x");
	ok(strncmp(pattern, root, strlen(root)) == 0 && strstr(pattern, "/pskit-x-XXXXXX"),
	    "a pattern in $TMPDIR");
	free(pattern);
	setenv("TMPDIR", "", 1);
	pattern = path_temporary("x");
	ok(strcmp(pattern, "/tmp/pskit-x-XXXXXX") == 0, "and in /tmp without it");
	free(pattern);
	unsetenv("TMPDIR");
}

static void test_remove(void)
{
	char *tree = path_join(root, "t/deep/er"), *top = path_join(root, "t"),
	     *keep = path_join(root, "keep");
	char *kept = path_join(keep, "f"), *link = path_join(root, "t/link"),
	     *file = path_join(tree, "f");
	struct err e = { 0 };

	file_mkdirs(tree, 0700, &e);
	file_mkdirs(keep, 0700, &e);
	file_replace(kept, "x", 1, 0600, &e);
	file_replace(file, "x", 1, 0600, &e);
	ok(symlink(keep, link) == 0, "a link out of the tree");
	ok(file_remove_tree(top, &e) == ERR_OK && access(top, F_OK) != 0 && holds(kept, "x"),
	    "removed, and nothing behind the link");
	ok(file_remove_tree(top, &e) == ERR_OK, "what is not there is removed");
	ok(file_remove_tree(kept, &e) == ERR_OK && access(kept, F_OK) != 0, "a file");
	free(tree);
	free(top);
	free(keep);
	free(kept);
	free(link);
	free(file);
}

static bool gives(char *got, const char *want)
{
	bool same = strcmp(got, want) == 0;

	if (!same)
		printf("# got %s, wanted %s\n", got, want);
	free(got);
	return same;
}

static void test_paths(void)
{
	char *real = realpath(root, NULL), *want = path_join(real, "new"), *lost;

	ok(gives(path_join("a", "b"), "a/b") && gives(path_join("a/", "b"), "a/b") &&
	        gives(path_join("a", "/b"), "/b") && gives(path_join("", "b"), "b") &&
	        gives(path_join("/", "b"), "/b"),
	    "path_join");
	ok(gives(path_dirname("a/b"), "a") && gives(path_dirname("b"), ".") &&
	        gives(path_dirname("/b"), "/") && gives(path_dirname("/a/b/c"), "/a/b"),
	    "path_dirname");
	ok(strcmp(path_basename("a/b"), "b") == 0 && strcmp(path_basename("b"), "b") == 0,
	    "path_basename");
	ok(gives(path_stem("a/b.json"), "b") && gives(path_stem("b"), "b") &&
	        gives(path_stem("a.d/b"), "b") && gives(path_stem("b.tar.gz"), "b.tar") &&
	        gives(path_stem(".hidden"), ".hidden"),
	    "path_stem");
	ok(chdir(root) == 0 && gives(path_absolute("new"), want),
	    "path_absolute of a file to be made");
	ok(gives(path_absolute("/usr/../new"), "/new"), "path_absolute is free of detours");
	lost = path_join(real, "no/such");
	ok(gives(path_absolute("no/such"), lost) &&
	        gives(path_absolute("/no/such/x"), "/no/such/x"),
	    "path_absolute in a directory to be made");
	ok(chdir("/") == 0, "back");
	free(lost);
	free(want);
	free(real);
}

/* ---- logs and clocks ---- */

static void test_log(void)
{
	char *path = path_join(root, "log"), big[3000];
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	struct buf b = BUF_INIT;
	struct log l;

	log_init(&l, "server-0", fd, LOG_LEVEL_INFO);
	log_debug(&l, "unseen");
	log_warn(&l, "seen %d", 7);
	file_read(path, 10000, &b, NULL);
	ok(b.len == strlen("2026-01-31T23:59:59.123Z server-0 warn seen 7\n") &&
	        strcmp((char *)b.data + 24, " server-0 warn seen 7\n") == 0,
	    "one line: %s", b.data);
	atomic_store(&l.level, LOG_LEVEL_DEBUG);
	log_debug(&l, "two\nlines\r\x1b[31m");
	memset(big, 'x', sizeof big - 1);
	big[sizeof big - 1] = 0;
	log_error(&l, "%s", big);
	buf_clear(&b);
	file_read(path, 10000, &b, NULL);
	ok(strstr((char *)b.data, " debug two?lines??[31m\n"),
	    "an event is one line, whatever it quotes");
	ok(b.len > 1200 && b.len < 1400 && b.data[b.len - 1] == '\n', "a long event is cut");
	errno = EACCES;
	close(fd);
	l.fd = -1;
	log_info(&l, "nowhere");
	ok(errno == EACCES, "errno is left alone");
	ok(log_level_parse("error") == LOG_LEVEL_ERROR &&
	        log_level_parse("debug") == LOG_LEVEL_DEBUG && log_level_parse("loud") == -1,
	    "names of levels");
	buf_release(&b);
	free(path);
}

static void test_log_limit(void)
{
	struct log_limit l = { 0 };
	uint32_t said = 0, swallowed;

	for (int i = 0; i < 5; i++)
		said += log_allowed(&l, 5) == 1;
	ok(said == 5, "a burst of five");
	said = 0;
	for (int i = 0; i < 100; i++)
		said += log_allowed(&l, 5) != 0;
	ok(said == 0 && atomic_load(&l.swallowed) == 100, "then none within the second");
	atomic_store(&l.next, clock_now());
	swallowed = log_allowed(&l, 5);
	ok(swallowed == 101, "a second later one, which tells of the others (%u)", swallowed);
	ok(log_allowed(&l, 5) == 0, "and none again");
	atomic_store(&l.next, clock_now());
	ok(log_allowed(&l, 5) == 2, "the count began anew");
}

static void test_escape(void)
{
	char out[32], small[8];

	log_escape(out, sizeof out, "a\n\x00\xff\\ ~", 7);
	ok(strcmp(out, "a\\x0a\\x00\\xff\\x5c ~") == 0, "log_escape: %s", out);
	memset(small, 'z', sizeof small);
	log_escape(small, 7, "\x01\x02\x03", 3);
	ok(strcmp(small, "\\x01") == 0 && small[7] == 'z', "no half escapes, nothing outside");
	log_escape(small, 1, "abc", 3);
	ok(!*small, "room for the end alone");
	log_escape(small, 0, "abc", 3);
	log_escape(out, sizeof out, NULL, 0);
	ok(!*out, "nothing");
}

static void test_clock(void)
{
	int64_t a = clock_now(), b = clock_now(), w = clock_wall();
	char stamp[32];

	ok(a > 0 && b >= a, "the clock does not go back");
	ok(clock_poll_timeout(0) == 0 && clock_poll_timeout(-5) == 0 &&
	        clock_poll_timeout(1) == 1 && clock_poll_timeout(NSEC_PER_MSEC) == 1 &&
	        clock_poll_timeout(NSEC_PER_MSEC + 1) == 2 &&
	        clock_poll_timeout(INT64_MAX) == INT_MAX,
	    "timeouts of poll() are rounded up");
	ok(w > INT64_C(1700000000) * NSEC_PER_SEC, "the wall clock is of this age");
	clock_stamp(stamp);
	ok(strlen(stamp) == 24 && stamp[4] == '-' && stamp[10] == 'T' && stamp[19] == '.' &&
	        stamp[23] == 'Z',
	    "%s", stamp);
}

static void *write_late(void *ctx)
{
	struct timespec pause = { 0, 50000000 };
	int fd = *(const int *)ctx;

	nanosleep(&pause, NULL);
	if (write(fd, "late", 4) < 0)
		abort();
	close(fd);
	return NULL;
}

/* As of <(COMMAND) in a shell: the command may not have written when the file is read. */
static void test_pipe(void)
{
	struct buf b = BUF_INIT;
	char path[40];
	pthread_t t;
	int fd[2];

	if (pipe(fd))
		abort();
	snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
	pthread_create(&t, NULL, write_late, &fd[1]);
	ok(file_read(path, 100, &b, NULL) == ERR_OK && b.len == 4 && memcmp(b.data, "late", 4) == 0,
	    "a pipe is read to its end");
	pthread_join(t, NULL);
	close(fd[0]);
	buf_release(&b);
}

int main(void)
{
	if (!ok(mkdtemp(root) != NULL, "a directory to work in"))
		return tap_done();
	test_replace();
	test_torn();
	test_replace_threads();
	test_read();
	test_pipe();
	test_fd();
	test_mkdirs();
	test_unique_dir();
	test_remove();
	test_paths();
	test_log();
	test_log_limit();
	test_escape();
	test_clock();
	ok(file_remove_tree(root, NULL) == ERR_OK, "nothing is left behind");
	return tap_done();
}
