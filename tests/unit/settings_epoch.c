/* SPDX-License-Identifier: ISC */
/* Settings that hold from a step on: one mode ends and another begins, another rule takes
 * over what it knows, and a server without room says so. */
#include <math.h>

#include "shard_fixture.h"

#include "shard/settings_epoch.h"

static struct settings_epoch with(struct world *x, uint32_t number, uint64_t step, const char *mode,
    const char *rule, float lr)
{
	struct settings_epoch r = { .step = step, .number = number, .rule = optim_find(rule) };

	sync_parse(mode, &r.mode, NULL);
	r.rule->defaults(&r.hyper);
	r.hyper.lr = lr;
	schedule_parse("constant", &r.schedule, NULL);
	shard_add_epoch(x->shard, &r);
	shard_end_vote(x->shard);
	return r;
}

static void rate(void)
{
	struct world x;
	float w;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	w = pull_w(&x, 0);
	with(&x, 1, 1, "bsp", "sgd", 0.5f);
	step_of(&x, 0, 0, 1, 1);
	step_of(&x, 1, 0, 1, 1);
	ok(pull_w(&x, 1) == w - 1, "the step before goes by what was");
	step_of(&x, 0, 1, 1, 1);
	step_of(&x, 1, 1, 1, 1);
	ok(pull_w(&x, 2) == w - 1.5f, "and this one by what is set");
	world_close(&x);
}

static void from_bsp_and_back(void)
{
	struct receipt r;
	struct world x;
	float w;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	w = pull_w(&x, 0);
	with(&x, 1, 1, "asp", "sgd", 1);
	with(&x, 2, 3, "bsp", "sgd", 1);
	ok(push_w(&x, 0, 0, 1, 1, &r) == SHARD_OK && r.status == PUSH_MERGED &&
	        clock_of(&x, 0, 0, 1) == SHARD_OK,
	    "bsp: a push is merged");
	ok(!shard_may_pull(x.shard, 1) && push_w(&x, 0, 1, 1, 1, &r) == SHARD_WAIT,
	    "the next mode waits for the step's end");
	step_of(&x, 1, 0, 1, 1);
	ok(shard_may_pull(x.shard, 1) && pull_w(&x, 1) == w - 1, "then it begins");
	ok(push_w(&x, 0, 1, 1, 1, &r) == SHARD_OK && r.status == PUSH_APPLIED &&
	        pull_w(&x, 1) == w - 2,
	    "asp: applied at once");
	ok(clock_of(&x, 0, 1, 1) == SHARD_OK && clock_of(&x, 0, 2, 1) == SHARD_OK, "one is ahead");
	ok(clock_of(&x, 0, 3, 1) == SHARD_WAIT && !shard_may_pull(x.shard, 3),
	    "up to where bsp begins again");
	ok(push_w(&x, 1, 1, 1, 1, &r) == SHARD_OK && r.status == PUSH_APPLIED,
	    "the other pushes what it still has");
	ok(clock_of(&x, 1, 2, 0) == SHARD_OK && shard_may_pull(x.shard, 3),
	    "and goes on to that step");
	ok(step_of(&x, 0, 3, 1, 1) && pull_w(&x, 3) == w - 3 && step_of(&x, 1, 3, 1, 3),
	    "bsp: merged");
	ok(pull_w(&x, 4) == w - 5, "as a mean");
	ok(push_w(&x, 1, 2, 1, 1, &r) == SHARD_OK && r.status == PUSH_DUPLICATE,
	    "what was passed over is not taken again");
	world_close(&x);
}

/* It was not there when the modes changed: CLOCKs of later steps are all that it hears. */
/* A job whose settings were changed before it began: its servers know of the change before they know a
 * worker. */
/* Settings that others replace at the same step hold at none. A replica that got its state before that
 * step went over the steps without pushes up to it, and no further. */
static void replaced_at_once(void)
{
	struct world x;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	with(&x, 1, 5, "ssp:1", "sgd", 1);
	ok(settings_epoch_sums_end(x.shard, 2) == 5, "sums end where ssp begins");
	with(&x, 2, 5, "bsp", "sgd", 1);
	ok(settings_epoch_sums_end(x.shard, 2) == SYNC_NEVER,
	    "not when bsp replaces it at the same step");
	with(&x, 3, 9, "asp", "sgd", 1);
	ok(settings_epoch_sums_end(x.shard, 2) == 9, "but at a later one that stays");
	world_close(&x);
}

