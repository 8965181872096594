#ifndef COORD_TUNE_H
#define COORD_TUNE_H

#include <stdbool.h>
#include <stdint.h>

/* Which setting would make a job faster, by what its workers were measured to do: pure, no
 * clock, no I/O.  One key at a time; a change is proposed when two looks in a row agree. */

enum tune_key { TUNE_BACKUP = 1, TUNE_STALENESS = 2, TUNE_CODEC = 4, TUNE_BATCH = 8 };

/* Seconds a step of one worker, over some of them. */
struct tune_worker {
	double alone;                   /* data and gradient: what nobody else can change */
	double wire;                    /* push and pull */
	double wait;                    /* for others */
};

struct tune_now {
	unsigned keys;                  /* those that may be adapted, of enum tune_key */
	bool bsp, ssp;
	unsigned backup;
	uint64_t staleness;
	const char *codec;
	int64_t batch, first_batch;     /* first: what the job began with */
};

struct tune_advice {
	enum tune_key key;
	char set[48], value[32];        /* "backup", "1" */
	char why[240];
};

/* What was found last, and how often in a row; zeroes to begin with. */
struct tune {
	char last[96];
	unsigned times;
};

/* Look at n active workers.  True: *out is to be done now. */
bool tune_look(struct tune *t, const struct tune_now *now, const struct tune_worker *w, unsigned n, struct tune_advice *out);

#endif
