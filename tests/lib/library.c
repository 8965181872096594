/* SPDX-License-Identifier: ISC */
/* Tests of public functions that the examples do not call (73-library.bats). */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <poll.h>
#include <pskit.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ps *p;

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%d: %s: %s\n", __LINE__, #what, \
			    p ? ps_message(p) : "no handle"); \
			exit(1); \
		} \
	} while (0)

static int report_scores(struct ps *q, void *ctx, struct ps_scores *out)
{
	size_t n;

	(void)ctx;
	CHECK(ps_param(q, "w", &n) && n == 3);
	out->score[0] = (struct ps_score){ "rmse", 0.25 };
	out->score[1] = (struct ps_score){ "accuracy", NAN };
	out->score[2] = (struct ps_score){ "mood", 7 };
	out->n = 3;
	out->examples = 77;
	return 0;
}

/* A worker: pushes ones to the dense table w of 3 values, and to rows 1, 10 and 100 + rank of the
 * sparse table emb. */
static void test_worker(void)
{
	struct ps_step s;
	int rc;

	CHECK(ps_open(NULL, NULL, &p) == PS_OK);
	CHECK(ps_join(p, "w:3,emb:100x2:sparse", 1000) == PS_OK);
	while ((rc = ps_step_begin(p, &s)) == PS_OK) {
		uint64_t ids[3] = { 1, 10, 100 + ps_rank(p) };
		float rows[6], g[3] = { 1, 1, 1 }, w[3];
		size_t n;

		CHECK(s.end > s.begin && s.end <= 1000);
		CHECK(ps_pull_rows(p, "emb", ids, 3, rows) == PS_OK);
		CHECK(ps_pull(p, "w", w, 3) == PS_OK && w[1] == -(float)s.step);
		CHECK(!ps_param(p, "emb", NULL) && !ps_grad(p, "v", NULL));
		CHECK(ps_push(p, "w", g, 3) == PS_OK && ps_grad(p, "w", &n)[2] == 1 && n == 3);
		for (int i = 0; i < 6; i++)
			rows[i] = 1;
		CHECK(ps_push_rows(p, "emb", ids, 3, rows) == PS_OK);
		CHECK(ps_step_begin(p, &s) == PS_USAGE);
		CHECK(ps_step_end(p, 0.5) == PS_OK);
		CHECK(ps_push(p, "w", g, 3) == PS_USAGE);
	}
	CHECK(rc == PS_OVER);
	CHECK(ps_finish(p, report_scores, NULL) == PS_OK);
	ps_close(p);
}

static void test_beside_job(const char *run)
{
	uint64_t ids[4] = { 10, 100, 101, 5 };
	float w[3], g[3] = { 1, 2, 3 }, rows[8];
	struct ps_table t;

	CHECK(ps_open(run, NULL, &p) == PS_OK);
	CHECK(ps_describe_at(p, 0, &t) == PS_OK && strcmp(t.name, "w") == 0 && t.rows == 3 &&
	    t.cols == 1 && !t.sparse);
	CHECK(ps_describe_at(p, 1, &t) == PS_OK && t.sparse && t.cols == 2);
	CHECK(ps_describe_at(p, 2, &t) == PS_NOTFOUND);
	CHECK(ps_describe(p, "emb", &t) == PS_OK && strcmp(t.name, "emb") == 0);
	CHECK(ps_describe(p, "none", &t) == PS_NOTFOUND &&
	    strstr(ps_message(p), "there is no table \"none\""));
	CHECK(ps_pull(p, "w", w, 3) == PS_OK && w[0] == -50 && w[2] == -50);
	CHECK(ps_pull(p, "w", w, 4) == PS_USAGE && ps_pull(p, "emb", w, 3) == PS_USAGE);
	CHECK(ps_push(p, "w", g, 3) == PS_OK);
	CHECK(ps_pull(p, "w", w, 3) == PS_OK && w[0] == -51 && w[2] == -53);
	g[0] = NAN;
	CHECK(ps_push(p, "w", g, 3) == PS_NONFINITE);
	CHECK(ps_pull_rows(p, "emb", ids, 4, rows) == PS_OK);
	/* Rows that only one worker pushed count half: it has half of the step's examples. */
	CHECK(rows[0] == -50 && rows[1] == -50 && rows[2] == -25 && rows[4] == -25 && rows[6] == 0);
	CHECK(ps_push_rows(p, "emb", ids, 1, w) == PS_OK);
	CHECK(ps_pull_rows(p, "emb", ids, 1, rows) == PS_OK && rows[0] == 1);
	ps_close(p);
}

