/* SPDX-License-Identifier: ISC */
#include "data/reader/data_unsupported.h"

#include <string.h>

/* Files that people take for tables, by their first bytes, and what makes a table of them. */
static const struct unsupported_file {
	const char *magic;
	const char *what;
} unsupported_files[] = {
	{ "PK\3\4", "an Excel workbook or another zip archive; save the sheet as CSV" },
	{ "\xd0\xcf\x11\xe0", "an old Excel workbook; save the sheet as CSV" },
	{ "PAR1", "Parquet; convert it to CSV or JSON Lines, as with pandas' to_csv" },
	{ "ARROW1", "an Arrow file; convert it to CSV or JSON Lines, as with pandas' to_csv" },
	{ "SQLite format 3", "an SQLite database; sqlite3 -header -csv writes a query as CSV" },
	{ "%PDF", "a PDF document, which has no table that can be read" },
	{ "\x1f\x8b", "compressed twice; decompress it once, as with gunzip" },
	{ "\x28\xb5\x2f\xfd", "compressed twice; decompress it once, as with unzstd" },
	{ "BZh91AY", "compressed with bzip2; compress it with gzip or zstd instead" },
	{ "\xfd"
	  "7zXZ",
	    "compressed with xz; compress it with gzip or zstd instead" },
	{ "7z\xbc\xaf", "a 7z archive; extract its files" },
	{ "Rar!", "a RAR archive; extract its files" },
	{ "\x89HDF", "HDF5; convert it to CSV or npy" },
	{ "@RELATION", "ARFF; sed '1,/^@data/Id' removes its header, and leaves CSV" },
	{ "@relation", "ARFF; sed '1,/^@data/Id' removes its header, and leaves CSV" },
	{ "{'", "a dictionary of Python and no JSON; write it with json.dumps" },
	{ "<", "XML or a web page; check the address of the download" },
};

/* The place of the name of the format in the first header of a tar archive. */
#define TAR_MAGIC 257u

/* A line of text, without its end. */
struct text_line {
	const char *p;
	size_t n;
};

/* The first line of the text from *at on, past which *at moves. */
static struct text_line take_text_line(const char **at, const char *end)
{
	const char *nl = memchr(*at, '\n', (size_t)(end - *at));
	struct text_line line = { *at, (size_t)((nl ? nl : end) - *at) };

	*at = nl ? nl + 1 : end;
	while (line.n && strchr(" \t\r", line.p[line.n - 1]))
		line.n--;
	while (line.n && strchr(" \t", *line.p)) {
		line.p++;
		line.n--;
	}
	return line;
}

/* Is the line a rule of a table with a frame, as |---|:--:| or +-----+----+? */
static bool is_rule(struct text_line line)
{
	bool cross = false;

	for (size_t i = 0; i < line.n; i++) {
		if (!strchr("+|-:= ", line.p[i]))
			return false;
		cross |= line.p[i] == '+' || line.p[i] == '|';
	}
	return cross && memmem(line.p, line.n, "---", 3);
}

/* Has one of the first lines the rule of a frame? */
static bool has_frame(const char *p, size_t n)
{
	const char *at = p, *end = p + n;

	for (int i = 0; i < 3 && at < end; i++)
		if (is_rule(take_text_line(&at, end)))
			return true;
	return false;
}

/* Do lines have the form [1, 2, 3]? */
static bool has_brackets(const char *p, size_t n)
{
	const char *at = p;
	struct text_line line = take_text_line(&at, p + n);

	return line.n > 2 && *line.p == '[' && line.p[line.n - 1] == ']' &&
	    !memchr(line.p, '{', line.n) && !memchr(line.p + 1, '[', line.n - 1);
}

static bool begins_with(const uint8_t *p, size_t n, const char *magic)
{
	size_t len = strlen(magic);

	return n >= len && memcmp(p, magic, len) == 0;
}

/* Is the first file of a zip archive named *.npy? APPNOTE of PKWARE, 4.3.7: the length of the name
 * is in bytes 26 and 27, and the name from byte 30 on. */
static bool is_npz(const uint8_t *p, size_t n)
{
	size_t len = n > 30 ? p[26] + 256u * p[27] : 0;

	return begins_with(p, n, "PK\3\4") && len > 4 && 30 + len <= n &&
	    memcmp(p + 30 + len - 4, ".npy", 4) == 0;
}

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

/* Do lines end in carriage returns alone, as on old Macs? */
static bool has_old_lines(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] == '\n' || (p[i] < ' ' && p[i] != '\t' && p[i] != '\r'))
			return false;
	return memchr(p, '\r', n > 0 ? n - 1 : 0) != NULL;
}

bool data_unsupported_has_nul(const uint8_t *p, size_t n, size_t *line)
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

/* NUL bytes are not looked at: strchr finds them, too. */
bool data_unsupported_has_control(const uint8_t *p, size_t n, size_t *line, uint8_t *byte)
{
	*line = 1;
	for (size_t i = 0; i < n; i++) {
		if ((p[i] < ' ' && !strchr("\t\n\v\f\r", p[i])) || p[i] == 0x7f) {
			*byte = p[i];
			return true;
		}
		*line += p[i] == '\n';
	}
	return false;
}

enum err_code data_unsupported_refuse_lines(const struct stream *s, const uint8_t *p, size_t n,
    struct err *e)
{
	return !has_old_lines(p, n)
	    ? ERR_OK
	    : err_set(e, ERR_FORMAT,
	          "%s: its lines end in carriage returns; convert it with tr '\\r' '\\n'",
	          stream_name(s));
}

enum err_code data_unsupported_refuse(const struct stream *s, const uint8_t *p, size_t n,
    struct err *e)
{
	enum err_code rc = data_unsupported_refuse_lines(s, p, n, e);

	if (rc)
		return rc;
	if (is_utf16(p, n))
		return err_set(e, ERR_FORMAT,
		    "%s: is text in UTF-16; convert it with iconv -f UTF-16%s -t UTF-8",
		    stream_name(s), *p < 0xfe ? *p ? "LE" : "BE" : "");
	if (is_npz(p, n))
		return err_set(e, ERR_FORMAT,
		    "%s: is an npz archive of numpy; save the array alone, as with numpy.save, or unzip it "
		    "and name one of its npy files",
		    stream_name(s));
	for (size_t i = 0; i < sizeof unsupported_files / sizeof unsupported_files[0]; i++)
		if (begins_with(p, n, unsupported_files[i].magic))
			return err_set(e, ERR_FORMAT, "%s: is %s", stream_name(s),
			    unsupported_files[i].what);
	if (n > TAR_MAGIC && begins_with(p + TAR_MAGIC, n - TAR_MAGIC, "ustar"))
		return err_set(e, ERR_FORMAT, "%s: is a tar archive; extract its files",
		    stream_name(s));
	if (has_frame((const char *)p, n))
		return err_set(e, ERR_FORMAT,
		    "%s: is a table with a frame, as in Markdown; convert it with sed -n "
		    "'/^[-+|:= ]*$/d; s/^ *|//; s/| *$//; s/ *| */|/gp'",
		    stream_name(s));
	if (has_brackets((const char *)p, n))
		return err_set(e, ERR_FORMAT,
		    "%s: has its lines in brackets; convert it with tr -d '[]'", stream_name(s));
	return ERR_OK;
}
