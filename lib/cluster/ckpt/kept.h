/* SPDX-License-Identifier: ISC */
#ifndef CKPT_KEPT_H
#define CKPT_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Things outside of the checkpoints that the checkpoints of a run still need: events of streams,
 * and the residuals of the workers. They may be given up only when no checkpoint that exists needs
 * them. A checkpoint that was begun needs nothing yet, and protects nothing: it may fail.
 *
 * Only manifests are read, so a checkpoint whose other files are damaged counts as one that exists.
 * No locks; a checkpoint that another process removes meanwhile may still count. */
struct ckpt_kept;

/* Nothing is known yet. ckpt_kept_free(NULL) is fine. */
struct ckpt_kept *ckpt_kept_new(void);
void ckpt_kept_free(struct ckpt_kept *k);
/* Looks which checkpoints are in the directory now. Each manifest is read once, however often it is
 * looked at. A missing directory has no checkpoints. ERR_IO: what was known stays. */
enum err_code ckpt_kept_look(struct ckpt_kept *k, const char *dir, struct err *e);
/* The number of checkpoints. */
size_t ckpt_kept_count(const struct ckpt_kept *k);

/* The place in a partition of a stream (data/source/data_log.h) at which a job continues when it
 * resumes from the newest checkpoint; -1: there is none, or it does not know the partition. */
int64_t ckpt_kept_newest_place(const struct ckpt_kept *k, uint64_t partition);
/* The place before which no checkpoint needs an event; -1: there is no checkpoint, or one of them
 * needs all events. */
int64_t ckpt_kept_oldest_place(const struct ckpt_kept *k, uint64_t partition);

/* Sets needed[i] for each file that a job loads when it resumes from one of the checkpoints, and
 * leaves the others as they are. steps: the steps of the rank's files, ascending, n of them. In bsp
 * a rank loads the file of the checkpoint's step, in other modes its first file that is not before
 * its own step in the checkpoint. */
void ckpt_kept_mark_needed(const struct ckpt_kept *k, uint32_t rank, const uint64_t *steps,
    size_t n, bool *needed);

#endif
