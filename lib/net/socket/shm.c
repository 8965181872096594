/* SPDX-License-Identifier: ISC */
#include "socket/shm.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

/* Bytes of one ring. Two entries of any size fit, wherever the first one begins. */
#define RING (4u << 20)
/* An entry after this offset goes to the beginning of the ring instead, if there is room. So most
 * of the time only as much of the ring is used as fits into a processor's cache. */
#define EARLY (768u << 10)
#define PAGE  4096u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The state of one ring. Positions count bytes since the ring was made; the offset in the ring is
 * the position modulo RING. The writer's and the reader's members lie in different cache lines. */
struct way {
	_Alignas(SHM_LINE) _Atomic uint64_t head; /* set by the writer: entries end here */
	_Atomic uint32_t starving;                /* the writer waits for room */
	/* Set by the reader: it has read up to here. */
	_Alignas(SHM_LINE) _Atomic uint64_t tail;
	_Atomic uint32_t asleep; /* the reader waits for an entry */
};

struct shared {
	_Alignas(PAGE) struct way way[2];
	_Alignas(PAGE) uint8_t ring[2][RING];
};

struct shm {
	struct shared *at;
	struct way *out, *in;
	uint8_t *out_ring, *in_ring;
	/* Our own positions: out->head and in->tail are copies for the other end, and never read
	 * here, because the other end could change them. */
	uint64_t head, tail;
	uint64_t start; /* the position of the reserved entry */
};

static enum err_code map_shared(int fd, bool made_here, struct shm **out, struct err *e)
{
	void *at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct shm *s;

	if (at == MAP_FAILED)
		return err_sys(e, ERR_NOMEM, "shared memory of %zu bytes", sizeof(struct shared));
	s = mem_alloc(sizeof *s);
	s->at = at;
	s->out = &s->at->way[!made_here];
	s->in = &s->at->way[made_here];
	s->out_ring = s->at->ring[!made_here];
	s->in_ring = s->at->ring[made_here];
	*out = s;
	return ERR_OK;
}

enum err_code shm_new(struct shm **out, int *fd, struct err *e)
{
	enum err_code rc;

	*fd = memfd_create("pskit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return err_sys(e, ERR_IO, "shared memory");
	if (ftruncate(*fd, sizeof(struct shared)) || fcntl(*fd, F_ADD_SEALS, SEALS))
		rc = err_sys(e, ERR_IO, "shared memory of %zu bytes", sizeof(struct shared));
	else
		rc = map_shared(*fd, true, out, e);
	if (rc) {
		close(*fd);
		*fd = -1;
	}
	return rc;
}

enum err_code shm_join(int fd, struct shm **out, struct err *e)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) ||
	    st.st_size != (off_t)sizeof(struct shared))
		return err_set(e, ERR_PROTO, "malformed shared memory");
	return map_shared(fd, false, out, e);
}

void shm_free(struct shm *s)
{
	if (!s)
		return;
	munmap(s->at, sizeof(struct shared));
	free(s);
}

static uint64_t pad_to_line(size_t n)
{
	return ((uint64_t)n + SHM_LINE - 1) / SHM_LINE * SHM_LINE;
}

/* ---- writing ---- */

/* The position where an entry of n bytes (a multiple of SHM_LINE) may begin; UINT64_MAX: there is
 * no room. */
static uint64_t choose_entry_start(const struct shm *s, uint64_t tail, uint64_t n)
{
	uint64_t at = s->head % RING, again = s->head - at + RING;
	bool early = at >= EARLY && again + n - tail <= RING;

	if (at + n <= RING && !early)
		return s->head + n - tail <= RING ? s->head : UINT64_MAX;
	return again + n - tail <= RING ? again : UINT64_MAX;
}

/* The reader's position. If it is impossible, a position that leaves no room. */
static uint64_t checked_tail(const struct shm *s)
{
	uint64_t tail = atomic_load_explicit(&s->out->tail, memory_order_acquire);

	return s->head - tail <= RING ? tail : s->head - RING;
}

uint8_t *shm_reserve(struct shm *s, size_t n)
{
	s->start = choose_entry_start(s, checked_tail(s), pad_to_line(n));
	if (s->start == UINT64_MAX) {
		atomic_store(&s->out->starving, 1);
		s->start = choose_entry_start(s, checked_tail(s), pad_to_line(n));
		if (s->start == UINT64_MAX)
			return NULL;
		atomic_store(&s->out->starving, 0);
	}
	return s->out_ring + s->start % RING;
}

bool shm_commit(struct shm *s, size_t n)
{
	/* Four zero bytes say that the next entry is at the beginning of the ring. */
	if (s->start != s->head)
		memset(s->out_ring + s->head % RING, 0, sizeof(uint32_t));
	s->head = s->start + pad_to_line(n);
	atomic_store(&s->out->head, s->head);
	return atomic_load(&s->out->asleep) && atomic_exchange(&s->out->asleep, 0);
}

uint64_t shm_written(const struct shm *s)
{
	return s->head;
}

bool shm_is_read(const struct shm *s, uint64_t position)
{
	return s->head - checked_tail(s) <= s->head - position;
}

/* ---- reading ---- */

bool shm_is_empty(const struct shm *s)
{
	return atomic_load_explicit(&s->in->head, memory_order_acquire) == s->tail;
}

const uint8_t *shm_peek(struct shm *s, size_t *n, bool *broken)
{
	uint64_t head = atomic_load_explicit(&s->in->head, memory_order_acquire), at, there;
	uint32_t first;

	*broken = head - s->tail > RING || head % SHM_LINE;
	for (unsigned lap = 0; lap < 2 && head != s->tail && !*broken; lap++) {
		at = s->tail % RING;
		there = head - s->tail < RING - at ? head - s->tail : RING - at;
		memcpy(&first, s->in_ring + at, sizeof first);
		*n = (size_t)there;
		if (first)
			return s->in_ring + at;
		/* Zeroes at the beginning of the ring, or a skip past the head, are errors. */
		*broken = at == 0 || head - s->tail < RING - at;
		s->tail += RING - at;
	}
	return NULL;
}

bool shm_take(struct shm *s, size_t n)
{
	s->tail += pad_to_line(n);
	atomic_store(&s->in->tail, s->tail);
	return atomic_load(&s->in->starving) && atomic_exchange(&s->in->starving, 0);
}

bool shm_doze(struct shm *s)
{
	atomic_store(&s->in->asleep, 1);
	if (atomic_load(&s->in->head) == s->tail)
		return true;
	atomic_store(&s->in->asleep, 0);
	return false;
}
