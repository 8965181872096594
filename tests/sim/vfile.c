/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tests/sim/calls.h"

/* Descriptors of all kinds: reading and writing, poll, epoll, and the kinds that are only counters. */

struct epoll {
	struct vfile v;
	struct epoll_item *items;
};

struct epoll_item {
	struct epoll *epoll;
	struct vfile *target;
	int fd;
	struct epoll_event event;
	struct epoll_item *next;         /* of the epoll instance */
	struct epoll_item *next_watched; /* of the target */
};

void vfile_init(struct vfile *v, const struct vfile_ops *ops, bool nonblock)
{
	memset(v, 0, sizeof *v);
	v->ops = ops;
	v->refs = 1;
	v->nonblock = nonblock;
}

struct vfile *vfile_ref(struct vfile *v)
{
	v->refs++;
	return v;
}

static void unwatch(struct epoll_item *item)
{
	struct epoll_item **at;

	for (at = &item->epoll->items; *at != item; at = &(*at)->next)
		;
	*at = item->next;
	for (at = &item->target->watched; *at != item; at = &(*at)->next_watched)
		;
	*at = item->next_watched;
	free(item);
}

void vfile_unref(struct vfile *v)
{
	if (--v->refs)
		return;
	while (v->watched)
		unwatch(v->watched);
	v->ops->close(v);
}

void vfile_changed(struct vfile *v)
{
	waitq_wake_all(&v->wait);
	for (struct epoll_item *i = v->watched; i; i = i->next_watched)
		vfile_changed(&i->epoll->v);
}

unsigned vfile_ready(struct vfile *v)
{
	return v->ops->ready(v);
}

static void *make_vfile(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		sim_panic("no memory for a descriptor");
	return p;
}

/* ---- counters: eventfd ---- */

struct counter {
	struct vfile v;
	uint64_t n;
};

static ssize_t read_counter(struct vfile *v, void *p, size_t n)
{
	struct counter *c = (struct counter *)v;

	if (n < 8)
		return errno = EINVAL, -1;
	if (!c->n)
		return errno = EAGAIN, -1;
	memcpy(p, &c->n, 8);
	c->n = 0;
	return 8;
}

static ssize_t write_counter(struct vfile *v, const void *p, size_t n)
{
	struct counter *c = (struct counter *)v;
	uint64_t add;

	if (n != 8)
		return errno = EINVAL, -1;
	memcpy(&add, p, 8);
	c->n += add;
	vfile_changed(v);
	return 8;
}

static unsigned counter_ready(struct vfile *v)
{
	return POLLOUT | (((struct counter *)v)->n ? POLLIN : 0);
}

static void free_vfile(struct vfile *v)
{
	free(v);
}

static const struct vfile_ops counter_ops = { "eventfd", read_counter, write_counter, counter_ready,
	free_vfile };

int sim_eventfd(unsigned initial, int flags)
{
	struct counter *c = make_vfile(sizeof *c);

	vfile_init(&c->v, &counter_ops, flags & EFD_NONBLOCK);
	c->n = initial;
	return proc_install(proc_current, &c->v);
}

/* ---- signals ---- */

struct signals {
	struct vfile v;
	struct proc *proc;
	uint64_t mask;
	struct signals *next;
};
static struct signals *signal_files;

static ssize_t read_signals(struct vfile *v, void *p, size_t n)
{
	struct signals *s = (struct signals *)v;
	struct signalfd_siginfo info = { 0 };
	uint64_t some = s->proc->signals & s->mask;

	if (n < sizeof info)
		return errno = EINVAL, -1;
	if (!some)
		return errno = EAGAIN, -1;
	info.ssi_signo = (uint32_t)__builtin_ctzll(some);
	s->proc->signals &= ~(UINT64_C(1) << info.ssi_signo);
	memcpy(p, &info, sizeof info);
	return sizeof info;
}

static ssize_t write_nothing(struct vfile *v, const void *p, size_t n)
{
	(void)v;
	(void)p;
	(void)n;
	return errno = EINVAL, -1;
}

static unsigned signals_ready(struct vfile *v)
{
	struct signals *s = (struct signals *)v;

	return s->proc->signals & s->mask ? POLLIN : 0;
}

static void close_signals(struct vfile *v)
{
	struct signals **at = &signal_files;

	while (*at != (struct signals *)v)
		at = &(*at)->next;
	*at = (*at)->next;
	free(v);
}

static const struct vfile_ops signals_ops = { "signalfd", read_signals, write_nothing,
	signals_ready, close_signals };

int sim_signalfd(int fd, const sigset_t *set, int flags)
{
	struct signals *s = make_vfile(sizeof *s);

	(void)fd;
	vfile_init(&s->v, &signals_ops, flags & SFD_NONBLOCK);
	s->proc = proc_current;
	for (int i = 1; i < 64; i++)
		if (sigismember(set, i) == 1)
			s->mask |= UINT64_C(1) << i;
	s->next = signal_files;
	signal_files = s;
	return proc_install(proc_current, &s->v);
}

void vfile_signalled(struct proc *p)
{
	for (struct signals *s = signal_files; s; s = s->next)
		if (s->proc == p)
			vfile_changed(&s->v);
}

