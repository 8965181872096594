/* SPDX-License-Identifier: ISC */
#include "serving/served.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/lock.h"
#include "core/mem.h"
#include "core/thread.h"
#include "serving/origin.h"

/* The time between two looks at the origin. */
#define LOOK (NSEC_PER_SEC / 5)

struct served_reader {
	struct served *served;
	struct served_model *now; /* of the reader's thread */
	/* Handed over and not taken yet; NULL: none. Set by the watcher, under the lock. */
	_Atomic(struct served_model *) next;
	void (*wake)(void *ctx);
	void *ctx;
	struct served_reader *after; /* in the list */
};

/* The tables that a model must have to take the place of another one. */
struct form_table {
	char name[TABLE_NAME];
	bool sparse;
	uint32_t cols;
};

struct form {
	/* They recognize the same model in another place. */
	char version[sizeof((struct served_model *)0)->version];
	int64_t made;
	char *kind; /* of the model, as "logistic"; "": it has no job */
	struct form_table *table;
	size_t ntables;
};

struct served {
	struct served_origin *origin;
	struct log *log;
	int wake; /* an eventfd: the watcher has something to do */
	pthread_t watcher;
	bool watching;
	/* One thread at a time opens models. */
	struct mutex opening;
	uint64_t number;  /* of the model that is served; under `opening`, as `form` */
	struct form form; /* its form */

	struct mutex lock; /* of all that follows */
	struct served_reader *readers;
	struct served_model *retired;
	struct served_stats stats;
	bool end, forced;
};

/* ---- models ---- */

/* Another thread uses the model from now on. */
static void hand_over_model(struct served_model *m)
{
	if (m->origin->ops->hand_over)
		m->origin->ops->hand_over(m);
}

static void close_model(struct served_model *m)
{
	if (!m)
		return;
	hand_over_model(m);
	if (m->scores)
		score_close(&m->scoring);
	if (m->origin->ops->close)
		m->origin->ops->close(m);
	else if (m->source && m->source->ops->close)
		m->source->ops->close(m->source);
	free(m);
}

/* Prepares to score. A model that predicts nothing is served for look-ups all the same. */
static enum err_code open_scoring(struct served_model *m, struct log *log, struct err *e)
{
	struct tool_model tool = { .source = m->source, .log = log };
	enum err_code rc = score_open(&tool, false, false, -1, &m->scoring, e);

	if (rc == ERR_UNSUPPORTED) {
		m->why_not = *e;
		return ERR_OK;
	}
	if (!rc && dataset_words(m->scoring.job.train)) {
		err_set(&m->why_not, ERR_UNSUPPORTED, "model word2vec predicts nothing");
		score_close(&m->scoring);
		return ERR_OK;
	}
	m->scores = !rc;
	return rc;
}

static enum err_code open_model(struct served *s, bool check, struct served_model **out,
    struct err *e)
{
	struct served_model *m = mem_alloc(sizeof *m);
	enum err_code rc;

	m->origin = s->origin;
	rc = s->origin->ops->open(s->origin, check, m, e);
	if (!rc)
		rc = open_scoring(m, s->log, e);
	hand_over_model(m);
	if (rc) {
		close_model(m);
		m = NULL;
	}
	*out = m;
	return rc;
}

/* ---- the form of a model, which a new one must have, too ---- */

static struct form form_of(const struct served_model *m)
{
	const struct layout *l = m->source->ops->layout(m->source);
	const json_t *job = json_object_get(m->source->config, "job");
	const char *kind = json_string_value(json_object_get(job, "model"));
	struct form f = { .kind = mem_strdup(kind ? kind : ""),
		.made = m->made,
		.table = mem_array(l->ntables + 1, sizeof *f.table) };

	memcpy(f.version, m->version, sizeof f.version);
	for (size_t i = 0; i < l->ntables; i++) {
		const struct table *t = &l->table[i];
		struct form_table *x = &f.table[f.ntables];

		if (t->dropped)
			continue;
		*x = (struct form_table){ .sparse = t->sparse, .cols = t->cols };
		snprintf(x->name, sizeof x->name, "%s", t->name);
		f.ntables++;
	}
	return f;
}

static void form_release(struct form *f)
{
	free(f->kind);
	free(f->table);
	*f = (struct form){ 0 };
}

/* May a model take the place of one of this form? It must be of the same kind, and have the same
 * tables. The number of rows of a table may differ, because new training data may have more
 * features. */
static enum err_code check_form(const struct form *f, const struct served_model *m, struct err *e)
{
	const struct layout *l = m->source->ops->layout(m->source);
	struct form g = form_of(m);
	enum err_code rc = ERR_OK;

