/* SPDX-License-Identifier: ISC */
#ifndef CORE_LOCK_H
#define CORE_LOCK_H

#include <pthread.h>
#include <stdint.h>

/* Mutexes with a place in one written order, lock.def. Every mutex that outlives a function is one
 * of these.
 *
 * Builds with -DLOCK_CHECK (sanitizers and FAULT=1) keep a list of the locks that each thread
 * holds. They abort with one sentence when a thread takes a lock of a rank that is not above all
 * ranks that it holds, releases a lock that it does not hold, or waits on a condition with a lock
 * that is not the last one that it took; and when mutex_assert_held finds that the thread does not
 * hold the lock. So a wrong order is found by the first test that takes the two locks, and not only
 * by the rare run in which they deadlock. In other builds the functions only call pthreads.
 * Recursive locks do not exist. */
enum lock_name {
#define LOCK(name, rank, text) LOCK_##name,
#include "core/lock.def"
#undef LOCK
};

struct mutex {
	pthread_mutex_t m;
#ifdef LOCK_CHECK
	enum lock_name name;
#endif
};

struct rwlock {
	pthread_rwlock_t m;
#ifdef LOCK_CHECK
	enum lock_name name;
#endif
};

#ifdef LOCK_CHECK
/* lock.c. lock_check_take comes before the lock is taken, lock_check_wait before a wait. lock: the
 * address, which distinguishes locks of one name. */
void lock_check_take(const void *lock, enum lock_name name);
void lock_check_release(const void *lock, enum lock_name name);
void lock_check_wait(const void *lock, enum lock_name name);
void lock_check_held(const void *lock, enum lock_name name);
/* For thread_owner.h: ends the process. */
_Noreturn void lock_check_fail_owner(const char *what);
#define LOCK_NAME(lock, n)  ((lock)->name = (n))
#define LOCK_CALL(fn, lock) fn((lock), (lock)->name)
#else
#define LOCK_NAME(lock, n)  ((void)(n))
#define LOCK_CALL(fn, lock) ((void)(lock))
#endif

static inline void mutex_init(struct mutex *l, enum lock_name name)
{
	pthread_mutex_init(&l->m, NULL);
	LOCK_NAME(l, name);
}

static inline void mutex_destroy(struct mutex *l)
{
	pthread_mutex_destroy(&l->m);
}

static inline void mutex_lock(struct mutex *l)
{
	LOCK_CALL(lock_check_take, l);
	pthread_mutex_lock(&l->m);
}

static inline void mutex_unlock(struct mutex *l)
{
	LOCK_CALL(lock_check_release, l);
	pthread_mutex_unlock(&l->m);
}

/* The first line of a function whose caller holds the lock. */
static inline void mutex_assert_held(const struct mutex *l)
{
	LOCK_CALL(lock_check_held, l);
}

/* As pthread_cond_wait and pthread_cond_timedwait; the latter returns ETIMEDOUT after `until`, by
 * the condition's clock. */
static inline void mutex_wait(pthread_cond_t *c, struct mutex *l)
{
	LOCK_CALL(lock_check_wait, l);
	pthread_cond_wait(c, &l->m);
}

static inline int mutex_wait_until(pthread_cond_t *c, struct mutex *l, const struct timespec *until)
{
	LOCK_CALL(lock_check_wait, l);
	return pthread_cond_timedwait(c, &l->m, until);
}

/* A lock that several threads hold for reading or one for writing. A thread takes it once. */
static inline void rwlock_init(struct rwlock *l, enum lock_name name)
{
	pthread_rwlock_init(&l->m, NULL);
	LOCK_NAME(l, name);
}

static inline void rwlock_destroy(struct rwlock *l)
{
	pthread_rwlock_destroy(&l->m);
}

static inline void rwlock_read(struct rwlock *l)
{
	LOCK_CALL(lock_check_take, l);
	pthread_rwlock_rdlock(&l->m);
}

static inline void rwlock_write(struct rwlock *l)
{
	LOCK_CALL(lock_check_take, l);
	pthread_rwlock_wrlock(&l->m);
}

static inline void rwlock_unlock(struct rwlock *l)
{
	LOCK_CALL(lock_check_release, l);
	pthread_rwlock_unlock(&l->m);
}

#endif
