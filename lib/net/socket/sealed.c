/* SPDX-License-Identifier: ISC */
#include "socket/sealed.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* ---- the owner ---- */

static enum err_code make_memory(const char *what, struct sealed *m, struct err *e)
{
	char name[64];
	void *at;

	snprintf(name, sizeof name, "pskit %s", what);
	m->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (m->fd < 0 || ftruncate(m->fd, (off_t)m->size))
		return err_sys(e, ERR_IO, "%s", what);
	at = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (at == MAP_FAILED)
		return err_sys(e, ERR_NOMEM, "%s of %zu bytes", what, m->size);
	m->at = at;
	/* This mapping stays writable. */
	if (fcntl(m->fd, F_ADD_SEALS, SEALS))
		return err_sys(e, ERR_IO, "%s", what);
	return ERR_OK;
}

enum err_code sealed_new(const char *what, size_t bytes, struct sealed *out, struct err *e)
{
	enum err_code rc;

	*out = (struct sealed){ .size = bytes, .fd = -1 };
	rc = make_memory(what, out, e);
	if (rc)
		sealed_release(out);
	return rc;
}

void sealed_release(struct sealed *m)
{
	if (m->at)
		munmap(m->at, m->size);
	if (m->fd >= 0)
		close(m->fd);
	*m = (struct sealed){ .fd = -1 };
}

/* ---- the reader ---- */

enum err_code sealed_map(const char *what, int fd, struct sealed_view *out, struct err *e)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *at;

	*out = (struct sealed_view){ 0 };
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size <= 0)
		return err_set(e, ERR_PROTO, "malformed %s", what);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return err_sys(e, ERR_NOMEM, "%s of %lld bytes", what, (long long)st.st_size);
	madvise(at, (size_t)st.st_size, MADV_DONTDUMP);
	*out = (struct sealed_view){ at, (size_t)st.st_size };
	return ERR_OK;
}

void sealed_unmap(struct sealed_view *v)
{
	if (v->at)
		munmap((void *)(uintptr_t)v->at, v->size);
	*v = (struct sealed_view){ 0 };
}
