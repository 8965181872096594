/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "codec/keys.h"

/* Any bytes are a block of ids that ascend, or refused. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct zip *zip = zip_new();
	uint8_t *p = malloc(n + 1);
	struct keys_block b;
	uint64_t *ids;

	if (!p)
		abort();
	memcpy(p, data, n);
	if (keys_parse(p, n, &b) && b.form != KEYS_NAMED && b.n <= 4096) {
		ids = malloc(b.n * sizeof *ids + 1);
		if (!ids || (keys_get(zip, &b, ids) && !keys_ascend(ids, b.n)))
			abort();
		free(ids);
	}
	free(p);
	zip_free(zip);
	return 0;
}
