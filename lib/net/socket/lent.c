/* SPDX-License-Identifier: ISC */
#include "socket/lent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/mem.h"
#include "socket/sealed.h"

#define LINE 64u
#define WHAT "lent memory"

/* The bytes begin after one cache line, as large arrays do (core/mem.h). At the beginning of a
 * page they would have the same addresses modulo 4096 as the buffers they are copied to, and a
 * processor may mistake a load from one array for a load of what was just stored to the other. */
struct lent {
	struct sealed memory;
};

struct lent_view {
	struct sealed_view memory;
};

/* ---- the owner ---- */

/* Allocates all pages, and writes them: a page that was only allocated counts as a hole. */
static enum err_code fill_pages(const struct sealed *m, struct err *e)
{
	do
		errno = posix_fallocate(m->fd, 0, (off_t)m->size);
	while (errno == EINTR);
	if (errno)
		return err_sys(e, ERR_NOMEM, WHAT " of %zu bytes", m->size);
	memset(m->at, 0, m->size);
	return ERR_OK;
}

enum err_code lent_new(size_t bytes, struct lent **out, struct err *e)
{
	struct lent *l;
	enum err_code rc;

	if (bytes > INT64_MAX / 2)
		return err_set(e, ERR_NOMEM, "no lent memory of %zu bytes", bytes);
	l = mem_alloc(sizeof *l);
	rc = sealed_new(WHAT, LINE + bytes, &l->memory, e);
	if (!rc)
		rc = fill_pages(&l->memory, e);
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
	sealed_release(&l->memory);
	free(l);
}

int lent_fd(const struct lent *l)
{
	return l->memory.fd;
}

void *lent_bytes(const struct lent *l)
{
	return l->memory.at + LINE;
}

bool lent_find(const struct lent *l, const void *at, size_t n, uint64_t *offset)
{
	uintptr_t first = l ? (uintptr_t)l->memory.at : 0, here = (uintptr_t)at;

	if (!l || here < first || here - first > l->memory.size ||
	    n > l->memory.size - (here - first))
		return false;
	*offset = here - first;
	return true;
}

/* ---- the reader ---- */

/* Has the memory no hole? The seals then keep this so. The number of its blocks would not tell it,
 * because there can be blocks after its end. */
static bool has_all_pages(int fd, size_t size)
{
	struct statfs fs;

	/* Other file systems, such as that of huge pages, do not find their holes. */
	return !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC &&
	    lseek(fd, 0, SEEK_HOLE) >= (off_t)size;
}

enum err_code lent_map(int fd, struct lent_view **out, struct err *e)
{
	struct sealed_view memory;
	enum err_code rc = sealed_map(WHAT, fd, &memory, e);

	if (rc)
		return rc;
	if (!has_all_pages(fd, memory.size)) {
		sealed_unmap(&memory);
		return err_set(e, ERR_PROTO, "malformed " WHAT);
	}
	*out = mem_alloc(sizeof **out);
	(*out)->memory = memory;
	return ERR_OK;
}

void lent_unmap(struct lent_view *v)
{
	if (!v)
		return;
	sealed_unmap(&v->memory);
	free(v);
}

bool lent_copy(const struct lent_view *v, uint64_t offset, void *to, size_t n)
{
	if (!v || offset > v->memory.size || n > v->memory.size - offset)
		return false;
	if (n)
		memcpy(to, v->memory.at + offset, n);
	return true;
}
