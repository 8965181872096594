/* SPDX-License-Identifier: ISC */
#ifndef WORKER_BATCHES_STATE_H
#define WORKER_BATCHES_STATE_H

#include "layout/step_data.h"
#include "worker/batches.h"
#include "worker/leased_range.h"

/* The state of batches.c, and the ways to lease data. */

struct member_entry;
struct batches {
	const struct job *job;
	struct range_source *source; /* of the job */
	struct cluster_view *cluster;
	uint32_t rank;
	struct batches_hooks hooks;
	/* ns spent waiting for examples since batches_take_idle_time was called last */
	int64_t idled;
	/* from the configuration in force. batch: examples a step; epochs and steps: the job's
	 * end */
	uint64_t batch, epochs, steps;
	bool ending; /* the job ends early: no further batch is chosen */

	/* bsp */
	struct member_entry *members;
	uint32_t nmembers;
	uint32_t base;        /* the number of membership changes that the view no longer lists */
	uint64_t leased_from; /* the first step whose data is leased */
	struct data_position last_pos;

	/* leases */
	uint64_t step; /* of the current batch */
	uint64_t lag;  /* about how many events of a stream wait for this worker */
	const struct lease_ops *leases;
	void *lease_state; /* of the way to lease */
};

/* A way to lease data and to choose batches of them. All functions are called by the training thread. */
struct lease_ops {
	/* Makes f->lease_state. */
	void (*begin)(struct batches *f);
	/* Chooses the batch of f->step, as batches_next. */
	enum err_code (*choose)(struct batches *f, struct batch *b, bool *over, struct err *e);
	/* As batches_peek, without the check of job.steps. NULL: later examples are never known. */
	enum err_code (
	    *peek)(struct batches *f, uint64_t k, struct batch *b, bool *known, struct err *e);
	/* As batches_used, batches_lease_ahead and batches_finish. */
	void (*used)(struct batches *f);
	enum err_code (*ahead)(struct batches *f, struct err *e);
	enum err_code (*finish)(struct batches *f, struct err *e);
	/* The range of the present batch, borrowed; NULL: none. */
	const struct leased_range *(*present)(const struct batches *f);
	/* Frees f->lease_state. */
	void (*end)(struct batches *f);
};

/* One range after another, each of which has an end (lease_ranges.c). */
extern const struct lease_ops leases_of_ranges;
/* The leases of a job in which each range is assigned to one rank (lease_assigned.c). */
extern const struct lease_ops leases_of_assigned_ranges;
/* The partitions of a stream (lease_stream.c). */
extern const struct lease_ops leases_of_stream;

/* Asks the coordinator for a lease (the message "lease"), and decodes its answer, to be released by
 * answer_release_lease and json_decref(*answer). Takes the references of done and holds. */
enum err_code batches_request_lease(struct batches *f, const struct message_lease *m, json_t *done,
    json_t *holds, struct answer_lease *out, json_t **answer, struct err *e);
/* The batch size in force at a step, as the view tells; 0: the view begins later. */
uint64_t batches_size_at(const struct batches *f, uint64_t step);

#endif