/* Creates tables in a cluster without a job and without tables. */
static void test_create(const char *run)
{
	uint64_t id = 7;
	float g[6] = { 1, 2, 3, 4, 5, 6 }, w[6];
	struct ps_table t;

	CHECK(ps_open(run, NULL, &p) == PS_OK);
	CHECK(ps_describe_at(p, 0, &t) == PS_NOTFOUND);
	CHECK(ps_create(p, "w:2x3,emb:1000x2:sparse") == PS_OK);
	CHECK(ps_describe(p, "w", &t) == PS_OK && t.rows == 2 && t.cols == 3 && !t.sparse);
	CHECK(ps_push(p, "w", g, 6) == PS_OK && ps_pull(p, "w", w, 6) == PS_OK &&
	    w[5] == -6 * w[0] / -1 && w[0] < 0);
	CHECK(ps_push_rows(p, "emb", &id, 1, g) == PS_OK &&
	    ps_pull_rows(p, "emb", &id, 1, w) == PS_OK && w[1] == 2 * w[0]);
	CHECK(ps_create(p, "w:2x3") == PS_OK && ps_create(p, "more:5") == PS_OK &&
	    ps_describe(p, "more", &t) == PS_OK);
	CHECK(ps_create(p, "w:2x4") == PS_CONFIG && strstr(ps_message(p), "w"));
	CHECK(ps_create(p, "w;2") == PS_CONFIG && strstr(ps_message(p), "w;2"));
	ps_close(p);
}

static void *cancel_on_signal(void *ctx)
{
	sem_wait(ctx);
	ps_cancel(p);
	return NULL;
}

/* Cancels a worker that waits in ps_step_begin, for the other worker. */
static void test_cancel(const char *run)
{
	struct ps_options o = { .size = sizeof o };
	struct ps_step s;
	pthread_t t;
	sem_t begun;
	int rc;

	o.name = "worker-1";
	CHECK(ps_open(run, &o, &p) == PS_OK);
	CHECK(ps_join(p, "w:4", 400) == PS_OK);
	CHECK(
	    sem_init(&begun, 0, 0) == 0 && pthread_create(&t, NULL, cancel_on_signal, &begun) == 0);
	while ((rc = ps_step_begin(p, &s)) == PS_OK) {
		memset(ps_grad(p, "w", NULL), 0, 4 * sizeof(float));
		rc = ps_step_end(p, 1);
		if (rc)
			break;
		sem_post(&begun);
	}
	CHECK(rc == PS_STOPPED);
	pthread_join(t, NULL);
	CHECK(ps_step_begin(p, &s) == PS_STOPPED);
	ps_close(p);
}

/* Waits for the descriptor of a call that returned PS_AGAIN, and returns its result. */
static int await_result(int begun)
{
	struct pollfd f = { ps_fd(p), POLLIN, 0 };
	int rc = PS_AGAIN;

	CHECK(begun == PS_AGAIN);
	while (rc == PS_AGAIN) {
		CHECK(poll(&f, 1, 60000) == 1);
		rc = ps_result(p);
	}
	return rc;
}

static int scored;

