/* SPDX-License-Identifier: ISC */
#ifndef STATE_OWNER_FILE_H
#define STATE_OWNER_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/* Which coordinator owns a run directory: RUN/coordinator.owner.
 *
 * Two hosts may share a run directory, and a user may start a coordinator on each. Locks do
 * not hold over all network file systems, so ownership is a record that a new coordinator
 * replaces and that every write of durable state verifies:
 *
 *   write:     create the temporary file, fill it, sync it, verify the owner, rename it
 *   log:       append, sync, verify the owner, announce
 *   take over: replace the owner record, remove all temporary files of the state, read the state
 *
 * A writer that verified before the record was replaced had created its temporary file earlier.
 * So either its rename happens before the removal, and the new coordinator reads what it wrote,
 * or the rename fails. A writer that verifies later finds that it is fenced. Hence a
 * coordinator that was overtaken changes nothing that its successor goes by and announces
 * nothing that its successor does not know. The file system must have close-to-open
 * consistency, as NFS has: a process that opens a file sees what other hosts renamed or removed
 * before. */
/* ERR_EXISTS: the coordinator that owns the directory lives on this host. */
enum err_code owner_file_check_free(const char *run_dir, struct err *e);
/* Make the process of this incarnation, which is the calling one, the owner. ERR_EXISTS: another
 * one became the owner at the same time. */
enum err_code owner_file_take(const char *run_dir, uint64_t incarnation, struct err *e);
/* Is it still the owner? ERR_FENCED: another one is, named in e. ERR_IO: the record cannot be read,
 * and nothing may be announced until it can. */
enum err_code owner_file_verify(const char *run_dir, uint64_t incarnation, struct err *e);

/* Reads the incarnation of the owner; 0: there is none. *died: it is known that its process has ended
 * (owner_process.h). False: the record cannot be read. */
bool owner_file_read(const char *run_dir, uint64_t *incarnation, bool *died);

#endif
