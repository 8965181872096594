/* SPDX-License-Identifier: ISC */
#ifndef SOCKET_LENT_H
#define SOCKET_LENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Lent memory: one process, the owner, writes it, and other processes of the host map it read-only
 * and copy from there. It is the opposite of published memory (socket/published.h): the owner of
 * published memory is trusted by its readers, and the owner of lent memory is not.
 *
 * Use. The owner fills bytes, and tells a reader their offset and length by other means. It does
 * not change them until the reader has copied them, which it learns by other means, too.
 *
 * Safety. The owner can break that rule, so a reader copies each byte once, and checks and uses its
 * copy. The memory is sealed (socket/sealed.h): the owner cannot truncate it under a reader, nor
 * make holes in it. All of its pages have been written before a reader maps it, so a reader never
 * allocates one.
 *
 * No locks: the owner's end is constant once it is made, and so is the reader's. */
struct lent;
struct lent_view;

/* The owner's end: memory of at least this many bytes, all zero, aligned to 64 bytes. ERR_IO,
 * ERR_NOMEM: the system has no such memory. */
enum err_code lent_new(size_t bytes, struct lent **out, struct err *e);
/* Unmaps the memory; readers keep what they have mapped. NULL is fine. */
void lent_free(struct lent *l);
/* The descriptor for readers. It belongs to l. */
int lent_fd(const struct lent *l);
/* The first byte. */
void *lent_bytes(const struct lent *l);
/* Do these n bytes lie in the memory? Then *offset is their place there. False if l is NULL. */
bool lent_find(const struct lent *l, const void *at, size_t n, uint64_t *offset);

/* The reader's end. The caller may close fd afterwards. ERR_PROTO: lent_new has not made it:
 * without the seals it could be truncated while it is read. ERR_NOMEM. */
enum err_code lent_map(int fd, struct lent_view **out, struct err *e);
/* NULL is fine. */
void lent_unmap(struct lent_view *v);
/* Copy n bytes that lie at this offset. False: the memory has no such bytes, or v is NULL, and
 * nothing is copied. */
bool lent_copy(const struct lent_view *v, uint64_t offset, void *to, size_t n);

#endif