static int count_scores(struct ps *q, void *ctx, struct ps_scores *out)
{
	CHECK(ctx == &scored && ps_param(q, "w", NULL));
	out->score[out->n++] = (struct ps_score){ "loss", ++scored };
	out->examples = 5;
	return 0;
}

/* An asynchronous worker, which only waits in poll(); it pushes rows without a copy, and evaluates
 * the model. */
static void test_async(void)
{
	struct ps_step s;
	int rc;

	CHECK(ps_open(NULL, NULL, &p) == PS_OK && ps_fd(p) == -1);
	CHECK(ps_set(p, "eval_every", "5") == PS_OK && ps_set(p, "nothing", "5") == PS_CONFIG &&
	    ps_on_score(p, count_scores, &scored) == PS_OK);
	CHECK(ps_async(p, 1) == PS_OK && ps_fd(p) >= 0 && ps_result(p) == PS_USAGE);
	/* An error that could be returned at once is returned by ps_result, too. */
	CHECK(await_result(ps_step_begin(p, &s)) == PS_USAGE &&
	    strstr(ps_message(p), "must be called after ps_join"));
	rc = ps_join(p, "w:3,emb:100x2:sparse", 1000);
	CHECK(ps_pull(p, "w", NULL, 3) == PS_USAGE && ps_async(p, 0) == PS_USAGE);
	CHECK(await_result(rc) == PS_OK && ps_result(p) == PS_USAGE);
	while ((rc = await_result(ps_step_begin(p, &s))) == PS_OK) {
		uint64_t *ids, one = 7;
		float *rows, got[2];

		CHECK(ps_param(p, "w", NULL)[2] == -2 * (float)s.step);
		for (int i = 0; i < 3; i++)
			ps_grad(p, "w", NULL)[i] = 2;
		CHECK(await_result(ps_pull_rows(p, "emb", &one, 1, got)) == PS_OK &&
		    got[1] == -(float)s.step);
		CHECK(await_result(ps_commit_rows(p, 1)) == PS_USAGE);
		CHECK(ps_reserve_rows(p, "w", 1, &ids, &rows) == PS_USAGE);
		CHECK(ps_reserve_rows(p, "emb", 3, &ids, &rows) == PS_OK &&
		    ps_reserve_rows(p, "emb", 1, &ids, &rows) == PS_USAGE);
		ids[0] = 7;
		ids[1] = 9;
		rows[0] = rows[1] = rows[2] = rows[3] = 1;
		CHECK(await_result(ps_commit_rows(p, 4)) == PS_USAGE &&
		    await_result(ps_commit_rows(p, 2)) == PS_OK);
		CHECK(await_result(ps_step_end(p, -INFINITY)) == PS_OK);
	}
	CHECK(rc == PS_OVER && await_result(ps_finish(p, NULL, NULL)) == PS_OK);
	fprintf(stderr, "scored %d times\n", scored);
	CHECK(ps_async(p, 0) == PS_OK && ps_fd(p) == -1 && ps_finish(p, NULL, NULL) == PS_USAGE);
	ps_close(p);
}

/* Counts rows and sums their first values. */
struct row_sum {
	size_t rows;
	uint64_t most;
	float values;
};

static int sum_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n)
{
	struct row_sum *x = ctx;

	for (size_t i = 0; i < n; i++) {
		CHECK(i == 0 || ids[i] > ids[i - 1]);
		x->rows++;
		x->most = ids[i] > x->most ? ids[i] : x->most;
		x->values += rows[2 * i];
	}
	return 0;
}

static int end_scan(void *ctx, const uint64_t *ids, const float *rows, size_t n)
{
	(void)ids, (void)rows, (void)n;
	return ++*(int *)ctx;
}

/* One of two workers, which have equal rows: names the rows of each next step, and looks that they come with
 * the step that needs them. In the last step it is cancelled: rows that are here need no wait. */
