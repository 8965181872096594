/* SPDX-License-Identifier: ISC */
#ifndef WORKER_JOB_H
#define WORKER_JOB_H

#include "conf/conf.h"
#include "core/log.h"
#include "data/reader/data_bad_lines.h"
#include "data/table/data_unseen.h"
#include "data/data_blocks.h"
#include "data/store/data_cache.h"
#include "data/batch/data_observations.h"
#include "data/data_sequence.h"
#include "metric/metrics.h"
#include "model/model.h"
#include "worker/range_source.h"

/* The work of a worker: the job's configuration, its data in memory, and a model that fits both.
 * Tools that score or export a model load it, too (lib/tool). Not locked: it belongs to one thread,
 * except that other threads may read the data. */
struct job {
	struct conf conf;
	/* of the training data, with the options that keys give (conf_data.h) */
	struct conf_strs paths;
	/* The training data, or their description without examples; with `blocks` their head. */
	const struct dataset *train;
	struct dataset *own_train;  /* train, where it belongs to the job; NULL with `blocks` */
	struct data_sequence *eval; /* job.eval, or the examples that are held out; NULL: none */
	/* the examples that are held out, of a job that has job.eval, too; NULL: none */
	struct data_sequence *held_out;
	/* of the examples or blocks, with job.validate; none of blocks of observations, which are
	 * held out one by one (data_observations.h) */
	struct data_split split;
	/* lines of the data that were skipped (job.bad_lines); NULL: none may be */
	struct data_bad_lines *bad;
	struct data_unseen *unseen; /* values of evaluation data that the training data lack */
	/* Training data that are larger than job.data_memory; NULL: `train` has all examples. */
	struct data_blocks *blocks;
	/* Models that rank items have here the observations of all blocks. NULL: the model is another
	 * one, or `train` knows them. */
	struct data_observations *observations;
	/* The observations that are held out as a ranked set, until `eval` has it; NULL: none. */
	struct dataset *ranked;
	/* Training data without end; NULL: they have one. `train` has its first examples, or none. */
	struct data_log *stream;
	struct range_source *source; /* where a worker's training examples come from */
	struct model *model;
	/* Chooses further rows for training batches; NULL: they use only the rows of their
	 * examples. */
	struct row_sampler *sampler;
	const struct model_table *table;
	size_t ntables;
	/* By table, set by job_mark_tables: job.frozen excludes it from training; its rule wants the
	 * examples that touch each row, because l2 is in force, and its domain counts them. */
	bool *frozen, *counts_touching;
	/* of model custom: its tables, and the functions that compute it; borrowed */
	const char *tables;
	const struct model_outside *outside;
	const struct model_kind *const *models; /* kinds that the process can compute */
};

/* Functions that the reading of a stream's head needs from the worker that does it. */
struct job_head_hooks {
	void *ctx;
	/* The facts of the head that hold for all workers (worker/data_facts.h): those that were
	 * offered first. NULL: only asks. *out: a new reference, or NULL while there are none. */
	enum err_code (*agree)(void *ctx, const json_t *offer, json_t **out, struct err *e);
	bool (*interrupted)(void *ctx);
};

/* Sources that the configuration leaves open or that the caller overrides. All borrowed. */
struct job_source {
	/* kinds of models that this process can compute (model/model.h); always given */
	const struct model_kind *const *models;
	const char *const *data; /* paths instead of the configuration's; ndata 0: those */
	size_t ndata;
	/* a directory for parsed data, or a word of job.cache; NULL: the configuration's */
	const char *cache;
	/* the directory of this run in which its workers on this host share parsed data; NULL:
	 * none */
	const char *shared;
	const char *tables; /* of model custom, where the configuration names none; may be NULL */
	/* settings for keys that the configuration leaves at their default; may be NULL */
	const json_t *settings;
	/* number of examples, where the configuration names none; 0: not known */
	uint64_t examples;
	/* computes model custom, borrowed; NULL: it has no gradient here */
	const struct model_outside *outside;
	/* description of the training data (worker/data_facts.h), instead of reading them; NULL */
	const json_t *facts;
	/* Items will be ranked, for which observations of users (data_pairs.h) are read in spite of
	 * `facts`. */
	bool ranks;
	/* description of the data of the model that the job begins with, which the training data
	 * extend (data_want.base); NULL */
	const json_t *base;
	/* description of the data that the model was trained on so far, with which the job goes on:
	 * data that describe themselves otherwise are read by it, and extend it (data_want.base).
	 * Where they were not scaled, job.scale does not hold; NULL */
	const json_t *before;
	bool no_eval; /* evaluation data are not wanted */
	/* training data may be left on the disk, in blocks (job.blocks) or as a stream */
	bool trains;
	const struct job_head_hooks *head; /* with `trains`: borrowed */
	struct log *log;
};
/* Loads the job that `config`, the configuration in a view, describes. ERR_CONFIG, or errors of the
 * data's readers; *out is empty then. */
enum err_code job_load(const json_t *config, const struct job_source *from, struct job *out,
    struct err *e);
/* The cache that keeps parsed data in directory `dir`, borrowed, for the next start; "none", or
 * "run", where they are kept only while the job runs: no cache. */
struct data_cache job_cache(const char *dir, struct log *log);
/* Frees the contents of j. */
void job_release(struct job *j);
/* The form of data that a reader must produce for the job's model and its loss. */
struct data_want job_want(const struct conf_job *job);
/* The rows of the model's largest table; 0 without tables. */
uint64_t job_most_rows(const struct job *j);
/* Makes another instance of the job's model, for another thread: instances have scratch memory. */
enum err_code job_model_new(const struct job *j, struct model **out, struct err *e);
/* Makes another sampler, as job.sampler, for another thread. NULL: the model needs none. The
 * examples that the model is trained on count, as far as they are in memory. */
struct row_sampler *job_sampler_new(const struct job *j);
/* Sets `frozen` and `counts_touching` by the configuration in force. Called after each change of it.
 * ERR_CONFIG. */
enum err_code job_mark_tables(struct job *j, struct err *e);

/* The tables in the form in which worker_join proposes them. A new array. */
json_t *job_tables(const struct job *j);
/* The result as a new object {"loss":..,"accuracy":..}, with the metrics that the model has. */
json_t *job_eval_json(const struct eval_result *r);

#endif
