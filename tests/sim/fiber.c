/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "tests/sim/calls.h"
#include "tests/sim/chain_trace.h"

/* Threads as fibers: each has a stack, and only one runs. A fiber gives the processor up when it
 * blocks, and, if the seed says so, where it takes a lock or calls the system. */

#define STACK (512u << 10)

enum fiber_state { FIBER_FREE, FIBER_READY, FIBER_WAITING, FIBER_ENDED };

struct fiber {
	enum fiber_state state;
	struct proc *proc;
	void *(*fn)(void *);
	void *ctx, *result;
	char *stack;
	jmp_buf at;
	ucontext_t first;
	bool started;
	int error;      /* errno while it does not run */
	uint64_t timer; /* number of its wait; a timer of another wait is stale */
	bool timed_out;
	struct waiter *waits; /* on its stack, while it waits */
	size_t nwaits;
	struct waitq joined;
	struct fiber *next; /* of the pool */
	unsigned id;
};

struct fiber *fiber_current;

#define FIBERS_MAX 4096
static struct fiber *all[FIBERS_MAX];
static unsigned nall;
static struct fiber *pool;
static struct fiber *ready[FIBERS_MAX];
static unsigned nready;
static jmp_buf scheduler;

/* ---- queues ---- */

static void add_waiter(struct waitq *q, struct waiter *w)
{
	w->fiber = fiber_current;
	w->q = q;
	w->next = NULL;
	w->prev = q->last;
	if (q->last)
		q->last->next = w;
	else
		q->first = w;
	q->last = w;
}

static void remove_waiter(struct waiter *w)
{
	struct waitq *q = w->q;

	if (!q)
		return;
	if (w->prev)
		w->prev->next = w->next;
	else
		q->first = w->next;
	if (w->next)
		w->next->prev = w->prev;
	else
		q->last = w->prev;
	w->q = NULL;
}

/* ---- the scheduler ---- */

static void make_ready(struct fiber *f)
{
	if (f->state == FIBER_READY || f->state == FIBER_FREE || f->state == FIBER_ENDED)
		return;
	f->state = FIBER_READY;
	ready[nready++] = f;
}

static void drop_ready(unsigned i)
{
	ready[i] = ready[--nready];
}

static void run_fiber(void)
{
	struct fiber *f = fiber_current;

	f->result = f->fn(f->ctx);
	fiber_exit();
}

static void forget_fiber(struct fiber *f)
{
	for (size_t i = 0; i < f->nwaits; i++)
		remove_waiter(&f->waits[i]);
	f->nwaits = 0;
	f->state = FIBER_FREE;
	f->proc->nfibers--;
	f->proc = NULL;
	f->timer++;
}

/* The stack of an ended fiber is still in use until the scheduler runs. */
static struct fiber *ended;

static void enter_fiber(struct fiber *f)
{
	fiber_current = f;
	proc_enter(f->proc);
	if (_setjmp(scheduler) == 0) {
		errno = f->error;
		if (f->started)
			_longjmp(f->at, 1);
		f->started = true;
		setcontext(&f->first);
	}
	fiber_current = NULL;
	if (ended) {
		f = ended;
		ended = NULL;
		f->next = pool;
		pool = f;
	}
}

static void leave_fiber(void)
{
	struct fiber *f = fiber_current;

	f->error = errno;
	if (_setjmp(f->at) == 0)
		_longjmp(scheduler, 1);
	errno = f->error;
}

bool fiber_run_one(void)
{
	while (nready) {
		unsigned i = sim_below(nready);
		struct fiber *f = ready[i];

		drop_ready(i);
		/* fiber_resumed makes it ready again. */
		if (f->proc->paused) {
			f->state = FIBER_WAITING;
			f->timed_out = false;
			continue;
		}
		enter_fiber(f);
		return true;
	}
	return false;
}

void fiber_resumed(struct proc *p)
{
	for (unsigned i = 0; i < nall; i++)
		if (all[i]->proc == p)
			make_ready(all[i]);
}

void fiber_may_yield(void)
{
	if (!fiber_current || !sim_chance(4))
		return;
	fiber_current->state = FIBER_WAITING;
	make_ready(fiber_current);
	leave_fiber();
}

/* ---- fibers ---- */

struct fiber *fiber_start(struct proc *p, void *(*fn)(void *), void *ctx)
{
	struct fiber *f = pool;