/* ---- pipes ---- */

struct pipe {
	struct vfile end[2]; /* 0: to read, 1: to write */
	char data[65536];
	size_t at, len;
	bool open[2];
};

static struct pipe *pipe_of(struct vfile *v, int end)
{
	return (struct pipe *)(void *)((char *)v - offsetof(struct pipe, end) -
	    (size_t)end * sizeof(struct vfile));
}

static ssize_t read_pipe(struct vfile *v, void *p, size_t n)
{
	struct pipe *o = pipe_of(v, 0);

	if (!o->len)
		return o->open[1] ? (errno = EAGAIN, -1) : 0;
	if (n > o->len)
		n = o->len;
	memcpy(p, o->data + o->at, n);
	o->at += n;
	o->len -= n;
	if (!o->len)
		o->at = 0;
	vfile_changed(&o->end[1]);
	return (ssize_t)n;
}

static ssize_t write_pipe(struct vfile *v, const void *p, size_t n)
{
	struct pipe *o = pipe_of(v, 1);

	if (!o->open[0])
		return errno = EPIPE, -1;
	if (o->at) {
		memmove(o->data, o->data + o->at, o->len);
		o->at = 0;
	}
	if (n > sizeof o->data - o->len)
		n = sizeof o->data - o->len;
	if (!n)
		return errno = EAGAIN, -1;
	memcpy(o->data + o->len, p, n);
	o->len += n;
	vfile_changed(&o->end[0]);
	return (ssize_t)n;
}

static ssize_t read_nothing(struct vfile *v, void *p, size_t n)
{
	(void)v;
	(void)p;
	(void)n;
	return errno = EBADF, -1;
}

static unsigned pipe_in_ready(struct vfile *v)
{
	struct pipe *o = pipe_of(v, 0);

	return (o->len ? POLLIN : 0) | (o->open[1] ? 0 : POLLHUP);
}

static unsigned pipe_out_ready(struct vfile *v)
{
	struct pipe *o = pipe_of(v, 1);

	return (o->len < sizeof o->data ? POLLOUT : 0) | (o->open[0] ? 0 : POLLERR);
}

static void close_pipe_end(struct pipe *o, int end)
{
	o->open[end] = false;
	if (o->open[!end])
		vfile_changed(&o->end[!end]);
	else
		free(o);
}

static void close_pipe_in(struct vfile *v)
{
	close_pipe_end(pipe_of(v, 0), 0);
}

static void close_pipe_out(struct vfile *v)
{
	close_pipe_end(pipe_of(v, 1), 1);
}

static const struct vfile_ops pipe_in_ops = { "pipe", read_pipe, write_nothing, pipe_in_ready,
	close_pipe_in };
static const struct vfile_ops pipe_out_ops = { "pipe", read_nothing, write_pipe, pipe_out_ready,
	close_pipe_out };

int sim_pipe2(int fd[2], int flags)
{
	struct pipe *o = make_vfile(sizeof *o);

	vfile_init(&o->end[0], &pipe_in_ops, flags & O_NONBLOCK);
	vfile_init(&o->end[1], &pipe_out_ops, flags & O_NONBLOCK);
	o->open[0] = o->open[1] = true;
	fd[0] = proc_install(proc_current, &o->end[0]);
	fd[1] = proc_install(proc_current, &o->end[1]);
	if (fd[0] >= 0 && fd[1] >= 0)
		return 0;
	return -1;
}

/* ---- epoll ---- */

static unsigned events_of(struct epoll_item *i)
{
	return vfile_ready(i->target) & (i->event.events | EPOLLERR | EPOLLHUP);
}

static unsigned epoll_ready(struct vfile *v)
{
	for (struct epoll_item *i = ((struct epoll *)v)->items; i; i = i->next)
		if (events_of(i))
			return POLLIN;
	return 0;
}

static void close_epoll(struct vfile *v)
{
	struct epoll *e = (struct epoll *)v;

	while (e->items)
		unwatch(e->items);
	free(e);
}

static const struct vfile_ops epoll_ops = { "epoll", read_nothing, write_nothing, epoll_ready,
	close_epoll };

int sim_epoll_create1(int flags)
{
	struct epoll *e = make_vfile(sizeof *e);

	(void)flags;
	vfile_init(&e->v, &epoll_ops, false);
	return proc_install(proc_current, &e->v);
}

int sim_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct epoll *e = (struct epoll *)proc_vfile(epfd);
	struct vfile *target = proc_vfile(fd);
	struct epoll_item *i;

	if (!e || !target)
		return -1;
	for (i = e->items; i && (i->target != target || i->fd != fd); i = i->next)
		;
	if (op == EPOLL_CTL_ADD) {
		if (i)
			return errno = EEXIST, -1;
		i = make_vfile(sizeof *i);
		*i = (struct epoll_item){ e, target, fd, *ev, e->items, target->watched };
		e->items = i;
		target->watched = i;
	} else if (!i) {
		return errno = ENOENT, -1;
	} else if (op == EPOLL_CTL_MOD) {
		i->event = *ev;
	} else {
		unwatch(i);
		return 0;
	}
	if (events_of(i))
		vfile_changed(&e->v);
	return 0;
}

