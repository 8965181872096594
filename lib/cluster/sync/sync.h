/* SPDX-License-Identifier: ISC */
#ifndef SYNC_SYNC_H
#define SYNC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "optim/stale.h"
#include "sync/sync_ops.h"

/* Decides when a server takes a push and answers a pull. This is pure state: no clock, lock, I/O or
 * thread. The owner (the gate of shard/gate.h, or a unit test) calls all functions under a lock of
 * its own. struct sync_ops has what differs between the modes; the rest is the same for all.
 *
 * Steps count from 0. A rank is a worker's number. A rank's clock is the number of steps that it
 * has completed, which is also the number of the step that it is at: a rank that has sent CLOCK for
 * step 0 has clock 1.
 *
 * The states of a rank:
 *
 *    unknown (incarnation 0) --admitted--> active --DONE--> inactive, same incarnation
 *    active or inactive --lost--> inactive, fenced --admitted again--> active, new incarnation
 *
 * "Active" means that the others wait for the rank. The mode in force can change to any other one:
 * the owner sets `next_mode_from` to the first step of the next mode, so that step and later ones
 * wait, and replaces `mode` when sync_may_change_mode returns true.
 *
 * All step counters of sync.h, shard/gate.h and shard/part.h. "+1" means that the counter is one
 * past the step, so that 0 means "none yet". Each counter is changed under the lock of its struct:
 * the gate's lock for struct sync_rank, sync and gate, the partition's lock for struct part.
 *
 *  name                 whose       what it counts                   changed by
 *  -------------------  ----------  -------------------------------  ----------------------------
 *  rank.clock           rank        steps completed                  sync_clock; sync_begin_holder
 *                                                                    (a new holder begins at some
 *                                                                    step); gate.c at a change of
 *                                                                    mode
 *  rank.pushed_end      rank        highest step pushed to any       pass_gate, pass_gate_with_sum,
 *                                   partition of this server, +1     gate_note_pushed (replicas);
 *                                                                    sync_begin_holder lowers
 *                                                                    absurd ones
 *  rank.stated[].end    rank        step of the example count in     sync_clock
 *                                   this place of the ring, +1
 *  rank.complete_from   rank        first step that cannot miss      sync_end_holder, when the rank
 *                                   pushes of a lost or replaced     is lost or gets another holder
 *                                   holder
 *  rank.clocked_end     rank        steps that CLOCKs received here  sync_clock, gate.c at a change
 *                                   have covered, of any holder      of mode; sync_end_holder
 *                                                                    lowers absurd ones
 *  rank.clocked_before  rank        clocked_end when complete_from   sync_end_holder
 *                                   was set; the least such value
 *                                   of changes still open
 *  sync.closed          server      bsp: steps whose update all      close_complete_steps, shard_new,
 *                                   partitions headed here have      settings_epoch_change_mode
 *                                   made
 *  sync.answered_end    server      highest step whose pull was      sync_note_answer;
 *                                   answered, +1                     gate_note_closed (steps closed
 *                                                                    at another server)
 *  sync.vote_from       server      first step under a vote          shard_vote, shard_end_vote
 *  sync.next_mode_from  server      first step of the next mode      shard_add_epoch,
 *                                                                    settings_epoch_change_mode
 *  gate.least_clock     server      cached least clock of the        clocked_steps
 *                                   active ranks; valid while
 *                                   gate.nslowest (the number of
 *                                   ranks at it) is not 0
 *  part.step            partition   bsp: the open step, so also the  part_update, part_apply_sum,
 *                                   number of closed steps           gate_pass_empty_steps,
 *                                                                    shard_ops.close_step, a change
 *                                                                    of mode, restore, a state
 *                                                                    transfer
 *  part.pushes.last[]   partition,  highest step whose push was      part_set_last
 *                       by rank     taken, +1
 *  part.pushes.         partition,  newest step whose push was       part_expect, part_withdraw,
 *   announced[].end     by rank     announced, +1 (steps: that one   part_merge_expected
 *                                   and the 63 before it)
 *  part.chain.          partition   all replicas that count have     part_update_safe
 *   safe_step                       the steps below this one
 *  part.load.measured   partition   steps since this server became   shard_part_load
 *                                   the head
 *  part.saved.          partition   the row policy's clock at the    shard_snap_take,
 *   full_clock                      last full snapshot               snapshot_before_update
 *  snaps.step           server      bsp: the step before which a     shard_snap_begin
 *                                   snapshot is taken
 *
 * The counters version, rule_began, prev_version, known_since, joined_version and safe_version of
 * struct part count updates, and next_seq and safe_seq count records to the next replica: none of
 * them can be compared with a step. */