static void before_the_first_worker(void)
{
	struct receipt r;
	struct world x;

	world_open(&x, "bsp", false, "sgd", 1, 0);
	with(&x, 1, 0, "ssp:2", "sgd", 1);
	shard_advance(x.shard);
	admit(x.shard, 0, inc_of(0), 0);
	admit(x.shard, 1, inc_of(1), 0);
	ok(shard_may_pull(x.shard, 0) && push_w(&x, 0, 0, 1, 1, &r) == SHARD_OK &&
	        r.status == PUSH_APPLIED && clock_of(&x, 0, 0, 1) == SHARD_OK &&
	        shard_may_pull(x.shard, 1),
	    "the mode is changed when the workers are known");
	world_close(&x);
}

static void late_comer(void)
{
	struct world x;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	with(&x, 1, 10, "asp", "sgd", 1);
	with(&x, 2, 20, "bsp", "sgd", 1);
	for (int i = 0; i < 3; i++) {
		clock_of(&x, 0, 40, 1);
		clock_of(&x, 1, 40, 1);
	}
	ok(shard_may_pull(x.shard, 20), "a server that comes later follows");
	world_close(&x);
}

static void another_rule(void)
{
	struct world x, y;
	float w;

	world_open(&x, "bsp", false, "adam", 0.1f, 1);
	world_open(&y, "bsp", false, "sgd", 0.1f, 1);
	with(&y, 1, 2, "bsp", "adam", 0.1f);
	step_of(&y, 0, 0, 1, 0);
	step_of(&y, 0, 1, 1, 0);
	w = pull_w(&x, 0);
	ok(pull_w(&y, 2) == w, "the same values");
	for (uint64_t i = 0; i < 5; i++) {
		step_of(&x, 0, i, 1, 1 + (float)i);
		step_of(&y, 0, i + 2, 1, 1 + (float)i);
	}
	ok(pull_w(&x, 5) == pull_w(&y, 7), "adam that came later counts its steps from there");
	with(&x, 1, 5, "bsp", "adamw", 0.1f);
	with(&y, 2, 7, "bsp", "adamw", 0.1f);
	step_of(&x, 0, 5, 1, 1);
	step_of(&y, 0, 7, 1, 1);
	ok(pull_w(&x, 6) == pull_w(&y, 8), "adamw goes on with what adam kept");
	world_close(&x);
	world_close(&y);
}

static void rows_too(void)
{
	struct receipt r;
	struct world x;
	float w;

	world_open(&x, "asp", false, "sgd", 1, 1);
	push_row(&x, 0, 0, 1, 5, 0, &r);
	w = pull_row(&x, 1, 5);
	with(&x, 1, 1, "asp", "adagrad", 1);
	push_row(&x, 0, 1, 1, 5, 2, &r);
	ok(fabsf(pull_row(&x, 2, 5) - (w - 1)) < 0.05f,
	    "a row that was there has the new rule's state");
	push_row(&x, 0, 2, 1, 6, 2, &r);
	ok(r.status == PUSH_APPLIED, "and so has one that is new");
	world_close(&x);
}

/* Rules of single tables: the dense table goes on by the job's, the sparse one by its own. */
static void rule_of_a_table(void)
{
	struct settings_epoch r = { .step = 1, .number = 1, .rule = optim_find("sgd") };
	struct receipt got;
	struct world x;
	float w, row;

	world_open(&x, "asp", false, "sgd", 1, 1);
	push_row(&x, 0, 0, 1, 5, 0, &got);
	w = pull_w(&x, 1);
	row = pull_row(&x, 1, 5);
	sync_parse("asp", &r.mode, NULL);
	schedule_parse("constant", &r.schedule, NULL);
	r.rule->defaults(&r.hyper);
	r.hyper.lr = 0.25f;
	r.tables.n = 1;
	snprintf(r.tables.of[0].pattern, sizeof r.tables.of[0].pattern, "ro?s");
	r.tables.of[0].rule = optim_find("adagrad");
	r.tables.of[0].rule->defaults(&r.tables.of[0].hyper);
	r.tables.of[0].hyper.lr = 1;
	shard_add_epoch(x.shard, &r);
	shard_end_vote(x.shard);
	push_row(&x, 0, 1, 1, 5, 4, &got);
	ok(fabsf(pull_row(&x, 2, 5) - (row - 1)) < 1e-5f, "the table has the rule of its pattern");
	push_w(&x, 0, 1, 1, 4, &got);
	ok(pull_w(&x, 2) == w - 1, "and the other one that of the job");
	world_close(&x);
}