static int64_t deadline_of(int ms)
{
	return ms < 0 ? INT64_MAX : sim_now + ms * MSEC;
}

/* Those that are ready, in an order that the seed chooses. */
static int collect_events(struct epoll *e, struct epoll_event *out, int most)
{
	int n = 0, seen = 0;

	for (struct epoll_item *i = e->items; i; i = i->next) {
		unsigned now = events_of(i);
		int at;

		if (!now)
			continue;
		seen++;
		at = n < most ? n++ : (int)sim_below((uint32_t)seen);
		if (at >= most)
			continue;
		if (at == n - 1 && n > 1) {
			int swap = (int)sim_below((uint32_t)n);

			out[at] = out[swap];
			at = swap;
		}
		out[at].events = now;
		out[at].data = i->event.data;
	}
	return n;
}

int sim_epoll_wait(int epfd, struct epoll_event *out, int most, int ms)
{
	struct vfile *v = proc_vfile(epfd);
	int64_t deadline = deadline_of(ms);
	int n;

	if (!v)
		return -1;
	fiber_may_yield();
	while (!(n = collect_events((struct epoll *)v, out, most)) && sim_now < deadline)
		fiber_wait_one(&v->wait, deadline);
	return n;
}

/* ---- poll ---- */

static int look_at_all(struct pollfd *p, nfds_t n)
{
	int some = 0;

	for (nfds_t i = 0; i < n; i++) {
		struct vfile *v = p[i].fd < 0 ? NULL : proc_vfile(p[i].fd);

		p[i].revents = (short)(p[i].fd < 0 ? 0
		        : !v                       ? POLLNVAL
		             : (int)(vfile_ready(v) & ((unsigned)p[i].events | POLLERR | POLLHUP)));
		some += p[i].revents != 0;
	}
	return some;
}

static int poll_until(struct pollfd *p, nfds_t n, int64_t deadline)
{
	struct waitq *q[64];
	int some;

	if (n > 64)
		sim_panic("a poll of %lu descriptors", (unsigned long)n);
	fiber_may_yield();
	while (!(some = look_at_all(p, n)) && sim_now < deadline) {
		size_t nq = 0;

		for (nfds_t i = 0; i < n; i++)
			if (p[i].fd >= 0)
				q[nq++] = &proc_vfile(p[i].fd)->wait;
		fiber_wait(q, nq, deadline);
	}
	return some;
}

int sim_poll(struct pollfd *p, nfds_t n, int ms)
{
	return poll_until(p, n, deadline_of(ms));
}

int sim_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *set)
{
	(void)set;
	return poll_until(p, n, t ? sim_now + t->tv_sec * SEC + t->tv_nsec : INT64_MAX);
}

/* ---- read and write ---- */

ssize_t vfile_read(struct vfile *v, void *p, size_t n)
{
	ssize_t got;

	fiber_may_yield();
	while ((got = v->ops->read(v, p, n)) < 0 && errno == EAGAIN && !v->nonblock)
		fiber_wait_one(&v->wait, INT64_MAX);
	return got;
}

ssize_t vfile_write(struct vfile *v, const void *p, size_t n)
{
	ssize_t put;

	fiber_may_yield();
	while ((put = v->ops->write(v, p, n)) < 0 && errno == EAGAIN && !v->nonblock)
		fiber_wait_one(&v->wait, INT64_MAX);
	return put;
}

ssize_t sim_read(int fd, void *p, size_t n)
{
	struct vfile *v = proc_vfile(fd);

	return v ? vfile_read(v, p, n) : -1;
}

ssize_t sim_write(int fd, const void *p, size_t n)
{
	struct vfile *v = proc_vfile(fd);

	return v ? vfile_write(v, p, n) : -1;
}

int sim_close(int fd)
{
	struct vfile *v = proc_vfile(fd);

	if (!v)
		return -1;
	proc_current->fd[fd] = NULL;
	vfile_unref(v);
	return 0;
}

int sim_dup2(int from, int to)
{
	struct vfile *v = proc_vfile(from);

	if (!v)
		return -1;
	if (from == to)
		return to;
	if (proc_current->fd[to])
		vfile_unref(proc_current->fd[to]);
	proc_current->fd[to] = vfile_ref(v);
	return to;
}

int sim_fcntl(int fd, int op, ...)
{
	struct vfile *v = proc_vfile(fd);
	va_list ap;
	long arg;

	va_start(ap, op);
	arg = va_arg(ap, long);
	va_end(ap);
	if (op == F_OFD_SETLK || op == F_OFD_GETLK)
		return disk_lock(fd, op, (struct flock *)(uintptr_t)arg);
	if (!v)
		return -1;
	switch (op) {
	case F_GETFL:
		return v->nonblock ? O_NONBLOCK : 0;
	case F_SETFL:
		v->nonblock = arg & O_NONBLOCK;
		return 0;
	case F_GETFD:
	case F_SETFD:
		return 0;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return proc_install(proc_current, vfile_ref(v));
	default:
		return errno = EINVAL, -1;
	}
}
