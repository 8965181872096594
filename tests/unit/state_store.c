/* SPDX-License-Identifier: ISC */
/* The state store in files (state/state_store_files.c): after a crash at each place of a
 * write, after each call that fails, and when another coordinator takes over at each place, a
 * reader finds the former parts or the new ones, and never some of both. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "state/state_store.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "tap.h"

/* ---- time ---- */

static time_t skipped; /* seconds that a process has stood still for */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += skipped;
	return rc;
}

/* ---- calls that change the disk ---- */

/* What happens at call number `at` of those below, counted from 1; 0: nothing. */
static struct {
	int at, calls;
	enum { DIE, BREAK, LET_TAKE_OVER } what;
	void (*take_over)(void);
} trouble;

/* True: the call is to fail. */
static bool meet_trouble(void)
{
	if (!trouble.at || ++trouble.calls != trouble.at)
		return false;
	if (trouble.what == DIE)
		_exit(9);
	if (trouble.what == LET_TAKE_OVER) {
		trouble.at = 0;
		trouble.take_over();
		return false;
	}
	errno = EIO;
	return true;
}

int fsync(int fd)
{
	return meet_trouble() ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
	return meet_trouble() ? -1 : (int)syscall(SYS_renameat, -100, from, -100, to);
}

int unlink(const char *path)
{
	return meet_trouble() ? -1 : (int)syscall(SYS_unlinkat, -100, path, 0);
}

ssize_t write(int fd, const void *p, size_t n)
{
	return meet_trouble() ? -1 : syscall(SYS_write, fd, p, n);
}

/* ---- states ---- */

static char dir[] = "/tmp/pskit-state-store.XXXXXX";

static struct state_store *open_as(uint64_t incarnation)
{
	static struct log quiet;
	const struct state_store_config cfg = { .run_dir = dir,
		.incarnation = incarnation,
		.log = &quiet };

	return state_store_open(&cfg);
}

/* Makes the text of a part of state X. State B has no description, and the settings of state A. */
static char *make_text(char state, enum state_part part)
{
	if (state == 'B' && part == STATE_PART_description)
		return NULL;
	return mem_printf("{\"%s\":\"%c\"}", state_part_name[part],
	    state == 'B' && part == STATE_PART_settings ? 'A' : state);
}

static enum err_code write_state(struct state_store *s, char state)
{
	struct state_text text[STATE_PARTS] = { 0 };
	struct err e = { 0 };
	enum err_code rc;

	for (enum state_part i = 0; i < STATE_PARTS; i++) {
		text[i].text = make_text(state, i);
		text[i].size = text[i].text ? strlen(text[i].text) : 0;
	}
	rc = state_store_write(s, text, &e);
	for (enum state_part i = 0; i < STATE_PARTS; i++)
		free((char *)(uintptr_t)text[i].text);
	return rc;
}

/* Does the text of the part that was read belong to this state? */
static bool is_text_of(char state, enum state_part part, const struct buf *text)
{
	char *want = make_text(state, part);
	size_t n = want ? strlen(want) : 0;
	bool same;

	/* state.json has members of the store's own after those of the part. */
	if (part == STATE_PART_membership)
		same = text->len >= n && memcmp(text->data, want, n - 1) == 0;
	else
		same = text->len == n && (!n || memcmp(text->data, want, n) == 0);
	free(want);
	return same;
}

/* Which state is there? '0': none. '?': parts of several, or an error. */
static char read_state(struct state_store *s)
{
	struct state_values v;
	struct err e = { 0 };
	enum err_code rc = state_store_read(s, &v, &e);
	char found = rc || v.part[STATE_PART_membership].len ? '?' : '0';

	for (char state = 'A'; !rc && state <= 'C'; state++) {
		bool all = true;

		for (enum state_part i = 0; i < STATE_PARTS; i++)
			all = all && is_text_of(state, i, &v.part[i]);
		found = all ? state : found;
	}
	if (found == '?')
		printf("# %s\n", rc ? e.msg : "parts of several states");
	state_values_release(&v);
	return found;
}

static unsigned count_files(void)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	unsigned n = 0;

	while (d && (entry = readdir(d)))
		n += strncmp(entry->d_name, "state", 5) == 0;
	closedir(d);
	return n;
}

/* The next coordinator: reads the state, as it would after an earlier one has ended. */
static struct state_store *take_over(uint64_t incarnation, char *found)
{
	struct state_store *s = open_as(incarnation);
	struct err e = { 0 };

	if (s->ops->become_owner(s, &e))
		printf("# %s\n", e.msg);
	*found = read_state(s);
	return s;
}

