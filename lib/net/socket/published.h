/* SPDX-License-Identifier: ISC */
#ifndef SOCKET_PUBLISHED_H
#define SOCKET_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Published memory: one process writes it, and other processes of the host map it read-only and
 * copy from there. It is divided into places of PUBLISHED_BYTES. Each place has a state, a number
 * that tells a reader whether the bytes that it has copied are whole (a sequence lock):
 *
 *    state    event                        next state
 *    even     published_begin_change       the next odd number: the bytes are being changed
 *    odd      published_end_change         the next even number
 *
 * A state never repeats. The writer tells a reader a place and an even state, by other means; the
 * reader copies the bytes, and they are those that the writer meant if the state is still the same
 * afterwards.
 *
 * Safety. The memory is sealed (socket/sealed.h): a reader cannot write it, truncate it or make
 * holes in it, and a reader holds no lock. A reader may read every place at any time. The
 * descriptor must go only to processes that may know all that is stored here.
 *
 * The memory is as large as that of the machine. A page takes memory when it is first written, and
 * then until the writer and all readers have unmapped it: a place that is given back keeps its
 * pages for the next user, because the seal forbids the writer, too, to return them.
 *
 * No locks. published_take and published_give may be called by any thread. Changes of one place
 * must not overlap; the caller's lock sees to that. */
struct published;
struct published_view;

#define PUBLISHED_BYTES (256u << 10)

/* The writer's end. ERR_IO, ERR_NOMEM: the system has no such memory. */
enum err_code published_new(struct published **out, struct err *e);
/* Unmaps the memory; readers keep what they have mapped. NULL is fine. */
void published_free(struct published *p);
/* Bytes that readers can fill with pages, by reading places that have none. p NULL: 0. */
uint64_t published_bytes(const struct published *p);
/* The descriptor for readers. It belongs to p. */
int published_fd(const struct published *p);
/* A place for this number of bytes, with any contents, aligned to 16 bytes. NULL: there is none,
 * they are more than PUBLISHED_BYTES, or p is NULL. */
void *published_take(struct published *p, size_t bytes);
/* Give a place back. Readers that have been told of it find that it has changed. */
void published_give(struct published *p, void *at);
/* Between these calls the bytes at this place may be changed. With p NULL they do nothing. */
void published_begin_change(struct published *p, const void *at);
void published_end_change(struct published *p, const void *at);
/* The number of this place, and its state, which is even unless a change is under way. */
uint32_t published_place(const struct published *p, const void *at, uint64_t *state);

/* The reader's end. The caller may close fd afterwards. ERR_PROTO: published_new has not made it:
 * without the seals it could be truncated while it is in use. ERR_NOMEM. */
enum err_code published_map(int fd, struct published_view **out, struct err *e);
/* NULL is fine. */
void published_unmap(struct published_view *v);
/* Are there n bytes at this place? */
bool published_has(const struct published_view *v, uint32_t place, size_t n);
/* Copy n bytes of a place (published_has) that has this state. False: it has changed, and `to` has
 * garbage. */
bool published_copy(const struct published_view *v, uint32_t place, uint64_t state, void *to,
    size_t n);

#endif
