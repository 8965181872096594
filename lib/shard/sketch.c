#include "shard/sketch.h"

#include <stdlib.h>
#include <string.h>

#include "base/endian.h"
#include "base/mem.h"
#include "base/rng.h"

#define LINE 64u
#define ROWS 4u                 /* counters that an id has */
#define WIDTH (LINE / ROWS)
#define WORDS (LINE / 8)

void sketch_release(struct sketch *s)
{
	free(s->line);
	*s = (struct sketch){ 0 };
}

/* All copies do the same: without memory this one ends. */
static void make(struct sketch *s, uint32_t lines)
{
	s->lines = lines;
	s->line = mem_try_array(lines, LINE);
	if (!s->line)
		mem_fail();
}

static uint32_t lines_of(uint64_t bytes)
{
	uint32_t lines = 1;

	while (lines < 1u << 31 && (uint64_t)lines * 2 * LINE <= bytes)
		lines *= 2;
	return lines;
}

/* Another hash than that which chose the partition. */
static uint64_t hash_of(uint64_t id)
{
	return rng_mix(rng_mix(id) ^ UINT64_C(0x5bd1e995c2b2ae35));
}

unsigned sketch_add(struct sketch *s, uint64_t id, uint64_t bytes)
{
	uint64_t hash = hash_of(id);
	unsigned least = SKETCH_MOST;
	uint8_t *c[ROWS], *line;

	if (!s->lines)
		make(s, lines_of(bytes));
	line = s->line[(uint32_t)(hash >> 32) & (s->lines - 1)];
	for (unsigned k = 0; k < ROWS; k++) {
		c[k] = line + k * WIDTH + (hash >> 4 * k) % WIDTH;
		least = *c[k] < least ? *c[k] : least;
	}
	if (least == SKETCH_MOST)
		return least;
	for (unsigned k = 0; k < ROWS; k++)
		*c[k] = (uint8_t)(*c[k] + (*c[k] == least));
	return least + 1;
}

void sketch_halve(struct sketch *s)
{
	uint8_t *c = s->lines ? s->line[0] : NULL;

	for (size_t i = 0; i < (size_t)s->lines * LINE; i++)
		c[i] /= 2;
}

size_t sketch_bytes(const struct sketch *s)
{
	return (size_t)s->lines * LINE;
}

size_t sketch_words(const struct sketch *s)
{
	return 1 + (size_t)s->lines * WORDS;
}

void sketch_put(const struct sketch *s, uint64_t *out)
{
	out[0] = s->lines;
	for (size_t i = 0; i < (size_t)s->lines * WORDS; i++)
		out[1 + i] = get_le64(s->line[0] + i * 8);
}

size_t sketch_get(struct sketch *s, const uint64_t *in, size_t n)
{
	if (!n || in[0] > (n - 1) / WORDS || (in[0] & (in[0] - 1)))
		return 0;
	if (in[0])
		make(s, (uint32_t)in[0]);
	for (size_t i = 0; i < (size_t)s->lines * WORDS; i++)
		put_le64(s->line[0] + i * 8, in[1 + i]);
	return sketch_words(s);
}
