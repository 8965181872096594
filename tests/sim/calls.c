/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <sodium.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/calls.h"

/* Everything else that the programs ask of libc: memory, clocks, random bytes, and the process
 * itself. */

#define WALL_BEGIN (INT64_C(1800000000) * SEC)

/* ---- memory ---- */

static struct arena own; /* of the simulator's calls outside of any process */

void calls_reset(void)
{
	memset(&own, 0, sizeof own);
}

static struct arena *arena_now(void)
{
	return proc_current ? &proc_current->arena : &own;
}

void *sim_malloc(size_t n)
{
	void *p = arena_alloc(arena_now(), n);

	if (!p)
		errno = ENOMEM;
	return p;
}

/* Pointers from libc itself, as of open_memstream, are its own. */
void sim_free(void *p)
{
	if (!p)
		return;
	if (memory_is_ours(p))
		arena_free(arena_now(), p);
	else
		free(p);
}

void *sim_calloc(size_t n, size_t size)
{
	size_t bytes;
	void *p = __builtin_mul_overflow(n, size, &bytes) ? NULL : sim_malloc(bytes);

	if (p)
		arena_clear(p, bytes);
	else
		errno = ENOMEM;
	return p;
}

void *sim_realloc(void *p, size_t n)
{
	void *q;
	size_t was;

	if (!p)
		return sim_malloc(n);
	if (!memory_is_ours(p))
		return realloc(p, n);
	was = arena_size(p);
	q = sim_malloc(n);
	if (q) {
		memcpy(q, p, was < n ? was : n);
		sim_free(p);
	}
	return q;
}

void *sim_reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? (errno = ENOMEM, NULL)
	                                               : sim_realloc(p, bytes);
}

void *sim_aligned_alloc(size_t align, size_t n)
{
	return arena_alloc_aligned(arena_now(), align, n);
}

char *sim_strdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = sim_malloc(n);

	return p ? memcpy(p, s, n) : NULL;
}

int sim_vasprintf(char **out, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	*out = n < 0 ? NULL : sim_malloc((size_t)n + 1);
	return *out ? vsnprintf(*out, (size_t)n + 1, fmt, ap) : -1;
}

/* Anonymous memory, and files as copies. A mapping that is shared is only for reading: the writes
 * of others to the file do not appear in it, and the files that the library maps do not change. */
void *sim_mmap(void *at, size_t n, int prot, int flags, int fd, off_t from)
{
	void *p;

	(void)at;
	if (flags & MAP_SHARED && prot & PROT_WRITE && fd >= 0)
		return errno = ENODEV, MAP_FAILED;
	p = arena_alloc_aligned(arena_now(), 4096, n);
	if (!p)
		return errno = ENOMEM, MAP_FAILED;
	memset(p, 0, n);
	if (fd >= 0 && sim_pread(fd, p, n, from) < 0)
		return MAP_FAILED;
	return p;
}

int sim_munmap(void *p, size_t n)
{
	(void)n;
	sim_free(p);
	return 0;
}

int sim_madvise(void *p, size_t n, int advice)
{
	(void)p;
	(void)n;
	(void)advice;
	return 0;
}

int sim_memfd_create(const char *name, unsigned flags)
{
	(void)name;
	(void)flags;
	return errno = ENOSYS, -1;
}

/* ---- keys ---- */

/* The handshakes' Curve25519 and HMAC would be a third of the simulator's time. What stands in for them
 * keeps nothing secret, but keys agree and disagree as real ones do: a Diffie-Hellman group of 61 bits
 * (an element is in the first 8 bytes of a key, and the others follow from it), and a hash of 64 bits.
 * Records are still sealed and opened by the real cipher. */
#define PRIME ((UINT64_C(1) << 61) - 1)

static uint64_t multiply(uint64_t a, uint64_t b)
{
	unsigned __int128 x = (unsigned __int128)a * b;
	uint64_t r = (uint64_t)(x & PRIME) + (uint64_t)(x >> 61);

	return r >= PRIME ? r - PRIME : r;
}

