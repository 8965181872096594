#include "base/hist.h"

static unsigned bucket_of(uint64_t v)
{
	unsigned b = v ? 64 - (unsigned)__builtin_clzll(v) : 0;

	return b < HIST_BUCKETS ? b : HIST_BUCKETS - 1;
}

void hist_add(struct hist *h, uint64_t v)
{
	atomic_fetch_add_explicit(&h->bucket[bucket_of(v)], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum, v, memory_order_relaxed);
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	uint64_t n = 0, seen = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		n += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
		if (n && (double)seen >= q * (double)n)
			return i ? UINT64_C(1) << i : 0;
	}
	return 0;
}
