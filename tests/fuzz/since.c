/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "codec/since.h"

/* Any bytes say as of which versions so many rows are had, or are refused; what is written
 * of what was read says no newer ones.  Two bytes: how many rows. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	size_t rows = n < 2 ? 0 : data[0] | (size_t)(data[1] & 3) << 8, len;
	uint64_t had[1024], again[1024];
	uint8_t *p = malloc(n + 1), *out = malloc(since_bound(rows));
	struct zip *zip = zip_new();

	if (!p || !out)
		abort();
	if (n >= 2)
		memcpy(p, data + 2, n - 2);
	if (n >= 2 && since_get(zip, p, n - 2, rows, had)) {
		len = since_put(zip, had, rows, out);
		if (len > since_bound(rows) || !since_get(zip, out, len, rows, again))
			abort();
		for (size_t i = 0; i < rows; i++)
			if (again[i] > had[i] ||
			    (again[i] == SINCE_NEVER) != (had[i] == SINCE_NEVER))
				abort();
	}
	zip_free(zip);
	free(out);
	free(p);
	return 0;
}
