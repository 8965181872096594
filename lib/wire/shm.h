#ifndef WIRE_SHM_H
#define WIRE_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Memory that two processes of one host share: a ring each way, of entries that lie in one
 * piece each, at multiples of SHM_LINE bytes.  One thread an end.  What the other end
 * writes, and when, is not trusted: whoever reads an entry copies it before it is looked
 * at, and no number that is found there leads outside of the ring.
 *
 * Whoever finds nothing to read, or no room, says so there and may then sleep: the other
 * end is told by the call that changes it to wake it, by a way of its own. */
struct shm;

#define SHM_LINE 64u
/* An entry's bytes, at most. */
#define SHM_ENTRY ((1u << 20) + SHM_LINE)

/* For the end that makes it: *fd is for the other one (memfd_create(2), sealed against
 * changes of its size), and the caller's to close.  ERR_IO, ERR_NOMEM. */
enum err_code shm_new(struct shm **out, int *fd, struct err *e);
/* For the other end; fd stays open, and may be closed.  ERR_PROTO: it is not what shm_new
 * makes, and might be cut while it is in use. */
enum err_code shm_join(int fd, struct shm **out, struct err *e);
void shm_free(struct shm *s);

/* Room for n bytes, at most SHM_ENTRY; NULL: not now.  Nothing is there for the other end
 * until it is committed, perhaps with fewer bytes; another reserve is in its place. */
uint8_t *shm_reserve(struct shm *s, size_t n);
/* True: the other end sleeps, and is to be woken. */
bool shm_commit(struct shm *s, size_t n);

/* The next entry, and how many bytes there are of it and of what follows it, a multiple of
 * SHM_LINE; NULL: none, or with *broken that the ring is not one. */
const uint8_t *shm_peek(struct shm *s, size_t *n, bool *broken);
/* n bytes of it were all.  True: the other end waits for room, and is to be woken. */
bool shm_take(struct shm *s, size_t n);
/* Nothing is there: the other end is to wake us when something is.  False: there is. */
bool shm_doze(struct shm *s);
bool shm_is_empty(const struct shm *s);

#endif
