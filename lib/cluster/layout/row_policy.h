/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_ROW_POLICY_H
#define LAYOUT_ROW_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "math/element.h"

/* The row policy of a sparse table: which row ids are admitted, when a row expires or is evicted,
 * and the type of the values in its rows. All zeros: every row id that is pushed has a row forever,
 * of float32. */
struct row_policy {
	/* The type in which servers and files keep the values of rows. Optimizer state is float32. */
	enum element_type values;
	/* A row id is admitted when pushed this many times; 0: at once */
	uint32_t admit;
	/* Or with this probability at each push; 0: not by chance */
	double chance;
	/* Steps after which the counts for admit are halved; 0: never */
	uint64_t decay;
	/* Steps without an update after which a row expires; 0: never */
	uint64_t expire;
	/* Bytes that the rows of one replica of the table may take; 0: no limit */
	uint64_t memory;
	/* Bytes of the admit counts of one replica; 0: chosen by the table's rows */
	uint64_t sketch;
	/* Keep the time of each row's last update, even if nothing else needs it */
	bool changes;
	/* Bytes of memory that the rows may take at one server, where the others are on its disk; 0: all
	 * rows are in memory */
	uint64_t ram;
	/* Bytes that they may take on the disk of one server; 0: no limit */
	uint64_t disk;
};

#define POLICY_TEXT 256
/* Least bytes of ram=. */
#define POLICY_RAM_MIN    (UINT64_C(16) << 20)
#define POLICY_SKETCH_MAX (UINT64_C(64) << 30)

/* Parse "none" or a list of admit=N|P, decay=STEPS, expire=STEPS, memory=SIZE, sketch=SIZE,
 * values=TYPE, ram=SIZE, disk=SIZE and changes, separated by commas. A whole number for admit
 * counts, one below 1 is a probability. On ERR_CONFIG e names the offending part. */
enum err_code row_policy_parse(const char *text, struct row_policy *out, struct err *e);
/* Write the policy in the form that row_policy_parse reads; "none" for an empty one. */
void row_policy_text(const struct row_policy *p, char out[static POLICY_TEXT]);
/* Is it the policy of a table that has none? */
bool row_policy_is_none(const struct row_policy *p);
/* Does the policy admit every row id, keep every row, and note no times? */
bool row_policy_keeps_all(const struct row_policy *p);
/* Must the time of each row's last update be kept? */
static inline bool row_policy_dates(const struct row_policy *p)
{
	return p->expire || p->memory || p->changes;
}

#endif
