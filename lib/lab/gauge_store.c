/* SPDX-License-Identifier: ISC */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_rule.h"
#include "core/mem.h"
#include "core/thread.h"
#include "lab/gauge_inside.h"
#include "shard/shard.h"

/* Measures what a server does with pushes and pulls, on a shard of its own. */

#define RANKS 3
#define LANES 2

struct store {
	struct shard *shard;
	struct layout layout;
	const struct table *table;
	size_t n; /* values; of rows: values that are pushed */
	uint64_t step;
	/* payload of one push to each partition, one after the other */
	uint8_t *body, *ids;
	/* where each begins and its length; of rows: first row of each */
	size_t *at, *len;
	uint32_t *rows; /* sparse: number of rows in each */
	float *out;
};

static void wake_none(void *ctx)
{
	(void)ctx;
}

/* Makes a shard with one table, three active ranks and the job's rule. */
static enum err_code open_store(struct store *x, const struct conf *c, uint32_t cols, struct err *e)
{
	struct shard_config cfg = { .mode = c->sync, .deterministic = false, .wake = wake_none };
	struct table shape = { .name = "w",
		.sparse = cols > 0,
		.rows = cols ? x->n / cols : x->n,
		.cols = cols ? cols : 1 },
	             *t;
	struct member member[RANKS];
	struct conf_rule rule;
	enum err_code rc = conf_server_rule(c, &rule, e);

	if (rc)
		return rc;
	cfg.mode.backup = 0;
	cfg.rule = rule.rule;
	cfg.hyper = rule.hyper;
	cfg.schedule = rule.schedule;
	rc = layout_add(&x->layout, &shape, &t, e);
	if (rc)
		return rc;
	layout_place(&x->layout, (const uint16_t[]){ 0 }, 1, 1);
	rc = shard_new(&cfg, &x->shard, e);
	if (!rc)
		rc = shard_install(x->shard, &x->layout, NULL, e);
	x->table = layout_find(&x->layout, "w");
	for (uint32_t i = 0; i < RANKS; i++)
		member[i] = (struct member){ .rank = i,
			.state = MEMBER_ACTIVE,
			.incarnation = i + 1 };
	if (!rc)
		shard_take_members(x->shard, member, RANKS);
	return rc;
}

/* Encodes one gradient, a payload for each partition. */
static void encode_payloads(struct store *x, const struct codec_spec *spec)
{
	const struct codec *codec = gauge_is_raw(spec->codec) ? codec_by_id(0) : spec->codec;
	float *g = gauge_noise(x->n, 7, 1e-3f);
	struct rng rng;
	size_t len = 0;

	rng_init(&rng, 1);
	x->at = mem_array(x->table->nparts, sizeof *x->at);
	x->len = mem_array(x->table->nparts, sizeof *x->len);
	for (uint32_t p = 0; p < x->table->nparts; p++)
		len += codec->bound(spec->arg, table_part_elements(x->table, p)) + 8;
	x->body = mem_array(1, len);
	len = 0;
	for (uint32_t p = 0; p < x->table->nparts; p++) {
		x->at[p] = len;
		x->len[p] = codec->encode(spec->arg, &rng, g + table_part_begin(x->table, p),
		    table_part_elements(x->table, p), x->body + len);
		len += (x->len[p] + 7) & ~(size_t)7;
	}
	free(g);
}

/* Makes rows with ids all over the table, by partition. */
static void draw_rows(struct store *x)
{
	uint32_t n = (uint32_t)(x->n / x->table->cols), parts = x->table->nparts,
	         *fill = mem_array(parts, sizeof *fill);

	x->rows = mem_array(parts, sizeof *x->rows);
	x->at = mem_array(parts + 1, sizeof *x->at);
	x->ids = mem_array(n, 8);
	x->body = (uint8_t *)gauge_noise(x->n, 7, 1e-3f);
	for (uint32_t i = 0; i < n; i++)
		x->rows[table_part_of(x->table, i * UINT64_C(7))]++;
	for (uint32_t p = 0; p < parts; p++)
		x->at[p + 1] = x->at[p] + x->rows[p];
	for (uint32_t i = 0; i < n; i++) {
		uint64_t id = i * UINT64_C(7);
		uint32_t p = table_part_of(x->table, id);

		memcpy(x->ids + (x->at[p] + fill[p]++) * 8, &id, 8);
	}
	free(fill);
}

/* Pushes the gradient of a rank to all partitions. */
static void push_all_parts(struct store *x, uint32_t rank, uint16_t codec)
{
	struct receipt r;

	for (uint32_t p = 0; p < x->table->nparts; p++) {
		struct push push = { .rank = rank,
			.incarnation = rank + 1,
			.step = x->step,
			.part = p,
			.examples = 1,
			.codec = codec,
			.payload = x->body + x->at[p],
			.len = x->rows ? 0 : x->len[p] };

		if (x->rows) {
			push.nrows = x->rows[p];
			push.ids = x->ids + x->at[p] * 8;
			push.payload = x->body + x->at[p] * x->table->cols * 4;
			push.len = (size_t)x->rows[p] * x->table->cols * 4;
		}
		if (x->rows && !x->rows[p])
			continue;
		if (shard_push(x->shard, &push, &r))
			abort();
	}
}

