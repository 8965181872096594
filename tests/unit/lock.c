/* SPDX-License-Identifier: ISC */
/* The check of the lock order, whatever this build does: lock.c is taken in with it switched on. */
#ifndef LOCK_CHECK
#define LOCK_CHECK 1
#endif
#include "base/core/lock.c"
#include "core/thread_owner.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

static struct mutex coordinator, part, other_part, gate;
static struct rwlock keys;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Does fn abort with one sentence that has these words? */
static bool breaks_order(void (*fn)(void), const char *words)
{
	char said[512] = "";
	int fd[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe(fd) != 0 || (pid = fork()) < 0)
		return false;
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(fd[1], STDERR_FILENO);
		fn();
		_exit(0);
	}
	close(fd[1]);
	n = read(fd[0], said, sizeof said - 1);
	close(fd[0]);
	waitpid(pid, &status, 0);
	return n > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
	    strstr(said, words) != NULL;
}

static void take_coordinator_under_gate(void)
{
	mutex_lock(&gate);
	mutex_lock(&coordinator);
}

static void take_two_parts(void)
{
	mutex_lock(&part);
	mutex_lock(&other_part);
}

static void take_keys_twice(void)
{
	rwlock_read(&keys);
	rwlock_read(&keys);
}

static void release_free_lock(void)
{
	mutex_unlock(&coordinator);
}

static void wait_with_outer_lock(void)
{
	mutex_lock(&coordinator);
	mutex_lock(&gate);
	mutex_wait(&changed, &coordinator);
}

static void need_part_without_it(void)
{
	mutex_lock(&other_part);
	mutex_assert_held(&part);
}

static struct thread_owner owner;

static void *use_struct(void *unused)
{
	thread_owner_assert(&owner, "a struct");
	return unused;
}

static void use_struct_in_two_threads(void)
{
	pthread_t other;

	use_struct(NULL);
	pthread_create(&other, NULL, use_struct, NULL);
	pthread_join(other, NULL);
}

static void give_struct_away(void)
{
	pthread_t other;

	use_struct(NULL);
	thread_owner_release(&owner);
	pthread_create(&other, NULL, use_struct, NULL);
	pthread_join(other, NULL);
}

int main(void)
{
	mutex_init(&coordinator, LOCK_COORDINATOR);
	mutex_init(&part, LOCK_PART);
	mutex_init(&other_part, LOCK_PART);
	mutex_init(&gate, LOCK_GATE);
	rwlock_init(&keys, LOCK_KEYS);

	mutex_lock(&coordinator);
	rwlock_read(&keys);
	mutex_lock(&part);
	mutex_lock(&gate);
	mutex_unlock(&part);
	mutex_unlock(&gate);
	mutex_lock(&part);
	mutex_unlock(&coordinator);
	mutex_unlock(&part);
	rwlock_unlock(&keys);
	mutex_lock(&coordinator);
	mutex_unlock(&coordinator);
	mutex_lock(&part);
	mutex_assert_held(&part);
	mutex_unlock(&part);
	ok(true, "locks in their order, released in any order");
	ok(breaks_order(take_coordinator_under_gate,
	       "COORDINATOR (rank 20) is taken while GATE is held"),
	    "a lower rank");
	ok(breaks_order(take_two_parts, "PART (rank 40) is taken while PART is held"),
	    "two of one name");
	ok(breaks_order(take_keys_twice, "KEYS (rank 30) is taken while KEYS is held"),
	    "a lock for reading, twice");
	ok(breaks_order(release_free_lock, "COORDINATOR (rank 20) is released"),
	    "a lock that is not held");
	ok(breaks_order(wait_with_outer_lock,
	       "COORDINATOR (rank 20) is waited with while GATE is held"),
	    "a wait that keeps an inner lock");
	ok(breaks_order(need_part_without_it, "PART (rank 40) is needed by a function"),
	    "a function whose caller holds another lock of the name");
	ok(breaks_order(use_struct_in_two_threads,
	       "a struct is used by a thread that does not own it"),
	    "a struct without a lock, in two threads");
	ok(!breaks_order(give_struct_away, ""), "one thread after the other");
	return tap_done();
}
