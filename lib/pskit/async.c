#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "pskit/handle.h"

/* Calls that do not wait: one thread makes them, one after the other, and a descriptor tells. */

struct async {
	struct ps *p;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t given;
	struct call call;               /* fn NULL: none */
	char *text;
	bool end;
	_Atomic bool busy;
	bool some;                      /* a result is there, or on its way; the caller's thread only */
	int result, fd;
};

static void *make_calls(void *ctx)
{
	struct async *a = ctx;
	uint64_t one = 1;

	pthread_mutex_lock(&a->lock);
	for (;;) {
		struct call c;

		while (!a->call.fn && !a->end)
			pthread_cond_wait(&a->given, &a->lock);
		if (!a->call.fn)
			break;
		c = a->call;
		a->call.fn = NULL;
		pthread_mutex_unlock(&a->lock);
		a->result = c.fn(a->p, &c);
		atomic_store(&a->busy, false);
		if (write(a->fd, &one, sizeof one) < 0)
			abort();        /* an eventfd of at most one takes one */
		pthread_mutex_lock(&a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

static int start(struct ps *p)
{
	struct async *a = mem_alloc(sizeof *a);
	sigset_t all, before;
	int rc;

	a->p = p;
	a->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (a->fd < 0) {
		free(a);
		return handle_return(p, err_sys(&p->e, ERR_IO, "eventfd"));
	}
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->given, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&a->thread, NULL, make_calls, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		close(a->fd);
		free(a);
		errno = rc;
		return handle_return(p, err_sys(&p->e, ERR_NOMEM, "cannot start a thread"));
	}
	p->async = a;
	return PS_OK;
}

bool handle_is_busy(const struct ps *p)
{
	/* Its own thread is the one that may; a callback is called there. */
	return p->async && atomic_load(&p->async->busy) && !pthread_equal(pthread_self(), p->async->thread);
}

void handle_end_async(struct ps *p)
{
	struct async *a = p->async;

	if (!a)
		return;
	if (atomic_load(&a->busy))
		ps_cancel(p);
	pthread_mutex_lock(&a->lock);
	a->end = true;
	pthread_cond_signal(&a->given);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	pthread_cond_destroy(&a->given);
	pthread_mutex_destroy(&a->lock);
	close(a->fd);
	free(a->text);
	free(a);
	p->async = NULL;
}

int handle_run(struct ps *p, const struct call *c)
{
	struct async *a = p->async;

	if (!a || pthread_equal(pthread_self(), a->thread))
		return c->fn(p, c);
	if (atomic_load(&a->busy) || a->some)
		return PS_USAGE;
	pthread_mutex_lock(&a->lock);
	free(a->text);
	a->text = c->text ? mem_strdup(c->text) : NULL;
	a->call = *c;
	a->call.text = a->text;
	a->some = true;
	atomic_store(&a->busy, true);
	pthread_cond_signal(&a->given);
	pthread_mutex_unlock(&a->lock);
	return PS_AGAIN;
}

PUBLIC int ps_async(struct ps *p, int on)
{
	if (handle_is_busy(p) || (p->async && p->async->some))
		return PS_USAGE;
	if (!on)
		handle_end_async(p);
	return on && !p->async ? start(p) : PS_OK;
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
		return handle_misuse(p, "ps_result: nothing was begun");
	/* It is readable from the moment on that the result stands, and not before. */
	if (read(a->fd, &n, sizeof n) < 0)
		return PS_AGAIN;
	a->some = false;
	return a->result;
}
