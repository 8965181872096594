/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/backoff.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "replica/follower_state.h"
#include "rundir/readonly.h"
#include "rundir/rundir.h"
#include "saved/saved_model.h"

/* The time to wait for the source: at first, and when connecting again. A lost source is tried
 * again after RETRY_FIRST, and after twice the time with each failure, at most RETRY_LAST. */
#define PATIENCE_FIRST (30 * NSEC_PER_SEC)
#define PATIENCE       (3 * NSEC_PER_SEC)
#define RETRY_FIRST    (NSEC_PER_SEC / 2)
#define RETRY_LAST     (10 * NSEC_PER_SEC)

/* ---- the source ---- */

bool follower_can_follow(const char *where)
{
	struct stat st;

	if (stat(where, &st))
		return false;
	return S_ISDIR(st.st_mode) ? rundir_is_serving(where) : !saved_model_is_named(where);
}

static enum err_code load_source_identity(const char *where, struct identity *out, struct err *e)
{
	struct stat st;

	if (stat(where, &st))
		return err_sys(e, ERR_NOTFOUND, "--read-only %s", where);
	if (!S_ISDIR(st.st_mode))
		return identity_from_join(where, out, e);
	return identity_from_run(where, "admin", out, e);
}

static enum err_code connect_source(struct follower *m, int64_t patience,
    const struct interrupt *interrupt, struct err *e)
{
	enum err_code rc = tool_open(&m->id, "auto", patience, interrupt, m->log, &m->tool, e);

	m->connected = !rc;
	for (size_t i = 0; i < m->ntables; i++)
		m->table[i].based = false;
	return rc;
}

static void disconnect_source(struct follower *m)
{
	if (m->connected)
		tool_close(&m->tool);
	m->connected = false;
}

static void begin_followed_table(const struct table *t, struct follower_table *out)
{
	*out = (struct follower_table){ .sparse = t->sparse,
		.rows = t->rows,
		.cols = t->cols,
		.nparts = t->nparts,
		.here = -1,
		.since = CLIENT_ALL };
	snprintf(out->name, sizeof out->name, "%s", t->name);
}

static enum err_code begin_followed_tables(struct follower *m, struct err *e)
{
	const struct layout *l = client_layout(m->tool.client);

	m->generation = l->generation;
	m->table = mem_array(l->ntables + 1, sizeof *m->table);
	for (size_t i = 0; i < l->ntables; i++) {
		const struct table *t = &l->table[i];
		struct follower_table *x = &m->table[m->ntables];

		if (t->dropped)
			continue;
		begin_followed_table(t, x);
		m->ntables++;
		if (t->sparse)
			continue;
		x->w = mem_try_array(table_elements(t), sizeof *x->w);
		x->version = mem_try_array(t->nparts, sizeof *x->version);
		if (!x->w || !x->version)
			return err_set(e, ERR_NOMEM, "no memory for table \"%s\"", t->name);
	}
	return ERR_OK;
}

enum err_code follower_open(const char *where, const struct interrupt *interrupt, struct log *log,
    struct follower **out, struct err *e)
{
	struct follower *m = mem_alloc(sizeof *m);
	enum err_code rc;

	m->log = log;
	m->end.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = m->end.fd < 0 ? err_sys(e, ERR_IO, "eventfd") : load_source_identity(where, &m->id, e);
	if (!rc)
		rc = connect_source(m, PATIENCE_FIRST, interrupt, e);
	if (!rc)
		rc = begin_followed_tables(m, e);
	*out = m;
	return rc;
}

enum err_code follower_prepare(struct follower *m, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, char **from, struct err *e)
{
	enum err_code rc = readonly_prepare(m->tool.view->config, sets, nsets, conf, dir, lock, e);
	char *under = rc ? NULL : path_absolute(*dir),
	     *checkpoints = rc ? NULL : rundir_path(under, "checkpoints");

	m->last = clock_now();
	if (!rc && conf_is_named(conf->serve_if))
		rc = quality_open(conf->serve_if, &m->id, &m->quality, e);
	if (!rc)
		rc = follower_save(m, checkpoints, from, e);
	free(checkpoints);
	free(under);
	/* The thread makes a connection of its own. */
	disconnect_source(m);
	return rc;
}

