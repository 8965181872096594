/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "supervisor/daemon.h"
#include "core/launch.h"
#include "rundir/rundir.h"
#include "socket/net.h"
#include "tap.h"

#define LONG (120 * NSEC_PER_SEC)

static char dir[] = "/tmp/pskit-launch-XXXXXX";
static struct err e;

static char *in_dir(const char *name)
{
	return path_join(dir, name);
}

static bool file_has(const char *path, const char *text)
{
	struct buf b = BUF_INIT;
	bool found = file_read(path, 1 << 20, &b, NULL) == ERR_OK && b.data &&
	    strstr((char *)b.data, text);

	buf_release(&b);
	return found;
}

/* Start a shell command. */
static enum err_code shell(struct launch_set *set, const char *id, const char *command,
    size_t *child)
{
	char *log = in_dir("log");
	char *const argv[] = { "/bin/sh", "-c", (char *)command, NULL };
	struct launch_spec spec = { .id = id,
		.argv = argv,
		.log_path = log,
		.die_with_parent = true };
	enum err_code rc = launch_start(set, &spec, child, &e);

	free(log);
	return rc;
}

/* Has the process that pidfd stands for ended within the time-out? */
static bool ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 20000) == 1;
}

/* A named pipe in which a child says a word when it has come so far. */
static int fifo(const char *name, char **path)
{
	*path = in_dir(name);
	if (mkfifo(*path, 0600) != 0)
		return -1;
	return open(*path, O_RDWR | O_CLOEXEC);
}

static bool hear(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char word[64];

	return poll(&p, 1, 20000) == 1 && read(fd, word, sizeof word) > 0;
}

static void test_status(void)
{
	struct launch_set *set;
	struct launch_event ev;
	size_t a, b, c;
	char how[64], *pid_file = in_dir("a.pid"), *log = in_dir("log");

	ok(launch_new(dir, &set, &e) == ERR_OK, "a set");
	ok(launch_wait(set, 0, &ev, &e) == ERR_NOTFOUND, "nothing to wait for");
	ok(shell(set, "a", "echo out; echo err >&2; exit 7", &a) == ERR_OK, "started: %s", e.msg);
	ok(launch_wait(set, LONG, &ev, &e) == ERR_OK && ev.child == a && !ev.signalled &&
	        ev.status == 7,
	    "exit status");
	launch_how(&ev, how);
	ok(strcmp(how, "ended with code 7") == 0, "%s", how);
	ok(file_has(log, "out\nerr\n"), "stdout and stderr are in the log");
	ok(access(pid_file, F_OK) != 0 && !launch_alive(set, a), "its pid file is gone");
	ok(shell(set, "b", "kill -USR1 $$", &b) == ERR_OK && b != a, "another");
	ok(launch_wait(set, LONG, &ev, &e) == ERR_OK && ev.child == b && ev.signalled &&
	        ev.status == SIGUSR1,
	    "ended by a signal");
	launch_how(&ev, how);
	ok(strcmp(how, "ended by SIGUSR1") == 0, "%s", how);
	ok(shell(set, "a", "exec sleep 1000", &c) == ERR_OK && c == a && launch_running(set) == 1,
	    "started again under its index");
	ok(access(pid_file, F_OK) == 0, "it has a pid file");
	ok(shell(set, "a", "exit 0", &c) == ERR_EXISTS && strstr(e.msg, "a is already running"),
	    "twice");
	ok(launch_wait(set, 0, &ev, &e) == ERR_TIMEOUT, "it runs");
	ok(launch_stop_all(set, LONG) && launch_running(set) == 0 &&
	        launch_status(set, a).signalled && launch_status(set, a).status == SIGTERM,
	    "stopped by SIGTERM");
	launch_free(set);
	free(pid_file);
	free(log);
}

