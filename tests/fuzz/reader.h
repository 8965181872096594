/* SPDX-License-Identifier: ISC */
#ifndef FUZZ_READER_H
#define FUZZ_READER_H

#include "core/mem.h"
#include "data/reader/data_parser.h"

/* Any bytes are examples or a sentence: as real numbers, as classes, as two
 * classes, as words, and what loads can be gathered. Formats of lines give the same in pieces of any size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void gather(const struct dataset *d)
{
	static const uint32_t last;
	uint32_t index[2] = { (uint32_t)d->rows - 1, last };
	struct batch b = { 0 };

	data_gather(d, index, 2, &b, NULL);
	batch_release(&b);
}

static struct dataset *load(const struct data_options *o, const uint8_t *data, size_t n,
    const struct data_want *want, const struct dataset *like)
{
	struct dataset *d = NULL;
	struct stream *s;
	struct err e;

	if (stream_memory(data, n, "input", &s, &e) == ERR_OK)
		data_load_stream(s, o, want, like, &d, &e);
	stream_close(s);
	return d;
}

/* Loads bytes that come in pieces of `step` bytes. */
static struct dataset *load_pieces(const struct data_options *o, const uint8_t *data, size_t n,
    size_t step, const struct data_want *want)
{
	struct data_build *b = data_build_new(want, NULL, NULL);
	struct data_parser *p = data_parser_new("input", o);
	struct dataset *d = NULL;
	enum err_code rc = ERR_OK;

	data_parser_begin(p, b);
	for (size_t at = 0; !rc && at < n; at += step) {
		size_t k = n - at < step ? n - at : step;
		char *piece = mem_alloc(k + STREAM_PAD + 1);

		memcpy(piece, data + at, k);
		rc = data_parser_feed(p, piece, k, NULL);
		free(piece);
	}
	if (!rc)
		rc = data_parser_end(p, true, NULL);
	if (!rc)
		data_build_finish(b, &d, NULL);
	data_parser_free(p);
	data_build_free(b);
	return d;
}

/* Compressed bytes are for streams alone. */
static bool is_compressed(const uint8_t *data, size_t n)
{
	return n > 1 &&
	    ((data[0] == 0x1f && data[1] == 0x8b) || (data[0] == 0x28 && data[1] == 0xb5));
}

static void compare_pieces(const struct data_options *o, const uint8_t *data, size_t n,
    const struct data_want *want, const struct dataset *whole)
{
	struct dataset *d;

	if (want->words || !n || is_compressed(data, n))
		return;
	d = load_pieces(o, data, n, 1 + n % 61, want);
	if (!d != !whole || (d && (d->rows != whole->rows || d->cols != whole->cols)))
		abort(); /* the pieces must not matter */
	dataset_free(d);
}

static void read_all(const struct data_options *o, const uint8_t *data, size_t n)
{
	static const struct data_want wants[] = { { .classes = false }, { .classes = true },
		{ .two = true }, { .words = true }, { .pairs = 1 } };
	struct dataset *d, *again;

	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		d = load(o, data, n, &wants[i], NULL);
		compare_pieces(o, data, n, &wants[i], d);
		if (!d)
			continue;
		gather(d);
		again = load(o, data, n, &wants[i], d);
		if (!again)
			abort(); /* what trained must be fit to be evaluated */
		dataset_free(again);
		dataset_free(d);
	}
}

#endif
