/* SPDX-License-Identifier: ISC */
#ifndef CORE_THREAD_OWNER_H
#define CORE_THREAD_OWNER_H

#include <pthread.h>
#include <stdbool.h>

#include "core/lock.h"

/* The thread that owns a struct without a lock: an event loop, a client of the servers. The first
 * thread that uses the struct owns it, until it gives the struct away. Builds with -DLOCK_CHECK
 * (lock.h) abort with one sentence when another thread uses it meanwhile; in other builds nothing
 * is checked. A struct that was zeroed has no owner. */
struct thread_owner {
	pthread_t thread;
	bool is_set;
};

/* The first line of a function that only the owner may call. what: the struct, for the sentence,
 * such as "a client". */
static inline void thread_owner_assert(struct thread_owner *o, const char *what)
{
#ifdef LOCK_CHECK
	if (!o->is_set)
		*o = (struct thread_owner){ pthread_self(), true };
	else if (!pthread_equal(o->thread, pthread_self()))
		lock_check_fail_owner(what);
#else
	(void)o;
	(void)what;
#endif
}

/* From now on no thread owns the struct: the next one that uses it will. */
static inline void thread_owner_release(struct thread_owner *o)
{
	o->is_set = false;
}

#endif
