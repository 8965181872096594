/* SPDX-License-Identifier: ISC */
#include "data/data_strange.h"

#include <string.h>

/* Files that people take for tables, by their first bytes, and what makes a table of them. */
static const struct stranger {
	const char *magic;
	const char *what;
} strangers[] = {
	{ "PK\3\4", "an Excel workbook or another zip archive; save the sheet as CSV" },
	{ "\xd0\xcf\x11\xe0", "an old Excel workbook; save the sheet as CSV" },
	{ "PAR1", "Parquet; convert it to CSV or JSON Lines, as with pandas' to_csv" },
	{ "ARROW1", "an Arrow file; convert it to CSV or JSON Lines, as with pandas' to_csv" },
	{ "SQLite format 3", "an SQLite database; sqlite3 -header -csv writes a query as CSV" },
	{ "%PDF", "a PDF document, which has no table that can be read" },
	{ "<", "XML or a web page; check the address of the download" },
};

/* Text in UTF-16 begins with a byte order mark, or has a NUL in every other byte. */
static bool is_utf16(const uint8_t *p, size_t n)
{
	bool low = n >= 4, high = n >= 4;

	if (n >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff)))
		return true;
	for (size_t i = 0; i + 1 < n && i < 64; i += 2) {
		low &= p[i] && !p[i + 1];
		high &= !p[i] && p[i + 1];
	}
	return low || high;
}

/* Do lines end in carriage returns alone, as those of old Macs? */
static bool has_old_lines(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] == '\n' || (p[i] < ' ' && p[i] != '\t' && p[i] != '\r'))
			return false;
	return memchr(p, '\r', n > 0 ? n - 1 : 0) != NULL;
}

bool data_strange_has_nul(const uint8_t *p, size_t n, size_t *line)
{
	size_t lines = 1;

	*line = 0;
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\0' && !*line)
			*line = lines;
		else if (p[i] && p[i] < ' ' && p[i] != '\t' && p[i] != '\n' && p[i] != '\r')
			return false;
		lines += p[i] == '\n';
	}
	return *line > 1;
}

enum err_code data_strange_refuse(const struct stream *s, const uint8_t *p, size_t n, struct err *e)
{
	if (has_old_lines(p, n))
		return err_set(e, ERR_FORMAT,
		    "%s: its lines end in carriage returns; convert it with tr '\\r' '\\n'",
		    stream_name(s));
	if (is_utf16(p, n))
		return err_set(e, ERR_FORMAT,
		    "%s: is text in UTF-16; convert it with iconv -f UTF-16%s -t UTF-8",
		    stream_name(s), *p < 0xfe ? *p ? "LE" : "BE" : "");
	for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++)
		if (n >= strlen(strangers[i].magic) &&
		    memcmp(p, strangers[i].magic, strlen(strangers[i].magic)) == 0)
			return err_set(e, ERR_FORMAT, "%s: is %s", stream_name(s),
			    strangers[i].what);
	return ERR_OK;
}
