#include "work/gauge.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "conf/rule.h"
#include "coord/layout.h"
#include "kern/vec.h"
#include "shard/shard.h"

/* Values that are tried at most, and how often. */
#define VALUES_MAX ((size_t)4 << 20)
#define REPEATS 15
#define SLOTS 3

double gauge_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double v[static REPEATS])
{
	qsort(v, REPEATS, sizeof *v, by_value);
	return v[REPEATS / 2];
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
		double begin = gauge_clock();

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
		double begin = gauge_clock(), middle;

		len = codec->encode(0, NULL, w, n, body);
		middle = gauge_clock();
		codec->check(body, len, n);
		memset(to, 0, n * sizeof *to);
		codec->add(body, len, n, 1, to);
		if (i >= 0) {
			out[i] = (middle - begin) / (double)n;
			back[i] = (gauge_clock() - middle) / (double)n;
		}
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
		double begin = gauge_clock();

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
		double begin = gauge_clock();

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

/* The update, in bsp, is made at the last push of a step; asp has one each time. */
static void take_steps(struct store *x, bool bsp, uint16_t codec, struct gauge_store *out)
{
	double sum[REPEATS], update[REPEATS], answer[REPEATS], n = (double)x->n;

	for (int i = -1; i < REPEATS; i++) {
		double t[SLOTS + 2];

		t[0] = gauge_clock();
		for (uint32_t slot = 0; slot < SLOTS; slot++) {
			push_all(x, slot, codec);
			t[slot + 1] = gauge_clock();
		}
		for (uint32_t slot = 0; slot < SLOTS; slot++)
			shard_clock(x->shard, slot, slot + 1, x->step, 1);
		x->step++;
		t[0] = i < 0 ? 0 : t[0];
		if (i >= 0) {
			sum[i] = bsp ? (t[2] - t[0]) / 2 / n : (t[3] - t[0]) / 3 / n;
			update[i] = bsp ? (t[3] - t[2]) / n - sum[i] : 0;
		}
		t[4] = gauge_clock();
		pull_all(x);
		if (i >= 0)
			answer[i] = (gauge_clock() - t[4]) / n;
	}
	out->sum = median(sum);
	out->update = median(update);
	out->update = out->update < 0 ? 0 : out->update;
	out->answer = median(answer);
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
		take_steps(&x, c->sync.kind == SYNC_bsp, cols || is_raw(spec->codec) ? 0 : spec->codec->id, out);
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
