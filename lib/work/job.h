#ifndef WORK_JOB_H
#define WORK_JOB_H

#include "base/log.h"
#include "conf/conf.h"
#include "data/data_cache.h"
#include "model/metrics.h"
#include "model/model.h"

/* What a worker works on: the job's configuration, its data in memory, and the
 * model that fits both. */
struct job {
	struct conf conf;
	struct dataset *train, *eval;   /* eval may be NULL */
	struct model *model;
	const struct model_table *table;
	size_t ntables;
	const char *tables;             /* of model custom, and whose its arithmetic is; borrowed */
	const struct model_outside *outside;
};

struct job_source {
	const char *const *data;        /* paths instead of the configuration's; ndata 0: those */
	size_t ndata;
	const char *cache;              /* a directory for parsed data, or "none"; NULL: the configuration's */
	const char *tables;             /* of model custom, where the configuration names none; may be NULL */
	const json_t *settings;         /* what it has at its default is this; may be NULL */
	uint64_t examples;              /* the same; 0: not known here */
	const struct model_outside *outside;    /* for model custom, borrowed; NULL: it has no gradient here */
	const json_t *facts;            /* of the training data (data_facts), which need not be read then; NULL */
	bool no_eval;                   /* evaluation data are not wanted */
	struct log *log;
};
/* From a view's config. */
enum err_code job_load(const json_t *config, const struct job_source *from, struct job *out, struct err *e);
/* What is kept of parsed data in the directory of that name; "none": nothing. */
struct data_cache job_cache(const char *dir, struct log *log);
void job_release(struct job *j);
/* What a model wants of data. */
struct data_want job_want(const struct model_info *info);
/* Another model like the job's, for another thread. */
enum err_code job_model_new(const struct job *j, struct model **out, struct err *e);
/* Does table i stay as it is, as the configuration is now? */
bool job_is_frozen(const struct job *j, size_t i);

/* The tables as worker_join proposes them. */
json_t *job_tables(const struct job *j);
/* {"loss":..,"accuracy":..} with the keys that the model has. */
json_t *job_eval_json(const struct eval_result *r);

#endif
