/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "serving/nearest_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The body of POST /nearest. The length of each text is asked for, which reads it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct nearest_request r;
	struct err e;
	volatile size_t bytes = 0;

	if (nearest_request_parse((const char *)data, n, 1 << 10, &r, &e) == ERR_OK) {
		for (size_t i = 0; i < r.n; i++)
			bytes += strlen(r.query[i]);
		for (size_t i = 0; i < r.nexclude; i++)
			bytes += strlen(r.exclude[i]);
	}
	nearest_request_release(&r);
	return 0;
}
