/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/launch.h"

#define TAIL_MAX   65536
#define LAST_WORDS 40

/* Only the last TAIL_MAX bytes are read, whatever the size of the log; if they have fewer than
 * nlines lines, the first may be cut. A newline at the very end does not begin another line. */
enum err_code launch_tail(const char *log_path, size_t nlines, struct buf *out, struct err *e)
{
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	enum err_code rc = ERR_OK;
	struct buf text = BUF_INIT;
	struct stat st;
	size_t from, newlines = 0;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot read %s",
		    log_path);
	if (fstat(fd, &st) == 0 && st.st_size > TAIL_MAX)
		lseek(fd, st.st_size - TAIL_MAX, SEEK_SET);
	/* The log may grow meanwhile; later lines are not read. */
	buf_reserve(&text, TAIL_MAX);
	do {
		n = read(fd, buf_reserve(&text, 4096), 4096);
		if (n > 0)
			buf_commit(&text, (size_t)n);
	} while ((n > 0 && text.len < TAIL_MAX) || (n < 0 && errno == EINTR));
	if (n < 0)
		rc = err_sys(e, ERR_IO, "cannot read %s", log_path);
	close(fd);
	for (from = text.len; from > 0; from--) {
		bool last = from == text.len;

		if (text.data[from - 1] == '\n' && !last && ++newlines == nlines)
			break;
	}
	if (text.len > 0 && nlines > 0)
		buf_append(out, text.data + from, text.len - from);
	buf_release(&text);
	return rc;
}

static size_t line_length(const char *line, const char *end)
{
	const char *newline = memchr(line, '\n', (size_t)(end - line));

	return (size_t)((newline ? newline : end) - line);
}

/* A line of a log that says an error: "TIME NAME error TEXT" or "ps-work: TEXT", maybe with
 * "[CAUSE]" after "error" or the name of the program. */
struct error_line {
	const char *tag; /* "[CAUSE]", or NULL */
	size_t tag_bytes;
	const char *text;
};

/* The line ends at `end`. False: it is not an error. */
static bool parse_error_line(const char *line, const char *end, struct error_line *out)
{
	bool reported = end - line > 3 && strncmp(line, "ps-", 3) == 0;
	const char *at = line, *close;

	if (reported) {
		while (at < end && (*at == '-' || (*at >= 'a' && *at <= 'z')))
			at++;
	} else {
		for (int field = 0; field < 2 && at; field++) {
			at = memchr(at, ' ', (size_t)(end - at));
			at = at ? at + 1 : NULL;
		}
		if (!at || end - at < 6 || strncmp(at, "error", 5) != 0)
			return false;
		at += 5;
	}
	*out = (struct error_line){ 0 };
	close = at < end && *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL;
	if (close) {
		out->tag = at;
		out->tag_bytes = (size_t)(close + 1 - at);
		at = close + 1;
	}
	if (at == end || *at != (reported ? ':' : ' '))
		return false;
	out->text = at + 1;
	while (out->text < end && *out->text == ' ')
		out->text++;
	return true;
}

const char *launch_error_of_line(const char *line)
{
	struct error_line l;

	return parse_error_line(line, line + strlen(line), &l) ? l.text : NULL;
}

/* Appends the line without its tag. */
static enum err_cause append_untagged(const char *line, size_t n, struct buf *out)
{
	struct error_line l;
	char name[32];

	if (!parse_error_line(line, line + n, &l) || !l.tag) {
		buf_append(out, line, n);
		return CAUSE_UNKNOWN;
	}
	buf_append(out, line, (size_t)(l.tag - line));
	buf_append(out, l.tag + l.tag_bytes, n - (size_t)(l.tag - line) - l.tag_bytes);
	snprintf(name, sizeof name, "%.*s", (int)l.tag_bytes - 2, l.tag + 1);
	return err_cause_by_name(name);
}

/* Chooses the last line that says an error, else the last line. A log that cannot be read leaves
 * out unchanged. */
enum err_cause launch_last_words(const char *log_path, struct buf *out)
{
	struct buf text = BUF_INIT;
	const char *line, *end, *best = NULL;
	struct error_line ignored;
	enum err_cause cause;
	size_t len = 0;
	bool found = false;

	if (launch_tail(log_path, LAST_WORDS, &text, NULL) != ERR_OK || !text.len) {
		buf_release(&text);
		return CAUSE_UNKNOWN;
	}
	end = (const char *)text.data + text.len;
	for (line = (const char *)text.data; line < end; line += len + 1) {
		bool is_error;

		len = line_length(line, end);
		is_error = parse_error_line(line, line + len, &ignored);
		if (is_error || !found) {
			found |= is_error;
			best = line;
		}
	}
	cause = append_untagged(best, line_length(best, end), out);
	buf_release(&text);
	return cause;
}

void launch_how(const struct launch_event *event, char out[static 64])
{
	const char *name = event->signalled ? sigabbrev_np(event->status) : NULL;

	if (name)
		snprintf(out, 64, "ended by SIG%s", name);
	else if (event->signalled)
		snprintf(out, 64, "ended by signal %d", event->status);
	else
		snprintf(out, 64, "ended with code %d", event->status);
}
