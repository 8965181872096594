/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_DIGEST_H
#define FORMAT_DIGEST_H

#include <sodium.h>
#include <stddef.h>
#include <stdint.h>

/* BLAKE2b-256 without a key, as hexadecimal digits, of files and of models. No errors; one thread
 * for each struct digest. The state needs 64-byte alignment: on the stack, or from
 * mem_try_array. */
#define DIGEST_HEX 65 /* with the NUL */

struct digest {
	crypto_generichash_state state;
};

/* Begin, add bytes any number of times, end. hex gets 64 small hexadecimal digits and a NUL. */
void digest_begin(struct digest *d);
void digest_add(struct digest *d, const void *p, size_t n);
void digest_end(struct digest *d, char hex[static DIGEST_HEX]);
/* Hashes n bytes at once. */
void digest_of(const void *p, size_t n, char hex[static DIGEST_HEX]);

/* Hashes a model as ps-consistency(7) defines it (model_digest): tables in the order of their
 * names; for each its name, then all values of a dense one, or all rows of a sparse one by
 * ascending ids, in pieces of any size. */
void digest_table(struct digest *d, const char *name);
void digest_values(struct digest *d, const float *x, size_t n);
void digest_rows(struct digest *d, const uint64_t *ids, const float *rows, uint32_t cols, size_t n);

#endif
