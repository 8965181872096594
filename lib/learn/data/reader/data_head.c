/* SPDX-License-Identifier: ISC */
#include "data/reader/data_head.h"

#include <string.h>

#include "core/mem.h"
#include "data/reader/data_cells.h"
#include "data/reader/data_unsupported.h"

/* Enough bytes to see a newline in any text that has lines. */
#define LINE_ENDS_SEEN 65536u

void data_head_decide(struct data_options *o, const struct dataset *d, const char *names)
{
	for (const struct data_format *k = data_formats(); !o->format && k->name; k++)
		if (d->format && strcmp(k->title, d->format) == 0)
			o->format = mem_strdup(k->name);
	free(o->decided.names);
	o->decided = (struct data_decided){ .known = d->format,
		.separator = d->reading.separator,
		.heading = names ? DATA_HEADING_ABOVE : DATA_HEADING_NONE,
		.names = names ? mem_strdup(names) : NULL };
}

json_t *data_head_to_json(const struct dataset *d)
{
	char separator[2] = { d->reading.separator, '\0' };

	return d->format
	    ? json_pack("[s, s, I]", d->format, separator, (json_int_t)d->reading.heading)
	    : NULL;
}

void data_head_from_json(const json_t *json, struct dataset *d)
{
	const char *format = json_string_value(json_array_get(json, 0));

	if (!json)
		return;
	for (const struct data_format *k = data_formats(); k->name; k++)
		if (format && strcmp(k->title, format) == 0)
			d->format = k->title;
	d->reading.separator = *json_string_value(json_array_get(json, 1));
	d->reading.heading = (uint64_t)json_integer_value(json_array_get(json, 2));
}

char *data_head_line(const char *p, size_t n, uint64_t number)
{
	const char *end = p + n, *nl = NULL;
	size_t mark;

	for (uint64_t i = 1; number && p < end; i++, p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl ? nl : end;
		if (i < number) {
			if (nl == end)
				return NULL;
			continue;
		}
		mark = stream_mark_length(p, (size_t)(nl - p));
		if (nl > p + mark && nl[-1] == '\r')
			nl--;
		return mem_printf("%.*s", (int)((size_t)(nl - p) - mark), p + mark);
	}
	return NULL;
}

/* The number of the first line that is not blank. */
static uint64_t find_first_line(const char *p, size_t n)
{
	uint64_t number = 1;

	for (const char *end = p + n; p < end && strchr(" \t\r\n", *p); p++)
		number += *p == '\n';
	return number;
}

/* Counts the cells of a line that are names in the heading. */
static size_t count_names(char *const *cell, size_t n, char *const *name, size_t names)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; *cell[i] && k < names; k++)
			if (strcmp(cell[i], name[k]) == 0) {
				found++;
				break;
			}
	return found;
}

uint64_t data_head_find(const char *p, size_t n, const char *heading, char *separator)
{
	uint64_t number = find_first_line(p, n);
	char *line = data_head_line(p, n, number), *known = mem_strdup(heading), sep = *separator;
	size_t cells = 0, names = 0;
	char **cell = NULL, **name = data_cells_split(known, sep, &names);
	bool found = false;

	if (line && data_cells_count(line, sep) != data_cells_count(heading, sep))
		sep = data_cells_separator(line, NULL);
	if (line && name)
		cell = data_cells_split(line, sep, &cells);
	if (cell)
		found = 2 * count_names(cell, cells, name, names) >= cells;
	if (found)
		*separator = sep;
	free(cell);
	free(name);
	free(line);
	free(known);
	return found ? number : 0;
}

bool data_head_is_bare(const struct data_build *b, const struct data_options *o, const char *line)
{
	char separator = b->separator;

	return b->heading && o->decided.heading == DATA_HEADING_GUESSED &&
	    !data_head_find(line, strlen(line), b->heading, &separator);
}

void data_head_keep(struct data_build *b, const char *line)
{
	free(b->stream_heading);
	b->stream_heading = mem_strdup(line);
	if (b->heading)
		return;
	b->heading = mem_strdup(line);
	b->separator = b->d->reading.separator;
}

enum err_code data_head_begin(struct stream *s, struct err *e)
{
	const uint8_t *p;
	size_t n;
	enum err_code rc = stream_skip_mark(s, e);

	if (!rc)
		rc = stream_peek(s, LINE_ENDS_SEEN, &p, &n, e);
	return rc ? rc : data_unsupported_refuse_lines(s, p, n, e);
}