static void test_prefetch(void)
{
	uint64_t ids[3] = { 3, UINT64_MAX, 0 }, other = 4;
	float a[6], b[3], one[6] = { 1, 1, 1, 1, 1, 1 };
	struct ps_rows both[2] = { { "a", ids, 3, a }, { "b", ids + 1, 2, b } }, *twice, wrong;
	struct ps_rows ones[2] = { { "a", ids, 3, one }, { "b", ids + 1, 2, one } };
	struct row_sum sum = { 0 };
	struct ps_step s, next = { 0 };
	int rc, calls = 0;

	CHECK(ps_open(NULL, NULL, &p) == PS_OK);
	CHECK(ps_prefetch_rows(p, both, 2) == PS_USAGE && ps_step_next(p, &next) == PS_USAGE);
	CHECK(ps_join(p, "w:3,a:100x2:sparse,b:100:sparse", 100) == PS_OK);
	while ((rc = ps_step_begin(p, &s)) == PS_OK) {
		CHECK(s.step == 0 ||
		    (s.begin == next.begin && s.end == next.end && s.epoch == next.epoch));
		CHECK((rc = ps_step_next(p, &next)) == PS_OK || (rc == PS_NOTFOUND && s.step == 9));
		CHECK(ps_pull_many(p, both, 2) == PS_OK);
		/* Each step subtracts the mean of the workers' ones. */
		for (int i = 0; i < 6; i++)
			CHECK(a[i] == -(float)s.step && b[i / 3] == -(float)s.step);
		if (s.step == 9)
			break;
		twice = (struct ps_rows[2]){ both[0], both[0] };
		wrong = (struct ps_rows){ "w", ids, 1, a };
		CHECK(ps_prefetch_rows(p, twice, 2) == PS_USAGE &&
		    ps_prefetch_rows(p, &wrong, 1) == PS_NOTFOUND);
		CHECK(ps_pull_many(p, &wrong, 1) == PS_USAGE &&
		    ps_push_many(p, &wrong, 1) == PS_USAGE);
		CHECK(
		    ps_prefetch_rows(p, both, 1) == PS_OK && ps_prefetch_rows(p, both, 2) == PS_OK);
		memset(ps_grad(p, "w", NULL), 0, 3 * sizeof(float));
		CHECK(ps_push_many(p, ones, 2) == PS_OK && ps_step_end(p, 1) == PS_OK);
	}
	CHECK(s.step == 9);
	CHECK(ps_scan_rows(p, "a", sum_rows, &sum) == PS_OK && sum.rows == 3 &&
	    sum.most == UINT64_MAX && sum.values == -27);
	CHECK(ps_scan_rows(p, "a", end_scan, &calls) == PS_STOPPED && calls == 1);
	CHECK(ps_scan_rows(p, "w", end_scan, &calls) == PS_USAGE && calls == 1);
	ps_cancel(p);
	a[0] = b[1] = 7;
	CHECK(ps_pull_many(p, both, 2) == PS_OK && a[0] == -9 && b[1] == -9);
	CHECK(ps_pull_rows(p, "a", ids, 3, a) == PS_OK);
	CHECK(ps_pull_rows(p, "a", ids, 2, a) == PS_STOPPED &&
	    ps_pull_rows(p, "a", &other, 1, a) == PS_STOPPED);
	ps_close(p);
}

static int asked;

static int count_asks(void *ctx)
{
	return ++asked >= *(int *)ctx;
}

/* The interrupt callback stops a ps_join that waits for the other worker. */
static void test_interrupted_join(void)
{
	struct ps_options o = { .size = sizeof o };
	int times = 3;

	CHECK(ps_open(NULL, &o, &p) == PS_OK && ps_on_interrupt(p, count_asks, &times) == PS_OK);
	CHECK(ps_join(p, "w:4", 400) == PS_STOPPED && asked >= 3);
	ps_close(p);
}

/* The interrupt callback stops a step that waits for the other worker, and one that has not begun
 * to wait. */
