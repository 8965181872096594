/* SPDX-License-Identifier: ISC */
#ifndef CORE_READ_RETRY_H
#define CORE_READ_RETRY_H

/* How long reading is tried again when a file cannot be read. A disk that fails for a moment, or a
 * lack of descriptors, is not damage of the file, and must not cost a job what it has saved. The
 * owner of the attempts waits itself. No locks: a struct read_retry belongs to one owner. */
#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/log.h"

/* For how long, and the pause between two attempts. */
#define READ_RETRY_TIME     (10 * NSEC_PER_SEC)
#define READ_RETRY_PAUSE_MS 100

struct read_retry {
	int64_t
	    since; /* clock_now of the first failure in a row; 0: the last attempt did not fail so */
};

/* Returns whether to try again after a pause: an attempt ended with *e at `now` (clock_now). Only
 * ERR_IO is tried again. Logs the first failure in a row; log NULL: nowhere. */
static inline bool read_retry_wanted(struct read_retry *r, const struct err *e, struct log *log,
    int64_t now)
{
	if (e->code != ERR_IO) {
		r->since = 0;
		return false;
	}
	if (!r->since) {
		r->since = now;
		if (log)
			log_warn(log, "%s: trying again for up to %lld s", e->msg,
			    (long long)(READ_RETRY_TIME / NSEC_PER_SEC));
	}
	return now - r->since < READ_RETRY_TIME;
}

#endif
