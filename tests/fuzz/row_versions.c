/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "codec/row_versions.h"

/* The first two bytes are the number of rows. The others are their versions, or are refused. Versions
 * that were read and encoded again must not become newer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	size_t rows = n < 2 ? 0 : data[0] | (size_t)(data[1] & 3) << 8, len;
	uint64_t had[1024], again[1024];
	uint8_t *p = malloc(n + 1), *out = malloc(row_versions_bound(rows));
	struct zip *zip = zip_new();

	if (!p || !out)
		abort();
	if (n >= 2)
		memcpy(p, data + 2, n - 2);
	if (n >= 2 && row_versions_get(zip, p, n - 2, rows, had)) {
		len = row_versions_put(zip, had, rows, out);
		if (len > row_versions_bound(rows) || !row_versions_get(zip, out, len, rows, again))
			abort();
		for (size_t i = 0; i < rows; i++)
			if (again[i] > had[i] ||
			    (again[i] == ROW_VERSION_NONE) != (had[i] == ROW_VERSION_NONE))
				abort();
	}
	zip_free(zip);
	free(out);
	free(p);
	return 0;
}
