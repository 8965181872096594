#ifndef COORD_WHY_H
#define COORD_WHY_H

/* Inside of coord_why: what its files share.  The owner's lock covers it. */
#include "coord/coord_state.h"

struct why {
	const struct coord *c;
	int64_t now;
	json_t *list;
	bool slow_known;                /* the slowest of those below slow_need is looked up */
	uint64_t slow_need;
	int slow;
};

struct reason {
	const char *who, *whom;
	int64_t step;                   /* -1: of none */
	double seconds;
};

/* One more row: who waits for whom, because of what, and what is to be done about it. */
__attribute__((format(printf, 4, 5))) void why_say(struct why *y, const struct reason *r, const char *remedy, const char *fmt, ...);
/* Seconds; 0 where t is. */
double why_since(const struct why *y, int64_t t);

/* coord_why_slow.c: who is slow at every step, though nobody may wait just now. */
void why_stragglers(struct why *y);

#endif
