#ifndef FORMAT_TFEVENTS_H
#define FORMAT_TFEVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* TensorBoard's event files: TFRecords (length, masked CRC-32C of it, bytes, masked CRC-32C of
 * these) of tensorflow.Event in protobuf's encoding, of which this writes file_version, wall_time,
 * step and Summary with simple_value and histo.  One thread at a time. */
struct tfevents;

/* A new file dir/events.out.tfevents.SECONDS.HOST.PID, never one that is there.  ERR_IO. */
enum err_code tfevents_open(const char *dir, struct tfevents **out, struct err *e);
void tfevents_close(struct tfevents *t);        /* NULL is fine */

/* One event of a step, at wall seconds (Unix time): between begin and end any number of values.
 * Tags group by their slashes.  What is not finite is left out. */
void tfevents_begin(struct tfevents *t, double wall, int64_t step);
void tfevents_scalar(struct tfevents *t, const char *tag, double value);
/* n buckets: counts[i] values lie above limit[i - 1] and at or below limit[i]. */
struct tfevents_histogram {
	double min, max, sum, sum_squares;
	const double *limit, *count;
	size_t n;
};
void tfevents_histogram(struct tfevents *t, const char *tag, const struct tfevents_histogram *h);
/* Append it; nothing when there is no value in it.  ERR_IO: the file is as it was before. */
enum err_code tfevents_end(struct tfevents *t, struct err *e);

#endif
