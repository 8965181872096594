#include "work/gauge.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "conf/rule.h"
#include "coord/layout.h"
#include "kern/vec.h"
#include "shard/shard.h"

/* Values that are tried at most, and how often. */
#define VALUES_MAX ((size_t)1 << 20)
#define REPEATS 9
#define SLOTS 3
#define LANES 2

double gauge_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void gauge_sweep(void)
{
	long own = sysconf(_SC_LEVEL2_CACHE_SIZE);
	size_t n = own > 0 ? 2 * (size_t)own : 4u << 20;
	volatile uint8_t *room = mem_array(1, n);

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < n; i += 64)
			room[i]++;
	free((void *)room);
}

void gauge_pin(unsigned i)
{
	cpu_set_t may, one;
	int n;

	if (pthread_getaffinity_np(pthread_self(), sizeof may, &may) || (n = CPU_COUNT(&may)) < 2)
		return;
	for (int cpu = 0, at = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && at++ == (int)i % n) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			pthread_setaffinity_np(pthread_self(), sizeof one, &one);
			return;
		}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double gauge_median(double *v, size_t n)
{
	qsort(v, n, sizeof *v, by_value);
	return n ? v[n / 2] : 0;
}

static double median(double v[static REPEATS])
{
	return gauge_median(v, REPEATS);
}

static size_t tried(size_t n)
{
	return n < VALUES_MAX ? n ? n : 1 : VALUES_MAX;
}

static float *noise(size_t n, uint64_t seed, float size)
{
	float *x = mem_array(n, sizeof *x);
	struct rng rng;

	rng_init(&rng, seed);
	for (size_t i = 0; i < n; i++)
		x[i] = size * (float)(rng_unit(&rng) + rng_unit(&rng) + rng_unit(&rng) - 1.5);
	return x;
}

/* ---- codecs ------------------------------------------------------------------- */

static bool is_raw(const struct codec *c)
{
	return !c || !c->lossy;
}

/* One pass over all partitions, as encode_push does. */
static void encode_once(const struct codec_spec *spec, struct rng *rng, const float *g, float *left, size_t n, uint8_t *out)
{
	for (size_t at = 0; at < n; at += PART_ELEMENTS) {
		size_t k = n - at < PART_ELEMENTS ? n - at : PART_ELEMENTS, len;
		const float *x = g + at;

		if (!vec_all_finite(k, x))
			abort();
		if (left) {
			vec_add(k, x, left + at);
			x = left + at;
		}
		len = spec->codec->encode(spec->arg, rng, x, k, out);
		if (left)
			spec->codec->add(out, len, k, -1, left + at);
	}
}

double gauge_encode(const struct codec_spec *spec, bool feedback, size_t n)
{
	float *g, *left;
	double took[REPEATS];
	struct rng rng;
	uint8_t *out;

	if (is_raw(spec->codec))
		return 0;
	n = tried(n);
	g = noise(n, 1, 1e-3f);
	left = feedback ? noise(n, 2, 1e-3f) : NULL;
	out = mem_array(1, spec->codec->bound(spec->arg, PART_ELEMENTS));
	rng_init(&rng, 1);
	for (int i = -1; i < REPEATS; i++) {
		double begin;

		gauge_sweep();
		begin = gauge_clock();
		encode_once(spec, &rng, g, left, n, out);
		if (i >= 0)
			took[i] = (gauge_clock() - begin) / (double)n;
	}
	free(g);
	free(left);
	free(out);
	return median(took);
}

