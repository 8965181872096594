/* SPDX-License-Identifier: ISC */
#include "core/tsv.h"

#include <string.h>

void tsv_put_cell(struct buf *out, const char *text)
{
	static const char special[] = "\t\n\r\\", letter[] = "tnr\\";

	for (size_t n; *text; text += n) {
		n = strcspn(text, special);
		buf_append(out, text, n);
		if (text[n]) {
			buf_printf(out, "\\%c", letter[strchr(special, text[n]) - special]);
			n++;
		}
	}
}