	if (strcmp(f->kind, g.kind) != 0)
		rc = err_set(e, ERR_CONFIG, "it is of model \"%s\", and the served one of \"%s\"",
		    g.kind, f->kind);
	for (size_t i = 0; !rc && i < f->ntables; i++) {
		const struct form_table *x = &f->table[i];
		const struct table *t = layout_find(l, x->name);

		if (!t || t->dropped || t->sparse != x->sparse || t->cols != x->cols)
			rc = err_set(e, ERR_CONFIG,
			    t ? "its table \"%s\" has another shape than that of the served one"
			      : "it lacks table \"%s\", which the served one has",
			    x->name);
	}
	form_release(&g);
	return rc;
}

/* ---- readers ---- */

/* Are these the values that are served already? Other files of a run directory have changed. */
static bool is_served(const struct served *s, const struct served_model *m)
{
	return m->made == s->form.made && strcmp(m->version, s->form.version) == 0;
}

struct served *served_new(struct served_origin *origin, struct log *log)
{
	struct served *s = mem_alloc(sizeof *s);

	*s = (struct served){ .origin = origin, .log = log };
	s->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	mutex_init(&s->opening, LOCK_SERVED_OPENING);
	mutex_init(&s->lock, LOCK_SERVED);
	return s;
}

enum err_code served_reader_open(struct served *s, void (*wake)(void *ctx), void *ctx,
    struct served_reader **out, struct err *e)
{
	struct served_reader *r = mem_alloc(sizeof *r);
	bool newer = false;
	enum err_code rc;

	*out = NULL;
	*r = (struct served_reader){ .served = s, .wake = wake, .ctx = ctx };
	mutex_lock(&s->opening);
	rc = open_model(s, true, &r->now, e);
	if (!rc) {
		/* A reader that comes later may find a model that the watcher has not seen. */
		newer = s->number && !is_served(s, r->now);
		if (!s->number) {
			s->number = 1;
			s->form = form_of(r->now);
		}
		r->now->number = s->number;
		mutex_lock(&s->lock);
		r->after = s->readers;
		s->readers = r;
		mutex_unlock(&s->lock);
		*out = r;
	} else {
		free(r);
	}
	mutex_unlock(&s->opening);
	if (newer)
		served_look(s);
	return rc;
}

static void wake_watcher(struct served *s)
{
	uint64_t one = 1;

	if (write(s->wake, &one, sizeof one) < 0) {
		/* It is awake already. */
	}
}

static void retire_model(struct served *s, struct served_model *m)
{
	mutex_assert_held(&s->lock);
	m->next = s->retired;
	s->retired = m;
}

struct served_model *served_use(struct served_reader *r)
{
	struct served *s = r->served;

	if (!atomic_load_explicit(&r->next, memory_order_acquire))
		return r->now;
	mutex_lock(&s->lock);
	retire_model(s, r->now);
	r->now = atomic_load(&r->next);
	atomic_store(&r->next, NULL);
	mutex_unlock(&s->lock);
	wake_watcher(s);
	return r->now;
}

void served_reader_close(struct served_reader *r)
{
	struct served_reader **at;
	struct served *s;

	if (!r)
		return;
	s = r->served;
	mutex_lock(&s->lock);
	for (at = &s->readers; *at != r; at = &(*at)->after)
		;
	*at = r->after;
	mutex_unlock(&s->lock);
	close_model(r->now);
	close_model(atomic_load(&r->next));
	free(r);
}

/* ---- the watcher ---- */

static void close_retired(struct served *s)
{
	struct served_model *m, *next;

	mutex_lock(&s->lock);
	m = s->retired;
	s->retired = NULL;
	mutex_unlock(&s->lock);
	for (; m; m = next) {
		next = m->next;
		close_model(m);
	}
}

static size_t count_readers(struct served *s)
{
	size_t n = 0;

	mutex_lock(&s->lock);
	for (struct served_reader *r = s->readers; r; r = r->after)
		n++;
	mutex_unlock(&s->lock);
	return n;
}

/* Hands a model to each reader. One that has not taken the model before has it replaced. Models
 * that are left over, because a reader was closed meanwhile, are retired. */
static void hand_over(struct served *s, struct served_model **m, size_t n)
{
	mutex_lock(&s->lock);
	for (struct served_reader *r = s->readers; r && n; r = r->after) {
		struct served_model *before = atomic_load(&r->next);

		atomic_store(&r->next, m[--n]);
		if (before)
			retire_model(s, before);
		if (r->wake)
			r->wake(r->ctx);
	}
	while (n)
		retire_model(s, m[--n]);
	mutex_unlock(&s->lock);
}

