/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "codec/row_ids.h"

/* Any bytes are a block of ids that ascend, or refused. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct zip *zip = zip_new();
	uint8_t *p = malloc(n + 1);
	struct row_ids_block b;
	uint64_t *ids;

	if (!p)
		abort();
	memcpy(p, data, n);
	if (row_ids_parse(p, n, &b) && b.form != ROW_IDS_NAMED && b.n <= 4096) {
		ids = malloc(b.n * sizeof *ids + 1);
		if (!ids || (row_ids_get(zip, &b, ids) && !row_ids_ascend(ids, b.n)))
			abort();
		free(ids);
	}
	free(p);
	zip_free(zip);
	return 0;
}
