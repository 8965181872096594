#include "shard/stamps.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* So many versions are told apart; then the older half becomes one. */
#define SPAN 65535u

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

void stamps_note(struct stamps *s, uint64_t version, size_t at, size_t n, const float *old, const float *now)
{
	const uint8_t *a = (const uint8_t *)old, *b = (const uint8_t *)now;
	uint16_t stamp;

	if (version - s->base > SPAN)
		forget_half(s);
	stamp = (uint16_t)(version - s->base);
	for (size_t i = 0; i < n; i++) {
		uint32_t x, y;

		memcpy(&x, a + i * 4, 4);
		memcpy(&y, b + i * 4, 4);
		s->at[at + i] = x == y ? s->at[at + i] : stamp;
	}
}

size_t stamps_since(const struct stamps *s, uint64_t since, size_t most, uint16_t *place)
{
	uint64_t after = since - s->base;
	size_t k = 0;

	if (since < s->base)
		return SIZE_MAX;
	for (size_t i = 0; i < s->n; i++)
		k += s->at[i] > after;
	if (k > most)
		return SIZE_MAX;
	for (size_t i = 0, left = k; left; i++)
		if (s->at[i] > after) {
			*place++ = (uint16_t)i;
			left--;
		}
	return k;
}