	if (f) {
		pool = f->next;
	} else {
		if (nall == FIBERS_MAX)
			sim_panic("more than %d threads", FIBERS_MAX);
		f = calloc(1, sizeof *f);
		if (!f)
			sim_panic("no memory for a thread");
		f->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (f->stack == MAP_FAILED)
			sim_panic("no memory for a stack");
		f->id = nall;
		all[nall++] = f;
	}
	f->proc = p;
	f->fn = fn;
	f->ctx = ctx;
	f->result = NULL;
	f->started = false;
	f->error = 0;
	f->joined = (struct waitq){ 0 };
	getcontext(&f->first);
	f->first.uc_stack.ss_sp = f->stack;
	f->first.uc_stack.ss_size = STACK;
	f->first.uc_link = NULL;
	makecontext(&f->first, run_fiber, 0);
	p->nfibers++;
	f->state = FIBER_WAITING;
	make_ready(f);
	return f;
}

struct proc *fiber_proc(const struct fiber *f)
{
	return f->proc;
}

void fiber_exit(void)
{
	struct fiber *f = fiber_current;

	waitq_wake_all(&f->joined);
	f->state = FIBER_ENDED;
	/* A thread that is joined later keeps its place until then. */
	_longjmp(scheduler, 1);
}

void fiber_kill_all(struct proc *p)
{
	bool own = false;

	for (unsigned i = 0; i < nready;)
		if (ready[i]->proc == p)
			drop_ready(i);
		else
			i++;
	for (unsigned i = 0; i < nall; i++) {
		struct fiber *f = all[i];

		if (f->proc != p)
			continue;
		forget_fiber(f);
		if (f == fiber_current) {
			ended = f;
			own = true;
		} else {
			f->next = pool;
			pool = f;
		}
	}
	if (own)
		_longjmp(scheduler, 1);
}

void fiber_reset(void)
{
	/* The pool is in one order, so that a world does not depend on the one before. */
	pool = NULL;
	nready = 0;
	for (unsigned i = nall; i-- > 0;) {
		all[i]->state = FIBER_FREE;
		all[i]->proc = NULL;
		all[i]->timer = 0;
		all[i]->nwaits = 0;
		all[i]->next = pool;
		pool = all[i];
	}
}

/* ---- waiting ---- */

void waitq_wake_all(struct waitq *q)
{
	while (q->first) {
		struct waiter *w = q->first;

		remove_waiter(w);
		make_ready(w->fiber);
	}
}

/* One of the waiters, as the seed says. */
void waitq_wake_one(struct waitq *q)
{
	unsigned n = 0;
	struct waiter *w;

	for (w = q->first; w; w = w->next)
		n++;
	if (!n)
		return;
	n = sim_below(n);
	for (w = q->first; n; n--)
		w = w->next;
	remove_waiter(w);
	make_ready(w->fiber);
}

/* A timer is an event that names a fiber and the number of its wait, in one word. */
static void end_wait(void *ctx)
{
	uint64_t word = (uint64_t)(uintptr_t)ctx;
	struct fiber *f = all[word % FIBERS_MAX];

	if (f->state != FIBER_WAITING || f->timer % (UINT64_MAX / FIBERS_MAX) != word / FIBERS_MAX)
		return;
	f->timed_out = true;
	make_ready(f);
}

#define WAITS_MAX 256

bool fiber_wait(struct waitq *const *q, size_t n, int64_t deadline)
{
	struct fiber *f = fiber_current;
	struct waiter w[WAITS_MAX];

	if (!f)
		sim_panic("something waits outside of a thread");
	if (n > WAITS_MAX)
		sim_panic("a thread waits for %zu things", n);
	if (deadline <= sim_now)
		deadline = sim_now;
	for (size_t i = 0; i < n; i++)
		add_waiter(q[i], &w[i]);
	f->waits = w;
	f->nwaits = n;
	f->timer++;
	f->timed_out = false;
	f->state = FIBER_WAITING;
	if (deadline != INT64_MAX)
		event_at(deadline, end_wait,
		    (void *)(uintptr_t)(f->timer % (UINT64_MAX / FIBERS_MAX) * FIBERS_MAX + f->id));
	leave_fiber();
	for (size_t i = 0; i < n; i++)
		remove_waiter(&w[i]);
	f->nwaits = 0;
	return !f->timed_out;
}

bool fiber_wait_one(struct waitq *q, int64_t deadline)
{
	return fiber_wait(&q, 1, deadline);
}

/* ---- POSIX threads, under the names that the programs' calls get ---- */

struct lock {
	struct fiber *owner;
	unsigned readers;
	struct waitq wait;
};
_Static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "a lock fits a mutex");
_Static_assert(sizeof(struct lock) <= sizeof(pthread_rwlock_t), "a lock fits a rwlock");

struct condition {
	struct waitq wait;
	clockid_t clock;
};
_Static_assert(sizeof(struct condition) <= sizeof(pthread_cond_t), "a condition fits");

int sim_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx)
{
	(void)attr;
	*out = (pthread_t)fiber_start(fiber_current->proc, fn, ctx);
	return 0;
}

