/* SPDX-License-Identifier: ISC */
#ifndef SOCKET_SHM_H
#define SOCKET_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Memory that two processes of one host share: one ring for each direction. An entry is contiguous
 * and begins at a multiple of SHM_LINE bytes. One thread at each end; no locks, but atomic
 * positions. The other end is not trusted: a reader copies an entry before it checks it, because
 * the writer can change it at any time, and no number in the memory leads outside of the ring.
 *
 * Sleeping. A reader that finds nothing marks its ring as asleep (shm_doze), a writer that finds
 * no room marks it as starving (shm_reserve). Either may then sleep: the next shm_commit or
 * shm_take at the other end returns true, and its caller must wake this end, here by a byte on a
 * socket. */
struct shm;

#define SHM_LINE 64u
/* The largest entry, in bytes. */
#define SHM_ENTRY ((1u << 20) + SHM_LINE)

/* Make the memory. *fd (memfd_create(2), sealed against changes of its size) is to be sent to the
 * other end, and the caller closes it. ERR_IO, ERR_NOMEM. */
enum err_code shm_new(struct shm **out, int *fd, struct err *e);
/* Map the memory at the other end. The caller may close fd afterwards. ERR_PROTO: shm_new has not
 * made it: without the seals it could be truncated while it is in use. ERR_NOMEM. */
enum err_code shm_join(int fd, struct shm **out, struct err *e);
/* Unmaps the memory. The other end keeps its own mapping and finds nothing new there. NULL is
 * fine. */
void shm_free(struct shm *s);

/* Room for an entry of n bytes, at most SHM_ENTRY; NULL: none now. The other end sees it after
 * shm_commit, with n the same or less. A second reserve replaces the first. */
uint8_t *shm_reserve(struct shm *s, size_t n);
/* Publish the reserved entry. True: the other end sleeps and must be woken. */
bool shm_commit(struct shm *s, size_t n);

/* The position after the last entry that was published, and: has the other end released all
 * entries up to this position? */
uint64_t shm_written(const struct shm *s);
bool shm_is_read(const struct shm *s, uint64_t position);

/* The next entry. *n: the bytes from there that may be read, a multiple of SHM_LINE, with entries
 * that follow it. NULL: there is none, or the other end has put impossible numbers there
 * (*broken). */
const uint8_t *shm_peek(struct shm *s, size_t *n, bool *broken);
/* Release the entry, which has n bytes. True: the other end waits for room and must be woken. */
bool shm_take(struct shm *s, size_t n);
/* Ask the other end to wake us when there is an entry. False: there is one already. */
bool shm_doze(struct shm *s);
/* Is there no entry to read? One atomic load. */
bool shm_is_empty(const struct shm *s);

#endif
