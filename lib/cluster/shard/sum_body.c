/* SPDX-License-Identifier: ISC */
#include "shard/sum_body.h"

#include <string.h>

#include "core/endian.h"
#include "core/steps.h"
#include "wire/payload.h"

/* ---- sums ---- */

void sum_body_put_head(uint8_t *at, uint32_t n, uint32_t nrows)
{
	put_le32(at, n);
	put_le32(at + 4, nrows);
}

void sum_put_contributor(uint8_t *at, const struct sum_contributor *w)
{
	put_le32(at, w->rank);
	put_le32(at + 4, w->examples);
	put_le64(at + 8, w->incarnation);
}

struct sum_contributor sum_contributor(const struct sum_body *b, uint32_t i)
{
	const uint8_t *at = b->who + (size_t)i * SUM_CONTRIBUTOR_BYTES;

	return (struct sum_contributor){ get_le32(at), get_le32(at + 4), get_le64(at + 8) };
}

uint64_t sum_body_examples(const struct sum_body *b)
{
	uint64_t examples = 0;

	for (uint32_t i = 0; i < b->n; i++)
		examples += sum_contributor(b, i).examples;
	return examples;
}

/* Do the ranks ascend, and is the last one within range? The sum has at least one. */
static bool ranks_ascend(const struct sum_body *b)
{
	for (uint32_t i = 1; i < b->n; i++)
		if (sum_contributor(b, i).rank <= sum_contributor(b, i - 1).rank)
			return false;
	return sum_contributor(b, b->n - 1).rank < SUM_CONTRIBUTORS_MAX;
}

bool sum_body_parse(const uint8_t *p, size_t len, uint32_t width, struct sum_body *out)
{
	size_t left;

	if (len < SUM_HEAD_BYTES)
		return false;
	*out = (struct sum_body){ .n = get_le32(p),
		.nrows = get_le32(p + 4),
		.who = p + SUM_HEAD_BYTES };
	if (!out->n || out->n > SUM_CONTRIBUTORS_MAX || (out->nrows && !width) ||
	    len < sum_body_head_bytes(out->n) || !ranks_ascend(out))
		return false;
	left = len - sum_body_head_bytes(out->n);
	out->ids = p + sum_body_head_bytes(out->n);
	if (left / 8 < out->nrows)
		return false;
	out->values = out->ids + (size_t)out->nrows * 8;
	out->len = left - (size_t)out->nrows * 8;
	if (width && out->nrows &&
	    out->len == (size_t)out->nrows * ((size_t)width * 4 + PAYLOAD_COUNT_BYTES)) {
		out->len -= (size_t)out->nrows * PAYLOAD_COUNT_BYTES;
		out->touching = out->values + out->len;
	}
	return !width || out->len == (size_t)out->nrows * width * 4;
}

void sum_body_put_summed(struct buf *b, const struct payload_summed *m)
{
	uint8_t *p = buf_reserve(b, PAYLOAD_SUMMED_BYTES);

	put_le16(p, m->table);
	p[2] = m->status;
	p[3] = m->replicas;
	put_le32(p + 4, m->part);
	put_le64(p + 8, m->seq);
	put_le64(p + 16, m->version);
	buf_commit(b, PAYLOAD_SUMMED_BYTES);
}

bool sum_body_get_summed(const uint8_t *p, size_t len, size_t i, struct payload_summed *out)
{
	if (len < PAYLOAD_SUMMED_BYTES || i > len / PAYLOAD_SUMMED_BYTES - 1)
		return false;
	p += i * PAYLOAD_SUMMED_BYTES;
	*out = (struct payload_summed){ .table = get_le16(p),
		.status = p[2],
		.replicas = p[3],
		.part = get_le32(p + 4),
		.seq = get_le64(p + 8),
		.version = get_le64(p + 16) };
	return true;
}

/* ---- clocks ---- */

/* An entry: u32 rank, u32 examples, u64 incarnation, u64 step, u32 flags, u32 length of runs,
 * runs. */
#define CLOCK_HEAD 32
enum { CLOCK_IS = 1, CLOCK_DONE = 2 };

static size_t pad_runs(size_t n)
{
	return (n + 7) / 8 * 8;
}

size_t sum_body_clocks_bytes(const struct rank_clock *c)
{
	return CLOCK_HEAD + pad_runs(c->len);
}

void sum_body_clocks_put(struct buf *b, const struct rank_clock *c)
{
	uint8_t *p = buf_reserve(b, sum_body_clocks_bytes(c));

	put_le32(p, c->rank);
	put_le32(p + 4, c->examples);
	put_le64(p + 8, c->incarnation);
	put_le64(p + 16, c->step);
	put_le32(p + 24, (c->clocks ? CLOCK_IS : 0) | (c->done ? CLOCK_DONE : 0));
	put_le32(p + 28, (uint32_t)c->len);
	memset(p + CLOCK_HEAD, 0, pad_runs(c->len));
	if (c->len)
		memcpy(p + CLOCK_HEAD, c->runs, c->len);
	buf_commit(b, sum_body_clocks_bytes(c));
}

bool sum_body_clocks_next(const uint8_t *p, size_t len, size_t *at, struct rank_clock *out,
    bool *bad)
{
	size_t left = len - *at;
	uint32_t flags;

	*bad = false;
	if (!left)
		return false;
	*bad = true;
	if (left < CLOCK_HEAD)
		return false;
	p += *at;
	flags = get_le32(p + 24);
	*out = (struct rank_clock){ .rank = get_le32(p),
		.examples = get_le32(p + 4),
		.incarnation = get_le64(p + 8),
		.step = get_le64(p + 16),
		.clocks = flags & CLOCK_IS,
		.done = flags & CLOCK_DONE,
		.runs = p + CLOCK_HEAD,
		.len = get_le32(p + 28) };
	if (out->rank >= SUM_CONTRIBUTORS_MAX || out->step >= STEPS_END ||
	    flags > (CLOCK_IS | CLOCK_DONE) || out->len > left ||
	    left < sum_body_clocks_bytes(out) || !payload_runs_valid(out->runs, out->len))
		return false;
	*at += sum_body_clocks_bytes(out);
	*bad = false;
	return true;
}
