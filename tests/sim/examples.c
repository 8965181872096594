/* SPDX-License-Identifier: ISC */
#include "tests/sim/examples.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/control.h"
#include "tests/sim/parts.h"
#include "tests/sim/states.h"

int ps_work_main(int argc, char **argv);
int ledger_main(int argc, char **argv);

#define CHECK_SLOT 15

/* Each example has a feature of its own (ledger_examples.c), from FIRST_EXAMPLE on. Those that are to be read in
 * blocks also have common ones, which are 0 and change nothing, so that fewer examples need more memory than the
 * least that job.data_memory may be. */
#define FIRST_EXAMPLE 10000u
#define DATA          "examples.svm"
#define IN_BLOCKS     9600u
/* Events that a stream has before a worker begins, and virtual time in which the rest must be trained on after the war. */
#define HEAD        20u
#define STREAM_TIME (60 * SEC)
#define COMMON      " 1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0 11:0 12:0"

/* In a deterministic job examples in memory share their features, so that the bits depend on the order of sums. */
#define SHARED 40u
/* The kinds of deterministic jobs: by the number of workers, in memory and in blocks. */
#define KINDS (2 * (WORKERS_MAX + 1))

static struct {
	bool any, blocks, deterministic, stream;
	unsigned rows, batch, epochs;
	unsigned written; /* of the rows, in a stream */
	unsigned workers;
} g;

/* The digests of the models that undisturbed jobs of each kind had in the end; "": not known yet. */
static char undisturbed[KINDS][80];

void examples_leave_out(void)
{
	memset(&g, 0, sizeof g);
}

void examples_draw(bool needs_blocks)
{
	examples_leave_out();
	g.any = true;
	g.blocks = needs_blocks || sim_chance(30);
	g.epochs = g.blocks ? 1 : 1 + sim_below(2);
	g.batch = g.blocks ? 64 : 4 + sim_below(12);
	g.rows = g.blocks ? IN_BLOCKS : 500 + sim_below(500);
}

void examples_draw_deterministic(void)
{
	g.deterministic = true;
	g.epochs = 2 - g.blocks;
	g.batch = g.blocks ? 64 : 8;
	g.rows = g.blocks ? IN_BLOCKS : 400;
}

void examples_draw_stream(void)
{
	g.stream = true;
	g.blocks = false;
	g.epochs = 1;
	g.batch = 8 + sim_below(24);
	g.rows = 500 + sim_below(1000);
}

unsigned examples_lookahead(uint64_t seed)
{
	return g.any && !g.stream && seed / 9 % 2 ? 1 + (unsigned)(seed / 18 % 3) : 0;
}

bool examples_are_a_stream(void)
{
	return g.stream;
}

bool examples_are_deterministic(void)
{
	return g.deterministic;
}

bool examples_are_drawn(void)
{
	return g.any;
}

bool examples_are_in_blocks(void)
{
	return g.blocks;
}

/* ---- a stream ---- */

/* Writes the file as if its first n rows had been appended one after the other. The last line may lack its end. */
static void write_stream(unsigned n)
{
	static char text[IN_BLOCKS * 16];
	size_t len = 0;

	g.written = n < g.rows ? n : g.rows;
	for (unsigned i = 0; i < g.written; i++)
		len += (size_t)snprintf(text + len, sizeof text - len, "1 %u:1\n",
		    FIRST_EXAMPLE + i);
	if (g.written < g.rows && sim_chance(30))
		len -= 1 + sim_below(6);
	disk_put(DATA, text, len);
	sim_trace("judge      > the stream has %u of %u events", g.written, g.rows);
}

static void let_stream_grow(void *ctx)
{
	(void)ctx;
	if (scenario_is_peace() || g.written == g.rows)
		return;
	write_stream(g.written + 1 + sim_below(sim_chance(20) ? 300 : 40));
	event_at(sim_now + (1 + sim_below(60)) * MSEC, let_stream_grow, NULL);
}

void examples_begin(void)
{
	if (g.stream)
		let_stream_grow(NULL);
}

void examples_write_data(void)
{
	static char text[IN_BLOCKS * 64];
	size_t n = 0;

	if (g.stream) {
		write_stream(HEAD + 20);
		return;
	}
	for (unsigned i = 0; g.deterministic && !g.blocks && i < g.rows; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%u %u:%u.3 %u:0.%u\n", i % 7,
		    1 + i * 7 % SHARED, i % 3, 1 + (i * i + 3) % SHARED, 1 + i % 9);
	for (unsigned i = 0; (!g.deterministic || g.blocks) && i < g.rows; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "1%s %u:1\n",
		    g.blocks ? COMMON : "", FIRST_EXAMPLE + i);
	disk_put(DATA, text, n);
	sim_trace("judge      > %u examples in %s, %u epochs, batches of %u%s", g.rows,
	    g.blocks ? "blocks" : "memory", g.epochs, g.batch,
	    g.deterministic ? ", deterministic" : "");
}

