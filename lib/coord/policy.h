#ifndef COORD_POLICY_H
#define COORD_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What becomes of the rows of a sparse table: which ids get one, how wide it is, and how long it stays.
 * All zeros: each id that is pushed has a row, with all columns, for good. */
struct row_policy {
	uint32_t admit;                 /* an id gets a row when it is offered for this time; 0: at once */
	double chance;                  /* or with this chance each time; 0: it does not go by chance */
	uint64_t decay;                 /* steps after which what was counted for admit is halved; 0: never */
	uint64_t expire;                /* steps without an update after which a row goes; 0: it stays */
	uint64_t memory;                /* bytes that one copy of the table's rows may take; 0: any number */
	uint64_t sketch;                /* bytes that the counts for admit take, of one copy; 0: by the table's rows */
	/* A row begins with its first `narrow` columns, and has the others, too, once it was updated widen_after times;
	 * 0: it has all from the beginning, as where a table has no more. */
	uint32_t narrow;
	uint64_t widen_after;
	bool changes;                   /* it is known when a row was updated last, whatever else is asked for */
};

#define POLICY_TEXT 160
#define POLICY_SKETCH_MAX (UINT64_C(64) << 30)

/* "none", or some of admit=N|P, decay=STEPS, widen=COLS@N, expire=STEPS, memory=SIZE, sketch=SIZE and changes, separated
 * by commas: a whole N counts, a P below 1 is a chance.  ERR_CONFIG with a sentence otherwise. */
enum err_code policy_parse(const char *text, struct row_policy *out, struct err *e);
/* As policy_parse takes it; "none" when nothing is asked for. */
void policy_text(const struct row_policy *p, char out[static POLICY_TEXT]);
bool policy_is_none(const struct row_policy *p);
/* Must it be known of each row when it was updated last? */
static inline bool policy_dates(const struct row_policy *p)
{
	return p->expire || p->memory || p->changes;
}

#endif
