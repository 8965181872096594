#include "shard/stamps.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kern/clones.h"

/* So many versions are told apart; then the older half becomes one. */
#define SPAN 65535u
/* Values looked at together. */
#define PIECE 64u

struct stamps {
	uint64_t base;                  /* at[i]: version less base; 0: not since base */
	size_t n;
	uint16_t at[];
};

size_t stamps_bytes(size_t n)
{
	return sizeof(struct stamps) + n * sizeof(uint16_t);
}

struct stamps *stamps_new(size_t n, uint64_t version)
{
	struct stamps *s = mem_try_array(1, stamps_bytes(n));

	if (s)
		*s = (struct stamps){ .base = version, .n = n };
	return s;
}

void stamps_free(struct stamps *s)
{
	free(s);
}

void stamps_reset(struct stamps *s, uint64_t version)
{
	s->base = version;
	memset(s->at, 0, s->n * sizeof *s->at);
}

static void forget_half(struct stamps *s)
{
	uint16_t half = SPAN / 2;

	for (size_t i = 0; i < s->n; i++)
		s->at[i] = s->at[i] > half ? (uint16_t)(s->at[i] - half) : 0;
	s->base += half;
}

/* stamp where the bits differ. */
KERN_CLONES static void mark(size_t n, const uint32_t *old, const uint32_t *now, uint16_t stamp, uint16_t *at)
{
	for (size_t i = 0; i < n; i++)
		at[i] = old[i] == now[i] ? at[i] : stamp;
}

KERN_CLONES static uint32_t count_after(size_t n, const uint16_t *at, uint16_t after)
{
	uint32_t k = 0;

	for (size_t i = 0; i < n; i++)
		k += at[i] > after;
	return k;
}

void stamps_note(struct stamps *s, uint64_t version, size_t at, size_t n, const float *old, const float *now)
{
	uint32_t a[PIECE], b[PIECE];

	if (version - s->base > SPAN)
		forget_half(s);
	for (size_t done = 0; done < n; done += PIECE) {
		size_t k = n - done < PIECE ? n - done : PIECE;

		memcpy(a, old + done, k * sizeof *a);
		memcpy(b, now + done, k * sizeof *b);
		mark(k, a, b, (uint16_t)(version - s->base), s->at + at + done);
	}
}

size_t stamps_since(const struct stamps *s, uint64_t since, size_t most, uint32_t *place)
{
	uint16_t after = since - s->base > SPAN ? SPAN : (uint16_t)(since - s->base);
	size_t k;

	if (since < s->base)
		return SIZE_MAX;
	k = count_after(s->n, s->at, after);
	if (k > most)
		return SIZE_MAX;
	for (size_t at = 0, left = k; left; at += PIECE) {
		size_t n = s->n - at < PIECE ? s->n - at : PIECE;

		if (!count_after(n, s->at + at, after))
			continue;
		for (size_t i = at; i < at + n; i++)
			if (s->at[i] > after) {
				*place++ = (uint32_t)i;
				left--;
			}
	}
	return k;
}
