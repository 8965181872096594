/* SPDX-License-Identifier: ISC */
#include "shard/change_log.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "math/clones.h"

/* The number of versions that can be distinguished; after them the older half is merged. */
#define SPAN 65535u
/* Values compared together. */
#define PIECE 64u

struct change_log {
	/* at[i]: version - base of the last change; 0: not since base. */
	uint64_t base;
	size_t n;
	uint16_t at[];
};

size_t change_log_bytes(size_t n)
{
	return sizeof(struct change_log) + n * sizeof(uint16_t);
}

struct change_log *change_log_new(size_t n, uint64_t version)
{
	struct change_log *s = mem_try_array(1, change_log_bytes(n));

	if (s)
		*s = (struct change_log){ .base = version, .n = n };
	return s;
}

void change_log_free(struct change_log *s)
{
	free(s);
}

void change_log_reset(struct change_log *s, uint64_t version)
{
	s->base = version;
	memset(s->at, 0, s->n * sizeof *s->at);
}

/* Moves the base up by half the span. */
static void forget_older_half(struct change_log *s)
{
	uint16_t half = SPAN / 2;

	for (size_t i = 0; i < s->n; i++)
		s->at[i] = s->at[i] > half ? (uint16_t)(s->at[i] - half) : 0;
	s->base += half;
}

/* Stamps the values whose bits differ. The loops have no branch, so that they are vectorized. */
KERN_CLONES static void stamp_differences(size_t n, const uint32_t *old, const uint32_t *now,
    uint16_t stamp, uint16_t *at)
{
	for (size_t i = 0; i < n; i++)
		at[i] = old[i] == now[i] ? at[i] : stamp;
}

/* Counts the values with a newer stamp; without a branch, for the same reason. */
KERN_CLONES static uint32_t count_stamps_after(size_t n, const uint16_t *at, uint16_t after)
{
	uint32_t k = 0;

	for (size_t i = 0; i < n; i++)
		k += at[i] > after;
	return k;
}

/* The values are copied to arrays of integers of fixed size: comparing bits, not floats, without
 * breaking the rules of aliasing. */
void change_log_note(struct change_log *s, uint64_t version, size_t at, size_t n, const float *old,
    const float *now)
{
	uint32_t a[PIECE], b[PIECE];

	if (version - s->base > SPAN)
		forget_older_half(s);
	for (size_t done = 0; done < n; done += PIECE) {
		size_t k = n - done < PIECE ? n - done : PIECE;

		memcpy(a, old + done, k * sizeof *a);
		memcpy(b, now + done, k * sizeof *b);
		stamp_differences(k, a, b, (uint16_t)(version - s->base), s->at + at + done);
	}
}

size_t change_log_since(const struct change_log *s, uint64_t since, size_t most, uint32_t *place)
{
	uint16_t after = since - s->base > SPAN ? SPAN : (uint16_t)(since - s->base);
	size_t k;

	if (since < s->base)
		return SIZE_MAX;
	k = count_stamps_after(s->n, s->at, after);
	if (k > most)
		return SIZE_MAX;
	for (size_t at = 0, left = k; left; at += PIECE) {
		size_t n = s->n - at < PIECE ? s->n - at : PIECE;

		if (!count_stamps_after(n, s->at + at, after))
			continue;
		for (size_t i = at; i < at + n; i++)
			if (s->at[i] > after) {
				*place++ = (uint32_t)i;
				left--;
			}
	}
	return k;
}
