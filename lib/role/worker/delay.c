/* SPDX-License-Identifier: ISC */
#include "worker/delay.h"

#include <poll.h>
#include <time.h>

#include "core/clock.h"

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