void gauge_pull(const struct codec *codec, size_t n, double *encode, double *decode, double *bytes)
{
	double out[REPEATS], back[REPEATS];
	size_t len = 0;
	float *w, *to;
	uint8_t *body;

	*encode = *decode = 0;
	*bytes = 4;
	if (is_raw(codec))
		return;
	n = tried(n);
	w = noise(n, 3, 0.1f);
	to = mem_array(n, sizeof *to);
	body = mem_array(1, codec->bound(0, n) + 64 * (n / PART_ELEMENTS + 1));
	for (int i = -1; i < REPEATS; i++) {
		double begin, middle;

		gauge_sweep();
		begin = gauge_clock();
		len = codec->encode(0, NULL, w, n, body);
		middle = gauge_clock();
		gauge_sweep();
		out[i < 0 ? 0 : i] = (middle - begin) / (double)n;
		begin = gauge_clock();
		codec->check(body, len, n);
		memset(to, 0, n * sizeof *to);
		codec->add(body, len, n, 1, to);
		back[i < 0 ? 0 : i] = (gauge_clock() - begin) / (double)n;
	}
	*encode = median(out);
	*decode = median(back);
	*bytes = (double)len / (double)n;
	free(w);
	free(to);
	free(body);
}

double gauge_rule(const struct conf *c, size_t n)
{
	struct conf_rule rule;
	float *w, *g, *state, *slot[OPTIM_MAX_SLOTS];
	double took[REPEATS];

	if (conf_job_rule(c, &rule, NULL))
		return 0;
	n = tried(n);
	w = noise(n, 4, 0.1f);
	g = noise(n, 5, 1e-3f);
	state = mem_array(n * (rule.rule->nslots + 1), sizeof *state);
	for (unsigned k = 0; k < rule.rule->nslots; k++) {
		slot[k] = state + k * n;
		for (size_t i = 0; i < n; i++)
			slot[k][i] = rule.rule->slot_init[k];
	}
	for (int i = -1; i < REPEATS; i++) {
		double begin;

		gauge_sweep();
		begin = gauge_clock();
		rule.rule->step(&rule.hyper, (uint64_t)(i + 2), true, n, w, slot, g, 1);
		if (i >= 0)
			took[i] = (gauge_clock() - begin) / (double)n;
	}
	free(w);
	free(g);
	free(state);
	return median(took);
}

double gauge_copy(size_t n)
{
	float *from, *to;
	double took[REPEATS];

	n = tried(n);
	from = noise(n, 6, 1);
	to = mem_array(n, sizeof *to);
	for (int i = -1; i < REPEATS; i++) {
		double begin;

		gauge_sweep();
		begin = gauge_clock();
		vec_axpy(n, 1, from, to);
		if (i >= 0)
			took[i] = (gauge_clock() - begin) / (double)n;
	}
	free(from);
	free(to);
	return median(took);
}

/* ---- a server -------------------------------------------------------------------- */

struct store {
	struct shard *shard;
	struct layout layout;
	const struct table *table;
	size_t n;                       /* values; of rows: those that are pushed */
	uint64_t step;
	uint8_t *body, *ids;            /* of one push to each partition, one behind the other */
	size_t *at, *len;               /* where each begins; of rows: the first of each */
	uint32_t *rows;                 /* sparse: of each */
	float *out;
};

static void nobody(void *ctx)
{
	(void)ctx;
}

static enum err_code open_store(struct store *x, const struct conf *c, uint32_t cols, struct err *e)
{
	struct shard_config cfg = { .mode = c->sync, .deterministic = false, .wake = nobody };
	struct table shape = { .name = "w", .sparse = cols > 0, .rows = cols ? x->n / cols : x->n, .cols = cols ? cols : 1 }, *t;
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
	for (uint32_t i = 0; !rc && i < SLOTS; i++)
		shard_admit(x->shard, i, i + 1, 0);
	return rc;
}

static void encode_parts(struct store *x, const struct codec_spec *spec)
{
	const struct codec *codec = is_raw(spec->codec) ? codec_by_id(0) : spec->codec;
	float *g = noise(x->n, 7, 1e-3f);
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
		x->len[p] = codec->encode(spec->arg, &rng, g + table_part_begin(p), table_part_elements(x->table, p), x->body + len);
		len += (x->len[p] + 7) & ~(size_t)7;
	}
	free(g);
}

