/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_TFEVENTS_H
#define FORMAT_TFEVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* TensorBoard's event files: TFRecords (length, masked CRC-32C of it, bytes, masked CRC-32C of
 * these) of tensorflow.Event in protobuf's encoding, of which this writes file_version, wall_time,
 * step and Summary with simple_value and histo.  One thread at a time. */
struct tfevents;

/* Creates a new file dir/events.out.tfevents.SECONDS.HOST.PID, never an existing one. ERR_IO. */
enum err_code tfevents_open(const char *dir, struct tfevents **out, struct err *e);
void tfevents_close(struct tfevents *t); /* NULL is fine */

/* Begins an event of a step, at wall seconds (Unix time); any number of values follow until
 * tfevents_end. TensorBoard groups tags by their slashes. Values that are not finite are left
 * out. */
void tfevents_begin(struct tfevents *t, double wall, int64_t step);
void tfevents_scalar(struct tfevents *t, const char *tag, double value);
/* n buckets: count[i] values are above limit[i - 1] and at or below limit[i]. */
struct tfevents_histogram {
	double min, max, sum, sum_squares;
	const double *limit, *count;
	size_t n;
};
void tfevents_histogram(struct tfevents *t, const char *tag, const struct tfevents_histogram *h);
/* Appends the event to the file, unless it has no values. ERR_IO: the file is unchanged. */
enum err_code tfevents_end(struct tfevents *t, struct err *e);

#endif
