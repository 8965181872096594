/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sodium.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allreduce/ring.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "tool/bench.h"

#define WARM_UP  3
#define DEADLINE (30 * NSEC_PER_SEC)

/* Memory that all processes share; made before the fork. */
struct crew {
	struct bench_config *b;
	struct ring_member *member;
	struct conn_identity *id;
	struct ring **ring;
	struct log log;
	size_t floats;
};

/* Keys, incarnation and socket path of member i. */
static void make_bench_member(struct crew *c, const char *dir, unsigned i,
    const uint8_t psk[static 32])
{
	struct ring_member *m = &c->member[i];
	struct key_pair key;

	key_pair_generate(&key);
	handshake_identity_init(&c->id[i].hs, &key, psk);
	*m = (struct ring_member){ .rank = i, .incarnation = i };
	memcpy(m->key, key.pk, sizeof m->key);
	snprintf(m->local, sizeof m->local, "%s/ring-%u.sock", dir, i);
	key_pair_wipe(&key);
}

/* Opens all listeners before the fork, so that every process knows all addresses. */
static enum err_code make_listeners(struct crew *c, const char *dir, struct err *e)
{
	uint8_t psk[32];
	enum err_code rc = ERR_OK;

	randombytes_buf(psk, sizeof psk);
	for (unsigned i = 0; !rc && i < (unsigned)c->b->procs; i++) {
		struct ring_config cfg = { .id = &c->id[i],
			.rank = i,
			.incarnation = i,
			.transport = transport_find(c->b->transport),
			.local_suite = c->b->suite,
			.remote_suite = c->b->suite,
			.listen = "127.0.0.1:0",
			.local = c->member[i].local,
			.deadline = DEADLINE,
			.log = &c->log,
			.attend_fd = -1 };

		make_bench_member(c, dir, i, psk);
		rc = ring_new(&cfg, &c->ring[i], e);
		if (!rc)
			snprintf(c->member[i].tcp, sizeof c->member[i].tcp, "%s",
			    ring_address(c->ring[i]));
	}
	return rc;
}

/* Element i of the vector of a member: a random value times (member + 1). */
static float member_value(unsigned member, size_t i)
{
	return (float)((rng_mix(i) >> 40) * (member + 1)) * 0x1p-24f;
}

/* Checks the mean: values grow with the member, so it is (procs + 1) / 2 times that of member 0. */
static bool is_right(const struct crew *c, const float *mean)
{
	double factor = ((double)c->b->procs + 1) / 2;

	for (size_t i = 0; i < c->floats; i++)
		if (fabs((double)mean[i] - factor * (double)member_value(0, i)) > 1e-5 * factor)
			return false;
	return true;
}

/* Runs one member: forms the ring, reduces, checks the last mean. */
static enum err_code run_bench_member(struct crew *c, unsigned i, struct err *e)
{
	double *took = mem_array((size_t)c->b->iters, sizeof *took);
	float *in = mem_try_array(c->floats, sizeof *in);
	const float *mean = NULL;
	uint64_t total = 0;
	enum err_code rc = in ? ring_form(c->ring[i], 1, c->member, (size_t)c->b->procs, e)
	                      : err_set(e, ERR_NOMEM, "no memory for %zu values", c->floats);

	for (size_t k = 0; !rc && k < c->floats; k++)
		in[k] = member_value(i, k);
	for (int64_t k = -WARM_UP; !rc && k < c->b->iters; k++) {
		int64_t begin = clock_now();

		rc = ring_reduce(c->ring[i], (uint64_t)(k + WARM_UP), in, c->floats, 1, &mean,
		    &total, e);
		if (k >= 0)
			took[k] = (double)(clock_now() - begin) / (double)NSEC_PER_SEC;
	}
	if (!rc && (total != (uint64_t)c->b->procs || !is_right(c, mean)))
		rc = err_set(e, ERR_FAILED, "the result is not the mean of the %lld members",
		    (long long)c->b->procs);
	if (!rc)
		bench_sum_up(c->b, took);
	free(took);
	free(in);
	return rc;
}

/* Runs member i in a forked process, and does not return. The child asks to be killed when its
 * parent ends; the comparison with `parent` catches a parent that ended before that. */
static void run_child(struct crew *c, unsigned i, pid_t parent)
{
	struct err e = { 0 };
	enum err_code rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	rc = run_bench_member(c, i, &e);
	if (rc)
		log_error(&c->log, "member %u: %s", i, e.msg);
	_exit(rc ? 1 : 0);
}

/* Waits for all children. A member that still runs when another fails is told by its closed
 * connection. */
static enum err_code children_end(const pid_t *pid, size_t n, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 1; i < n; i++) {
		int status = 0;

		if (pid[i] <= 0)
			continue;
		while (waitpid(pid[i], &status, 0) < 0 && errno == EINTR)
			;
		if (!rc && (!WIFEXITED(status) || WEXITSTATUS(status)))
			rc = err_set(e, ERR_FAILED, "member %zu failed", i);
	}
	return rc;
}

enum err_code bench_ring(const char *dir, struct bench_config *b, struct err *e)
{
	size_t n = (size_t)b->procs;
	struct crew c = { .b = b,
		.member = mem_array(n, sizeof *c.member),
		.id = mem_array(n, sizeof *c.id),
		.ring = mem_array(n, sizeof *c.ring),
		.floats = b->bytes / sizeof(float) };
	pid_t *pid = mem_array(n, sizeof *pid), self = getpid();
	enum err_code rc, ended;

	log_init(&c.log, "bench", 2, LOG_LEVEL_WARN);
	rc = make_listeners(&c, dir, e);
	for (unsigned i = 1; !rc && i < n; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			run_child(&c, i, self);
		if (pid[i] < 0)
			rc = err_sys(e, ERR_IO, "cannot start member %u", i);
	}
	if (!rc)
		rc = run_bench_member(&c, 0, e);
	ring_free(c.ring[0]);
	ended = children_end(pid, n, rc ? NULL : e);
	for (size_t i = 1; i < n; i++)
		ring_free(c.ring[i]);
	for (size_t i = 0; i < n; i++)
		handshake_identity_wipe(&c.id[i].hs);
	free(c.member);
	free(c.id);
	free(c.ring);
	free(pid);
	return rc ? rc : ended;
}