/* A mode with its parameters. */
struct sync_mode {
	const struct sync_ops *ops; /* which mode; NULL: not set */
	uint64_t staleness;         /* ssp: steps that a rank may be ahead of the slowest one */
	unsigned backup;            /* bsp: ranks that a step does not wait for */
	struct stale stale;         /* ssp, asp: what is done about the staleness of pushes */
};
#define SYNC_STALENESS_MAX 1000000u

/* Properties of a mode; sync_ops.h explains them. All are false for a mode that is not set. */
static inline bool sync_sums_steps(const struct sync_mode *m)
{
	return m->ops && m->ops->sums_steps;
}
static inline bool sync_is_lockstep(const struct sync_mode *m)
{
	return m->ops && m->ops->lockstep;
}
static inline bool sync_bounds_staleness(const struct sync_mode *m)
{
	return m->ops && m->ops->bounds_staleness;
}
/* The number of steps that all other workers must have completed before a worker at this step is
 * given the parameters. */
static inline uint64_t sync_needed_step(const struct sync_mode *m, uint64_t step)
{
	return m->ops->needed(m, step);
}

/* Returns the divisor of the learning rate of a push of this staleness; 1: the rate stays as it
 * is. */
static inline uint64_t sync_rate_divisor(const struct sync_mode *m, uint64_t staleness)
{
	return m->stale.ops && m->stale.ops->rate_divisor ? m->stale.ops->rate_divisor(staleness)
	                                                  : 1;
}

/* True when both modes and all their parameters are equal. */
bool sync_same(const struct sync_mode *a, const struct sync_mode *b);
/* Parses a mode, written as its line in sync.def says, into *out, with backup 0. ERR_CONFIG with a
 * sentence otherwise; *out is not set then. */
enum err_code sync_parse(const char *text, struct sync_mode *out, struct err *e);
/* Writes the mode as sync_parse reads it; "unknown" when it is not set. */
void sync_format(const struct sync_mode *m, char out[static 32]);

#define SYNC_BACKUP_MAX 4095u /* greatest mode.backup */
/* Steps whose stated example counts are kept for each rank. */
#define SYNC_STATED_STEPS 32
/* The state that a server keeps for one rank. The table above explains the counters. */
struct sync_rank {
	bool active; /* the others wait for this rank */
	/* The present holder's incarnation. 0: no worker has held this rank yet. */
	uint64_t incarnation;
	uint8_t key[32]; /* the holder's public key; zeroes: not known */
	uint64_t clock;  /* steps completed */
	/* highest step pushed, plus 1 */
	uint64_t pushed_end;
	/* Examples that the rank's CLOCKs stated, for a step at place step % SYNC_STATED_STEPS. A
	 * server that becomes the head of a chain may have to close steps that the rank completed
	 * long ago. */
	struct {
		uint64_t end, examples;
	} stated[SYNC_STATED_STEPS];
	/* The rank was lost or got another holder, and all servers know that from this step on. For
	 * a step before it, pushes of the earlier holder may have reached some servers and not
	 * others, and the missing ones will never come. */
	uint64_t complete_from;
	uint64_t clocked_end;    /* steps that received CLOCKs have covered, of any holder */
	uint64_t clocked_before; /* the value of clocked_end when complete_from was set */
	uint64_t refused;        /* pushes refused for their own contents */
	/* The incarnation of the relay that may push for the rank (0: none), and the incarnation of
	 * the holder for which that relay may push. */
	uint64_t relay, relay_holder;
};

/* The state of one server: the mode in force, the ranks, and how far the steps are. */
struct sync {
	struct sync_mode mode;
	struct sync_rank *rank;
	size_t nranks;
	uint64_t closed;       /* bsp: steps whose update has been made */
	uint64_t answered_end; /* one past the highest step whose pull was answered */
	/* Pulls and pushes of this step and later ones wait, because the servers are voting on a
	 * change that is to take effect at it. SYNC_NEVER: there is no vote. */
	uint64_t vote_from;
	/* The first step of another mode, which begins when all steps before it are done
	 * (sync_may_change_mode); until then this step and later ones wait. SYNC_NEVER: no change
	 * of mode is decided. */
	uint64_t next_mode_from;
};
#define SYNC_NEVER UINT64_MAX
/* bsp: an honest rank's CLOCK is never more than this many steps beyond `closed`, except on a
 * server that joined later and has not closed any step yet. */
