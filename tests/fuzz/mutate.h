/* SPDX-License-Identifier: ISC */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

/* Mutations of inputs that are scripts: one byte that says how the script is read, then entries
 * one behind the other.  libFuzzer changes bytes, which seldom leaves an entry whole; these
 * change the order of entries, their length, and the characters in their text. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* libFuzzer's own mutation; the replaying driver has none, and never calls a mutator. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);

/* The places of the parts of one entry: its size, the begin of its body, and the place and size of a
 * little-endian length of the body. */
struct entry {
	size_t size, body, length_at, length_bytes;
};
/* The entry that the n bytes at p begin with; it may be cut by their end. */
typedef struct entry entry_reader(const uint8_t *p, size_t n);

#define MUTATE_MOST  65536u
#define ENTRIES_MOST 256u

struct script {
	uint8_t data[MUTATE_MOST];
	size_t n, most;
	size_t at[ENTRIES_MOST + 1]; /* where entry i begins; at[count] is the end */
	size_t count;
	uint64_t random;
};

static inline uint32_t script_random(struct script *s, uint32_t below)
{
	s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return below ? (uint32_t)(s->random >> 33) % below : 0;
}

static inline void script_index(struct script *s, entry_reader *read)
{
	s->count = 0;
	s->at[0] = 1;
	while (s->at[s->count] < s->n && s->count < ENTRIES_MOST) {
		size_t left = s->n - s->at[s->count],
		       size = read(s->data + s->at[s->count], left).size;

		s->at[s->count + 1] = s->at[s->count] + (size && size < left ? size : left);
		s->count++;
	}
}

/* Replace `cut` bytes at a place by `put` bytes from outside of the script. */
static inline bool script_splice(struct script *s, size_t at, size_t cut, const uint8_t *put,
    size_t n)
{
	if (at > s->n || cut > s->n - at || s->n - cut + n > s->most)
		return false;
	memmove(s->data + at + n, s->data + at + cut, s->n - at - cut);
	if (n)
		memcpy(s->data + at, put, n);
	s->n = s->n - cut + n;
	return true;
}

static inline void script_move(struct script *s, bool keep)
{
	static uint8_t piece[MUTATE_MOST];
	uint32_t from = script_random(s, (uint32_t)s->count),
	         to = script_random(s, (uint32_t)s->count + 1);
	size_t begin = s->at[from], n = s->at[from + 1] - begin, place = s->at[to];

	memcpy(piece, s->data + begin, n);
	if (keep) {
		script_splice(s, place, 0, piece, n);
		return;
	}
	script_splice(s, begin, n, NULL, 0);
	script_splice(s, place > begin ? place - n : place, 0, piece, n);
}

/* Characters of one to four bytes, and bytes that are none; each may be cut. */
static inline size_t script_text(struct script *s, uint8_t *out, size_t most)
{
	static const char *const letters[] = { "a", "\"", "\\", "\xc3\xa9", "\xe2\x82\xac",
		"\xf0\x9f\x98\x80", "\xff", "\xed\xa0\x80", "\xc0\x80", "\x1b", "\xc2\x9b",
		"\\u0000", "\\ud800", "{", "[" };
	const char *letter = letters[script_random(s, sizeof letters / sizeof *letters)];
	uint32_t times = UINT32_C(1) << script_random(s, 12);
	size_t each = strlen(letter), n = 0;

	for (times += script_random(s, 4); times && n + each <= most; times--, n += each)
		memcpy(out + n, letter, each);
	return n - (n && script_random(s, 3) == 0);
}

/* More, less or other text in the body of an entry, whose length is set to match. */
static inline void script_retext(struct script *s, entry_reader *read)
{
	static uint8_t text[8192];
	size_t begin = s->at[script_random(s, (uint32_t)s->count)];
	struct entry e = read(s->data + begin, s->n - begin);
	size_t left = s->n - begin, body = e.size < left ? e.size : left, n, at, cut = 0;

	if (body < e.body || !e.length_bytes)
		return;
	body -= e.body;
	at = script_random(s, (uint32_t)body + 1);
	if (script_random(s, 2))
		cut = script_random(s, (uint32_t)(body - at) + 1);
	n = cut && script_random(s, 2) ? 0 : script_text(s, text, sizeof text);
	if (!script_splice(s, begin + e.body + at, cut, text, n))
		return;
	body = body - cut + n;
	for (size_t i = 0; i < e.length_bytes; i++)
		s->data[begin + e.length_at + i] = (uint8_t)(body >> 8 * i);
}

/* The whole of a custom mutator for scripts. */
static inline size_t script_mutate(uint8_t *data, size_t n, size_t most, unsigned seed,
    entry_reader *read)
{
	static struct script s;
	uint32_t times;

	s.random = seed;
	s.most = most < MUTATE_MOST ? most : MUTATE_MOST;
	if (n < 2 || n > s.most || script_random(&s, 3) == 0)
		return LLVMFuzzerMutate(data, n, most);
	memcpy(s.data, data, n);
	s.n = n;
	for (times = 1 + script_random(&s, 4); times; times--) {
		script_index(&s, read);
		if (!s.count)
			break;
		switch (script_random(&s, 6)) {
		case 0:
			script_move(&s, false);
			break;
		case 1:
			script_move(&s, true);
			break;
		case 2: {
			uint32_t i = script_random(&s, (uint32_t)s.count);

			script_splice(&s, s.at[i], s.at[i + 1] - s.at[i], NULL, 0);
			break;
		}
		default:
			script_retext(&s, read);
		}
	}
	memcpy(data, s.data, s.n);
	return s.n;
}

#endif