/* Pushes of gradients that were computed from version 0, whatever was made since. */
static void stale_pushes(void)
{
	struct receipt r;
	struct world x;
	float w;

	world_open(&x, "asp:scaled", false, "sgd", 1, 1);
	w = pull_w(&x, 0);
	push_w(&x, 0, 0, 1, 1, &r);
	push_w(&x, 0, 1, 1, 1, &r);
	ok(pull_w(&x, 2) == w - 2, "staleness 0 and 1: the learning rate as it is");
	push_w(&x, 0, 2, 1, 1, &r);
	ok(r.staleness == 2 && pull_w(&x, 3) == w - 2.5f, "staleness 2: half of it");
	world_close(&x);
}

static bool is_near(float x, float wanted)
{
	return fabsf(x - wanted) < 1e-5f;
}

/* Gradients of 1, for whose delay the server makes up: by lambda g g (now - then), with the square divided by
 * its root mean square in dca. One version is kept here, so `then` is never older than the one before. */
static void compensated_pushes(void)
{
	struct receipt r;
	struct world x;
	float w;

	world_open(&x, "asp:dc:0.5", false, "sgd", 1, 1);
	w = pull_w(&x, 0);
	push_w(&x, 0, 0, 1, 1, &r);
	ok(is_near(pull_w(&x, 1), w - 1), "dc: a push that is not stale stays as it is");
	push_w(&x, 0, 1, 1, 1, &r);
	ok(is_near(pull_w(&x, 2), w - 1.5f), "staleness 1: 1 - 0.5 * 1");
	push_w(&x, 0, 2, 1, 1, &r);
	ok(r.staleness == 2 && is_near(pull_w(&x, 3), w - 2.25f),
	    "a version that is not kept: from the oldest one, 1 - 0.5 * 0.5");
	world_close(&x);
	world_open(&x, "asp:dca:0.1", false, "sgd", 1, 1);
	w = pull_w(&x, 0);
	push_w(&x, 0, 0, 1, 1, &r);
	push_w(&x, 0, 1, 1, 1, &r);
	ok(is_near(pull_w(&x, 2), w - 1 - (1 - 0.1f / sqrtf(0.95f * 0.05f + 0.05f))),
	    "dca: the constant over the root mean square of both gradients");
	world_close(&x);
}

/* One large table, held by a server or on its way from there to us; and adam, which is asked about. */
static struct settings_epoch adam_for(struct world *x, uint64_t mem_limit, uint16_t holder)
{
	struct shard_config cfg = { .rule = optim_find("sgd"),
		.wake = count_wake,
		.mem_limit = mem_limit,
		.ctx = x };
	struct settings_epoch r = { .number = 1, .rule = optim_find("adam") };

	sync_parse("asp", &cfg.mode, NULL);
	sync_parse("asp", &r.mode, NULL);
	cfg.rule->defaults(&cfg.hyper);
	schedule_parse("constant", &cfg.schedule, NULL);
	add_table(x, "big", false, BIG_N, 1);
	layout_place(&x->layout, &holder, 1, 1);
	for (size_t k = 0; holder && k < x->layout.table[0].nruns; k++)
		x->layout.table[0].run[k].joining = 0;
	if (shard_new(&cfg, &x->shard, NULL) || shard_install(x->shard, &x->layout, NULL, NULL))
		abort();
	return r;
}

static void room(void)
{
	struct world x = { 0 };
	struct settings_epoch r = adam_for(&x, (uint64_t)BIG_N * 4 * 4, 0);
	struct err e = { 0 };

	ok(shard_fits_epoch(x.shard, &r, &e) == ERR_OK, "adam has room");
	sync_parse("bsp", &r.mode, NULL);
	ok(shard_fits_epoch(x.shard, &r, &e) == ERR_CONFIG && strstr(e.msg, "mem_limit"),
	    "and what bsp sums in beside it has not");
	sync_parse("asp:scaled", &r.mode, NULL);
	ok(shard_fits_epoch(x.shard, &r, &e) == ERR_OK, "a smaller rate takes no room");
	sync_parse("asp:dc", &r.mode, NULL);
	ok(shard_fits_epoch(x.shard, &r, &e) == ERR_CONFIG && strstr(e.msg, "mem_limit"),
	    "and past values do");
	world_close(&x);
}