static void test_environment(void)
{
	struct launch_set *set;
	struct launch_event ev;
	size_t a;
	char *log = in_dir("log");
	int fd = open("/dev/null", O_RDONLY); /* not close-on-exec */
	sigset_t block;

	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	signal(SIGPIPE, SIG_IGN);
	launch_new(NULL, &set, &e);
	/* Signals 32 and 33 are the C library's own: its sigaction refuses them, so
	   one that this process was started with ignored stays so in the child. */
	shell(set, "env",
	    "ls /proc/self/fd | wc -l | sed 's/^/fds=/';"
	    " sed -n 's/^Sig\\(Blk\\|Ign\\):.\\(.*\\)/\\1 0x\\2/p' /proc/self/status |"
	    " while read -r what set; do echo $what=$((set & ~0x180000000)); done; readlink /proc/$$/fd/0;"
	    " test $(cut -d' ' -f5 /proc/$$/stat) = $$ && echo group=own",
	    &a);
	ok(launch_wait(set, LONG, &ev, &e) == ERR_OK && ev.status == 0,
	    "a child that looks around");
	ok(file_has(log, "fds=4\n"), "no descriptor but its own");
	ok(file_has(log, "Blk=0\nIgn=0\n"), "default signals");
	ok(file_has(log, "/dev/null"), "stdin is empty");
	ok(file_has(log, "group=own"), "a group of its own");
	pthread_sigmask(SIG_UNBLOCK, &block, NULL);
	signal(SIGPIPE, SIG_DFL);
	close(fd);
	launch_free(set);
	free(log);
}

static void test_refused(void)
{
	struct launch_set *set;
	char *log = in_dir("log"), *nolog = in_dir("no/such/log");
	char *const argv[] = { "/nonexistent/ps-serve", NULL };
	struct launch_spec spec = { .id = "x", .argv = argv, .log_path = log };
	size_t a;

	launch_new(dir, &set, &e);
	ok(launch_start(set, &spec, &a, &e) == ERR_NOTFOUND &&
	        strstr(e.msg, "/nonexistent/ps-serve"),
	    "%s", e.msg);
	spec.log_path = nolog;
	ok(launch_start(set, &spec, &a, &e) == ERR_IO && strstr(e.msg, nolog), "%s", e.msg);
	ok(launch_running(set) == 0 && waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD,
	    "nothing is left of it");
	launch_free(set);
	free(log);
	free(nolog);
}

static void test_stop(void)
{
	struct launch_set *set;
	size_t a = 0, b = 0;
	char *path, *command;
	int fd = fifo("stubborn", &path), grand;
	struct buf pid = BUF_INIT;
	int64_t t;

	/* It ignores SIGTERM, and has a child of its own that does too. */
	command =
	    mem_printf("trap '' TERM; sleep 1000 & echo $! > %s/grand; echo on > %s; wait; wait",
	        dir, path);
	launch_new(dir, &set, &e);
	ok(fd >= 0 && shell(set, "stubborn", command, &a) == ERR_OK && hear(fd),
	    "a stubborn child");
	ok(shell(set, "meek", "exec sleep 1000", &b) == ERR_OK, "and a meek one");
	free(command);
	free(path);
	path = in_dir("grand");
	file_read(path, 64, &pid, &e);
	grand = pidfd_open((pid_t)strtol((char *)pid.data, NULL, 10), 0);
	t = clock_now();
	ok(!launch_stop_all(set, 200 * NSEC_PER_MSEC) && launch_running(set) == 0,
	    "SIGKILL was needed");
	ok(clock_now() - t >= 200 * NSEC_PER_MSEC, "after the grace");
	ok(launch_status(set, a).status == SIGKILL && launch_status(set, b).status == SIGTERM,
	    "for the stubborn one alone");
	ok(grand >= 0 && ended(grand), "its own child is gone too");
	launch_free(set);
	launch_new(NULL, &set, &e);
	shell(set, "last", "exec sleep 1000", &a);
	t = launch_pid(set, a);
	launch_free(set);
	ok(kill((pid_t)t, 0) != 0 && errno == ESRCH, "launch_free leaves none");
	close(grand);
	close(fd);
	buf_release(&pid);
	free(path);
}

/* The middle process: start a child, say so, and hang until it is killed. */
static void middle(int out)
{
	struct launch_set *set;
	size_t a;
	pid_t pid = 0;

	if (launch_new(NULL, &set, &e) == ERR_OK &&
	    shell(set, "orphan", "exec sleep 1000", &a) == ERR_OK)
		pid = launch_pid(set, a);
	if (write(out, &pid, sizeof pid) == sizeof pid)
		for (;;)
			pause();
	_exit(1);
}

