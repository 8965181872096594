/* SPDX-License-Identifier: ISC */
#include "serving/resp_parse.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* Digits of a length, with its sign. */
#define LENGTH_DIGITS 20u

void resp_parser_release(struct resp_parser *parser)
{
	free(parser->arg);
	*parser = (struct resp_parser){ .bulk = -1 };
}

static void add_arg(struct resp_parser *s, size_t at, size_t n)
{
	s->arg = mem_grow(s->arg, &s->room, s->n + 1, sizeof *s->arg);
	s->arg[s->n++] = (struct resp_arg){ at, n };
}

/* The end of the line that begins at s->at: the place of its "\n"; SIZE_MAX: it is not there yet. */
static size_t find_line(const struct resp_parser *s, const uint8_t *p, size_t n)
{
	const uint8_t *end = memchr(p + s->at, '\n', n - s->at);

	return end ? (size_t)(end - p) : SIZE_MAX;
}

/* Parses a whole number of at most `most`, from `from` up to a "\r" before `end`. False: it is none. */
static bool parse_length(const uint8_t *p, size_t from, size_t end, int64_t most, int64_t *out)
{
	bool negative = from < end && p[from] == '-';
	int64_t v = 0;

	if (end > from && p[end - 1] == '\r')
		end--;
	else
		return false;
	from += negative;
	if (from == end || end - from > LENGTH_DIGITS - 2)
		return false;
	for (; from < end; from++) {
		if (p[from] < '0' || p[from] > '9')
			return false;
		v = v * 10 + (p[from] - '0');
	}
	*out = negative ? -v : v;
	return *out <= most;
}

/* A line of words between blanks. */
static enum resp_result parse_inline(struct resp_parser *s, const uint8_t *p, size_t n,
    size_t *used, const char **why)
{
	const uint8_t *nl = memchr(p, '\n', n);
	size_t end = nl ? (size_t)(nl - p) : n;

	if (end > RESP_ARG) {
		*why = "Protocol error: too big inline request";
		return RESP_ERROR;
	}
	if (!nl)
		return RESP_MORE;
	*used = end + 1;
	if (end > 0 && p[end - 1] == '\r')
		end--;
	for (size_t i = 0; i < end;) {
		size_t from = i;

		while (i < end && p[i] != ' ' && p[i] != '\t')
			i++;
		if (i > from)
			add_arg(s, from, i - from);
		else
			i++;
	}
	return RESP_COMMAND;
}

/* The number of arguments. */
static enum resp_result parse_count(struct resp_parser *s, const uint8_t *p, size_t n, bool early,
    size_t *used, const char **why)
{
	size_t end = find_line(s, p, n);
	int64_t count;

	if (end == SIZE_MAX) {
		*why = "Protocol error: too big mbulk count string";
		return n > LENGTH_DIGITS ? RESP_ERROR : RESP_MORE;
	}
	*why = "Protocol error: invalid multibulk length";
	if (!parse_length(p, 1, end, RESP_ARGS, &count))
		return RESP_ERROR;
	if (early && count > RESP_ARGS_EARLY) {
		*why = "Protocol error: unauthenticated multibulk length";
		return RESP_ERROR;
	}
	s->at = end + 1;
	if (count <= 0) {
		*used = s->at;
		return RESP_COMMAND;
	}
	s->left = (uint32_t)count;
	return RESP_MORE;
}

/* The length of the next argument. RESP_COMMAND: it is there. */
static enum resp_result parse_bulk(struct resp_parser *s, const uint8_t *p, size_t n,
    const char **why)
{
	size_t end;

	if (s->at == n)
		return RESP_MORE;
	*why = "Protocol error: expected '$'";
	if (p[s->at] != '$')
		return RESP_ERROR;
	end = find_line(s, p, n);
	if (end == SIZE_MAX) {
		*why = "Protocol error: too big bulk count string";
		return n - s->at > LENGTH_DIGITS ? RESP_ERROR : RESP_MORE;
	}
	*why = "Protocol error: invalid bulk length";
	if (!parse_length(p, s->at + 1, end, RESP_ARG, &s->bulk) || s->bulk < 0) {
		s->bulk = -1;
		return RESP_ERROR;
	}
	s->at = end + 1;
	return RESP_COMMAND;
}

enum resp_result resp_parse(struct resp_parser *s, const uint8_t *p, size_t n, bool early,
    size_t *used, const char **why)
{
	enum resp_result r;

	if (!s->left) {
		s->n = s->at = 0;
		s->bulk = -1;
		if (!n)
			return RESP_MORE;
		if (p[0] != '*')
			return parse_inline(s, p, n, used, why);
		r = parse_count(s, p, n, early, used, why);
		if (r != RESP_MORE || !s->left)
			return r;
	}
	while (s->left) {
		if (s->bulk < 0 && (r = parse_bulk(s, p, n, why)) != RESP_COMMAND)
			return r;
		if (s->at + (size_t)s->bulk > RESP_BYTES) {
			*why = "Protocol error: too big command";
			return RESP_ERROR;
		}
		if (n - s->at < (size_t)s->bulk + 2)
			return RESP_MORE;
		add_arg(s, s->at, (size_t)s->bulk);
		s->at += (size_t)s->bulk + 2;
		s->bulk = -1;
		s->left--;
	}
	*used = s->at;
	return RESP_COMMAND;
}
