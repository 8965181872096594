/* SPDX-License-Identifier: ISC */
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static char csv[] = "csv", one[] = "1", category[] = "category", standard[] = "standard";
	struct data_options o = DATA_OPTIONS_INIT;

	o.format = csv;
	read_all(&o, data, n);
	o.missing = category;
	o.scale = standard;
	read_all(&o, data, n);
	o.weight = one;
	o.bits = 4;
	read_all(&o, data, n);
	return 0;
}