static void test_parent_dies(void)
{
	int fds[2], pidfd;
	pid_t mid, child = 0;

	/* So that the orphan is ours to reap, and its number cannot be re-used. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (pipe(fds) != 0)
		return;
	mid = fork();
	if (mid == 0)
		middle(fds[1]);
	ok(read(fds[0], &child, sizeof child) == sizeof child && child > 0, "a child of a child");
	pidfd = pidfd_open(child, 0);
	kill(mid, SIGKILL);
	waitpid(mid, NULL, 0);
	ok(pidfd >= 0 && ended(pidfd), "dies with its parent");
	if (pidfd >= 0)
		pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	waitpid(child, NULL, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	close(pidfd);
	close(fds[0]);
	close(fds[1]);
}

static void test_tail(void)
{
	char *path = in_dir("tail"), *none = in_dir("none");
	struct buf b = BUF_INIT, big = BUF_INIT;

	file_replace(path, "one\ntwo\nthree\n", 14, 0600, &e);
	ok(launch_tail(path, 2, &b, &e) == ERR_OK && strcmp((char *)b.data, "two\nthree\n") == 0,
	    "two lines");
	buf_clear(&b);
	ok(launch_tail(path, 9, &b, &e) == ERR_OK && b.len == 14, "all there is");
	buf_clear(&b);
	file_replace(path, "one\ntwo", 7, 0600, &e);
	ok(launch_tail(path, 1, &b, &e) == ERR_OK && strcmp((char *)b.data, "two") == 0,
	    "an open line");
	buf_clear(&b);
	for (int i = 0; i < 20000; i++)
		buf_printf(&big, "line %d\n", i);
	file_replace(path, big.data, big.len, 0600, &e);
	ok(launch_tail(path, 2, &b, &e) == ERR_OK &&
	        strcmp((char *)b.data, "line 19998\nline 19999\n") == 0,
	    "of a large log");
	ok(launch_tail(none, 1, &b, &e) == ERR_NOTFOUND, "no log");
	buf_clear(&b);
	file_replace(path, "T w info a\nT w error why\nT w info an error b\n", 45, 0600, &e);
	launch_last_words(path, &b);
	ok(strcmp((char *)b.data, "T w error why") == 0,
	    "last words: the error, whoever spoke after it");
	buf_clear(&b);
	file_replace(path, "T w error[no-space] why\nT w info b\n", 36, 0600, &e);
	ok(launch_last_words(path, &b) == CAUSE_NO_SPACE &&
	        strcmp((char *)b.data, "T w error why") == 0 &&
	        strcmp(launch_error_of_line((char *)b.data), "why") == 0,
	    "the cause of an error is read, and left out of the line");
	buf_clear(&b);
	file_replace(path, "ps-serve[port-taken]: a port\n", 29, 0600, &e);
	ok(launch_last_words(path, &b) == CAUSE_PORT_TAKEN &&
	        strcmp((char *)b.data, "ps-serve: a port") == 0 &&
	        strcmp(launch_error_of_line((char *)b.data), "a port") == 0,
	    "that of a program's last message, too");
	buf_clear(&b);
	file_replace(path, "ps-serve[of-later]: x\n", 22, 0600, &e);
	ok(launch_last_words(path, &b) == CAUSE_UNKNOWN &&
	        strcmp((char *)b.data, "ps-serve: x") == 0,
	    "a cause of a later version is unknown");
	buf_clear(&b);
	file_replace(path, "T w errors[x why\n", 17, 0600, &e);
	ok(launch_last_words(path, &b) == CAUSE_UNKNOWN && !launch_error_of_line((char *)b.data),
	    "another word is no level");
	buf_clear(&b);
	file_replace(path, "a\nb: ps-c: d", 12, 0600, &e);
	launch_last_words(path, &b);
	ok(strcmp((char *)b.data, "b: ps-c: d") == 0, "without one, the last line");
	buf_release(&b);
	buf_release(&big);
	free(path);
	free(none);
}

/* In the supervisor: end without coming back to the test. */
static void supervise(int ready, const char *line, int lock)
{
	if (lock >= 0)
		rundir_lock_owner(lock, NULL);
	if (line)
		daemon_report(ready, line);
	if (lock >= 0)
		for (;;)
			pause();
	_exit(0);
}

static void test_daemon(void)
{
	char *log = in_dir("supervisor.log"), *run = in_dir("super.run");
	char line[64];
	int ready = -1, lock = -1, pidfd;
	bool daemon;
	pid_t pid = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	ok(rundir_create(run, &lock, &e) == ERR_OK, "a run directory");
	if (daemon_start(log, &daemon, &ready, &e) == ERR_OK && daemon)
		supervise(ready, "ready at last\nand more", lock);
	close(lock);
	ok(daemon_await(ready, LONG, line, sizeof line, &e) == ERR_OK &&
	        strcmp(line, "ready at last") == 0,
	    "the supervisor says: %s", line);
	ok(rundir_is_alive(run, &pid) && pid > 0 && pid != getpid(), "and keeps the lock");
	ok(getsid(pid) > 0 && getsid(pid) != getsid(0) && getsid(pid) != pid,
	    "in a session of its own");
	pidfd = pidfd_open(pid, 0);
	if (pidfd >= 0)
		pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	ok(pidfd >= 0 && ended(pidfd) && !rundir_is_alive(run, &pid), "until it is killed");
	close(pidfd);
	if (daemon_start(log, &daemon, &ready, &e) == ERR_OK && daemon)
		supervise(ready, NULL, -1);
	ok(daemon_await(ready, LONG, line, sizeof line, &e) == ERR_FAILED,
	    "it may end without a word");
	while (waitpid(-1, NULL, 0) > 0)
		;
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	free(log);
	free(run);
}

static void test_rundir(void)
{
	char *path = in_dir("demo.run"), *first = in_dir("demo.run.1"),
	     *second = in_dir("demo.run.2");
	char *mark = in_dir("demo.run/mark"), *old = in_dir("demo.run.1/mark");
	char *name = rundir_name_for("/a/b/c.json", "demo");
	char *found = NULL;
	int lock = -1, other = -1;
	struct stat st;
	pid_t pid;

	ok(strcmp(name, "/a/b/demo.run") == 0, "beside the cluster file");
	free(name);
	ok(rundir_lock(path, &lock, &e) == ERR_NOTFOUND, "nothing to resume");
	ok(rundir_create(path, &lock, &e) == ERR_OK && stat(path, &st) == 0 &&
	        (st.st_mode & 07777) == 0700,
	    "made, for its owner alone: %s", e.msg);
	ok(rundir_is_alive(path, &pid) && pid == getpid(), "it lives, and says who it is");
	ok(rundir_create(path, &other, &e) == ERR_EXISTS && other == -1 &&
	        strstr(e.msg, "cluster demo is already running (pid "),
	    "%s", e.msg);
	ok(rundir_lock(path, &other, &e) == ERR_EXISTS, "nor can it be locked");
	ok(rundir_is_serving(path), "its servers have the model");
	ok(rundir_write_ending(path, &e) == ERR_OK && !rundir_is_serving(path) &&
	        rundir_is_alive(path, &pid) && pid == getpid(),
	    "it is ending, but still alive");
	ok(rundir_find_serving(path, &found, &e) == ERR_NOTREADY && found, "%s", e.msg);
	free(found);
	file_replace(mark, "x", 1, 0600, &e);
	close(lock);
	ok(!rundir_is_alive(path, &pid) && pid == 0, "finished");
	ok(rundir_create(path, &lock, &e) == ERR_OK && access(old, F_OK) == 0 &&
	        access(mark, F_OK) != 0,
	    "a finished one is moved out of the way");
	close(lock);
	ok(rundir_create(path, &lock, &e) == ERR_OK && access(first, F_OK) == 0 &&
	        access(second, F_OK) == 0,
	    "and the next under the next number");
	close(lock);
	ok(rundir_lock(path, &lock, &e) == ERR_OK && rundir_is_alive(path, &pid) && pid == getpid(),
	    "a finished one can be resumed");
	ok(rundir_is_serving(path), "and its end is forgotten");
	close(lock);
	ok(rundir_create("/nonexistent/x.run", &lock, &e) == ERR_IO && lock == -1, "%s", e.msg);
	free(path);
	free(first);
	free(second);
	free(mark);
	free(old);
}

/* Of many that start at once exactly one may live. */
static void test_rundir_race(void)
{
	enum { N = 8 };
	char *path = in_dir("race.run");
	int go[2], done[2], won = 0, lost = 0;
	char word;

	if (pipe(go) != 0 || pipe(done) != 0)
		return;
	for (int i = 0; i < N; i++) {
		if (fork() == 0) {
			int lock;
			enum err_code rc;

			close(go[1]);
			if (read(go[0], &word, 1) < 0)
				_exit(1);
			rc = rundir_create(path, &lock, &e);
			word = rc == ERR_OK ? 'w' : rc == ERR_EXISTS ? 'l' : '?';
			if (write(done[1], &word, 1) == 1 && rc == ERR_OK)
				for (;;)
					pause();
			_exit(0);
		}
	}
	close(go[1]);
	for (int i = 0; i < N && read(done[0], &word, 1) == 1; i++) {
		won += word == 'w';
		lost += word == 'l';
	}
	ok(won == 1 && lost == N - 1, "of %d that start at once one wins (%d, %d)", N, won, lost);
	{
		pid_t pid = 0;

		ok(rundir_is_alive(path, &pid) && pid > 0 && kill(pid, SIGKILL) == 0,
		    "and it is named");
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	close(go[0]);
	close(done[0]);
	close(done[1]);
	free(path);
}

static void test_find(void)
{
	char *sub = in_dir("find"), *path, here[4096];
	int a, b;

	unsetenv("PS_CLUSTER");
	ok(mkdir(sub, 0700) == 0 && getcwd(here, sizeof here) && chdir(sub) == 0,
	    "an empty directory");
	ok(rundir_find(NULL, &path, &e) == ERR_NOTFOUND && !path &&
	        strcmp(e.msg,
	            "no cluster here: no *.run "
	            "directory in \".\"; start one with ps-ctl start FILE") == 0,
	    "%s", e.msg);
	ok(rundir_create("a.run", &a, &e) == ERR_OK && rundir_find(NULL, &path, &e) == ERR_OK &&
	        strcmp(path, "a.run") == 0,
	    "the only one");
	free(path);
	ok(rundir_create("b.run", &b, &e) == ERR_OK && rundir_find(NULL, &path, &e) == ERR_USAGE &&
	        !path && strstr(e.msg, "a.run, b.run"),
	    "%s", e.msg);
	ok(rundir_find("b.run", &path, &e) == ERR_OK && strcmp(path, "b.run") == 0, "-C");
	free(path);
	setenv("PS_CLUSTER", "a.run", 1);
	ok(rundir_find(NULL, &path, &e) == ERR_OK && strcmp(path, "a.run") == 0, "PS_CLUSTER");
	free(path);
	unsetenv("PS_CLUSTER");
	close(b);
	ok(rundir_find(NULL, &path, &e) == ERR_OK && strcmp(path, "a.run") == 0,
	    "the only living one");
	free(path);
	ok(rundir_find("b.run", &path, &e) == ERR_NOTREADY && path && strcmp(path, "b.run") == 0,
	    "%s", e.msg);
	free(path);
	close(a);
	ok(rundir_find(NULL, &path, &e) == ERR_NOTREADY && !path &&
	        strstr(e.msg, "(a.run: no result, b.run: no result)"),
	    "%s", e.msg);
	ok(rundir_find("c.run", &path, &e) == ERR_NOTFOUND && !path, "%s", e.msg);
	ok(chdir(here) == 0, "back");
	free(sub);
}

static void test_socket_path(void)
{
	char *sub = mem_printf("%s/%090d/%090d", dir, 1, 2), *path = rundir_path(sub, "ctl.sock"),
	     *addr = mem_printf("unix:%s", path), bound[NET_TEXT];
	int listener, client;

	file_mkdirs(sub, 0700, &e);
	ok(strlen(path) > 107 && net_listen(addr, 1, &listener, bound, &e) == ERR_OK,
	    "a socket at a path of %zu bytes", strlen(path));
	ok(access(path, F_OK) == 0, "under its long name");
	ok(net_connect(addr, &client, &e) == ERR_OK, "connected");
	close(client);
	close(listener);
	free(addr);
	addr = mem_printf("unix:%s/%0120d", dir, 1);
	ok(net_connect(addr, &client, &e) == ERR_CONFIG, "%s", e.msg);
	free(addr);
	addr = mem_printf("unix:/nonexistent/%0100d/x", 1);
	ok(net_connect(addr, &client, &e) == ERR_NOTFOUND, "no such directory");
	free(addr);
	free(path);
	free(sub);
}

int main(void)
{
	char *self;

	if (!mkdtemp(dir))
		return 1;
	test_status();
	test_environment();
	test_refused();
	test_stop();
	test_parent_dies();
	test_tail();
	test_daemon();
	test_rundir();
	test_rundir_race();
	test_find();
	test_socket_path();
	self = path_self_dir(&e);
	ok(self && self[0] == '/' && access(self, X_OK) == 0, "the program's own directory");
	free(self);
	file_remove_tree(dir, NULL);
	return tap_done();
}
