/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/lock.h"
#include "core/mem.h"
#include "pskit/handle.h"

/* Asynchronous calls (ps_async). One thread for each handle executes its calls, one after the
 * other, and an eventfd tells when one has ended.
 *
 * `lock` guards call, text and end. The thread writes result before it clears busy and signals the
 * descriptor; the caller reads it only after that. While busy, the rest of the handle belongs to
 * the thread. */

struct async {
	struct ps *p;
	pthread_t thread;
	struct mutex lock;
	pthread_cond_t given;
	struct call call; /* the next call; fn is NULL if none */
	char *text;
	bool end;
	_Atomic bool busy;
	bool some; /* a call was begun and ps_result() has not returned it; caller's thread only */
	int result, fd;
};

/* The handle's thread: makes one call at a time, without the lock, so that ps_cancel can be
 * called meanwhile. `result` is written before `busy` is cleared, which the caller's thread reads
 * first. */
static void *make_calls(void *ctx)
{
	struct async *a = ctx;
	uint64_t one = 1;

	mutex_lock(&a->lock);
	for (;;) {
		struct call c;

		while (!a->call.fn && !a->end)
			mutex_wait(&a->given, &a->lock);
		if (!a->call.fn)
			break;
		c = a->call;
		a->call.fn = NULL;
		mutex_unlock(&a->lock);
		a->result = c.fn(a->p, &c);
		atomic_store(&a->busy, false);
		if (write(a->fd, &one, sizeof one) < 0)
			abort(); /* cannot fail: the counter is 0 or 1 */
		mutex_lock(&a->lock);
	}
	mutex_unlock(&a->lock);
	return NULL;
}

/* Another thread makes the calls from now on. */
static void change_thread(struct ps *p)
{
	if (p->joined && p->w.client)
		client_hand_over(p->w.client);
	if (p->attached)
		tool_hand_over(&p->tool);
}

/* Starts the thread with all signals blocked, so that the program's handlers run on its own
 * threads. PS_OK, or the code of an error that ps_message describes. */
static int start_call_thread(struct ps *p)
{
	struct async *a = mem_alloc(sizeof *a);
	sigset_t all, before;
	int rc;

	a->p = p;
	a->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (a->fd < 0) {
		free(a);
		return pskit_return(p, err_sys(&p->e, ERR_IO, "eventfd"));
	}
	mutex_init(&a->lock, LOCK_ASYNC);
	pthread_cond_init(&a->given, NULL);
	change_thread(p);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&a->thread, NULL, make_calls, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		close(a->fd);
		free(a);
		errno = rc;
		return pskit_return(p, err_sys(&p->e, ERR_NOMEM, "cannot start a thread"));
	}
	p->async = a;
	return PS_OK;
}

bool pskit_is_busy(const struct ps *p)
{
	/* The thread that executes the call may use the handle: callbacks run there. */
	return p->async && atomic_load(&p->async->busy) &&
	    !pthread_equal(pthread_self(), p->async->thread);
}

void pskit_end_async(struct ps *p)
{
	struct async *a = p->async;

	if (!a)
		return;
	if (atomic_load(&a->busy))
		ps_cancel(p);
	mutex_lock(&a->lock);
	a->end = true;
	pthread_cond_signal(&a->given);
	mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	change_thread(p);
	pthread_cond_destroy(&a->given);
	mutex_destroy(&a->lock);
	close(a->fd);
	free(a->text);
	free(a);
	p->async = NULL;
}

int pskit_run_call(struct ps *p, const struct call *c)
{
	struct async *a = p->async;

	if (!a || pthread_equal(pthread_self(), a->thread))
		return c->fn(p, c);
	if (atomic_load(&a->busy) || a->some)
		return PS_USAGE;
	mutex_lock(&a->lock);
	free(a->text);
	a->text = c->text ? mem_strdup(c->text) : NULL;
	a->call = *c;
	a->call.text = a->text;
	a->some = true;
	atomic_store(&a->busy, true);
	pthread_cond_signal(&a->given);
	mutex_unlock(&a->lock);
	return PS_AGAIN;
}

PUBLIC int ps_async(struct ps *p, int on)
{
	if (pskit_is_busy(p) || (p->async && p->async->some))
		return PS_USAGE;
	if (!on)
		pskit_end_async(p);
	return on && !p->async ? start_call_thread(p) : PS_OK;
}

PUBLIC int ps_fd(const struct ps *p)
{
	return p->async ? p->async->fd : -1;
}

PUBLIC int ps_result(struct ps *p)
{
	struct async *a = p->async;
	uint64_t n;

	if (!a || !a->some)
		return pskit_misuse(p, "ps_result: no call was begun");
	/* The descriptor becomes readable after the result was stored, never before. */
	if (read(a->fd, &n, sizeof n) < 0)
		return PS_AGAIN;
	a->some = false;
	return a->result;
}
