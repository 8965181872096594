/* SPDX-License-Identifier: ISC */
#ifndef WORKER_LOOKAHEAD_H
#define WORKER_LOOKAHEAD_H

#include "worker/batches.h"
#include "worker/params.h"

/* Requests of the rows of later batches (the setting lookahead), so that they travel while this worker
 * computes and pushes.
 *
 *   step N       the rows of batch N+k are requested, as of step N; the client caches them
 *   step N+k     params_pull requests all rows of batch N+k, as of step N+k. The servers send only those
 *                that have changed since, whichever worker pushed them
 *
 * So a step gets the values that it would get without this, and a batch that becomes another one than
 * was expected costs bytes, but is right.
 *
 * One thread, the training thread. */
struct lookahead;

/* NULL: there is nothing to request ahead, because lookahead is 0 or no table is sparse; the latter is
 * logged once. All are borrowed; params must have a client. The client must be freed before
 * lookahead_free, because it writes answers into memory of this object. */
struct lookahead *lookahead_new(const struct job *job, struct params *params,
    struct batches *batches, struct log *log);
/* Requests the rows of the batches up to k steps after the present one, of those that were not
 * requested yet. Call it when the rows of the present step, `step`, have arrived. Does not wait for
 * answers. Errors of batches_peek and of client_want_changed_rows; ERR_NOMEM. x NULL: does nothing. */
enum err_code lookahead_request(struct lookahead *x, uint64_t step, struct err *e);
/* Waits for the rows that were requested for this step, so that the next pull finds them in the cache.
 * Errors as client_wait. x NULL: does nothing. */
enum err_code lookahead_await(struct lookahead *x, uint64_t step, struct err *e);
/* Before the push of the step before: requests the rows of the batch of this step, as of this step, so that
 * each partition sends them as soon as all workers have pushed to it (prefetch). Waits as lookahead_await.
 * x NULL, or the batch is not known: does nothing. Errors as lookahead_await and params_request_rows. */
enum err_code lookahead_prefetch(struct lookahead *x, uint64_t step, struct err *e);
/* NULL is fine. */
void lookahead_free(struct lookahead *x);

#endif
