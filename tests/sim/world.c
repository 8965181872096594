/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time, the seed's random numbers, and events in the order of their times. */

int64_t sim_now;
bool sim_tracing;
uint64_t sim_deliveries;

static uint64_t rng[2], trace_hash;

struct event {
	int64_t at;
	uint64_t id; /* also the order of events of one time */
	void (*fn)(void *ctx);
	void *ctx;
};
static struct event *heap;
static size_t nheap, cap_heap;
static uint64_t next_id;

/* splitmix64 (Steele, Lea and Flood 2014), to spread a small seed. */
static uint64_t mix(uint64_t *x)
{
	uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* xoroshiro128+ (Blackman and Vigna 2018). */
uint64_t sim_random(void)
{
	uint64_t a = rng[0], b = rng[1], out = a + b;

	b ^= a;
	rng[0] = (a << 24 | a >> 40) ^ b ^ b << 16;
	rng[1] = b << 37 | b >> 27;
	return out;
}

uint32_t sim_below(uint32_t n)
{
	return n ? (uint32_t)((sim_random() >> 32) * n >> 32) : 0;
}

bool sim_chance(unsigned percent)
{
	return sim_below(100) < percent;
}

void world_begin(uint64_t seed)
{
	uint64_t x = seed;

	proc_reset();
	fiber_reset();
	net_reset();
	disk_reset();
	control_reset();
	memory_reset();
	calls_reset();
	rng[0] = mix(&x);
	rng[1] = mix(&x);
	sim_now = 0;
	nheap = 0;
	next_id = 1;
	trace_hash = UINT64_C(0xcbf29ce484222325);
	sim_deliveries = 0;
}

/* ---- events ---- */

static bool is_earlier(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->id < b->id;
}

uint64_t event_at(int64_t at, void (*fn)(void *ctx), void *ctx)
{
	size_t i = nheap++;
	struct event e = { at < sim_now ? sim_now : at, next_id++, fn, ctx };

	if (nheap > cap_heap) {
		cap_heap = cap_heap ? 2 * cap_heap : 1024;
		heap = realloc(heap, cap_heap * sizeof *heap);
		if (!heap)
			sim_panic("no memory for events");
	}
	for (; i && is_earlier(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
	return e.id;
}

/* It stays in the heap, and does nothing when its time comes. */
void event_cancel(uint64_t id)
{
	for (size_t i = 0; id && i < nheap; i++)
		if (heap[i].id == id) {
			heap[i].fn = NULL;
			return;
		}
}

static struct event take_first_event(void)
{
	struct event first = heap[0], last = heap[--nheap];
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= nheap)
			break;
		if (child + 1 < nheap && is_earlier(&heap[child + 1], &heap[child]))
			child++;
		if (!is_earlier(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	if (nheap)
		heap[i] = last;
	return first;
}

/* Fibers run before time goes on; each turn of one takes a little time. */
bool world_run(int64_t until, bool (*done)(void *ctx), void *ctx)
{
	for (;;) {
		proc_enter(NULL);
		if (sim_now >= until || (done && done(ctx)))
			break;
		if (nheap && heap[0].at <= sim_now) {
			struct event e = take_first_event();

			proc_enter(NULL);
			if (e.fn)
				e.fn(e.ctx);
		} else if (fiber_run_one()) {
			sim_now += 500 + sim_below(4000);
		} else if (nheap) {
			sim_now = heap[0].at < until ? heap[0].at : until;
		} else {
			return false;
		}
	}
	return true;
}

/* ---- the trace ---- */

void sim_trace(const char *fmt, ...)
{
	char line[4096];
	va_list ap;
	int n = snprintf(line, sizeof line, "%12.6f ", (double)sim_now / 1e9);

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
	va_end(ap);
	for (const char *p = line; *p; p++)
		trace_hash = (trace_hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	if (sim_tracing)
		puts(line);
}

uint64_t sim_trace_hash(void)
{
	return trace_hash;
}

void sim_panic(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "sim: at %.6f s: ", (double)sim_now / 1e9);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}
