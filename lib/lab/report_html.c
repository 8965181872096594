/* SPDX-License-Identifier: ISC */
#include "lab/report_html.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"

/* Quotes are escaped, too, so that a text may stand in an attribute. Invalid UTF-8 is repaired
 * first: names and messages come from files. */
void report_html_text(struct buf *out, const char *s)
{
	struct buf clean = BUF_INIT;

	utf8_repair(&clean, s, strlen(s));
	for (size_t i = 0; i < clean.len; i++) {
		char c = (char)clean.data[i];

		if (c == '&')
			buf_puts(out, "&amp;");
		else if (c == '<')
			buf_puts(out, "&lt;");
		else if (c == '>')
			buf_puts(out, "&gt;");
		else if (c == '"')
			buf_puts(out, "&quot;");
		else if (c == '\'')
			buf_puts(out, "&#39;");
		else
			buf_append(out, &c, 1);
	}
	buf_release(&clean);
}

void report_html_printf(struct buf *out, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	report_html_text(out, text ? text : "");
	free(text);
}
