/* SPDX-License-Identifier: ISC */
#include "cmd/stat/feed.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cmd/stat/stat.h"
#include "core/clock.h"
#include "core/lock.h"
#include "core/mem.h"

/* Shortest pause after a failed attempt. */
#define RETRY (NSEC_PER_SEC / 2)

struct feed {
	const struct plan *plan;
	int64_t interval;
	struct stat_link link; /* used by the thread; http NULL: no connection */
	char *dir;
	atomic_bool stop;
	int event;
	pthread_t thread;

	struct mutex lock; /* protects the members below */
	pthread_cond_t woken;
	bool paused, fresh;
	struct sample sample;
};

void feed_sample_release(struct sample *s)
{
	json_decref(s->all);
	*s = (struct sample){ 0 };
}

/* ---- the thread ---- */

/* Take one sample, connecting first if there is no connection. */
static void poll_cluster(struct feed *f, struct sample *s)
{
	*s = (struct sample){ 0 };
	if (!f->link.http && stat_connect(f->plan->options, &f->stop, &f->link, &s->fault)) {
		stat_disconnect(&f->link);
		return;
	}
	s->all = connect_snapshot(f->link.http, "status,servers,workers,tables,why", &s->fault);
	s->status = json_object_get(s->all, "status");
	s->servers = json_object_get(s->all, "servers");
	s->workers = json_object_get(s->all, "workers");
	s->tables = json_object_get(s->all, "tables");
	s->why = json_object_get(s->all, "why");
	if (s->all)
		return;
	/* Connect again next time: after a restart another process may listen there. */
	stat_disconnect(&f->link);
}

static void publish_sample(struct feed *f, struct sample *s)
{
	s->at = clock_now();
	mutex_lock(&f->lock);
	feed_sample_release(&f->sample);
	f->sample = *s;
	f->fresh = true;
	mutex_unlock(&f->lock);
	eventfd_write(f->event, 1);
}

/* Sleep until the time, and as long as the feed is paused. False: the thread must stop. */
static bool sleep_until_next(struct feed *f, int64_t until)
{
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };

	mutex_lock(&f->lock);
	while (!atomic_load(&f->stop) && (f->paused || clock_now() < until)) {
		if (f->paused)
			mutex_wait(&f->woken, &f->lock);
		else
			mutex_wait_until(&f->woken, &f->lock, &ts);
	}
	mutex_unlock(&f->lock);
	return !atomic_load(&f->stop);
}

static void *feed_thread(void *arg)
{
	struct feed *f = arg;
	int64_t next;
	struct sample s;

	do {
		next = clock_now() + f->interval;
		poll_cluster(f, &s);
		if (s.fault.code && next < clock_now() + RETRY)
			next = clock_now() + RETRY;
		publish_sample(f, &s);
	} while (sleep_until_next(f, next));
	return NULL;
}

/* ---- the interface ---- */

/* Signals belong to the thread that owns the screen, so this one blocks all. Waits use
 * CLOCK_MONOTONIC, so a change of the wall clock does not stretch them. */
enum err_code feed_start(const struct plan *p, int64_t interval, struct feed **out,
    const char **dir, struct err *e)
{
	struct feed *f = mem_alloc(sizeof *f);
	pthread_condattr_t monotonic;
	sigset_t all, before;
	enum err_code rc;
	int fault;

	f->plan = p;
	f->interval = interval;
	f->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mutex_init(&f->lock, LOCK_SCREEN_FEED);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&f->woken, &monotonic);
	pthread_condattr_destroy(&monotonic);
	rc = f->event < 0 ? err_sys(e, ERR_FAILED, "cannot create an event descriptor")
	                  : stat_connect(p->options, &f->stop, &f->link, e);
	if (!rc) {
		f->dir = f->link.dir ? mem_strdup(f->link.dir) : NULL;
		*dir = f->dir;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		fault = pthread_create(&f->thread, NULL, feed_thread, f);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		rc = fault ? err_set(e, ERR_FAILED, "cannot start a thread") : ERR_OK;
	}
	if (rc)
		atomic_store(&f->stop, true);
	*out = f;
	return rc;
}

void feed_stop(struct feed *f)
{
	bool running = !atomic_exchange(&f->stop, true);

	if (running) {
		mutex_lock(&f->lock);
		pthread_cond_signal(&f->woken);
		mutex_unlock(&f->lock);
		pthread_join(f->thread, NULL);
	}
	stat_disconnect(&f->link);
	feed_sample_release(&f->sample);
	pthread_cond_destroy(&f->woken);
	mutex_destroy(&f->lock);
	if (f->event >= 0)
		close(f->event);
	free(f->dir);
	free(f);
}

int feed_fd(const struct feed *f)
{
	return f->event;
}

bool feed_take(struct feed *f, struct sample *out)
{
	eventfd_t ignored;
	bool fresh;

	eventfd_read(f->event, &ignored);
	mutex_lock(&f->lock);
	fresh = f->fresh;
	if (fresh)
		*out = f->sample;
	if (fresh)
		f->sample = (struct sample){ 0 };
	f->fresh = false;
	mutex_unlock(&f->lock);
	return fresh;
}

void feed_pause(struct feed *f, bool pause)
{
	mutex_lock(&f->lock);
	f->paused = pause;
	pthread_cond_signal(&f->woken);
	mutex_unlock(&f->lock);
}