static int raise_to(unsigned char *out, const unsigned char *scalar, uint64_t element)
{
	uint64_t word[4], exponent, power = 1;

	memcpy(word, scalar, sizeof word);
	exponent = word[0] ^ word[1] << 1 ^ word[2] << 2 ^ word[3] << 3;
	for (element %= PRIME; exponent; exponent >>= 1, element = multiply(element, element))
		if (exponent & 1)
			power = multiply(power, element);
	for (int i = 0; i < 4; i++)
		word[i] = power * (2 * (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + 1);
	memcpy(out, word, sizeof word);
	return power > 1 ? 0 : -1;
}

int sim_crypto_scalarmult(unsigned char *out, const unsigned char *scalar,
    const unsigned char *point)
{
	uint64_t element;

	memcpy(&element, point, sizeof element);
	return raise_to(out, scalar, element);
}

int sim_crypto_scalarmult_base(unsigned char *out, const unsigned char *scalar)
{
	return raise_to(out, scalar, 37);
}

/* The state of a hash is kept in the first bytes of the real one. */
int sim_crypto_auth_hmacsha256_init(crypto_auth_hmacsha256_state *s, const unsigned char *key,
    size_t n)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	memcpy(s, &hash, sizeof hash);
	return sim_crypto_auth_hmacsha256_update(s, key, n);
}