int sim_pthread_join(pthread_t t, void **result)
{
	struct fiber *f = (struct fiber *)t;

	while (f->state != FIBER_ENDED)
		fiber_wait_one(&f->joined, INT64_MAX);
	if (result)
		*result = f->result;
	forget_fiber(f);
	f->next = pool;
	pool = f;
	return 0;
}

pthread_t sim_pthread_self(void)
{
	return (pthread_t)fiber_current;
}

int sim_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	(void)attr;
	memset(m, 0, sizeof *m);
	return 0;
}

int sim_pthread_mutex_destroy(pthread_mutex_t *m)
{
	if (((struct lock *)(void *)m)->owner)
		sim_panic("a mutex that is held is destroyed");
	return 0;
}

int sim_pthread_mutex_lock(pthread_mutex_t *m)
{
	struct lock *l = (void *)m;

	fiber_may_yield();
	while (l->owner) {
		if (l->owner == fiber_current)
			sim_panic("a thread takes a mutex twice");
		fiber_wait_one(&l->wait, INT64_MAX);
	}
	l->owner = fiber_current;
	return 0;
}

int sim_pthread_mutex_unlock(pthread_mutex_t *m)
{
	struct lock *l = (void *)m;

	if (l->owner != fiber_current)
		sim_panic("a thread releases a mutex that it does not hold");
	l->owner = NULL;
	waitq_wake_one(&l->wait);
	chain_unlocked(m);
	return 0;
}

int sim_pthread_rwlock_init(pthread_rwlock_t *m, const pthread_rwlockattr_t *attr)
{
	(void)attr;
	memset(m, 0, sizeof *m);
	return 0;
}

int sim_pthread_rwlock_destroy(pthread_rwlock_t *m)
{
	(void)m;
	return 0;
}

int sim_pthread_rwlock_rdlock(pthread_rwlock_t *m)
{
	struct lock *l = (void *)m;

	fiber_may_yield();
	while (l->owner)
		fiber_wait_one(&l->wait, INT64_MAX);
	l->readers++;
	return 0;
}

int sim_pthread_rwlock_wrlock(pthread_rwlock_t *m)
{
	struct lock *l = (void *)m;

	fiber_may_yield();
	while (l->owner || l->readers)
		fiber_wait_one(&l->wait, INT64_MAX);
	l->owner = fiber_current;
	return 0;
}

int sim_pthread_rwlock_unlock(pthread_rwlock_t *m)
{
	struct lock *l = (void *)m;

	if (l->owner)
		l->owner = NULL;
	else
		l->readers--;
	waitq_wake_all(&l->wait);
	return 0;
}

int sim_pthread_condattr_init(pthread_condattr_t *a)
{
	*(clockid_t *)(void *)a = CLOCK_REALTIME;
	return 0;
}

int sim_pthread_condattr_destroy(pthread_condattr_t *a)
{
	(void)a;
	return 0;
}

int sim_pthread_condattr_setclock(pthread_condattr_t *a, clockid_t clock)
{
	*(clockid_t *)(void *)a = clock;
	return 0;
}

int sim_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *a)
{
	memset(c, 0, sizeof *c);
	((struct condition *)(void *)c)->clock = a ? *(const clockid_t *)(const void *)a
	                                           : CLOCK_REALTIME;
	return 0;
}

int sim_pthread_cond_destroy(pthread_cond_t *c)
{
	(void)c;
	return 0;
}

int sim_pthread_cond_signal(pthread_cond_t *c)
{
	waitq_wake_one(&((struct condition *)(void *)c)->wait);
	return 0;
}

int sim_pthread_cond_broadcast(pthread_cond_t *c)
{
	waitq_wake_all(&((struct condition *)(void *)c)->wait);
	return 0;
}

static int wait_condition(pthread_cond_t *c, pthread_mutex_t *m, int64_t deadline)
{
	struct lock *l = (void *)m;
	bool woken;

	if (l->owner != fiber_current)
		sim_panic("a thread waits on a condition without its mutex");
	l->owner = NULL;
	waitq_wake_one(&l->wait);
	woken = fiber_wait_one(&((struct condition *)(void *)c)->wait, deadline);
	sim_pthread_mutex_lock(m);
	return woken ? 0 : ETIMEDOUT;
}

int sim_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	return wait_condition(c, m, INT64_MAX);
}

int sim_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	return wait_condition(c, m,
	    until->tv_sec * SEC + until->tv_nsec -
	        calls_clock_offset(((struct condition *)(void *)c)->clock));
}

int sim_pthread_once(pthread_once_t *once, void (*fn)(void))
{
	if (!*once) {
		*once = 2;
		fn();
	}
	return 0;
}
