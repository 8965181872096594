/* SPDX-License-Identifier: ISC */
#include "serving/v2_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The first two bytes are the length of the JSON; 65535: all of the rest. All values are read. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	int64_t head = n >= 2 ? data[0] | data[1] << 8 : -1;
	struct v2_request r;
	struct err e;

	if (n < 2)
		return 0;
	if (head == 65535)
		head = -1;
	if (v2_request_parse((const char *)data + 2, n - 2, head, 1 << 16, NULL, &r, &e) == ERR_OK)
		for (size_t i = 0; i < r.nin; i++)
			for (size_t k = 0; k < r.in[i].rows * r.in[i].cols; k++) {
				struct v2_value v = v2_next(&r.in[i]);
				volatile char last = v.kind == V2_TEXT && v.len ? v.text[v.len - 1]
				                                                : 0;

				(void)last;
			}
	v2_request_release(&r);
	return 0;
}