static void pull_all(struct store *x)
{
	uint64_t version;

	for (uint32_t p = 0; p < x->table->nparts; p++)
		if (x->rows)
			shard_pull_rows(x->shard, 0, p, x->step, x->ids + x->at[p] * 8, x->rows[p],
			    x->out, &version);
		else
			shard_pull(x->shard, 0, p, x->step, x->out + table_part_begin(x->table, p),
			    &version);
}

/* Two I/O threads on cores of their own take the pushes in turn, so that a sum was last written by
 * another core, as in a server. */
struct lane {
	struct store *store;
	unsigned number;
	uint16_t codec;
	pthread_barrier_t *turn;
	double push[GAUGE_REPEATS + 1][RANKS], pull[GAUGE_REPEATS + 1];
};

/* One I/O thread. The ranks push in turn, each on the thread that owns it, while the other thread
 * uses its caches for something else; then thread 0 pulls everything. */
static void *run_lane(void *ctx)
{
	struct lane *l = ctx;
	struct store *x = l->store;

	gauge_pin(l->number);
	for (int i = 0; i <= GAUGE_REPEATS; i++) {
		for (uint32_t rank = 0; rank < RANKS; rank++) {
			double begin = gauge_clock();

			if (rank % LANES == l->number) {
				push_all_parts(x, rank, l->codec);
				shard_clock(x->shard, rank, rank + 1, x->step, 1);
				l->push[i][rank] = gauge_clock() - begin;
			} else {
				gauge_sweep();
			}
			pthread_barrier_wait(l->turn);
		}
		if (l->number == 0)
			x->step++;
		pthread_barrier_wait(l->turn);
		if (l->number == 0) {
			double begin = gauge_clock();

			pull_all(x);
			l->pull[i] = gauge_clock() - begin;
		}
		pthread_barrier_wait(l->turn);
	}
	return NULL;
}

/* Runs the two threads and derives the costs. Where pushes are summed, the last push of a step
 * contains the update, so its excess over the others is the update; otherwise every push contains
 * one. */
static enum err_code take_steps(struct store *x, bool sums, uint16_t codec, struct gauge_store *out,
    struct err *e)
{
	double sum[GAUGE_REPEATS], update[GAUGE_REPEATS], answer[GAUGE_REPEATS], n = (double)x->n;
	struct lane *l = mem_array(LANES, sizeof *l);
	pthread_barrier_t turn;
	pthread_t other;
	enum err_code rc = ERR_OK;

	pthread_barrier_init(&turn, NULL, LANES);
	for (unsigned i = 0; i < LANES; i++) {
		l[i].store = x;
		l[i].number = i;
		l[i].codec = codec;
		l[i].turn = &turn;
	}
	rc = thread_start(&other, run_lane, &l[1], e);
	if (!rc) {
		cpu_set_t may;
		bool known = !pthread_getaffinity_np(pthread_self(), sizeof may, &may);

		run_lane(&l[0]);
		pthread_join(other, NULL);
		if (known)
			pthread_setaffinity_np(pthread_self(), sizeof may, &may);
	}
	for (int i = 0; !rc && i < GAUGE_REPEATS; i++) {
		double *first = l[0].push[i + 1], *second = l[1].push[i + 1];

		answer[i] = l[0].pull[i + 1] / n;
		sum[i] = sums ? (first[0] + second[1]) / 2 / n
		              : (first[0] + second[1] + first[2]) / 3 / n;
		update[i] = sums ? first[2] / n - sum[i] : 0;
	}
	if (!rc) {
		out->sum = gauge_median(sum, GAUGE_REPEATS);
		out->update = gauge_median(update, GAUGE_REPEATS);
		out->update = out->update < 0 ? 0 : out->update;
		out->answer = gauge_median(answer, GAUGE_REPEATS);
	}
	pthread_barrier_destroy(&turn);
	free(l);
	return rc;
}

/* Runs a real shard of one server without network. n is rounded down to whole rows, at least one.
 * `bytes` stays 0 in the sum until all encoded partitions are added; rows are not encoded and take
 * 4 bytes a value. */
enum err_code gauge_store(const struct conf *c, const struct codec_spec *spec, size_t n,
    uint32_t cols, struct gauge_store *out, struct err *e)
{
	struct store x = { .n = gauge_tried(n) };
	enum err_code rc;

	if (cols)
		x.n = x.n / cols ? x.n / cols * cols : cols;
	rc = open_store(&x, c, cols, e);
	if (!rc) {
		if (cols)
			draw_rows(&x);
		else
			encode_payloads(&x, spec);
		x.out = mem_array(x.n, sizeof *x.out);
		rc = take_steps(&x, sync_sums_steps(&c->sync),
		    cols || gauge_is_raw(spec->codec) ? 0 : spec->codec->id, out, e);
		out->bytes = cols ? 4 : 0;
		for (uint32_t p = 0; !cols && p < x.table->nparts; p++)
			out->bytes += (double)x.len[p] / (double)x.n;
	}
	shard_free(x.shard);
	layout_release(&x.layout);
	free(x.body);
	free(x.ids);
	free(x.at);
	free(x.len);
	free(x.rows);
	free(x.out);
	return rc;
}
