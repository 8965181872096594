/* SPDX-License-Identifier: ISC */
#ifndef WORKER_STREAM_BATCH_H
#define WORKER_STREAM_BATCH_H

#include "data/source/data_log.h"
#include "worker/leased_range.h"

/* Chooses the events of the next batch of a partition of a stream.
 *
 * The examples of a leased partition have numbers (coord/leases.h), and range.used is the first number that
 * nobody has trained on. The log decides how numbers belong to events:
 *
 *   data_log_is_numbered   A number is a place, counted from the place where the job began. A batch spans
 *                          some numbers and has the events that exist in them. So the position of a lost
 *                          worker is a place, and stays right when events before it or after it are
 *                          compacted or deleted.
 *   other logs             Each event has one number. The log only grows, so that whoever counts events
 *                          from a known place on arrives at the same one.
 *
 * An attempt has batches of equal spans. Where an event is missing in the next span, the batch may have
 * fewer events than others; where much is missing, another attempt with a wider span begins, which the worker
 * announces. Pure; belongs to the training thread. */

struct stream_batch {
	uint64_t events; /* ready events of the batch */
	uint64_t span;   /* numbers that it takes; 0: there is no batch */
};

/* The place of number range.used, from which to read on. Negative: not known, as data_log_seek takes it. */
int64_t stream_batch_place(const struct data_log *l, const struct leased_range *r);
/* The number of events that a worker that reads from that place on must skip. */
uint64_t stream_batch_skipped(const struct data_log *l, const struct leased_range *r);
/* Notes the place of number range.used, where nobody knew it and the log has found it. */
void stream_batch_note_place(const struct data_log *l, struct leased_range *r);
/* The number of events that should arrive for a batch of `batch` events. */
uint64_t stream_batch_need(const struct data_log *l, const struct leased_range *r, uint64_t batch);
/* The next batch, if all its events have arrived: those that a lost worker may have pushed, or `batch` ones.
 * step: that of the batch. */
struct stream_batch stream_batch_whole(const struct data_log *l, const struct leased_range *r,
    uint64_t batch, uint64_t step);
/* The events that have arrived, as a batch. The range must not repeat one. */
struct stream_batch stream_batch_rest(const struct data_log *l, const struct leased_range *r);

#endif
