/* SPDX-License-Identifier: ISC */
#include "core/plain.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

void plain_text(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

/* A newline at the very end is the only control character that is kept. */
void plain_print(FILE *f, const char *fmt, ...)
{
	char *line = NULL;
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&line, fmt, ap) < 0)
		mem_fail();
	va_end(ap);
	n = strlen(line);
	if (n && line[n - 1] == '\n')
		line[n - 1] = 0;
	else
		n = 0;
	plain_text(line);
	fputs(line, f);
	if (n)
		fputc('\n', f);
	free(line);
}

void plain_put_tsv_cell(struct buf *out, const char *text)
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