static void test_interrupt(void)
{
	struct ps_options o = { .size = sizeof o, .rank_wanted = 1 };
	struct ps_step s;
	struct ps *other;
	int times = 3;

	CHECK(ps_open(NULL, &o, &p) == PS_OK && ps_async(p, 1) == PS_OK &&
	    ps_join(p, "w:4", 400) == PS_AGAIN);
	CHECK(ps_on_interrupt(p, count_asks, &times) == PS_USAGE);
	other = p;
	o.rank_wanted = 2;
	CHECK(ps_open(NULL, &o, &p) == PS_OK && ps_join(p, "w:4", 400) == PS_OK &&
	    ps_step_begin(p, &s) == PS_OK);
	memset(ps_grad(p, "w", NULL), 0, 4 * sizeof(float));
	asked = 0;
	CHECK(ps_step_end(p, 1) == PS_OK && ps_on_interrupt(p, count_asks, &times) == PS_OK);
	CHECK(ps_step_begin(p, &s) == PS_STOPPED && asked >= 3);
	CHECK(ps_on_interrupt(p, NULL, NULL) == PS_OK && ps_step_begin(p, &s) == PS_STOPPED);
	ps_close(p);
	p = other;
	CHECK(await_result(PS_AGAIN) == PS_OK && ps_async(p, 0) == PS_OK);
	times = 1;
	CHECK(
	    ps_on_interrupt(p, count_asks, &times) == PS_OK && ps_step_begin(p, &s) == PS_STOPPED);
	ps_close(p);
}

/* Closing a handle cancels the call under way. */
static void test_close_while_busy(void)
{
	struct ps_options o = { .size = sizeof o };

	CHECK(ps_open(NULL, &o, &p) == PS_OK && ps_async(p, 1) == PS_OK);
	CHECK(ps_join(p, "w:3", 1000) == PS_AGAIN && ps_result(p) == PS_AGAIN &&
	    strstr(ps_message(p), "has not ended"));
	CHECK(!ps_param(p, "w", NULL) && ps_rank(p) == UINT32_MAX);
	ps_close(p);
}

static void test_misuse(void)
{
	struct ps_options o = { 0 };
	struct ps_step s;
	int rc;

	CHECK(ps_open("/nowhere/at.all", NULL, &p) != PS_OK && *ps_message(p));
	ps_close(p);
	p = NULL;
	CHECK(ps_open("/nowhere/at.all", &o, &p) == PS_USAGE && strstr(ps_message(p), "size"));
	ps_close(p);
	p = NULL;
	unsetenv("PS_CLUSTER");
	rc = ps_open(NULL, NULL, &p);
	CHECK(rc == PS_NOTREADY || rc == PS_NOTFOUND);
	CHECK(ps_step_begin(p, &s) == PS_USAGE && ps_step_end(p, 0) == PS_USAGE &&
	    ps_finish(p, NULL, NULL) == PS_USAGE);
	CHECK(ps_rank(p) == UINT32_MAX && !ps_param(p, "w", NULL));
	CHECK(strcmp(ps_strerror(PS_OK), "ok") == 0 && *ps_strerror(PS_OVER) && *ps_strerror(-5) &&
	    *ps_version());
	ps_close(p);
	ps_close(NULL);
	ps_cancel(NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "worker") == 0)
		test_worker();
	else if (strcmp(what, "beside") == 0)
		test_beside_job(argv[2]);
	else if (strcmp(what, "create") == 0)
		test_create(argv[2]);
	else if (strcmp(what, "async") == 0)
		test_async();
	else if (strcmp(what, "prefetch") == 0)
		test_prefetch();
	else if (strcmp(what, "interrupt_join") == 0)
		test_interrupted_join();
	else if (strcmp(what, "interrupt") == 0)
		test_interrupt();
	else if (strcmp(what, "abandon") == 0)
		test_close_while_busy();
	else if (strcmp(what, "cancel") == 0)
		test_cancel(argv[2]);
	else
		test_misuse();
	return 0;
}