/* A directory with state A alone. */
static void begin_with_a(void)
{
	struct state_store *s;
	char found;

	file_remove_tree(dir, NULL);
	file_mkdirs(dir, 0700, NULL);
	s = take_over(1, &found);
	write_state(s, 'A');
	state_store_close(s);
}

/* Are the files of state C all that is left, when it was written? */
static bool ends_with_c(struct state_store *s)
{
	bool written = write_state(s, 'C') == ERR_OK;

	s->ops->clean(s);
	return written && read_state(s) == 'C' && count_files() == STATE_PARTS;
}

/* ---- the cases ---- */

static void test_crashes(void)
{
	bool whole = true, tidy = true, kept = true, ended = false;
	int at = 0, old = 0, status;

	while (!ended) {
		struct state_store *s;
		char found;
		pid_t child;

		begin_with_a();
		at++;
		fflush(stdout);
		child = fork();
		if (!child) {
			s = take_over(2, &found);
			trouble.at = at;
			_exit(write_state(s, 'B') ? 1 : 0);
		}
		waitpid(child, &status, 0);
		ended = WEXITSTATUS(status) != 9;
		s = take_over(3, &found);
		whole = whole && (found == 'A' || found == 'B');
		kept = kept && (!ended || found == 'B');
		old += found == 'A';
		tidy = tidy && ends_with_c(s);
		state_store_close(s);
	}
	ok(whole && kept && old > 4 && at - old > 2,
	    "killed before each of %d calls: %d times the former parts, else the new ones", at - 1,
	    old);
	ok(tidy, "and the next coordinator removes what is left");
}

static void test_failures(void)
{
	bool good = true, met = true, failed;
	int at = 0, failures = 0;

	while (met) {
		struct state_store *s;
		char found;

		begin_with_a();
		s = take_over(2, &found);
		trouble.what = BREAK;
		trouble.calls = 0;
		trouble.at = ++at;
		failed = write_state(s, 'B') != ERR_OK;
		failures += failed;
		met = trouble.calls >= at;
		trouble.at = 0;
		found = read_state(s);
		good = good && (found == 'B' || (failed && found == 'A'));
		/* The former state again, after which nothing of the new one may be there. */
		good = good && write_state(s, 'A') == ERR_OK && read_state(s) == 'A' &&
		    ends_with_c(s);
		state_store_close(s);
	}
	ok(good && failures > 4,
	    "after each of %d calls that fails, %d of them necessary, another write succeeds",
	    at - 1, failures);
}

static struct state_store *successor;
static char inherited;

static void let_successor_take_over(void)
{
	successor = take_over(3, &inherited);
}

static void test_fence(void)
{
	bool good = true, interrupted = true;
	int at = 0, fenced = 0;

	while (interrupted) {
		struct state_store *s;
		enum err_code rc;
		char found;

		begin_with_a();
		s = take_over(2, &found);
		successor = NULL;
		trouble.what = LET_TAKE_OVER;
		trouble.take_over = let_successor_take_over;
		trouble.calls = 0;
		trouble.at = ++at;
		rc = write_state(s, 'B');
		trouble.at = 0;
		interrupted = successor != NULL;
		if (interrupted) {
			fenced += rc == ERR_FENCED;
			good = good && inherited == (rc ? 'A' : 'B') &&
			    read_state(successor) == inherited &&
			    write_state(s, 'B') == ERR_FENCED &&
			    write_state(successor, 'C') == ERR_OK;
			s->ops->clean(s);
			good = good && read_state(successor) == 'C' && ends_with_c(successor);
			state_store_close(successor);
		}
		state_store_close(s);
	}
	ok(good && fenced > 4,
	    "overtaken before each of %d calls, %d times too early: its successor goes by what it has read",
	    at - 1, fenced);
}

/* Two coordinators read the same state one after the other, and the second one begins a log of its
 * own before the first one has read the former log. */
static void test_log_of_former_owner(void)
{
	struct state_store *s, *slow, *quick;
	struct buf log = BUF_INIT;
	struct err e = { 0 };
	char found;

	begin_with_a();
	s = take_over(2, &found);
	if (s->ops->begin_log(s, &e))
		printf("# %s\n", e.msg);
	write_state(s, 'B');
	state_store_close(s);
	slow = take_over(3, &found);
	quick = take_over(4, &found);
	ok(found == 'B' && quick->ops->read_log(quick, &log, &e) == ERR_OK &&
	        quick->ops->begin_log(quick, &e) == ERR_OK && write_state(quick, 'C') == ERR_OK,
	    "the quick one takes over, with a log of its own");
	quick->ops->clean(quick);
	ok(slow->ops->read_log(slow, &log, &e) == ERR_FENCED,
	    "the slow one, whose log is gone, learns that it was overtaken: %s", e.msg);
	buf_release(&log);
	state_store_close(slow);
	state_store_close(quick);
}