#define SYNC_LEAD_MAX 16u

/* Initializes *s with no ranks and this mode, without a vote. */
void sync_init(struct sync *s, struct sync_mode mode);
/* Frees the ranks. */
void sync_release(struct sync *s);
/* Returns the rank's state. The table grows when the rank is new, which invalidates earlier
 * pointers into it. */
struct sync_rank *sync_at(struct sync *s, size_t rank);

/* The incarnation of a fenced rank; no worker has it. */
#define SYNC_NOBODY UINT64_MAX
/* Is the incarnation fenced, because it does not hold the rank (any more)? */
bool sync_fences(const struct sync *s, uint32_t rank, uint64_t incarnation);

/* The least clock of the active ranks: the steps that all of them have completed. SYNC_NEVER when
 * no rank is active. */
uint64_t sync_least_clock(const struct sync *s);
/* May a pull at this step be answered now, by the rule of the mode in force? */
bool sync_may_pull(const struct sync *s, uint64_t step);
/* May a relay ask its servers for the values of this step? They answer its requests in order, so no
 * rank of the relay may still need an earlier step. */
bool sync_may_fetch(const struct sync *s, uint64_t step);
/* May a pull at this step be answered for those partitions that have closed the step before, while
 * others have not? Differs from sync_may_pull in bsp alone. */
bool sync_may_prefetch(const struct sync *s, uint64_t step);
/* Have all active ranks completed the steps before this one? The members of this step cannot change
 * any more then. */
bool sync_members_fixed(const struct sync *s, uint64_t step);
/* May a push of this step be taken now? False while the step waits for a vote or a change of
 * mode. */
bool sync_may_push(const struct sync *s, uint64_t step);
/* How many of n active ranks a bsp step may close without: `backup`, but at most n - 1. */
unsigned sync_spare(const struct sync_mode *m, size_t n);
/* How many of the active ranks this step may close without. Ranks whose CLOCK of the step stated no
 * examples do not count: a step does not close without all ranks that have examples, unless there
 * are none. */
unsigned sync_spare_at(const struct sync *s, uint64_t step);
/* The steps that all active ranks except the spare ones (sync_spare_at) have completed by their
 * CLOCKs. With no active rank left: all steps that were pushed. */
uint64_t sync_completed(const struct sync *s);
/* Are all steps before next_mode_from done, so that the next mode may begin? In a mode that sums
 * steps they must be closed; in other modes every active rank must have completed them. */
bool sync_may_change_mode(const struct sync *s);
/* The first step that has not begun here: one past the highest step that any rank has pulled for,
 * pushed or completed, but for ranks whose step is absurd (core/steps.h). Changes of members and
 * settings can take effect at this step; the members of earlier steps cannot change any more. */
uint64_t sync_first_free(const struct sync *s);
/* Notes that a pull at this step was answered, which moves the first free step unless the step is
 * absurd. */
void sync_note_answer(struct sync *s, uint64_t step);

/* Was a rank lost or taken over whose pushes of this step may have reached some servers only? A
 * server that has received the rank's CLOCK for this step knows which pushes to expect, so
 * skip_clocked leaves out ranks that had sent it before they were lost. */
bool sync_may_lack_pushes(const struct sync *s, uint64_t step, bool skip_clocked);

/* The rank has a new holder, which begins at step `at`. It may begin before a step that an earlier
 * holder completed here: then it completes this step again. Lowers counters that would be absurd
 * for it. */
void sync_begin_holder(struct sync *s, size_t rank, uint64_t at);
/* From step complete_from on, all servers know that the rank has no holder, or another one. Also
 * lowers clocked_end when an earlier CLOCK was absurd. */
void sync_end_holder(struct sync *s, size_t rank, uint64_t complete_from);
/* Records a CLOCK: the rank has completed `step`, with this many examples in it. False when the
 * rank had completed it before. */
bool sync_clock(struct sync *s, size_t rank, uint64_t step, uint64_t examples);
/* The number of examples that the rank's CLOCK stated for this step; 0 when it is not known. */
uint64_t sync_stated_examples(const struct sync *s, size_t rank, uint64_t step);

#endif
