/* SPDX-License-Identifier: ISC */
#ifndef SERVING_NEAREST_REQUEST_H
#define SERVING_NEAREST_REQUEST_H

#include <stddef.h>

#include "core/json.h"

/* The body of POST /nearest, in JSON:
 *
 *   {"table": "v", "queries": ["king", 7, [0.5, -1]], "k": 10, "metric": "cosine",
 *    "among": "item", "exclude": ["queen", 9]}
 *
 * A query is the name of a row, its id, or a vector. Pure; no threads or locks. */
struct nearest_request {
	const char *table, *metric, *among; /* NULL: not given */
	/* As texts for neighbours_ask and neighbours_exclude. */
	const char **query, **exclude;
	size_t n, nexclude, k;
	json_t *json; /* what the texts are borrowed from */
	char **own;   /* texts that were made */
	size_t nown;
};

/* Reads n bytes. most: of queries times k, and of `exclude`. *out is to be released in any case.
 * ERR_FORMAT: it is not JSON; ERR_USAGE: a member is missing, unknown, or of the wrong type;
 * ERR_LIMIT. */
enum err_code nearest_request_parse(const char *text, size_t n, size_t most,
    struct nearest_request *out, struct err *e);
void nearest_request_release(struct nearest_request *r);

#endif