/* Opens the new model once for each reader. The first one is checked. */
static enum err_code open_for_readers(struct served *s, struct served_model **m, size_t n,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++) {
		rc = open_model(s, i == 0, &m[i], e);
		if (!rc)
			rc = check_form(&s->form, m[i], e);
		if (!rc)
			m[i]->number = s->number + 1;
		/* The name was given to yet another one meanwhile. */
		if (!rc && strcmp(m[i]->version, m[0]->version) != 0)
			rc = err_set(e, ERR_NOTREADY, "it is being replaced");
	}
	return rc;
}

static void note_taken(struct served *s, const char *version)
{
	mutex_lock(&s->lock);
	s->stats.taken++;
	mutex_unlock(&s->lock);
	log_info(s->log, "serving a new model, %s", version);
}

static void note_refused(struct served *s, const struct err *why)
{
	mutex_lock(&s->lock);
	s->stats.refused++;
	mutex_unlock(&s->lock);
	log_warn(s->log, "the new model is refused, and the present one is served on: %s",
	    why->msg);
}

/* Opens the new model for all readers and hands it over. Nothing is handed over if one of them
 * cannot be opened. */
static void take_new_model(struct served *s)
{
	size_t n = count_readers(s);
	struct served_model **m = mem_array(n + 1, sizeof *m);
	struct err e = { 0 };
	enum err_code rc;

	mutex_lock(&s->opening);
	rc = n ? open_for_readers(s, m, n, &e) : ERR_OK;
	if (rc)
		note_refused(s, &e);
	if (!rc && n && !is_served(s, m[0])) {
		form_release(&s->form);
		s->form = form_of(m[0]);
		s->number++;
		hand_over(s, m, n);
		note_taken(s, s->form.version);
		n = 0;
	}
	for (size_t i = 0; i < n; i++)
		close_model(m[i]);
	mutex_unlock(&s->opening);
	free(m);
}

/* Waits until it is time for a look, or for another reason to wake up. Returns whether to go on. */
static bool await_turn(struct served *s, bool *forced)
{
	struct pollfd p = { s->wake, POLLIN, 0 };
	uint64_t count;
	bool on;

	if (poll(&p, 1, clock_poll_timeout(LOOK)) > 0 && read(s->wake, &count, sizeof count) < 0) {
		/* Another call has read it. */
	}
	mutex_lock(&s->lock);
	on = !s->end;
	*forced = s->forced;
	s->forced = false;
	mutex_unlock(&s->lock);
	return on;
}

/* Is there another model? Not while another thread opens one. */
static bool origin_has_changed(struct served *s, bool forced)
{
	bool changed;

	if (!s->origin->ops->has_changed)
		return false;
	mutex_lock(&s->opening);
	changed = s->origin->ops->has_changed(s->origin, forced);
	mutex_unlock(&s->opening);
	return changed;
}

static void *watch_origin(void *ctx)
{
	struct served *s = ctx;
	bool forced;

	while (await_turn(s, &forced)) {
		close_retired(s);
		if (origin_has_changed(s, forced))
			take_new_model(s);
	}
	return NULL;
}

enum err_code served_start(struct served *s, struct err *e)
{
	enum err_code rc = thread_start(&s->watcher, watch_origin, s, e);

	s->watching = !rc;
	return rc;
}

void served_look(struct served *s)
{
	mutex_lock(&s->lock);
	s->forced = true;
	mutex_unlock(&s->lock);
	wake_watcher(s);
}

void served_free(struct served *s)
{
	if (!s)
		return;
	mutex_lock(&s->lock);
	s->end = true;
	mutex_unlock(&s->lock);
	wake_watcher(s);
	if (s->watching)
		pthread_join(s->watcher, NULL);
	close_retired(s);
	form_release(&s->form);
	s->origin->ops->free(s->origin);
	mutex_destroy(&s->opening);
	mutex_destroy(&s->lock);
	close(s->wake);
	free(s);
}

/* ---- use ---- */

int64_t served_age(const struct served_model *m)
{
	return m->origin->ops->age(m->origin, m);
}

enum err_code served_predict(struct served_model *m, const struct dataset *d, predict_fn fn,
    void *ctx, struct err *e)
{
	bool constant = param_source_is_constant(m->source);
	int64_t now = clock_now();
	bool stale = !m->pulled || (!constant && now - m->pulled >= m->fresh);
	enum err_code rc;

	if (!m->scores) {
		if (e)
			*e = m->why_not;
		return m->why_not.code;
	}
	rc = evaluate_predict_now(&m->scoring.params, d, stale, fn, ctx, e);
	if (!rc && stale)
		m->pulled = now;
	return rc;
}

struct served_stats served_stats(struct served *s)
{
	struct served_stats stats;

	mutex_lock(&s->lock);
	stats = s->stats;
	mutex_unlock(&s->lock);
	return stats;
}
