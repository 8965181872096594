/* SPDX-License-Identifier: ISC */
#include "data/batch/data_split.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/rng.h"

enum err_code data_split_parse(const char *text, double *share, struct err *e)
{
	size_t n = strlen(text);
	char *number = mem_printf("%.*s", n > 0 ? (int)n - 1 : 0, text);
	double percent = 0;
	bool good = strcmp(text, "none") == 0 ||
	    (n > 1 && text[n - 1] == '%' && num_double(number, &percent) && percent > 0 &&
	        percent < 100);

	free(number);
	*share = percent / 100;
	return good ? ERR_OK
	            : err_set(e, ERR_CONFIG,
	                  "must be none or a percentage between 0%% and 100%%, as 20%%, got "
	                  "\"%.60s\"",
	                  text);
}

/* Uniform in [0, 2^64), by the identity of a unit. */
static uint64_t hash_unit(uint64_t seed, uint64_t unit)
{
	return rng_mix(rng_mix(seed ^ UINT64_C(0x7661c1d473706c74)) + unit);
}

bool data_split_holds_out(uint64_t seed, double share, uint64_t identity)
{
	return hash_unit(seed, identity) < (uint64_t)(share * 0x1p64);
}

/* The unit with the least hash is held out, and that with the greatest is not, however small or large the
 * share is. */
static void find_extremes(uint64_t seed, uint32_t n, uint32_t *least, uint32_t *greatest)
{
	*least = *greatest = 0;
	for (uint32_t i = 1; i < n; i++) {
		if (hash_unit(seed, i) < hash_unit(seed, *least))
			*least = i;
		if (hash_unit(seed, i) > hash_unit(seed, *greatest))
			*greatest = i;
	}
}

enum err_code data_split_make(uint64_t seed, double share, uint32_t n, struct data_split *out,
    struct err *e)
{
	uint32_t least, greatest;

	*out = (struct data_split){ 0 };
	if (n < 2)
		return err_set(e, ERR_CONFIG,
		    "cannot hold out a share, because the data have only one part");
	find_extremes(seed, n, &least, &greatest);
	out->train = mem_array(n, sizeof *out->train);
	out->held_out = mem_array(n, sizeof *out->held_out);
	for (uint32_t i = 0; i < n; i++)
		if (i == least || (i != greatest && data_split_holds_out(seed, share, i)))
			out->held_out[out->nheld_out++] = i;
		else
			out->train[out->ntrain++] = i;
	return ERR_OK;
}

void data_split_release(struct data_split *s)
{
	free(s->train);
	free(s->held_out);
	*s = (struct data_split){ 0 };
}
