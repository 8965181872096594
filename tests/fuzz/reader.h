/* SPDX-License-Identifier: ISC */
#ifndef FUZZ_READER_H
#define FUZZ_READER_H

#include "data/data.h"

/* Any bytes are examples or a sentence: as real numbers, as classes, as two
 * classes, as words, and what loads can be gathered. */
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

static void read_all(const struct data_options *o, const uint8_t *data, size_t n)
{
	static const struct data_want wants[] = { { .classes = false }, { .classes = true },
		{ .two = true }, { .words = true }, { .pairs = true } };
	struct dataset *d, *again;

	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		d = load(o, data, n, &wants[i], NULL);
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
