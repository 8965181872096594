/* SPDX-License-Identifier: ISC */
#ifndef SOCKET_SEALED_H
#define SOCKET_SEALED_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Memory that one process, the owner, writes, and that other processes of the host map read-only:
 * a memfd whose size is sealed, so that nobody can truncate it under a reader, and which is sealed
 * against all writes but those through the owner's mapping. The last seal also forbids holes to be
 * made. Lent memory (socket/lent.h) and published memory (socket/published.h) are such memory.
 *
 * No locks: both ends are constant once they are made. `what` is "lent memory" or the like, for
 * messages and for the names in /proc/PID/maps. */
struct sealed {
	uint8_t *at;
	size_t size; /* in bytes, as of struct sealed_view */
	int fd;      /* for readers */
};
struct sealed_view {
	const uint8_t *at;
	size_t size;
};

/* The owner's end: this many bytes, all zero, without pages yet. ERR_IO, ERR_NOMEM: the system has
 * no such memory, and *out needs no release. */
enum err_code sealed_new(const char *what, size_t bytes, struct sealed *out, struct err *e);
/* Unmaps the memory and closes fd; readers keep what they have mapped. */
void sealed_release(struct sealed *m);

/* The reader's end: maps all of the memory. The caller may close fd afterwards. ERR_PROTO:
 * sealed_new has not made it. ERR_NOMEM. */
enum err_code sealed_map(const char *what, int fd, struct sealed_view *out, struct err *e);
void sealed_unmap(struct sealed_view *v);

#endif
