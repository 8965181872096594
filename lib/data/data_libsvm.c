#include <math.h>

#include "base/mem.h"
#include "data/data_build.h"
#include "data/data_num.h"

/* "label index:value index:value ... # comment", the format of LIBSVM and
 * SVMlight.  Indices need not ascend, but may not come twice in a line;
 * "qid:N" is skipped.  Indices begin at 1, or at 0 if any line has a 0. */

static inline bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

static inline bool is_end(char c)
{
	return is_blank(c) || c == '\0' || c == '#';
}

/* A token for a message. */
static void token(char out[static DATA_SHOWN], const char *p)
{
	size_t n = 0;

	while (p[n] && !is_blank(p[n]))
		n++;
	data_shown(out, p, n);
}

/* What is known of the index base before all lines are read. */
struct ids {
	struct data_build *b;
	struct stream *s;
	int base;
};

static enum err_code bad_entry(const struct ids *f, const char *p, struct err *e)
{
	const char *q = p;
	char text[DATA_SHOWN];
	double v;

	token(text, p);
	while (is_digit(*q))
		q++;
	if (q > p && *q == ':') {
		p = data_num(q + 1, &v);
		if (p && *p == ':')
			return stream_fail(f->s, e, "expected index:value, got \"%s\", which looks like libffm's "
			                   "field:index:value", text);
		if (p && is_end(*p))
			return stream_fail(f->s, e, "expected an index below 10^18 and a finite float32 value, "
			                   "got \"%s\"", text);
	}
	return stream_fail(f->s, e, "expected index:value, got \"%s\"", text);
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static enum err_code check_twice(const struct ids *f, const uint64_t *id, size_t n, struct err *e)
{
	uint64_t *sorted = mem_try_array(n, sizeof(*id)), twice = 0;
	bool found = false;

	if (!sorted)
		return err_set(e, ERR_NOMEM, "no memory for a line of %s", stream_name(f->s));
	memcpy(sorted, id, n * sizeof(*id));
	qsort(sorted, n, sizeof(*id), by_id);
	for (size_t i = 1; i < n && !found; i++) {
		found = sorted[i] == sorted[i - 1];
		twice = sorted[i];
	}
	free(sorted);
	if (!found)
		return ERR_OK;
	return stream_fail(f->s, e, "index %llu comes twice", (unsigned long long)twice);
}

/* "index:value" at *pp, which must be followed by a blank or the end; *pp moves
 * behind it, or stays when it is malformed. */
static bool parse_entry(const char **pp, uint64_t *id, float *val)
{
	const char *p = *pp, *first = p;
	uint64_t i = 0;
	double v;

	for (; is_digit(*p); p++)
		i = i * 10 + (uint64_t)(*p - '0');
	/* 18 digits cannot overflow; no longer index is believed. */
	if (p == first || p - first > 18 || *p != ':')
		return false;
	p = data_num(p + 1, &v);
	if (!p || !is_end(*p))
		return false;
	*id = i;
	*val = (float)v;
	if (!isfinite(*val))
		return false;
	*pp = p;
	return true;
}

static enum err_code parse_entries(const struct ids *f, const char *p, size_t len, struct err *e)
{
	bool ascending = true;
	uint64_t *id;
	float *val;
	size_t n = 0;
	enum err_code rc;

	/* An entry takes three bytes and a blank before it. */
	rc = data_build_sparse(f->b, f->s, len / 4 + 1, &id, &val, e);
	if (rc != ERR_OK)
		return rc;
	for (;;) {
		while (is_blank(*p))
			p++;
		if (!*p || *p == '#')
			break;
		if (strncmp(p, "qid:", 4) == 0) {
			while (!is_end(*p))
				p++;
			continue;
		}
		if (!parse_entry(&p, &id[n], &val[n]))
			return bad_entry(f, p, e);
		if (id[n] == 0 && f->base == 1)
			return stream_fail(f->s, e, "index 0 where indices begin at 1 (%s)",
			                   f->b->index_base == 1 ? "index_base=1" : "as in the training data");
		ascending &= n == 0 || id[n] > id[n - 1];
		n++;
	}
	if (!ascending)
		rc = check_twice(f, id, n, e);
	data_build_row(f->b, n);
	return rc;
}

static enum err_code parse_line(const struct ids *f, const char *p, size_t len, struct err *e)
{
	const char *line = p, *after;
	char text[DATA_SHOWN];
	enum err_code rc;
	double v;

	if (memchr(p, '\0', len))
		return stream_fail(f->s, e, "holds a NUL byte; is this a text file?");
	while (is_blank(*p))
		p++;
	if (!*p || *p == '#')
		return ERR_OK;
	after = data_num(p, &v);
	if (after && *after == ',')
		return stream_fail(f->s, e, "has several labels; one is wanted");
	if (!after || !is_end(*after)) {
		token(text, p);
		return stream_fail(f->s, e, "expected a number as label, got \"%s\"", text);
	}
	rc = data_label_number(f->b->label, f->s, v, e);
	if (rc == ERR_OK)
		rc = parse_entries(f, after, len - (size_t)(after - line), e);
	return rc;
}

static enum err_code read_lines(struct data_build *b, struct stream *s, const struct data_options *o,
                                struct err *e)
{
	struct ids f = { b, s, b->d->index_base };
	enum err_code rc = ERR_OK;
	size_t len;
	char *line;

	if (o->index_base >= 0) {
		if (f.base >= 0 && f.base != o->index_base)
			return stream_fail(s, e, "index_base=%d, but %d in the training data", o->index_base, f.base);
		if (b->index_base >= 0 && b->index_base != o->index_base)
			return stream_fail(s, e, "index_base=%d, but %d in files before it", o->index_base,
			                   b->index_base);
		b->index_base = o->index_base;
	}
	if (b->index_base >= 0)
		f.base = b->index_base;
	while (rc == ERR_OK) {
		rc = stream_line(s, &line, &len, e);
		if (rc != ERR_OK || !line)
			break;
		rc = parse_line(&f, line, len, e);
	}
	return rc;
}

/* A number, then within the same line a number and a colon. */
static bool looks_so(const char *p, const char *end)
{
	char label[64];
	size_t n = 0;
	double v;

	while (p + n < end && n < sizeof(label) - 1 && !is_blank(p[n]))
		n++;
	memcpy(label, p, n);
	label[n] = '\0';
	p += n;
	if (!data_num_all(label, &v))
		return false;
	while (p < end && is_blank(*p))
		p++;
	if (end - p >= 4 && memcmp(p, "qid:", 4) == 0)
		return true;
	for (n = 0; p < end && is_digit(*p); n++)
		p++;
	return n > 0 && p < end && *p == ':';
}

/* Rows may be empty but for their label: the first lines that say anything. */
static bool probe(const uint8_t *bytes, size_t n)
{
	const char *p = (const char *)bytes, *end = p + n, *nl;

	for (; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		while (p < nl && is_blank(*p))
			p++;
		if (p < nl && *p != '#' && looks_so(p, nl))
			return true;
		if (p < nl && !is_digit(*p) && *p != '#' && *p != '-' && *p != '+' && *p != '\r' && *p != '.')
			return false;
	}
	return false;
}

const struct data_reader data_reader_libsvm = { probe, read_lines };