void examples_job(char *out, size_t size)
{
	if (g.stream) {
		snprintf(out, size,
		    "{ \"model\": \"linear\", \"data\": \"" DATA
		    "?follow=yes&format=libsvm&head=%u\", \"batch\": %u, \"optimizer\": \"adagrad\", "
		    "\"lr\": 0.1, \"initial_accumulator\": 1, \"frozen\": \"b\" }",
		    HEAD, g.batch);
		return;
	}
	snprintf(out, size,
	    "{ \"model\": \"linear\", \"data\": \"" DATA
	    "\", \"data_memory\": \"1M\", \"cache\": \"none\", "
	    "\"epochs\": %u, \"batch\": %u, \"optimizer\": \"adagrad\", \"lr\": 0.1, "
	    "\"initial_accumulator\": 1, \"frozen\": \"b\" }",
	    g.epochs, g.batch);
}

struct proc *examples_start_worker(unsigned slot, const char *name, const char *rank,
    const char *zone)
{
	return proc_start(slot, name, ps_work_main,
	    (const char *[]){ "ps-work", "train", "-C", "c.run", "--rank", rank,
	        zone ? "--zone" : NULL, zone, NULL });
}

/* ---- the same bits ---- */

struct digest {
	bool answered;
	char text[80];
};

static void note_result(void *ctx, int status, const char *text)
{
	struct digest *d = ctx;
	json_t *j = status == 200 ? json_loads(text, 0, NULL) : NULL;
	const char *digest = json_string_value(json_object_get(j, "model_digest"));

	d->answered = true;
	snprintf(d->text, sizeof d->text, "%s", digest ? digest : "");
	json_decref(j);
}

static bool is_answered(void *ctx)
{
	return ((struct digest *)ctx)->answered;
}

/* Asks for the digest of the model of the job that is done. False: there is none. */
static bool ask_for_digest(char out[80])
{
	static struct digest d;

	d = (struct digest){ 0 };
	control_send(0, "GET", "/v1/result", NULL, note_result, &d);
	world_run(sim_now + 10 * SEC, is_answered, &d);
	memcpy(out, d.text, sizeof d.text);
	return *d.text != 0;
}

static char *undisturbed_digest(void)
{
	return undisturbed[2 * g.workers + g.blocks];
}

bool examples_need_undisturbed(unsigned workers)
{
	g.workers = workers;
	return g.deterministic && !*undisturbed_digest();
}

void examples_note_undisturbed(void)
{
	if (!ask_for_digest(undisturbed_digest()))
		scenario_fail("SAME BITS: a job without faults has no digest");
}

/* A deterministic job ends in the bits of a job without faults, on one server. */
static void compare_digests(void)
{
	char digest[80];

	if (!ask_for_digest(digest))
		scenario_fail("SAME BITS: the job is done and has no digest");
	else if (strcmp(digest, undisturbed_digest()) != 0)
		scenario_fail(
		    "SAME BITS: the model has the digest %.16s..., that of an undisturbed job is %.16s...",
		    digest, undisturbed_digest());
}

/* Puts the arguments of the comparison into argv; rows and epochs keep its numbers. */
static void list_arguments(const char *argv[16], char rows[16], char epochs[16])
{
	static const char *const first[] = { "ledger", "examples", "-C", "c.run", "--book",
		"none" };
	bool stale = !scenario_is_bsp();
	unsigned n = sizeof first / sizeof *first;

	memcpy(argv, first, sizeof first);
	snprintf(rows, 16, "%u", g.rows);
	snprintf(epochs, 16, "%u", g.epochs);
	argv[n++] = "--cells";
	argv[n++] = rows;
	argv[n++] = "--steps";
	argv[n++] = epochs;
	if (stale)
		argv[n++] = "--stale";
	/* In ssp and asp some of what was trained on at a checkpoint may count twice after a resume from it. */
	if (stale && resume_has_gone_back())
		argv[n++] = "--repeats";
	/* Pushes of backup workers that come late are dropped. */
	if (scenario_has_backup())
		argv[n++] = "--omits";
	argv[n] = NULL;
}

static bool is_counted(void *ctx)
{
	return !((struct proc *)ctx)->alive;
}

/* Are all events of the stream in the model? */
static bool is_stream_trained(void)
{
	char rows[16], epochs[16];
	const char *argv[16];
	struct proc *p;
	unsigned long long begun, acked = 0, lost = 1, doubled;

	list_arguments(argv, rows, epochs);
	p = proc_start(CHECK_SLOT, argv[1], ledger_main, argv);
	world_run(sim_now + 30 * SEC, is_counted, p);
	/* An example that counts twice does so until the end. */
	return sscanf(p->printed, "begun %llu acknowledged %llu lost %llu doubled %llu", &begun,
	           &acked, &lost, &doubled) == 4 &&
	    (!lost || doubled);
}

bool examples_await_stream(bool (*is_over)(void *ctx))
{
	write_stream(g.rows);
	for (int64_t until = sim_now + STREAM_TIME; sim_now < until && !scenario_has_failed();) {
		if (is_stream_trained())
			return true;
		world_run(sim_now + 300 * MSEC, is_over, NULL);
	}
	return false;
}

uint64_t examples_check(void)
{
	char rows[16], epochs[16];
	const char *argv[16];

	if (g.deterministic)
		compare_digests();
	if (scenario_has_failed() || (g.deterministic && !g.blocks))
		return (uint64_t)g.rows;
	list_arguments(argv, rows, epochs);
	return scenario_run_ledger("EXAMPLES", argv);
}