int sim_crypto_auth_hmacsha256_update(crypto_auth_hmacsha256_state *s, const unsigned char *p,
    unsigned long long n)
{
	uint64_t hash;

	memcpy(&hash, s, sizeof hash);
	for (unsigned long long i = 0; i < n; i++) {
		hash = (hash ^ p[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	memcpy(s, &hash, sizeof hash);
	return 0;
}

int sim_crypto_auth_hmacsha256_final(crypto_auth_hmacsha256_state *s, unsigned char *out)
{
	uint64_t word[4];

	memcpy(word, s, sizeof *word);
	for (int i = 1; i < 4; i++)
		word[i] = (word[i - 1] ^ word[i - 1] >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	memcpy(out, word, sizeof word);
	return 0;
}

/* ---- clocks ---- */

int64_t calls_clock_offset(clockid_t clock)
{
	return (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? WALL_BEGIN
	                                                                  : 1000 * SEC) +
	    (proc_current && clock == CLOCK_REALTIME ? proc_current->clock_skew : 0);
}

int sim_clock_gettime(clockid_t clock, struct timespec *out)
{
	int64_t t = sim_now + calls_clock_offset(clock);

	/* A loop that only looks at the clock ends, too. */
	sim_now += 50;
	out->tv_sec = t / SEC;
	out->tv_nsec = t % SEC;
	return 0;
}

time_t sim_time(time_t *out)
{
	struct timespec ts;

	sim_clock_gettime(CLOCK_REALTIME, &ts);
	if (out)
		*out = ts.tv_sec;
	return ts.tv_sec;
}

int sim_nanosleep(const struct timespec *t, struct timespec *left)
{
	struct waitq never = { 0 };

	if (left)
		*left = (struct timespec){ 0 };
	fiber_wait_one(&never, sim_now + t->tv_sec * SEC + t->tv_nsec);
	return 0;
}

int sim_sched_yield(void)
{
	struct waitq never = { 0 };

	fiber_wait_one(&never, sim_now);
	return 0;
}

/* ---- random bytes ---- */

ssize_t sim_getrandom(void *out, size_t n, unsigned flags)
{
	uint8_t *p = out;

	(void)flags;
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(sim_random() >> 56);
	return (ssize_t)n;
}

static const char *sodium_name(void)
{
	return "simulated";
}

static uint32_t sodium_word(void)
{
	return (uint32_t)(sim_random() >> 32);
}

static void sodium_bytes(void *const out, const size_t n)
{
	sim_getrandom(out, n, 0);
}

static struct randombytes_implementation sodium_random = {
	.implementation_name = sodium_name,
	.random = sodium_word,
	.buf = sodium_bytes,
};

void calls_begin(void)
{
	/* Memory that a seed has touched stays for the next one: a page fault costs more than what is
	 * done to most pages. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_TOP_PAD, 16 << 20);
	randombytes_set_implementation(&sodium_random);
	if (sodium_init() < 0)
		sim_panic("libsodium does not start");
	json_set_alloc_funcs(sim_malloc, sim_free);
	json_object_seed(1);
}

/* ---- the process ---- */

void sim_exit(int code)
{
	proc_exit(code);
}

void sim__exit(int code)
{
	proc_exit(code);
}

int sim_fprintf(FILE *f, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	(void)f;
	line[strcspn(line, "\n")] = 0;
	if (proc_current)
		snprintf(proc_current->last, sizeof proc_current->last, "%.255s", line);
	sim_trace("%-10s | %s", proc_current ? proc_current->name : "", line);
	return n;
}

int sim_printf(const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	line[strcspn(line, "\n")] = 0;
	if (proc_current)
		snprintf(proc_current->printed, sizeof proc_current->printed, "%.255s", line);
	sim_trace("%-10s | %s", proc_current ? proc_current->name : "", line);
	return n;
}

void sim_abort(void)
{
	sim_panic("%s has aborted", proc_current ? proc_current->name : "a program");
}

void sim___assert_fail(const char *what, const char *file, unsigned line, const char *fn)
{
	sim_panic("%s: %s:%u: %s: %s does not hold", proc_current ? proc_current->name : "", file,
	    line, fn, what);
}

pid_t sim_getpid(void)
{
	return proc_current ? proc_current->pid : 1;
}

pid_t sim_getppid(void)
{
	return 1;
}

pid_t sim_gettid(void)
{
	return sim_getpid();
}

uid_t sim_geteuid(void)
{
	return 0;
}

int sim_kill(pid_t pid, int sig)
{
	struct proc *p = proc_find(pid);

	if (!p || !p->alive)
		return errno = ESRCH, -1;
	if (sig == SIGKILL)
		proc_kill(p);
	else if (sig)
		proc_signal(p, sig);
	return 0;
}

int sim_gethostname(char *out, size_t n)
{
	snprintf(out, n, "host%u", proc_current ? proc_current->slot : 0);
	return 0;
}

/* With a core chosen, ps-work does not start itself again to choose one. With another process that
 * reads its log, a program names the cause of its end (core/err.h). */
char *sim_getenv(const char *name)
{
	static char core[] = "Haswell", reader[] = "0";

	return strcmp(name, "OPENBLAS_CORETYPE") == 0 ? core
	    : strcmp(name, "PSKIT_LOGS_READ_BY") == 0 ? reader
	                                              : (char *)(uintptr_t)proc_getenv(name);
}

long sim_sysconf(int name)
{
	return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF ? 2
	    : name == _SC_PAGESIZE                                          ? 4096
	    : name == _SC_PHYS_PAGES                                        ? 1 << 20
	                                                                    : sysconf(name);
}

int sim_sched_getaffinity(pid_t pid, size_t n, cpu_set_t *out)
{
	(void)pid;
	memset(out, 0, n);
	CPU_SET(0, out);
	CPU_SET(1, out);
	return (int)n;
}

int sim_getrusage(__rusage_who_t who, struct rusage *out)
{
	(void)who;
	memset(out, 0, sizeof *out);
	return 0;
}

int sim_getrlimit(__rlimit_resource_t what, struct rlimit *out)
{
	*out = what == RLIMIT_NOFILE ? (struct rlimit){ PROC_FDS, PROC_FDS }
	                             : (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
	return 0;
}

int sim_setrlimit(__rlimit_resource_t what, const struct rlimit *in)
{
	(void)what;
	(void)in;
	return 0;
}

int sim_prctl(int what, ...)
{
	(void)what;
	return 0;
}

/* No program of the simulation starts another one. */
pid_t sim_fork(void)
{
	return errno = EAGAIN, -1;
}

int sim_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
    const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	(void)pid;
	(void)file;
	(void)actions;
	(void)attr;
	(void)argv;
	(void)env;
	return EAGAIN;
}

/* ---- signals: they come by descriptors alone ---- */

int sim_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	(void)sig;
	(void)act;
	if (old)
		memset(old, 0, sizeof *old);
	return 0;
}

typedef void (*handler)(int);

handler sim_signal(int sig, handler fn)
{
	(void)sig;
	(void)fn;
	return SIG_DFL;
}

int sim_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	(void)how;
	(void)set;
	if (old)
		sigemptyset(old);
	return 0;
}

int sim_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return sim_sigprocmask(how, set, old);
}

int sim_sigpending(sigset_t *set)
{
	return sigemptyset(set);
}

/* ---- what is not there ---- */

int sim_inotify_init1(int flags)
{
	(void)flags;
	return errno = ENOSYS, -1;
}

int sim_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	(void)fd;
	(void)path;
	(void)mask;
	return errno = ENOSYS, -1;
}

ssize_t sim_splice(int in, off_t *in_at, int out, off_t *out_at, size_t n, unsigned flags)
{
	(void)in;
	(void)in_at;
	(void)out;
	(void)out_at;
	(void)n;
	(void)flags;
	return errno = EINVAL, -1;
}

int sim_close_range(unsigned first, unsigned last, int flags)
{
	(void)first;
	(void)last;
	(void)flags;
	return 0;
}
