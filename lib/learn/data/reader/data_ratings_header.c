/* SPDX-License-Identifier: ISC */
#include <string.h>
#include <strings.h>

#include "data/reader/data_ratings.h"

/* Recognizes the columns of ratings by the parts of their names. The last part says what a name stands for,
 * as in English: "user_rating" is a rating, and "rating_count" is a count. An ending such as "id" may follow
 * it, with or without a border, and a type after a colon: "reviewerID", "userid", "item_id:token". */

#define PARTS_MOST 8u
#define PART_BYTES 24u
#define WORDS_MOST 36u

/* Words for users, items and ratings. A column with a word of the first line is preferred to one of the
 * second: a movie has an id and a title. */
static const char *const words[3][2][WORDS_MOST] = {
	{ { "user", "reviewer", "customer", "member", "rater", "viewer", "reader", "listener",
	      "visitor", "client", "consumer", "buyer", "shopper", "subscriber", "player", "guest",
	      "patron", "uid" },
	    { "profile", "account", "person", "username", "nickname", "login" } },
	{ { "item", "movie", "film", "book", "product", "asin", "isbn", "business", "song", "track",
	      "article", "anime", "recipe", "game", "restaurant", "hotel", "venue", "joke", "beer",
	      "wine", "show", "video", "course", "app", "artist", "album", "sku", "iid", "gmap" },
	    { "title", "poi", "merchant", "document" } },
	{ { "rating", "overall", "star", "score" }, { "rate", "grade", "preference" } },
};

static const char *const endings[] = { "id", "ids", "no", "nr", "num", "number", "code", "key",
	"name", "idx", "index", "hash", "uuid", "guid" };

struct name_parts {
	char part[PARTS_MOST][PART_BYTES];
	size_t n;
};

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

/* Splits a name at signs, digits and capital letters after small ones. Letters and parts beyond the
 * bounds are left out, which makes the name one that is not recognized. */
static void split_name(const char *name, struct name_parts *out)
{
	size_t len = 0;
	char before = 0;

	*out = (struct name_parts){ 0 };
	for (const char *p = name; *p && *p != ':'; before = *p++) {
		bool letter = is_upper(*p) || is_lower(*p);

		if (len && (!letter || (is_upper(*p) && is_lower(before)))) {
			out->n++;
			len = 0;
		}
		if (letter && out->n < PARTS_MOST && len + 1 < PART_BYTES)
			out->part[out->n][len++] = (char)(*p | 32);
	}
	out->n += len > 0;
}

static bool is_ending(const char *part)
{
	for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
		if (strcmp(part, endings[i]) == 0)
			return true;
	return false;
}

/* Cuts an ending off that is written together with its word. False: there is none. */
static bool cut_ending(char *part)
{
	size_t n = strlen(part);

	for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
		size_t len = strlen(endings[i]);

		if (n > len && strcmp(part + n - len, endings[i]) == 0) {
			part[n - len] = '\0';
			return true;
		}
	}
	return false;
}

/* The line of words, from 1 on, that has the part or its singular; 0: none. */
static unsigned find_word(int kind, const char *part)
{
	for (unsigned line = 0; line < 2; line++)
		for (size_t i = 0; i < WORDS_MOST && words[kind][line][i]; i++) {
			const char *word = words[kind][line][i];
			size_t n = strlen(word);

			if (strncmp(part, word, n) == 0 && (!part[n] || strcmp(part + n, "s") == 0))
				return line + 1;
		}
	return 0;
}

/* Returns how well a name fits the kind: the smaller, the better; 0: not at all. Names with an ending
 * and with few parts are preferred. */
static size_t rank_name(const char *name, int kind)
{
	struct name_parts parts;
	bool ended = false;
	unsigned line;
	char *last;

	split_name(name, &parts);
	if (!parts.n || parts.n > PARTS_MOST)
		return 0;
	while (parts.n > 1 && is_ending(parts.part[parts.n - 1])) {
		ended = true;
		parts.n--;
	}
	last = parts.part[parts.n - 1];
	line = find_word(kind, last);
	if (!line && cut_ending(last)) {
		ended = true;
		line = find_word(kind, last);
	}
	return line ? (2 * line + !ended) * PARTS_MOST + parts.n : 0;
}

bool data_ratings_find(const char *const *name, size_t n, size_t at[static 3])
{
	bool all = true;

	for (int kind = 0; kind < 3; kind++) {
		size_t best = SIZE_MAX;

		at[kind] = DATA_RATINGS_NONE;
		for (size_t i = 0; i < n; i++) {
			size_t rank = rank_name(name[i], kind);

			if (rank && rank < best) {
				best = rank;
				at[kind] = i;
			}
		}
		all = all && at[kind] != DATA_RATINGS_NONE;
	}
	return all;
}
