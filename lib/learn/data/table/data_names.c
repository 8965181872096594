/* SPDX-License-Identifier: ISC */
#include "data/table/data_names.h"

#include <string.h>

#include "core/buf.h"
#include "core/keyed_hash.h"
#include "core/map.h"
#include "core/mem.h"
#include "core/utf8_bytes.h"

struct word {
	uint64_t feature;
	char *text;
	size_t column;
};

struct column {
	char *name;
	size_t n; /* words that have been added */
};

struct data_names {
	struct column *column;
	size_t ncolumns;
	struct map *numbers; /* of the columns by their names, plus 1 */
	struct word *word;   /* in the order in which they were added */
	size_t n;
	/* An open hash table with linear probing: the numbers of words by their features, plus 1; 0 is
	 * free, and at least half of the slots are. */
	uint32_t *slot;
	size_t slots; /* a power of two */
	size_t bytes; /* of the names as JSON */
};

#define SLOTS_MIN 256u

struct data_names *data_names_new(void)
{
	struct data_names *n = mem_alloc(sizeof *n);

	keyed_hash_begin();
	n->numbers = map_new();
	n->slots = SLOTS_MIN;
	n->slot = mem_array(n->slots, sizeof *n->slot);
	n->word = mem_array(n->slots / 2, sizeof *n->word);
	return n;
}

void data_names_free(struct data_names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n; i++)
		free(n->word[i].text);
	for (size_t i = 0; i < n->ncolumns; i++)
		free(n->column[i].name);
	free(n->column);
	free(n->word);
	free(n->slot);
	map_free(n->numbers);
	free(n);
}

size_t data_names_column(struct data_names *n, const char *name)
{
	uintptr_t number = (uintptr_t)map_get(n->numbers, name);

	if (number)
		return number - 1;
	n->column = mem_regrow(n->column, n->ncolumns + 1, sizeof *n->column);
	n->column[n->ncolumns] = (struct column){ .name = mem_strdup(name) };
	map_put(n->numbers, name, (void *)(uintptr_t)(n->ncolumns + 1));
	return n->ncolumns++;
}

/* The slot at which words of a feature begin. */
static size_t first_slot(const struct data_names *n, uint64_t feature)
{
	return keyed_hash(feature) & (n->slots - 1);
}

static size_t next_slot(const struct data_names *n, size_t at)
{
	return (at + 1) & (n->slots - 1);
}

/* Doubles the table, and inserts all words again in their order. */
static void grow_slots(struct data_names *n)
{
	n->slots *= 2;
	free(n->slot);
	n->slot = mem_array(n->slots, sizeof *n->slot);
	n->word = mem_regrow(n->word, n->slots / 2, sizeof *n->word);
	for (size_t i = 0; i < n->n; i++) {
		size_t at = first_slot(n, n->word[i].feature);

		while (n->slot[at])
			at = next_slot(n, at);
		n->slot[at] = (uint32_t)i + 1;
	}
}

/* An upper bound of the bytes of a name as JSON, with its feature. A byte that is not valid UTF-8 becomes
 * four, and so does a control character (core/utf8_bytes.h). */
static size_t count_name_bytes(const char *text)
{
	size_t bytes = sizeof "\"\":1152921504606846976,";

	for (; *text; text++)
		bytes += (unsigned char)*text < ' ' ? 4
		    : *text == '"' || *text == '\\' ? 2
		    : (unsigned char)*text >= 0x7f  ? 4
		                                    : 1;
	return bytes;
}

void data_names_add(struct data_names *n, size_t column, const char *text, uint64_t feature)
{
	struct column *c = &n->column[column];
	size_t at, bytes, same = 0;

	if (c->n == DATA_NAMES_MAX)
		return;
	for (at = first_slot(n, feature); n->slot[at]; at = next_slot(n, at)) {
		const struct word *w = &n->word[n->slot[at] - 1];

		if (w->feature != feature)
			continue;
		if ((w->column == column && strcmp(w->text, text) == 0) ||
		    ++same == DATA_NAMES_SAME)
			return;
	}
	bytes = count_name_bytes(text);
	if (bytes > DATA_NAMES_BYTES - n->bytes)
		return;
	n->bytes += bytes;
	c->n++;
	n->word[n->n++] = (struct word){ feature, mem_strdup(text), column };
	n->slot[at] = (uint32_t)n->n;
	if (n->n == n->slots / 2)
		grow_slots(n);
}

char *data_names_find(const struct data_names *n, uint64_t feature)
{
	struct buf name = BUF_INIT;

	for (size_t at = first_slot(n, feature); n->slot[at]; at = next_slot(n, at)) {
		const struct word *w = &n->word[n->slot[at] - 1];

		if (w->feature == feature)
			buf_printf(&name, "%s%s=%s", name.len ? "|" : "", n->column[w->column].name,
			    w->text);
	}
	return (char *)name.data;
}

bool data_names_have(const struct data_names *n, uint64_t feature)
{
	for (size_t at = first_slot(n, feature); n->slot[at]; at = next_slot(n, at))
		if (n->word[n->slot[at] - 1].feature == feature)
			return true;
	return false;
}

/* A name that was refused for lack of room was hardly longer than this. */
#define NAME_LONG 4096u

bool data_names_are_full(const struct data_names *n, const char *prefix)
{
	for (size_t i = 0; i < n->ncolumns; i++)
		if (n->column[i].n == DATA_NAMES_MAX &&
		    strncmp(n->column[i].name, prefix, strlen(prefix)) == 0)
			return true;
	return n->bytes > DATA_NAMES_BYTES - NAME_LONG;
}

struct data_names *data_names_copy(const struct data_names *n)
{
	struct data_names *copy = data_names_new();

	for (size_t i = 0; i < n->ncolumns; i++)
		data_names_column(copy, n->column[i].name);
	for (size_t i = 0; i < n->n; i++)
		data_names_add(copy, n->word[i].column, n->word[i].text, n->word[i].feature);
	return copy;
}

/* ---- as JSON ---- */

json_t *data_names_to_json(const struct data_names *n)
{
	json_t *o = json_object(), **words = mem_array(n->ncolumns + 1, sizeof *words);

	for (size_t i = 0; i < n->ncolumns; i++)
		words[i] = json_object();
	for (size_t i = 0; i < n->n; i++) {
		const struct word *w = &n->word[i];
		char *text = utf8_escape_bytes(w->text);

		json_put(words[w->column], text, json_integer((json_int_t)w->feature));
		free(text);
	}
	for (size_t i = 0; i < n->ncolumns; i++) {
		char *name = utf8_escape_bytes(n->column[i].name);

		if (n->column[i].n)
			json_put(o, name, json_incref(words[i]));
		free(name);
		json_decref(words[i]);
	}
	free(words);
	return o;
}

struct data_names *data_names_from_json(const json_t *o)
{
	struct data_names *n = data_names_new();
	bool good = json_is_object(o);
	const char *column, *word;
	json_t *words, *feature;

	json_object_foreach((json_t *)(uintptr_t)o, column, words) {
		char *name = utf8_unescape_bytes(column);
		size_t number = data_names_column(n, name);

		free(name);
		good &= json_is_object(words);
		json_object_foreach(words, word, feature) {
			good &= json_is_integer(feature) && json_integer_value(feature) >= 0;
			name = utf8_unescape_bytes(word);
			data_names_add(n, number, name, (uint64_t)json_integer_value(feature));
			free(name);
		}
	}
	if (good)
		return n;
	data_names_free(n);
	return NULL;
}
