/* SPDX-License-Identifier: ISC */
#ifndef SHARD_SETTINGS_EPOCH_H
#define SHARD_SETTINGS_EPOCH_H

#include "shard/part.h"

/* Settings epochs inside a shard: which settings are in force at which step. shard_add_epoch (one
 * caller at a time) publishes a new list with one more epoch. The last 64 epochs stay in the list,
 * and all that an open step or a coming change of the mode needs; the others leave it, and are
 * freed when no partition has the state of one any more.
 *
 * Who reads the list or uses an epoch of it holds the lock of a partition or of the gate, or is the
 * thread that calls shard_add_epoch: that function frees what the new list does not have when it
 * has had each of these locks once. The list itself is read without a lock of its own.
 *
 * A change takes effect twice. The gate: the mode in force becomes the next one when all steps
 * before it are done (settings_epoch_change_mode). Each partition: part.settings becomes the epoch
 * of the first update that belongs to it (settings_epoch_set), and never goes back. Replicas hear
 * from the head of the chain by which epoch each update was made, so all have the same bits. */

/* The epoch in force at a step; the last one that was decided; the one with this number (NULL: not
 * known here yet). */
const struct settings_epoch *settings_epoch_at(const struct shard *s, uint64_t step);
/* The list is never empty. Takes no lock. */
const struct settings_epoch *settings_epoch_last(const struct shard *s);
/* A number older than the list gives the oldest epoch that is left, not NULL. Takes no lock. */
const struct settings_epoch *settings_epoch_by_number(const struct shard *s, uint32_t number);
/* Is this step closed, when all its pushes have arrived? False: each push is an update of its own,
 * and no step is ever closed. */
bool settings_epoch_closes_step(const struct shard *s, uint64_t step);
/* The first step after this one whose pushes are not summed; SYNC_NEVER when there is none. */
uint64_t settings_epoch_sums_end(const struct shard *s, uint64_t step);
/* The step from which on pushes have been summed up to this one, a step of bsp; 0: always. For
 * example, bsp up to step 10, then ssp, and bsp again from step 20 on: 20 for step 25. */
uint64_t settings_epoch_sums_from(const struct shard *s, uint64_t step);
/* The first step of ssp or asp of those without a bsp up to this one; 0: all of them. For example,
 * bsp up to step 10, then ssp: 10 for step 15. */
uint64_t settings_epoch_unclosed_from(const struct shard *s, uint64_t step);
/* The first step of bsp after this one, as far as one is known; SYNC_NEVER when there is none. */
uint64_t settings_epoch_unclosed_end(const struct shard *s, uint64_t step);
/* The number of steps that must be closed before values of this step are shown: for a bsp step all
 * before it, else the steps of the bsp epochs before it. For example, bsp up to step 10, then ssp:
 * 7 for step 7, and 10 for step 15; bsp again from step 20: 25 for step 25. */
uint64_t settings_epoch_closed_before(const struct shard *s, uint64_t step);

/* Makes the list with the shard's first epoch; frees the list. */
void settings_epochs_init(struct shard *s);
/* No other thread may use the shard any more. */
void settings_epochs_release(struct shard *s);
/* The number of epochs in memory. The thread that calls shard_add_epoch. */
unsigned settings_epochs_held(const struct shard *s);

/* The number of the state vector of rule `before` that continues as the k-th vector of `rule`, by
 * its name; -1: none, it starts from its initial values. */
int settings_epoch_find_state(const struct optim_rule *rule, unsigned k,
    const struct optim_rule *before);
/* Converts the state of n values in rows of this width (dense tables: 1) from rule `before` to
 * `rule`: vectors that continue are copied, others get their initial values. The vectors lie one
 * after the other, as for part_state_vectors. `from` is only read. */
void settings_epoch_carry_state(const struct optim_rule *rule, const struct optim_rule *before,
    size_t n, size_t width, float *from, float *to);
/* Does any state vector continue? */
bool settings_epoch_keeps_state(const struct optim_rule *rule, const struct optim_rule *before);
/* The update rule that an epoch gives to a table, and its constants. Borrowed from the epoch. */
struct table_rules_choice settings_epoch_rule(const struct settings_epoch *r,
    const struct table *t);
/* Sets the settings epoch of a partition whose state is, or is going to be, its rule's state. The
 * partition's lock is held. */
void settings_epoch_begin(struct part *p, const struct settings_epoch *r);
/* Moves the partition to settings epoch r, unless it is there or beyond: state is converted to its
 * rule, and the memory is booked again. The partition's lock is held. */
void settings_epoch_set(struct shard *s, struct part *p, const struct settings_epoch *r);

/* Changes the mode in force when another one is due and all steps before it are done. No locks are
 * held. */
void settings_epoch_change_mode(struct shard *s);
/* Brings a partition that has just come here to the first step of the mode in force, in case the
 * server that it came from had not changed the mode yet; or to the first step of a bsp that has
 * ended here meanwhile. The partition's lock is held. */
void settings_epoch_enter_mode(struct shard *s, struct part *p);

#endif
