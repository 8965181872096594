/* SPDX-License-Identifier: ISC */
#include "shard/row_sketch.h"

#include <stdlib.h>
#include <string.h>

#include "core/endian.h"
#include "core/mem.h"
#include "core/rng.h"

#define LINE  64u
#define ROWS  4u /* counters of an id */
#define WIDTH (LINE / ROWS)
#define WORDS (LINE / 8)

void row_sketch_release(struct row_sketch *s)
{
	free(s->line);
	*s = (struct row_sketch){ 0 };
}

/* All replicas count alike, so without memory this one ends. */
static void alloc_sketch_lines(struct row_sketch *s, uint32_t lines)
{
	s->lines = lines;
	s->line = mem_try_array(lines, LINE);
	if (!s->line)
		mem_fail();
}

/* The greatest power of two of lines that fit into the bytes; at least 1. */
static uint32_t lines_for_bytes(uint64_t bytes)
{
	uint32_t lines = 1;

	while (lines < 1u << 31 && (uint64_t)lines * 2 * LINE <= bytes)
		lines *= 2;
	return lines;
}

/* A hash that is independent of the one that chose the partition. */
static uint64_t sketch_hash(uint64_t id)
{
	return rng_mix(rng_mix(id) ^ UINT64_C(0x5bd1e995c2b2ae35));
}

unsigned row_sketch_add(struct row_sketch *s, uint64_t id, uint64_t bytes)
{
	uint64_t hash = sketch_hash(id);
	unsigned least = ROW_SKETCH_COUNT_MAX;
	uint8_t *c[ROWS], *line;

	if (!s->lines)
		alloc_sketch_lines(s, lines_for_bytes(bytes));
	line = s->line[(uint32_t)(hash >> 32) & (s->lines - 1)];
	for (unsigned k = 0; k < ROWS; k++) {
		c[k] = line + k * WIDTH + (hash >> 4 * k) % WIDTH;
		least = *c[k] < least ? *c[k] : least;
	}
	if (least == ROW_SKETCH_COUNT_MAX)
		return least;
	for (unsigned k = 0; k < ROWS; k++)
		*c[k] = (uint8_t)(*c[k] + (*c[k] == least));
	return least + 1;
}

void row_sketch_halve(struct row_sketch *s)
{
	uint8_t *c = s->lines ? s->line[0] : NULL;

	for (size_t i = 0; i < (size_t)s->lines * LINE; i++)
		c[i] /= 2;
}

size_t row_sketch_bytes(const struct row_sketch *s)
{
	return (size_t)s->lines * LINE;
}

size_t row_sketch_words(const struct row_sketch *s)
{
	return 1 + (size_t)s->lines * WORDS;
}

void row_sketch_put(const struct row_sketch *s, uint64_t *out)
{
	out[0] = s->lines;
	for (size_t i = 0; i < (size_t)s->lines * WORDS; i++)
		out[1 + i] = get_le64(s->line[0] + i * 8);
}

size_t row_sketch_get(struct row_sketch *s, const uint64_t *in, size_t n)
{
	if (!n || in[0] > (n - 1) / WORDS || (in[0] & (in[0] - 1)))
		return 0;
	if (in[0])
		alloc_sketch_lines(s, (uint32_t)in[0]);
	for (size_t i = 0; i < (size_t)s->lines * WORDS; i++)
		put_le64(s->line[0] + i * 8, in[1 + i]);
	return row_sketch_words(s);
}
