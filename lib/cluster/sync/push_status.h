/* SPDX-License-Identifier: ISC */
#ifndef SYNC_PUSH_STATUS_H
#define SYNC_PUSH_STATUS_H

/* The outcome of a push, as its receipt reports it (ps-consistency(7)). The numbers are on the wire
 * and never change their meaning. PUSH_APPLIED: applied on arrival (ssp, asp, and tables with
 * sync=asp in job.rules). PUSH_MERGED: added to the sum of its bsp step. PUSH_DUPLICATE: a push of
 * this rank and step was taken before. PUSH_LATE: its step was closed without it. PUSH_REFUSED: not
 * used, for example because it has values that are not finite. PUSH_SPLIT: a relay's sum was not
 * taken, so that each worker sends its push by itself. */
enum push_status {
	PUSH_APPLIED = 1,
	PUSH_MERGED,
	PUSH_DUPLICATE,
	PUSH_LATE,
	PUSH_REFUSED,
	PUSH_SPLIT
};

#endif
