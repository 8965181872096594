/* SPDX-License-Identifier: ISC */
/* The limit by shared memory: one thread copies records into a ring of socket/shm.h, another
 * copies them out, adds them up and says when all of a round are; both spin, and nothing
 * else is done.
 * usage: shmpump BYTES ITERS; prints bytes a second. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "math/vec.h"
#include "socket/shm.h"

#define RECORD (256u << 10)

struct side {
	struct shm *shm;
	uint64_t bytes, iters;
	_Atomic uint64_t rounds;
};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void *sum(void *ctx)
{
	struct side *s = ctx;
	float *staging = mem_array(RECORD / 4, sizeof *staging),
	      *total = mem_array(s->bytes / 4, sizeof *total);

	pin(1);
	for (uint64_t i = 0; i < s->iters; i++) {
		for (uint64_t at = 0; at < s->bytes;) {
			size_t n = s->bytes - at < RECORD ? (size_t)(s->bytes - at) : RECORD, there;
			bool broken;
			const uint8_t *in = shm_peek(s->shm, &there, &broken);

			if (!in)
				continue;
			memcpy(staging, in, n);
			shm_take(s->shm, n);
			vec_add(n / 4, staging, total + at / 4);
			at += n;
		}
		atomic_store(&s->rounds, i + 1);
	}
	free(staging);
	free(total);
	return NULL;
}

int main(int argc, char **argv)
{
	struct side rx = { 0 };
	struct shm *out;
	float *from;
	pthread_t thread;
	int64_t begin;
	int fd;

	if (argc != 3 || !num_size(argv[1], &rx.bytes) || !num_uint(argv[2], 1 << 30, &rx.iters) ||
	    !rx.bytes || rx.bytes % 64)
		return 2;
	from = mem_array(rx.bytes / 4, sizeof *from);
	for (size_t i = 0; i < rx.bytes / 4; i++)
		from[i] = 1;
	if (shm_new(&out, &fd, NULL) || shm_join(fd, &rx.shm, NULL) ||
	    pthread_create(&thread, NULL, sum, &rx))
		return 1;
	pin(0);
	begin = clock_now();
	for (uint64_t i = 0; i < rx.iters; i++) {
		for (uint64_t at = 0; at < rx.bytes;) {
			size_t n = rx.bytes - at < RECORD ? (size_t)(rx.bytes - at) : RECORD;
			uint8_t *room = shm_reserve(out, n);

			if (!room)
				continue;
			memcpy(room, from + at / 4, n);
			shm_commit(out, n);
			at += n;
		}
		while (atomic_load(&rx.rounds) <= i)
			;
	}
	printf("%.4g\n",
	    (double)rx.bytes * (double)rx.iters * (double)NSEC_PER_SEC /
	        (double)(clock_now() - begin));
	pthread_join(thread, NULL);
	shm_free(out);
	shm_free(rx.shm);
	close(fd);
	free(from);
	return 0;
}
