/* SPDX-License-Identifier: ISC */
#include "format/digest.h"

#include "core/endian.h"

#define SIZE 32

void digest_begin(struct digest *d)
{
	crypto_generichash_init(&d->state, NULL, 0, SIZE);
}

void digest_add(struct digest *d, const void *p, size_t n)
{
	crypto_generichash_update(&d->state, p, n);
}

void digest_end(struct digest *d, char hex[static DIGEST_HEX])
{
	uint8_t sum[SIZE];

	crypto_generichash_final(&d->state, sum, sizeof sum);
	sodium_bin2hex(hex, DIGEST_HEX, sum, sizeof sum);
}

void digest_of(const void *p, size_t n, char hex[static DIGEST_HEX])
{
	struct digest d;

	digest_begin(&d);
	digest_add(&d, p, n);
	digest_end(&d, hex);
}

void digest_table(struct digest *d, const char *name)
{
	digest_add(d, name, strlen(name) + 1);
}

void digest_values(struct digest *d, const float *x, size_t n)
{
	digest_add(d, x, n * sizeof *x);
}

void digest_rows(struct digest *d, const uint64_t *ids, const float *rows, uint32_t cols, size_t n)
{
	uint8_t id[8];

	for (size_t i = 0; i < n; i++) {
		put_le64(id, ids[i]);
		digest_add(d, id, sizeof id);
		digest_values(d, rows + i * cols, cols);
	}
}
