/* SPDX-License-Identifier: ISC */
#include "core/lock.h"

#ifdef LOCK_CHECK

#include <stdio.h>
#include <stdlib.h>

/* More locks at once than any order of lock.def allows. */
#define HELD_MAX 16u

static const struct {
	const char *name;
	int rank;
} locks[] = {
#define LOCK(name, rank, text) [LOCK_##name] = { #name, rank },
#include "core/lock.def"
#undef LOCK
};

struct held_lock {
	const void *lock;
	enum lock_name name;
};

/* The locks that this thread holds, in the order in which it took them. */
static _Thread_local struct held_lock held[HELD_MAX];
static _Thread_local unsigned nheld;

/* holding: the lock that makes it wrong; NULL: `what` says all. */
static _Noreturn void fail_lock_check(enum lock_name name, const char *what, const char *holding)
{
	fprintf(stderr,
	    "lock order broken: lock %s (rank %d) is %s%s%s; lib/base/core/lock.def has the order\n",
	    locks[name].name, locks[name].rank, what, holding ? holding : "",
	    holding ? " is held" : "");
	abort();
}

void lock_check_take(const void *lock, enum lock_name name)
{
	for (unsigned i = 0; i < nheld; i++)
		if (locks[held[i].name].rank >= locks[name].rank)
			fail_lock_check(name, "taken while ", locks[held[i].name].name);
	if (nheld == HELD_MAX)
		fail_lock_check(name, "taken by a thread that holds 16 others", NULL);
	held[nheld++] = (struct held_lock){ lock, name };
}

void lock_check_release(const void *lock, enum lock_name name)
{
	unsigned i = nheld;

	while (i > 0 && held[i - 1].lock != lock)
		i--;
	if (i == 0)
		fail_lock_check(name, "released by a thread that does not hold it", NULL);
	nheld--;
	for (; i <= nheld; i++)
		held[i - 1] = held[i];
}

void lock_check_held(const void *lock, enum lock_name name)
{
	for (unsigned i = 0; i < nheld; i++)
		if (held[i].lock == lock)
			return;
	fail_lock_check(name, "needed by a function whose caller does not hold it", NULL);
}

void lock_check_fail_owner(const char *what)
{
	fprintf(stderr, "%s is used by a thread that does not own it\n", what);
	abort();
}

void lock_check_wait(const void *lock, enum lock_name name)
{
	if (nheld == 0 || held[nheld - 1].lock != lock)
		fail_lock_check(name, "waited with while ",
		    nheld ? locks[held[nheld - 1].name].name : "nothing");
}

#endif
