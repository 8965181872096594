#ifndef SYNC_SYNC_H
#define SYNC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* When may a push be taken and a pull be answered: pure state, no clock, no
 * lock, no I/O; the owner calls it under a lock of its own.
 *
 * A slot's clock is the number of steps that it has completed, which is also
 * the step it is at: a slot that has sent CLOCK for step 0 has clock 1.  Steps
 * count from 0. */
enum sync_kind {
#define MODE(name, number, help) SYNC_##name = number,
#include "sync/sync.def"
#undef MODE
};

struct sync_mode {
	enum sync_kind kind;
	uint64_t staleness;             /* of ssp */
	unsigned backup;                /* of bsp: slots that a step does not wait for */
};

bool sync_same(const struct sync_mode *a, const struct sync_mode *b);
/* "bsp", "ssp:3", "asp".  ERR_CONFIG with a sentence otherwise. */
enum err_code sync_parse(const char *text, struct sync_mode *out, struct err *e);
void sync_format(const struct sync_mode *m, char out[static 32]);

#define SYNC_BACKUP_MAX 4095u           /* greatest mode.backup */
#define SYNC_STATED 32
struct sync_slot {
	bool active;                    /* waited for */
	uint64_t incarnation;           /* 0: nobody has held it yet */
	uint64_t clock;                 /* steps completed */
	uint64_t last;                  /* highest step pushed, plus 1 */
	/* What its CLOCKs stated, of a step at step % SYNC_STATED: a server that
	 * becomes the first of a chain may have steps to close that the slot is
	 * well beyond. */
	struct { uint64_t end, examples; } stated[SYNC_STATED];
	/* Lost, or held by another one: from this step on everybody knows.  Of a step
	 * before, the pushes of who held it may have come to some servers and not to
	 * others, and what has not come never will. */
	uint64_t until;
	uint64_t told;                  /* steps that CLOCKs have told of, whoever's */
	uint64_t said;                  /* those of before `until` became what it is */
	uint64_t barred, barred_until;  /* pushes of these steps count as refused */
	uint64_t refused;               /* pushes that were, of themselves */
	/* The relay that may speak for the holder `given`, by its incarnation; 0: none. */
	uint64_t relay, given;
};

struct sync {
	struct sync_mode mode;
	struct sync_slot *slot;
	size_t nslots;
	uint64_t closed;                /* bsp: steps whose update has been made */
	uint64_t answered;              /* one past the highest step whose pull was answered */
	/* A change under vote: steps from `hold` on must not be taken.  Another mode holds from
	 * `turn` on, and begins when all before that is done (sync_may_turn). */
	uint64_t hold, turn;
};
#define SYNC_NEVER UINT64_MAX

void sync_init(struct sync *s, struct sync_mode mode);
void sync_release(struct sync *s);
/* The slot's state, the table grown when it is new. */
struct sync_slot *sync_at(struct sync *s, size_t slot);

/* Steps that every active slot has completed; SYNC_NEVER with no active slot. */
uint64_t sync_floor(const struct sync *s);
/* May a pull at this step be answered now? */
bool sync_may_pull(const struct sync *s, uint64_t step);
/* May a relay ask for it?  Answers come in the order of the questions: none of its slots may
 * be before that step. */
bool sync_may_ask(const struct sync *s, uint64_t step);
/* bsp: of the partitions that have closed the step before by themselves? */
bool sync_may_prefetch(const struct sync *s, uint64_t step);
/* Are all active slots at this step, or beyond it? */
bool sync_may_tell(const struct sync *s, uint64_t step);
/* May a push of this step be taken now, as far as votes are concerned? */
bool sync_may_push(const struct sync *s, uint64_t step);
/* One past the highest step that any slot has pushed or completed. */
uint64_t sync_pushed(const struct sync *s);
/* Of n active slots, how many a step closes without: `backup`, but not all. */
unsigned sync_spare(const struct sync *s, size_t n);
/* Steps that every active slot, but for the spare ones, has completed by its CLOCK;
 * with nobody left to wait for, all that were pushed. */
uint64_t sync_clocked(const struct sync *s);
/* bsp: is the oldest open step complete for every slot, so that it can be
 * closed?  The owner makes the update, then adds 1 to `closed`. */
bool sync_may_close(const struct sync *s);
/* Is all done that goes by this mode?  In bsp its steps are closed, else every active slot
 * has completed them. */
bool sync_may_turn(const struct sync *s);
/* One past the highest step that any slot has pulled for, pushed or completed:
 * who takes part in earlier steps cannot be changed any more. */
uint64_t sync_frontier(const struct sync *s);

/* Was a slot lost, or taken over, that takes part in this step for some servers?
 * told: as those see it that have its CLOCK. */
bool sync_torn(const struct sync *s, uint64_t step, bool told);

/* From this step on the slot has no holder, or another one. */
void sync_until(struct sync *s, size_t slot, uint64_t until);
/* CLOCK: the slot has completed `step`.  False when it had already. */
bool sync_clock(struct sync *s, size_t slot, uint64_t step, uint64_t examples);
/* What the slot stated of the step at its CLOCK; 0: it did not. */
uint64_t sync_stated(const struct sync *s, size_t slot, uint64_t step);

#endif
