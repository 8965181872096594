/* SPDX-License-Identifier: ISC */
#include "socket/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/lock.h"
#include "core/mem.h"
#include "core/spin.h"
#include "core/thread_owner.h"

#define EVENTS 64

struct post {
	struct post *next;
	loop_fn fn;
	void *ctx;
};

struct loop {
	struct thread_owner owner; /* while it runs */
	int epoll, wake;
	_Atomic bool stop;
	_Atomic int64_t heard;
	struct mutex lock; /* first, last */
	struct post *first, **last;
	struct epoll_event ready[EVENTS];
	int nready, at;
	int64_t period, next_tick;
	loop_fn tick;
	void *tick_ctx;
	struct spin spin;
	bool (*look)(void *ctx), (*doze)(void *ctx);
	void *spin_ctx;
};

void loop_assert_thread(struct loop *l)
{
	if (l->owner.is_set)
		thread_owner_assert(&l->owner, "an event loop");
}

enum err_code loop_new(struct loop **out, struct err *e)
{
	struct loop *l = mem_alloc(sizeof *l);
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };

	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (l->epoll < 0 || l->wake < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &ev)) {
		err_sys(e, ERR_IO, "cannot make an event loop");
		if (l->epoll >= 0)
			close(l->epoll);
		if (l->wake >= 0)
			close(l->wake);
		free(l);
		return ERR_IO;
	}
	mutex_init(&l->lock, LOCK_LOOP);
	l->last = &l->first;
	*out = l;
	return ERR_OK;
}

void loop_free(struct loop *l)
{
	struct post *p;

	if (!l)
		return;
	while ((p = l->first)) {
		l->first = p->next;
		free(p);
	}
	close(l->epoll);
	close(l->wake);
	mutex_destroy(&l->lock);
	free(l);
}

enum err_code loop_add(struct loop *l, struct loop_fd *h, uint32_t events, struct err *e)
{
	struct epoll_event ev = { .events = events, .data.ptr = h };

	loop_assert_thread(l);
	h->events = events;
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, h->fd, &ev))
		return err_sys(e, ERR_IO, "cannot watch descriptor %d", h->fd);
	return ERR_OK;
}

void loop_mod(struct loop *l, struct loop_fd *h, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = h };

	loop_assert_thread(l);
	if (h->events == events)
		return;
	h->events = events;
	epoll_ctl(l->epoll, EPOLL_CTL_MOD, h->fd, &ev);
}

void loop_del(struct loop *l, struct loop_fd *h)
{
	loop_assert_thread(l);
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, h->fd, NULL);
	/* Events that this round has fetched but not delivered must not reach a
	 * handle whose owner is about to free it. */
	for (int i = l->at; i < l->nready; i++)
		if (l->ready[i].data.ptr == h)
			l->ready[i].events = 0;
}

void loop_nudge(struct loop *l)
{
	uint64_t one = 1;

	if (write(l->wake, &one, sizeof one) < 0 && errno != EAGAIN)
		abort(); /* an eventfd of ours cannot fail otherwise */
}

void loop_post(struct loop *l, loop_fn fn, void *ctx)
{
	struct post *p = mem_alloc(sizeof *p);
	bool idle;

	p->fn = fn;
	p->ctx = ctx;
	mutex_lock(&l->lock);
	idle = !l->first;
	*l->last = p;
	l->last = &p->next;
	mutex_unlock(&l->lock);
	if (idle)
		loop_nudge(l);
}

static void run_posts(struct loop *l)
{
	struct post *p, *next;
	uint64_t count;

	if (read(l->wake, &count, sizeof count) < 0 && errno != EAGAIN)
		return;
	mutex_lock(&l->lock);
	p = l->first;
	l->first = NULL;
	l->last = &l->first;
	mutex_unlock(&l->lock);
	for (; p; p = next) {
		next = p->next;
		p->fn(p->ctx);
		free(p);
	}
}

void loop_tick(struct loop *l, int64_t period_ns, loop_fn fn, void *ctx)
{
	loop_assert_thread(l);
	l->period = period_ns;
	l->tick = fn;
	l->tick_ctx = ctx;
	l->next_tick = clock_now() + period_ns;
}

static int ms_until_tick(const struct loop *l, int64_t now)
{
	return l->tick ? clock_poll_timeout(l->next_tick - now) : -1;
}

void loop_spin(struct loop *l, int64_t span_ns, bool (*look)(void *ctx), bool (*doze)(void *ctx),
    void *ctx)
{
	loop_assert_thread(l);
	l->spin.span = span_ns;
	l->look = look;
	l->doze = doze;
	l->spin_ctx = ctx;
}

static int wait_for_events(struct loop *l, int64_t now)
{
	int n;

	if (!l->spin.span)
		return epoll_wait(l->epoll, l->ready, EVENTS, ms_until_tick(l, now));
	spin_begin(&l->spin);
	do {
		if (l->look(l->spin_ctx))
			return epoll_wait(l->epoll, l->ready, EVENTS, 0);
		n = epoll_wait(l->epoll, l->ready, EVENTS, 0);
	} while (n == 0 && spin_again(&l->spin));
	return n || !l->doze(l->spin_ctx)
	    ? n
	    : epoll_wait(l->epoll, l->ready, EVENTS, ms_until_tick(l, clock_now()));
}

int64_t loop_heard(const struct loop *l)
{
	return atomic_load(&l->heard);
}

void loop_run(struct loop *l)
{
	thread_owner_assert(&l->owner, "an event loop");
	while (!atomic_load(&l->stop)) {
		int64_t before = clock_now();

		l->nready = wait_for_events(l, before);
		for (l->at = 0; l->at < l->nready; l->at++) {
			struct epoll_event *ev = &l->ready[l->at];
			struct loop_fd *h = ev->data.ptr;

			if (!h)
				run_posts(l);
			else if (ev->events)
				h->fn(h->ctx, ev->events);
		}
		/* If all EVENTS places were used, there may be more events. */
		if (l->nready < EVENTS)
			atomic_store_explicit(&l->heard, before, memory_order_relaxed);
		l->nready = 0;
		if (l->tick && clock_now() >= l->next_tick) {
			l->next_tick = clock_now() + l->period;
			l->tick(l->tick_ctx);
		}
	}
	run_posts(l);
	thread_owner_release(&l->owner);
}

void loop_stop(struct loop *l)
{
	atomic_store(&l->stop, true);
	loop_nudge(l);
}