/* ---- the thread ---- */

/* Wait for ns, or until the source sends a view, or follower_close is called. */
static void wait_for_source(const struct follower *m, int64_t ns)
{
	struct pollfd p[2] = { { m->end.fd, POLLIN, 0 },
		{ m->connected ? cluster_view_fd(m->tool.cluster) : -1, POLLIN, 0 } };

	if (ns > 0 && poll(p, 2, clock_poll_timeout(ns)) < 0 && errno != EINTR)
		abort();
}

/* May values be taken over now? Says once that they may not, and once that they may again. */
static bool is_good_enough(struct follower *m)
{
	char why[160];
	bool good = quality_is_good(m->quality, why, sizeof why);

	if (!good && !m->held)
		log_warn(m->log, "%s: serving the parameters of %.1f s ago until it is met", why,
		    (double)(clock_now() - m->last) / NSEC_PER_SEC);
	else if (good && m->held)
		log_info(m->log, "serve_if is met again: taking over new parameters");
	if (good == m->held)
		m->target.held(m->target.server, !good);
	m->held = !good;
	return good;
}

static enum err_code poll_source(struct follower *m, struct err *e)
{
	struct shard *shard = m->target.shard(m->target.server);
	int64_t begin = clock_now();
	enum err_code rc = m->connected ? tool_update(&m->tool, e)
	                                : connect_source(m, PATIENCE, &m->end, e);

	if (!rc && m->tool.view->ended)
		rc = err_set(e, ERR_STOPPED, "it has ended");
	if (rc || !shard || !follower_has_tables(m, shard) || !is_good_enough(m))
		return rc;
	rc = follower_update(m, shard, e);
	if (!rc) {
		m->last = begin;
		m->target.as_of(m->target.server, begin);
		log_debug(m->log, "checked the source in %.1f ms",
		    (double)(clock_now() - begin) / NSEC_PER_MSEC);
	}
	return rc;
}

static void log_source_state(struct follower *m, const struct err *why)
{
	if (why && !m->lost)
		log_warn(m->log, "cannot read the source: %s; serving the parameters of %.1f s ago",
		    why->msg, (double)(clock_now() - m->last) / NSEC_PER_SEC);
	else if (!why && m->lost)
		log_info(m->log, "the source can be read again");
	m->lost = why;
}

static void *run_follower(void *ctx)
{
	struct follower *m = ctx;
	struct backoff retry = { .least = RETRY_FIRST, .most = RETRY_LAST };

	backoff_reset(&retry);
	while (!interrupt_came(&m->end)) {
		int64_t begin = clock_now(), took;
		struct err e;

		if (!poll_source(m, &e)) {
			log_source_state(m, NULL);
			backoff_reset(&retry);
			/* Spare the source: with a large model, pull for at most half of the
			 * time. */
			took = clock_now() - begin;
			wait_for_source(m, m->fresh - took > took ? m->fresh - took : took);
			continue;
		}
		if (interrupt_came(&m->end))
			break;
		log_source_state(m, &e);
		disconnect_source(m);
		wait_for_source(m, backoff_next(&retry));
	}
	disconnect_source(m);
	return NULL;
}

enum err_code follower_start(struct follower *m, const struct follower_target *target,
    int64_t fresh, struct err *e)
{
	sigset_t all, before;
	int fault;

	m->target = *target;
	m->fresh = fresh;
	target->as_of(target->server, m->last);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	fault = pthread_create(&m->thread, NULL, run_follower, m);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	m->running = !fault;
	errno = fault;
	return fault ? err_sys(e, ERR_NOMEM, "cannot start a thread") : ERR_OK;
}

void follower_close(struct follower *m)
{
	uint64_t one = 1;

	if (!m)
		return;
	if (m->running && write(m->end.fd, &one, sizeof one) == sizeof one)
		pthread_join(m->thread, NULL);
	disconnect_source(m);
	quality_close(m->quality);
	identity_release(&m->id);
	for (size_t i = 0; i < m->ntables; i++) {
		free(m->table[i].w);
		free(m->table[i].version);
	}
	free(m->table);
	if (m->end.fd >= 0)
		close(m->end.fd);
	free(m);
}
