#include "report_html.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* jansson takes no string that is not UTF-8. */
static bool is_utf8(const char *s)
{
	json_t *v = json_string(s);
	bool is = v != NULL;

	json_decref(v);
	return is;
}

void html_text(struct buf *out, const char *s)
{
	bool utf8 = is_utf8(s);

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

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
		else if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f || (c >= 0x80 && !utf8))
			buf_puts(out, "\xef\xbf\xbd");
		else
			buf_append(out, s, 1);
	}
}

void html_printf(struct buf *out, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	html_text(out, text ? text : "");
	free(text);
}
