#ifndef WIRE_LOOP_H
#define WIRE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* One thread's event loop over epoll: descriptors, work posted by other
 * threads, and one periodic tick.  All calls but loop_post and loop_stop
 * belong to the loop's own thread (or happen before it runs). */
struct loop;
typedef void (*loop_fd_fn)(void *ctx, uint32_t events);   /* EPOLLIN, EPOLLOUT, ... */
typedef void (*loop_fn)(void *ctx);

enum err_code loop_new(struct loop **out, struct err *e);
void loop_free(struct loop *l);

/* A watched descriptor.  The handle is given by the caller, who keeps it alive
 * until after loop_del; after loop_del no event for it is delivered, not even
 * one that epoll had reported already. */
struct loop_fd {
	int fd;
	uint32_t events;
	loop_fd_fn fn;
	void *ctx;
};
enum err_code loop_add(struct loop *l, struct loop_fd *h, uint32_t events, struct err *e);
void loop_mod(struct loop *l, struct loop_fd *h, uint32_t events);
void loop_del(struct loop *l, struct loop_fd *h);

/* Call fn(ctx) on the loop's thread soon; from any thread.  Work posted in one
 * thread runs in order. */
void loop_post(struct loop *l, loop_fn fn, void *ctx);
/* Call fn(ctx) about every period. */
void loop_tick(struct loop *l, int64_t period_ns, loop_fn fn, void *ctx);

/* From now on, before it sleeps: for so long it looks again and again (base/spin.h), also by
 * look(ctx), which serves what no descriptor tells of, and says whether there was any;
 * then doze(ctx) says whether nothing is there still, and makes sure that a descriptor
 * tells from then on.  0: no longer. */
void loop_spin(struct loop *l, int64_t span_ns, bool (*look)(void *ctx), bool (*doze)(void *ctx), void *ctx);

/* Of what had come by then (clock_now; 0: nothing yet) everything has been handled; from any thread.
 * It does not get on while the loop sleeps: loop_nudge, also from any thread, has it look. */
int64_t loop_heard(const struct loop *l);
void loop_nudge(struct loop *l);

void loop_run(struct loop *l);            /* until loop_stop */
void loop_stop(struct loop *l);           /* from any thread */

#endif
