/* SPDX-License-Identifier: ISC */
/* Seal and open of one 256 KiB payload in each suite, and whole handshakes, on
 * one core: the best and the median of 15 rounds. */
#include <stdio.h>
#include <stdlib.h>

#include "auth/handshake.h"
#include "core/clock.h"

#define BYTES  ((size_t)256 << 10)
#define ROUNDS 15
#define CALLS  200

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(const char *what, double *v, const char *unit)
{
	qsort(v, ROUNDS, sizeof(*v), by_value);
	printf("%-24s median %8.2f  best %8.2f %s\n", what, v[ROUNDS / 2], v[ROUNDS - 1], unit);
}

static void bench_suite(enum suite suite, struct session *a, struct session *b, uint8_t *data)
{
	uint8_t key[2][32] = { { 1 }, { 2 } }, (*tag)[16] = calloc(CALLS, 16);
	double sealed[ROUNDS], opened[ROUNDS];
	char what[64];

	if (tag == NULL || session_init(a, suite, key[0], key[1], NULL) != ERR_OK ||
	    session_init(b, suite, key[1], key[0], NULL) != ERR_OK) {
		free(tag);
		return;
	}
	for (int r = 0; r < ROUNDS; r++) {
		int64_t t = clock_now();

		for (int i = 0; i < CALLS; i++)
			if (!session_seal_payload(a, data, BYTES, data, tag[i]))
				abort();
		sealed[r] = (double)BYTES * CALLS / (double)(clock_now() - t);
		/* The last is the only one whose bytes are still there. */
		b->rx.counter = a->tx.counter - 1;
		opened[r] = 0;
		for (int i = 0; i < CALLS; i++) {
			b->rx.counter = a->tx.counter - 1;
			if (a->sealed && i > 0) {
				a->tx.counter--;
				if (!session_seal_payload(a, data, BYTES, data, tag[CALLS - 1]))
					abort();
			}
			t = clock_now();
			if (!session_open_payload(b, data, BYTES, tag[CALLS - 1]))
				abort();
			opened[r] += (double)(clock_now() - t);
		}
		opened[r] = (double)BYTES * CALLS / opened[r];
	}
	snprintf(what, sizeof(what), "%s seal", suite_name(suite));
	report(what, sealed, "GB/s");
	snprintf(what, sizeof(what), "%s open", suite_name(suite));
	report(what, opened, "GB/s");
	free(tag);
}

static void bench_handshake(struct session *a, struct session *b)
{
	struct key_pair ck, sk;
	uint8_t psk[32] = { 3 }, hello[HS_HELLO_BYTES], msg1[HS_MSG1_BYTES];
	uint8_t msg2[HS_MSG2_BYTES], suites;
	struct hs_identity id;
	struct hs_server hs;
	struct hs_client hc;
	struct hs_peer peer;
	struct hs_client_info ci = { .rank = 1 };
	struct hs_server_info si = { .epoch = 1 }, got;
	uint64_t hint;
	double rate[ROUNDS];

	key_pair_generate(&ck);
	key_pair_generate(&sk);
	handshake_identity_init(&id, &sk, psk);
	for (int r = 0; r < ROUNDS; r++) {
		int64_t spent = 0;

		for (int i = 0; i < CALLS; i++) {
			int64_t t = clock_now();

			handshake_server_hello(&hs, suite_mask(), 0, hello);
			spent += clock_now() - t;
			if (handshake_client_read_hello(&hc, hello, &suites, &hint, NULL) !=
			        ERR_OK ||
			    handshake_client_write1(&hc, &ck, sk.pk, psk, SUITE_POLY1305, &ci, msg1,
			        NULL) != ERR_OK)
				abort();
			t = clock_now();
			if (handshake_server_read1(&hs, &id, 1, msg1, &peer, NULL) != ERR_OK ||
			    handshake_server_write2(&hs, HS_OK, &si, msg2, a, NULL) != ERR_OK)
				abort();
			spent += clock_now() - t;
			if (handshake_client_read2(&hc, msg2, &got, b, NULL) != ERR_OK)
				abort();
		}
		rate[r] = CALLS / ((double)spent / 1e9);
	}
	report("handshakes, server", rate, "a second");
}

int main(void)
{
	struct session *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	uint8_t *data = calloc(1, BYTES);

	if (key_init(NULL) != ERR_OK || a == NULL || b == NULL || data == NULL)
		return 1;
#define SUITE(id, name, number, sealed, help) bench_suite(SUITE_##id, a, b, data);
#include "auth/suite.def"
#undef SUITE
	bench_handshake(a, b);
	free(data);
	free(a);
	free(b);
	return 0;
}