static void test_revisions(void)
{
	char *name[2], found;
	struct state_store *s;
	struct err e = { 0 };
	uint64_t now;

	begin_with_a();
	s = take_over(2, &found);
	for (int i = 0; i < 2; i++) {
		char *path = mem_printf("%s/state.json", dir);
		json_t *root = json_parse_file(path, 1 << 20, &e);

		name[i] = mem_strdup(json_string_value(
		    json_object_get(json_object_get(json_object_get(root, "parts"), "settings"),
		        "file")));
		json_decref(root);
		free(path);
		ok(found == 'A' && !write_state(s, 'B'), "a state is written");
	}
	ok(strcmp(name[0], name[1]) == 0, "a part that has not changed keeps its file: %s",
	    name[0]);
	free(name[0]);
	free(name[1]);
	ok(!s->ops->watch(s, 1, clock_now(), &now, &e) && now == 3, "its revision is known");
	ok(!s->ops->watch(s, 3, clock_now() + 1, &now, &e) && now == 3,
	    "and waiting for another one ends");
	state_store_close(s);
}

static void put(const char *name, const char *text)
{
	char *path = mem_printf("%s/%s", dir, name);

	if (file_replace(path, text, strlen(text), 0600, NULL))
		abort();
	free(path);
}

/* Joins the state in the directory; NULL after an error. */
static json_t *read_joined(struct large_description **large, struct err *e)
{
	struct state_store *s = open_as(9);
	struct state_values v;
	json_t *state = NULL;

	*e = (struct err){ 0 };
	*large = NULL;
	if (!state_store_read(s, &v, e))
		state_join(v.part, &state, large, e);
	state_values_release(&v);
	state_store_close(s);
	return state;
}

static void test_old_states(void)
{
	char *long_text = mem_array(1, DESCRIPTION_INLINE + 64), *name, *old, *again = NULL, found;
	struct large_description *d, *large;
	struct state_store *s;
	json_t *state, *root;
	struct err e;

	file_remove_tree(dir, NULL);
	file_mkdirs(dir, 0700, NULL);
	put("state.json",
	    "{\"v\":1,\"layout\":{\"epoch\":4},\"facts\":{\"cols\":3},\"lease_changes\":7}");
	state = read_joined(&large, &e);
	ok(state && !large && json_int(json_object_get(state, "layout"), "epoch", 0) == 4 &&
	        json_int(json_object_get(state, "facts"), "cols", 0) == 3 &&
	        json_int(state, "lease_changes", 0) == 7,
	    "a state of version 1 is one file: %s", e.msg);
	json_decref(state);

	memset(long_text, ' ', DESCRIPTION_INLINE + 2);
	memcpy(long_text, "{", 1);
	memcpy(long_text + DESCRIPTION_INLINE, "}", 2);
	d = large_description_of_text(long_text, strlen(long_text));
	root = json_pack("{s:i, s:o}", "v", 1, "facts", large_description_refer(d));
	old = json_text(root);
	name = mem_printf("description-%.16s.json", d->blake2b);
	put("state.json", old);
	state = read_joined(&large, &e);
	ok(!state && strstr(e.msg, name), "a description that is missing is named: %s", e.msg);
	put(name, d->text);
	state = read_joined(&large, &e);
	ok(state && large && strcmp(large->text, d->text) == 0 &&
	        json_equal(json_object_get(state, "facts"), json_object_get(root, "facts")),
	    "a large description has a file of its own: %s", e.msg);
	large_description_release(large);
	json_decref(state);

	/* The new coordinator writes the other parts, and refers to the same file. */
	s = take_over(2, &found);
	{
		struct state_text text[STATE_PARTS] = { 0 };

		for (enum state_part i = 0; i < STATE_PARTS; i++)
			if (i != STATE_PART_description)
				text[i] = (struct state_text){ .text = "{\"v\":2}", .size = 7 };
		text[STATE_PART_description] = (struct state_text){ .text = d->text,
			.size = d->size,
			.digest = d->blake2b };
		ok(!state_store_write(s, text, &e), "it is written in parts: %s", e.msg);
		s->ops->clean(s);
	}
	state_store_close(s);
	state = read_joined(&large, &e);
	ok(state && large && strcmp(large->text, d->text) == 0 && json_int(state, "v", 0) == 2,
	    "with the description that was there: %s", e.msg);
	large_description_release(large);
	json_decref(state);
	put(name, "{}");
	state = read_joined(&large, &e);
	ok(!state && e.code == ERR_FORMAT && strstr(e.msg, "damaged"), "damage is noticed: %s",
	    e.msg);
	json_decref(root);
	large_description_release(d);
	free(name);
	free(old);
	free(again);
}

