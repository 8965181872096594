/* SPDX-License-Identifier: ISC */
#include "core/hist.h"

void hist_add(struct hist *h, uint64_t v)
{
	unsigned bits = v ? 64 - (unsigned)__builtin_clzll(v) : 0;

	atomic_fetch_add_explicit(&h->bucket[bits < HIST_BUCKETS ? bits : HIST_BUCKETS - 1], 1,
	    memory_order_relaxed);
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

/* The bound is 2^top - 1 and not 2^top, since bucket `top` has values below 2^top and Prometheus
 * counts values at or below "le". The counts are cumulative, and the last one includes the values
 * beyond all bounds. */
json_t *hist_json(const struct hist *h, unsigned first, unsigned every, unsigned n, double scale)
{
	json_t *le = json_array(), *counts = json_array();
	uint64_t sum = 0;
	unsigned b = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned top = first + i * every;

		for (; b <= top; b++)
			sum += atomic_load_explicit(&h->bucket[b], memory_order_relaxed);
		json_array_append_new(le, json_real((double)((UINT64_C(1) << top) - 1) * scale));
		json_array_append_new(counts, json_integer((json_int_t)sum));
	}
	for (; b < HIST_BUCKETS; b++)
		sum += atomic_load_explicit(&h->bucket[b], memory_order_relaxed);
	json_array_append_new(counts, json_integer((json_int_t)sum));
	return json_pack("{s:o, s:o, s:f}", "le", le, "counts", counts, "sum",
	    (double)atomic_load_explicit(&h->sum, memory_order_relaxed) * scale);
}