/* A partition that is still on its way here, when a setting is asked about. */
static void room_of_what_comes(void)
{
	struct world x = { 0 };
	struct settings_epoch r = adam_for(&x, 0, 1);
	struct err e = { 0 };

	ok(shard_fits_epoch(x.shard, &r, &e) == ERR_OK,
	    "what is still to come takes no part in it");
	world_close(&x);
}

/* Many changes, one for each step. An epoch is freed when no step needs it, except for the last
 * ones. */
static void epochs_are_freed(void)
{
	struct world x;
	unsigned held = 0;
	float w;

	world_open(&x, "bsp", false, "sgd", 1, 1);
	step_of(&x, 0, 0, 1, 1);
	w = pull_w(&x, 1);
	for (unsigned i = 1; i <= 300; i++) {
		with(&x, i, i, "bsp", "sgd", i % 2 ? 0.5f : 0.25f);
		step_of(&x, 0, i, 1, 1);
		if (settings_epochs_held(x.shard) > held)
			held = settings_epochs_held(x.shard);
	}
	ok(held <= 66, "at most %u of 301 epochs were in memory at once", held);
	ok(fabsf(pull_w(&x, 301) - (w - 150 * 0.75f)) < 1e-3f, "and each step had its own rate");
	world_close(&x);
}

/* As many changes are decided while one step is open: it keeps its epoch, and so does each step to
 * come. */
static void open_step_keeps_its_epoch(void)
{
	struct world x;
	float w, expected;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	expected = w = pull_w(&x, 0);
	for (unsigned i = 1; i <= 200; i++)
		with(&x, i, i, "bsp", "sgd", i % 2 ? 0.5f : 0.25f);
	ok(settings_epochs_held(x.shard) == 201, "no epoch is freed while step 0 is open: %u",
	    settings_epochs_held(x.shard));
	for (uint64_t step = 0; step <= 200; step++) {
		step_of(&x, 0, step, 1, 1);
		step_of(&x, 1, step, 1, 1);
		expected -= !step ? 1 : step % 2 ? 0.5f : 0.25f;
	}
	ok(fabsf(pull_w(&x, 201) - expected) < 1e-3f, "each step has been applied by its own");
	with(&x, 201, 201, "bsp", "sgd", 1);
	ok(settings_epochs_held(x.shard) <= 66, "then they are freed: %u are left",
	    settings_epochs_held(x.shard));
	world_close(&x);
}

/* The slowest worker of asp has a step open, too; and a mode that the gate has yet to reach is
 * kept. */
static void slow_worker_keeps_epochs(void)
{
	struct receipt r;
	struct world x;
	float w, row;

	world_open(&x, "asp", false, "sgd", 1, 2);
	push_row(&x, 0, 0, 1, 5, 0, &r);
	row = pull_row(&x, 0, 5);
	clock_of(&x, 0, 100, 1);
	clock_of(&x, 1, 4, 1);
	for (unsigned i = 1; i <= 200; i++)
		with(&x, i, i, "asp", "sgd", i == 5 ? 0.5f : 0.25f);
	ok(settings_epochs_held(x.shard) > 190, "the epochs since the slowest worker's step: %u",
	    settings_epochs_held(x.shard));
	w = pull_w(&x, 5);
	ok(push_w(&x, 1, 5, 1, 1, &r) == SHARD_OK && pull_w(&x, 5) == w - 0.5f,
	    "its push is applied by the one of its step");
	clock_of(&x, 1, 300, 1);
	clock_of(&x, 0, 300, 1);
	with(&x, 201, 301, "asp", "sgd", 2);
	ok(settings_epochs_held(x.shard) <= 66, "then they are freed: %u are left",
	    settings_epochs_held(x.shard));
	push_row(&x, 0, 301, 1, 5, 1, &r);
	ok(r.status == PUSH_APPLIED && pull_row(&x, 301, 5) == row - 2,
	    "a partition goes on from an epoch of long ago");
	world_close(&x);
}

int main(void)
{
	rate();
	from_bsp_and_back();
	replaced_at_once();
	before_the_first_worker();
	late_comer();
	another_rule();
	rows_too();
	rule_of_a_table();
	stale_pushes();
	compensated_pushes();
	room();
	room_of_what_comes();
	epochs_are_freed();
	open_step_keeps_its_epoch();
	slow_worker_keeps_epochs();
	return tap_done();
}
