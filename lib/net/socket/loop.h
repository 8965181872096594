/* SPDX-License-Identifier: ISC */
#ifndef SOCKET_LOOP_H
#define SOCKET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/* The event loop of one thread, over epoll: descriptors, work that other threads post, and one
 * periodic tick. loop_post, loop_stop, loop_heard and loop_nudge may be called by any thread;
 * everything else by the loop's own thread, or before it runs. The queue of posted work has a
 * lock, under which no other lock is taken; callbacks run without it. */
struct loop;
typedef void (*loop_fd_fn)(void *ctx, uint32_t events); /* EPOLLIN, EPOLLOUT, ... */
typedef void (*loop_fn)(void *ctx);

/* ERR_IO when the system gives no epoll or event descriptor. */
enum err_code loop_new(struct loop **out, struct err *e);
/* Frees the loop, which does not run any more. Watched descriptors stay open. NULL is fine. */
void loop_free(struct loop *l);

/* A watched descriptor. The caller owns the handle, and keeps it alive until loop_del. After
 * loop_del no event for it is delivered, not even one that epoll has reported already. */
struct loop_fd {
	int fd;
	uint32_t events;
	loop_fd_fn fn;
	void *ctx;
};
/* Watch the descriptor of h for these events (EPOLLIN, ...). ERR_IO. */
enum err_code loop_add(struct loop *l, struct loop_fd *h, uint32_t events, struct err *e);
/* Watches a descriptor that loop_add has added for other events; 0: for errors and hang-ups
 * only. */
void loop_mod(struct loop *l, struct loop_fd *h, uint32_t events);
/* Does not close the descriptor. Fine within its own callback. */
void loop_del(struct loop *l, struct loop_fd *h);

/* Call fn(ctx) on the loop's thread soon. Work that one thread posts runs in that order. Work
 * posted before loop_stop is still done; loop_free drops later work. */
void loop_post(struct loop *l, loop_fn fn, void *ctx);
/* Call fn(ctx) about every period_ns. A loop has one tick. */
void loop_tick(struct loop *l, int64_t period_ns, loop_fn fn, void *ctx);

/* From now on the loop polls for span_ns before it sleeps (core/spin.h); 0: no longer. Polling
 * also calls look(ctx), which serves input that no descriptor reports (shared memory), and returns
 * whether there was any. Before the loop sleeps it calls doze(ctx), which returns whether there is
 * still no such input, and arranges for a descriptor to report it from then on. */
void loop_spin(struct loop *l, int64_t span_ns, bool (*look)(void *ctx), bool (*doze)(void *ctx),
    void *ctx);

/* The loop has handled all input that had arrived by this time (clock_now); 0: it has not run yet.
 * The time stands still while the loop sleeps; loop_nudge wakes it. */
int64_t loop_heard(const struct loop *l);
/* Wakes the loop for an empty turn. Several calls before it wakes count as one. */
void loop_nudge(struct loop *l);

/* For what belongs to a loop's thread: builds with -DLOCK_CHECK end when the loop runs on another
 * thread (core/thread_owner.h). */
void loop_assert_thread(struct loop *l);

void loop_run(struct loop *l);  /* until loop_stop */
void loop_stop(struct loop *l); /* from any thread */

#endif
