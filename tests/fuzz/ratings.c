/* SPDX-License-Identifier: ISC */
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static char ratings[] = "ratings", user[] = "user", one[] = "1";
	struct data_options o = DATA_OPTIONS_INIT;

	o.format = ratings;
	read_all(&o, data, n);
	o.user = user;
	o.rating = one;
	read_all(&o, data, n);
	return 0;
}
