/* SPDX-License-Identifier: ISC */
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct data_options o = DATA_OPTIONS_INIT;

	o.format = "fasttext";
	o.ngrams = 3;
	read_all(&o, data, n);
	return 0;
}
