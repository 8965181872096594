/* SPDX-License-Identifier: ISC */
#include "worker/compute_time.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"

#define SECONDS_MAX 1e9
#define TIMES_MAX   1e6

enum err_code compute_time_parse(const char *text, struct compute_time *out, struct err *e)
{
	char *copy = mem_strdup(text), *comma = strchr(copy, ','), *x;
	double chance = 0, times = 1;
	bool good = true;
	int64_t ns;

	if (comma) {
		*comma++ = 0;
		x = strstr(comma, "%x");
		if (x)
			*x = 0;
		good = x && num_double(comma, &chance) && num_double(x + 2, &times) &&
		    chance >= 0 && chance <= 100 && times >= 0 && times <= TIMES_MAX;
	}
	good = good && num_duration(copy, &ns) && (double)ns / 1e9 <= SECONDS_MAX;
	free(copy);
	if (!good)
		return err_set(e, ERR_CONFIG,
		    "must be a time such as 50ms, or a time with a chance of a longer one such "
		    "as 50ms,5%%x7, got \"%.80s\"",
		    text);
	out->seconds = (double)ns / 1e9;
	out->chance = chance / 100;
	out->times = times;
	return ERR_OK;
}

double compute_time_draw(const struct compute_time *t, struct rng *rng)
{
	return t->seconds * (t->chance > 0 && rng_unit(rng) < t->chance ? t->times : 1);
}
