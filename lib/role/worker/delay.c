/* SPDX-License-Identifier: ISC */
#include "worker/delay.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
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

void delay_init(struct delay *d, const char *slow, const struct compute_time *own, uint64_t seed,
    uint32_t rank)
{
	conf_slow_parse(slow, rank, &d->slow, NULL);
	if (own->seconds > 0) {
		d->slow.seconds = own->seconds;
		d->slow.chance = own->chance;
		d->slow.times = own->times;
	}
	rng_init(&d->chance, seed * 4096 + rank);
}

double delay_draw(struct delay *d, double took)
{
	const struct compute_time t = { d->slow.seconds > 0 ? d->slow.seconds : took,
		d->slow.chance, d->slow.times };

	return compute_time_draw(&t, &d->chance) * d->slow.always;
}

void delay_take(struct delay *d, int64_t began, const struct interrupt *i)
{
	struct pollfd p = { i->fd, POLLIN, 0 };
	double took = (double)(clock_now() - began) / NSEC_PER_SEC;
	int64_t left = began + (int64_t)(delay_draw(d, took) * NSEC_PER_SEC) - clock_now();
	struct timespec t = { left / NSEC_PER_SEC, left % NSEC_PER_SEC };

	if (left > 0)
		ppoll(&p, 1, &t, NULL);
}
