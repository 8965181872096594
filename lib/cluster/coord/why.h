/* SPDX-License-Identifier: ISC */
#ifndef COORD_WHY_H
#define COORD_WHY_H

/* The inside of coord_why, shared by coord_why.c and coord_why_slow.c: a list of reasons that is
 * filled row by row. No state survives a call; the owner's lock covers the coord. */
#include "coord/coord_state.h"
#include "msg/words.h"

struct why {
	const struct coord *c;
	int64_t now;
	json_t *list;
	/* Texts of the row that was added last */
	char because[300], remedy[400];
	bool slow_known; /* `slow` is the slowest worker below slow_need */
	uint64_t slow_need;
	int slow;
};

struct reason {
	const char *who, *whom;
	int64_t step; /* -1: none */
	double seconds;
	/* This is the reason in the plural, for several members: "they are reading their data".
	 * NULL: the row is not merged with others. */
	const char *together;
	enum err_cause cause; /* of an error that a process has reported */
};

/* Append a row: r says which member waits for which; fmt gives the reason, remedy what to do. */
__attribute__((format(printf, 5, 6))) void coord_why_add(struct why *y, const struct reason *r,
    enum why_code code, const char *remedy, const char *fmt, ...);

/* coord_why_slow.c: workers that are slow at every step, even if nobody waits just now. */
void coord_why_stragglers(struct why *y);
/* Explain the wait of r->who by the slowest of them. False: no other worker is slow. */
bool coord_why_straggler(struct why *y, struct reason *r);

#endif