/* Rows with ids all over the table, by partition. */
static void draw_rows(struct store *x)
{
	uint32_t n = (uint32_t)(x->n / x->table->cols), parts = x->table->nparts, *fill = mem_array(parts, sizeof *fill);

	x->rows = mem_array(parts, sizeof *x->rows);
	x->at = mem_array(parts + 1, sizeof *x->at);
	x->ids = mem_array(n, 8);
	x->body = (uint8_t *)noise(x->n, 7, 1e-3f);
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

static void push_all(struct store *x, uint32_t slot, uint16_t codec)
{
	struct receipt r;

	for (uint32_t p = 0; p < x->table->nparts; p++) {
		struct push push = { .slot = slot, .incarnation = slot + 1, .step = x->step, .part = p, .examples = 1,
			.codec = codec, .payload = x->body + x->at[p], .len = x->rows ? 0 : x->len[p] };

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
			shard_pull_rows(x->shard, 0, p, x->step, x->ids + x->at[p] * 8, x->rows[p], x->out, &version);
		else
			shard_pull(x->shard, 0, p, x->step, x->out + table_part_begin(p), &version);
}

/* Lanes on cores of their own take pushes in turn: what a sum adds to was written by
 * another core. */
struct lane {
	struct store *store;
	unsigned number;
	uint16_t codec;
	pthread_barrier_t *turn;
	double push[REPEATS + 1][SLOTS], pull[REPEATS + 1];
};

static void *run_lane(void *ctx)
{
	struct lane *l = ctx;
	struct store *x = l->store;

	gauge_pin(l->number);
	for (int i = 0; i <= REPEATS; i++) {
		for (uint32_t slot = 0; slot < SLOTS; slot++) {
			double begin = gauge_clock();

			if (slot % LANES == l->number) {
				push_all(x, slot, l->codec);
				shard_clock(x->shard, slot, slot + 1, x->step, 1);
				l->push[i][slot] = gauge_clock() - begin;
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

/* The update, in bsp, is made at the last push of a step; asp has one each time. */
static enum err_code take_steps(struct store *x, bool bsp, uint16_t codec, struct gauge_store *out, struct err *e)
{
	double sum[REPEATS], update[REPEATS], answer[REPEATS], n = (double)x->n;
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
	if (pthread_create(&other, NULL, run_lane, &l[1])) {
		rc = err_sys(e, ERR_IO, "cannot start a thread");
	} else {
		cpu_set_t may;
		bool known = !pthread_getaffinity_np(pthread_self(), sizeof may, &may);

		run_lane(&l[0]);
		pthread_join(other, NULL);
		if (known)
			pthread_setaffinity_np(pthread_self(), sizeof may, &may);
	}
	for (int i = 0; !rc && i < REPEATS; i++) {
		double *first = l[0].push[i + 1], *second = l[1].push[i + 1];

		answer[i] = l[0].pull[i + 1] / n;
		sum[i] = bsp ? (first[0] + second[1]) / 2 / n : (first[0] + second[1] + first[2]) / 3 / n;
		update[i] = bsp ? first[2] / n - sum[i] : 0;
	}
	if (!rc) {
		out->sum = median(sum);
		out->update = median(update);
		out->update = out->update < 0 ? 0 : out->update;
		out->answer = median(answer);
	}
	pthread_barrier_destroy(&turn);
	free(l);
	return rc;
}

enum err_code gauge_store(const struct conf *c, const struct codec_spec *spec, size_t n, uint32_t cols, struct gauge_store *out,
    struct err *e)
{
	struct store x = { .n = tried(n) };
	enum err_code rc;

	if (cols)
		x.n = x.n / cols ? x.n / cols * cols : cols;
	rc = open_store(&x, c, cols, e);
	if (!rc) {
		if (cols)
			draw_rows(&x);
		else
			encode_parts(&x, spec);
		x.out = mem_array(x.n, sizeof *x.out);
		rc = take_steps(&x, c->sync.kind == SYNC_bsp, cols || is_raw(spec->codec) ? 0 : spec->codec->id, out, e);
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
