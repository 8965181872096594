/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "codec/delta.h"
#include "math/vec.h"

/* Any bytes are an encoding of so many values or refused; what is taken is finite, also
 * when it is weighted as much as can be.  First byte: which codec, or changes by one;
 * two more: how many values, or rows and in the last bits their width less one. */
enum {
#define CODEC(name, number, form) INDEX_##name,
#include "codec/codec.def"
#undef CODEC
	CODECS
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct codec *c = n < 3 ? NULL : codec_at(data[0] % CODECS);
	bool changes = n >= 3 && data[0] / CODECS % 2;
	size_t count, len, width;
	uint8_t *p;
	float *sum;

	if (!c)
		return 0;
	count = data[1] | (size_t)(data[2] & 15) << 8;
	width = changes ? 1 + (data[2] >> 6) : 1;
	len = n - 3;
	/* Exactly so long, and aligned as the wire has it. */
	p = malloc(len + 1);
	sum = calloc(count * width + 1, sizeof *sum);
	if (!p || !sum)
		abort();
	memcpy(p, data + 3, len);
	if (changes && delta_check(c, p, len, count, width) == CODEC_GOOD) {
		delta_apply(c, p, len, count, width, NULL, sum);
		if (!vec_all_finite(count * width, sum))
			abort();
	} else if (!changes && c->check(p, len, count) == CODEC_GOOD) {
		c->add(p, len, count, 4294967295.0f, sum);
		if (!vec_all_finite(count, sum))
			abort();
	}
	free(sum);
	free(p);
	return 0;
}
