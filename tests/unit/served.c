/* SPDX-License-Identifier: ISC */
/* The served model: how a new model takes the place of another one. */
#include "tap.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "serving/origin.h"

/* A source without values. `open` is 1 until it is closed. */
struct fake_source {
	struct param_source source; /* must be first */
	struct layout layout;
	int version;
	atomic_int open;
};

static atomic_int opened, closed;

static const struct layout *get_layout(const struct param_source *s)
{
	return &((const struct fake_source *)s)->layout;
}

static void close_source(struct param_source *s)
{
	struct fake_source *f = (struct fake_source *)s;

	atomic_store(&f->open, 0);
	closed++;
	layout_release(&f->layout);
	json_decref((json_t *)(uintptr_t)s->config);
	free(f);
}

static const struct param_source_ops ops = { .layout = get_layout, .close = close_source };

/* The next model, and whether there is one. */
struct fake_origin {
	struct served_origin origin; /* must be first */
	atomic_int version, served, cols, damaged;
};

static enum err_code open_model(struct served_origin *o, bool check, struct served_model *m,
    struct err *e)
{
	struct fake_origin *f = (struct fake_origin *)o;
	struct fake_source *s;
	struct table shape = { .rows = 2, .cols = (uint32_t)atomic_load(&f->cols) }, *made;

	(void)check;
	atomic_store(&f->served, atomic_load(&f->version));
	if (atomic_load(&f->damaged))
		return err_set(e, ERR_FORMAT, "it is damaged");
	s = mem_alloc(sizeof *s);
	s->source.ops = &ops;
	/* A model that its own program computes: nothing here can score it. */
	s->source.config = json_pack("{s:s, s:{s:s, s:s, s:i}}", "name", "fake", "job", "model",
	    "custom", "tables", "w:2x2", "examples", 1);
	snprintf(shape.name, sizeof shape.name, "w");
	if (layout_add(&s->layout, &shape, &made, e))
		abort();
	s->version = atomic_load(&f->version);
	atomic_store(&s->open, 1);
	opened++;
	m->source = &s->source;
	snprintf(m->version, sizeof m->version, "%d", atomic_load(&f->version));
	return ERR_OK;
}

static bool has_changed(struct served_origin *o, bool forced)
{
	struct fake_origin *f = (struct fake_origin *)o;

	return forced || atomic_load(&f->version) != atomic_load(&f->served);
}

static int64_t age(const struct served_origin *o, const struct served_model *m)
{
	(void)o;
	(void)m;
	return -1;
}

static void free_origin(struct served_origin *o)
{
	(void)o;
}

static const struct served_origin_ops origin_ops = { .open = open_model,
	.has_changed = has_changed,
	.age = age,
	.free = free_origin };
static struct fake_origin origin = { .origin.ops = &origin_ops, .version = 1, .cols = 2 };
static struct served *served;

/* A reader that always answers, from models that must be open. */
static atomic_bool stop, seen_closed;
static atomic_int newest;

static int version_of(const struct served_model *m)
{
	return ((const struct fake_source *)m->source)->version;
}

static void *read_on(void *ctx)
{
	struct served_reader *r = ctx;

	while (!atomic_load(&stop)) {
		struct served_model *m = served_use(r);

		if (atomic_load(&((struct fake_source *)m->source)->open) != 1)
			atomic_store(&seen_closed, true);
		atomic_store(&newest, version_of(m));
	}
	return NULL;
}

/* Waits until it is so, for 10 s at most. */
static bool awaits(bool (*is_so)(void))
{
	for (int i = 0; i < 1000 && !is_so(); i++)
		clock_sleep(10);
	return is_so();
}

static bool is_newest(void)
{
	return atomic_load(&newest) == atomic_load(&origin.version);
}

static bool is_refused(void)
{
	return served_stats(served).refused == 1;
}

static bool is_refused_again(void)
{
	return served_stats(served).refused == 2;
}

static bool all_but_three_are_closed(void)
{
	return atomic_load(&closed) == atomic_load(&opened) - 3;
}

int main(void)
{
	struct served_reader *a, *b, *late;
	struct served_model *m;
	struct log log;
	struct err e;
	pthread_t thread;

	log_init(&log, "test", 2, LOG_LEVEL_ERROR);
	served = served_new(&origin.origin, &log);
	if (!ok(served_reader_open(served, NULL, NULL, &a, &e) == ERR_OK, "a reader opens a model"))
		printf("# %s\n", e.msg);
	ok(served_reader_open(served, NULL, NULL, &b, &e) == ERR_OK, "and another one");
	m = served_use(b);
	ok(m->number == 1 && strcmp(m->version, "1") == 0, "both have model 1");
	ok(!m->scores && m->why_not.code == ERR_UNSUPPORTED, "which predicts nothing");
	ok(served_age(m) == -1, "and whose age is not known");
	atomic_store(&origin.version, 2);
	ok(served_reader_open(served, NULL, NULL, &late, &e) == ERR_OK &&
	        version_of(served_use(late)) == 2,
	    "a reader that comes later opens a newer model");
	ok(served_start(served, &e) == ERR_OK && pthread_create(&thread, NULL, read_on, a) == 0,
	    "the watcher starts, and a reader answers all the time");
	ok(awaits(is_newest), "the others get it, too");
	for (int i = 3; i < 6; i++) {
		atomic_store(&origin.version, i);
		ok(awaits(is_newest), "model %d takes the place of the one before", i);
		served_use(b);
		served_use(late);
	}
	m = served_use(b);
	ok(version_of(m) == 5 && m->number == 5, "the other reader has the newest one, too");
	ok(awaits(all_but_three_are_closed), "the old ones are closed");
	atomic_store(&origin.damaged, 1);
	atomic_store(&origin.version, 6);
	ok(awaits(is_refused), "a damaged one is refused");
	ok(atomic_load(&newest) == 5, "and the present one stays");
	atomic_store(&origin.damaged, 0);
	atomic_store(&origin.cols, 3);
	atomic_store(&origin.version, 7);
	ok(awaits(is_refused_again), "one of other tables is refused");
	atomic_store(&origin.cols, 2);
	atomic_store(&origin.version, 8);
	ok(awaits(is_newest) && served_stats(served).taken == 5, "the next good one is taken");
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	ok(!atomic_load(&seen_closed), "no reader has seen a closed model");
	served_reader_close(a);
	served_reader_close(b);
	served_reader_close(late);
	served_free(served);
	ok(atomic_load(&opened) == atomic_load(&closed), "all models are closed in the end");
	return tap_done();
}
