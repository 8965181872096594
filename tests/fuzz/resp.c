/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "core/endian.h"
#include "core/rng.h"
#include "serving/resp_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Parses all of the n bytes as commands, of which `step` more are there each time. Returns a digest of the
 * commands and of the end. */
static uint64_t parse_stream(const uint8_t *p, size_t n, size_t step, bool early)
{
	struct resp_parser parser = { .bulk = -1 };
	uint64_t digest = 0;
	size_t at = 0, there = 0;

	while (at <= n) {
		const char *why;
		size_t used = 0;
		enum resp_result r = resp_parse(&parser, p + at, there - at, early, &used, &why);

		if (r == RESP_MORE && there == n)
			break;
		if (r == RESP_MORE) {
			there = n - there < step ? n : there + step;
			continue;
		}
		digest = rng_mix(digest ^ (uint64_t)r);
		if (r == RESP_ERROR)
			break;
		if (!used || used > there - at || parser.n > RESP_BYTES)
			abort();
		for (size_t i = 0; i < parser.n; i++) {
			digest = rng_mix(digest ^ parser.arg[i].n);
			for (size_t k = 0; k < parser.arg[i].n; k++)
				digest = rng_mix(digest ^ p[at + parser.arg[i].at + k]);
		}
		at += used;
	}
	resp_parser_release(&parser);
	return digest;
}

/* However the bytes arrive, the commands are the same. The first byte says how many arrive at a time. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	bool early = n && data[0] & 1;

	if (!n)
		return 0;
	if (parse_stream(data + 1, n - 1, n, early) !=
	    parse_stream(data + 1, n - 1, 1 + data[0] / 2, early))
		abort();
	return 0;
}
