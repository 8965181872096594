/* SPDX-License-Identifier: ISC */
#include "codec/row_versions.h"

#include "core/endian.h"

#define HEAD 9u

size_t row_versions_bound(size_t n)
{
	return HEAD + n;
}

static uint64_t newest_version(const uint64_t *version, size_t n)
{
	uint64_t top = 0;

	for (size_t i = 0; i < n; i++)
		if (version[i] != ROW_VERSION_NONE && version[i] > top)
			top = version[i];
	return top;
}

static uint8_t bit_length(uint64_t age)
{
	return age ? (uint8_t)(64 - __builtin_clzll(age)) : 0;
}

size_t row_versions_put(struct zip *z, const uint64_t *version, size_t n, uint8_t *out)
{
	uint64_t top = newest_version(version, n);
	size_t zipped;

	for (size_t i = 0; i < n; i++)
		out[HEAD + i] = version[i] == ROW_VERSION_NONE ? 0
		                                               : 1 + bit_length(top - version[i]);
	zipped = zip_shrink(z, out + HEAD, n);
	put_le64(out, top);
	out[8] = zipped != 0;
	return HEAD + (zipped ? zipped : n);
}

/* A byte is at most 65: ages are below 2^64. An age that reaches the newest version or beyond gives
 * version 0. */
bool row_versions_get(struct zip *z, const uint8_t *p, size_t len, size_t n, uint64_t *version)
{
	const uint8_t *b = p + HEAD;
	size_t got = len - HEAD;
	uint64_t top, age;

	if (len < HEAD || p[8] > 1)
		return false;
	top = get_le64(p);
	if (p[8])
		b = zip_expand(z, b, got, n, &got);
	if (!b || got != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (b[i] > 65)
			return false;
		age = b[i] > 64 ? UINT64_MAX : (UINT64_C(1) << (b[i] ? b[i] - 1 : 0)) - 1;
		version[i] = !b[i] ? ROW_VERSION_NONE : age < top ? top - age : 0;
	}
	return true;
}
