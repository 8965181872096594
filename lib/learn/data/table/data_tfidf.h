/* SPDX-License-Identifier: ISC */
#ifndef DATA_TFIDF_H
#define DATA_TFIDF_H

#include <stddef.h>
#include <stdint.h>

#include "core/json.h"

/* Weights of the words and pairs of a text by tf-idf, as scikit-learn's TfidfVectorizer computes them:
 * how often the text has the term, times ln((1 + n) / (1 + df)) + 1, where df of the n rows of the
 * training data have it. The weights of a text together have the length 1.
 *
 * Terms are hashed to places. df counts the rows with any of the terms of a place.
 *
 * Life: data_tfidf_new; data_tfidf_count for each text of the training data; data_tfidf_end; afterwards
 * nothing changes, and any thread may read. */
struct data_tfidf {
	uint64_t rows;
	size_t places;
	uint32_t *frequency; /* df by place */
	uint32_t
	    *last; /* by place, the last row that had it, from 1; NULL: the counts are complete */
};

/* The most bits of places: their frequencies are part of the description of the data. */
#define DATA_TFIDF_BITS 22

/* No rows yet. */
struct data_tfidf *data_tfidf_new(size_t places);
struct data_tfidf *data_tfidf_copy(const struct data_tfidf *t);
/* Frees t; NULL is fine. */
void data_tfidf_free(struct data_tfidf *t);

/* Counts a text of a row with n different terms, which are their places plus `first`. Rows ascend; one
 * may have several texts. */
void data_tfidf_count(struct data_tfidf *t, size_t row, size_t first, size_t n, const uint32_t *id);
/* Ends the counting. rows: all of them, also those without a text. */
void data_tfidf_end(struct data_tfidf *t, size_t rows);
/* Gives the n terms of a text, whose counts are in val, their weights. */
void data_tfidf_weigh(const struct data_tfidf *t, size_t first, size_t n, const uint32_t *id,
    float *val);

/* The frequencies above 0 as JSON: for each, how far its place lies from the one before (the first:
 * from 0), and the frequency. A new reference. data_tfidf_from_json returns NULL unless the document
 * fits that number of rows and places. */
json_t *data_tfidf_to_json(const struct data_tfidf *t);
struct data_tfidf *data_tfidf_from_json(const json_t *o, uint64_t rows, size_t places);

#endif
