/* SPDX-License-Identifier: ISC */
#include "socket/lent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

#define LINE  64u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
/* Bytes of a block in struct stat: stat(3type). */
#define STAT_BLOCK 512

/* The bytes begin behind one cache line, as large arrays do (core/mem.h). At the beginning of a
 * page they would have the same addresses modulo 4096 as the buffers they are copied to, and a
 * processor may mistake a load from one array for a load of what was just stored to the other. */
struct lent {
	uint8_t *at;
	size_t size; /* of the mapping */
	int fd;
};

struct lent_view {
	const uint8_t *at;
	size_t size;
};

/* ---- the owner ---- */

static enum err_code map_lent(struct lent *l, struct err *e)
{
	void *at;

	l->fd = memfd_create("pskit-lent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (l->fd < 0 || ftruncate(l->fd, (off_t)l->size))
		return err_sys(e, ERR_IO, "lent memory");
	do
		errno = posix_fallocate(l->fd, 0, (off_t)l->size);
	while (errno == EINTR);
	if (errno)
		return err_sys(e, ERR_NOMEM, "lent memory of %zu bytes", l->size);
	at = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	if (at == MAP_FAILED)
		return err_sys(e, ERR_NOMEM, "lent memory of %zu bytes", l->size);
	l->at = at;
	/* This mapping stays writable. */
	if (fcntl(l->fd, F_ADD_SEALS, SEALS))
		return err_sys(e, ERR_IO, "lent memory");
	return ERR_OK;
}

enum err_code lent_new(size_t bytes, struct lent **out, struct err *e)
{
	struct lent *l;
	enum err_code rc;

	if (bytes > INT64_MAX / 2)
		return err_set(e, ERR_NOMEM, "no lent memory of %zu bytes", bytes);
	l = mem_alloc(sizeof *l);
	l->fd = -1;
	l->size = LINE + bytes;
	rc = map_lent(l, e);
	if (rc) {
		lent_free(l);
		return rc;
	}
	*out = l;
	return ERR_OK;
}

void lent_free(struct lent *l)
{
	if (!l)
		return;
	if (l->at)
		munmap(l->at, l->size);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

int lent_fd(const struct lent *l)
{
	return l->fd;
}

void *lent_bytes(const struct lent *l)
{
	return l->at + LINE;
}

bool lent_find(const struct lent *l, const void *at, size_t n, uint64_t *offset)
{
	uintptr_t first = l ? (uintptr_t)l->at : 0, here = (uintptr_t)at;

	if (!l || here < first || here - first > l->size || n > l->size - (here - first))
		return false;
	*offset = here - first;
	return true;
}

/* ---- the reader ---- */

/* Has all of the memory been allocated, and is it sealed, so that this cannot change? */
static bool is_sealed_memory(int fd, struct stat *st)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, st) && st->st_size > 0 &&
	    st->st_blocks >= (st->st_size + STAT_BLOCK - 1) / STAT_BLOCK;
}

enum err_code lent_map(int fd, struct lent_view **out, struct err *e)
{
	struct lent_view *v;
	struct stat st;
	void *at;

	if (!is_sealed_memory(fd, &st))
		return err_set(e, ERR_PROTO, "malformed lent memory");
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return err_sys(e, ERR_NOMEM, "lent memory of %lld bytes", (long long)st.st_size);
	madvise(at, (size_t)st.st_size, MADV_DONTDUMP);
	v = mem_alloc(sizeof *v);
	v->at = at;
	v->size = (size_t)st.st_size;
	*out = v;
	return ERR_OK;
}

void lent_unmap(struct lent_view *v)
{
	if (!v)
		return;
	munmap((void *)(uintptr_t)v->at, v->size);
	free(v);
}

bool lent_copy(const struct lent_view *v, uint64_t offset, void *to, size_t n)
{
	if (!v || offset > v->size || n > v->size - offset)
		return false;
	if (n)
		memcpy(to, v->at + offset, n);
	return true;
}
