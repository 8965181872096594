/* SPDX-License-Identifier: ISC */
#ifndef CORE_JSON_BYTES_H
#define CORE_JSON_BYTES_H

#include "core/json.h"

/* A string of exactly these bytes, such as a piece of a text with a digest: nothing is repaired.
 * NULL: they are not valid UTF-8. Pure. */
json_t *json_of_exact_bytes(const char *s, size_t n);

#endif