/* A directory in the place of the owner's record cannot be read, as a file on a disk that fails. */
static void test_unreadable_owner(void)
{
	struct state_store *s;
	struct err e = { 0 };
	char *path = path_join(dir, "coordinator.owner");

	begin_with_a();
	s = open_as(2);
	ok(!s->ops->check_free(s, &e), "no coordinator runs: %s", e.msg);
	unlink(path);
	file_mkdirs(path, 0700, NULL);
	ok(s->ops->check_free(s, &e) == ERR_IO && strstr(e.msg, "may be running"),
	    "a record that cannot be read does not say that none runs: %s", e.msg);
	state_store_close(s);
	free(path);
}

/* Puts a directory in the place of a file, which cannot be read then. */
static void spoil(const char *name)
{
	char *path = path_join(dir, name);

	unlink(path);
	file_mkdirs(path, 0700, NULL);
	free(path);
}

static void remove_standby(void)
{
	char *path = path_join(dir, "coordinator.standby-9");

	unlink(path);
	free(path);
}

/* An owner for which a process stands by. It has found that by a beat. */
static struct state_store *begin_with_standby(void)
{
	struct state_store *s;
	struct err e = { 0 };
	char found;

	begin_with_a();
	s = take_over(2, &found);
	put("coordinator.standby-9", "{}");
	ok(!s->ops->beat(s, &e) && atomic_load(&s->owned_until) != INT64_MAX,
	    "an owner for which another process stands by owns the state for a time");
	return s;
}

/* How long may an owner take the state for its own? Another one may take over unseen when it stands still,
 * or cannot read the run directory. */
static void test_ownership(void)
{
	struct state_store *s = begin_with_standby(), *next;
	int64_t until = atomic_load(&s->owned_until);
	struct err e = { 0 };
	enum err_code rc;
	char found;

	remove_standby();
	next = take_over(3, &found);
	skipped += 3;
	ok(s->ops->beat(s, &e) == ERR_FENCED && atomic_load(&s->owned_until) == until,
	    "it is over when the standby has become the owner, although none stands by then");
	state_store_close(next);
	state_store_close(s);

	s = begin_with_standby();
	until = atomic_load(&s->owned_until);
	remove_standby();
	spoil("coordinator.owner");
	skipped += 3;
	ok(s->ops->beat(s, &e) == ERR_IO && atomic_load(&s->owned_until) == until,
	    "so it is when the record of the owner cannot be read, and no standby is seen");
	state_store_close(s);

	begin_with_a();
	s = take_over(2, &found);
	rc = s->ops->beat(s, &e);
	spoil("coordinator.owner");
	put("coordinator.standby-9", "{}");
	skipped += 3;
	ok(!rc && s->ops->beat(s, &e) == ERR_IO && atomic_load(&s->owned_until) != INT64_MAX,
	    "it does not last without end for one that cannot read the record when a standby begins");
	state_store_close(s);

	begin_with_a();
	s = take_over(2, &found);
	spoil("coordinator.owner");
	ok(!s->ops->beat(s, &e) && atomic_load(&s->owned_until) == INT64_MAX,
	    "a coordinator for which none ever stood by goes on when the record cannot be read");
	state_store_close(s);
}

static void test_absence(void)
{
	struct state_store *s = open_as(1);
	struct state_values v;
	struct err e = { 0 };

	file_remove_tree(dir, NULL);
	file_mkdirs(dir, 0700, NULL);
	ok(!state_store_read(s, &v, &e) && !v.part[STATE_PART_membership].len && !v.lost,
	    "no state: %s", e.msg);
	state_values_release(&v);
	put("metrics.jsonl", "");
	ok(!state_store_read(s, &v, &e) && !v.part[STATE_PART_membership].len && v.lost,
	    "the state is lost where a coordinator has been: %s", e.msg);
	state_values_release(&v);
	state_store_close(s);
	s = state_store_open(&(const struct state_store_config){ 0 });
	ok(!s, "without a run directory nothing is kept");
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	test_crashes();
	test_failures();
	test_fence();
	test_log_of_former_owner();
	test_revisions();
	test_old_states();
	test_unreadable_owner();
	test_ownership();
	test_absence();
	file_remove_tree(dir, NULL);
	return tap_done();
}
