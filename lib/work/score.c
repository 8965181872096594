#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "work/evaluate.h"
#include "work/tool.h"

static enum err_code load(struct tool *t, const char *const *data, size_t ndata, struct job *job, struct params *p,
    struct dataset **set, struct err *e)
{
	enum err_code rc = job_load(json_object_get(t->view, "config"), &(struct job_source){ .log = t->log }, job, e);
	const struct model_info *info;
	struct data_cache cache;
	struct data_want want;

	if (rc)
		return rc;
	info = model_info_find(job->conf.job.model);
	if (info->task == MODEL_OUTSIDE) {
		job_release(job);
		return err_set(e, ERR_UNSUPPORTED, "only the program that trains model %s can score it", info->name);
	}
	want = job_want(info);
	cache = job_cache(job->conf.job.cache, t->log);
	*set = NULL;
	if (ndata)
		rc = data_load_cached(&cache, data, ndata, NULL, &want, job->train, set, e);
	else if (!job->eval)
		rc = err_set(e, ERR_USAGE, "the job has no evaluation data (job.eval): name a data path");
	if (!rc)
		rc = params_new(job, t->client, p, e);
	if (rc) {
		dataset_free(*set);
		job_release(job);
	}
	return rc;
}

enum err_code tool_eval(struct tool *t, const char *const *data, size_t ndata, json_t **result, struct err *e)
{
	struct dataset *set;
	struct eval_result r;
	struct params p;
	struct job job;
	enum err_code rc = load(t, data, ndata, &job, &p, &set, e);

	if (rc)
		return rc;
	rc = evaluate(&p, set ? set : job.eval, false, &r, e);
	if (!rc)
		*result = job_eval_json(&r);
	params_release(&p);
	dataset_free(set);
	job_release(&job);
	return rc;
}

struct printer {
	const struct job *job;
	int fd;
};

/* A line an example: regression the value; two classes the probability of
 * class 1; classes the name of the likeliest and its probability. */
static enum err_code print_scores(void *ctx, const struct batch *b, const float *scores, struct err *e)
{
	struct printer *x = ctx;
	size_t outputs = model_outputs(x->job->model);
	struct buf text = BUF_INIT;
	enum err_code rc;

	for (size_t i = 0; i < b->rows; i++) {
		const float *s = scores + i * outputs;
		size_t best = 0;

		for (size_t k = 1; k < outputs; k++)
			if (s[k] > s[best])
				best = k;
		if (model_task(x->job->model) == MODEL_CLASSES)
			buf_printf(&text, "%s\t%.6g\n", x->job->train->class_name[best], (double)s[best]);
		else
			buf_printf(&text, "%.9g\n", (double)s[0]);
	}
	rc = fd_write_all(x->fd, text.data, text.len, e);
	buf_release(&text);
	return rc;
}

enum err_code tool_predict(struct tool *t, const char *const *data, size_t ndata, int fd, struct err *e)
{
	struct dataset *set;
	struct printer x;
	struct params p;
	struct job job;
	enum err_code rc = load(t, data, ndata, &job, &p, &set, e);

	if (rc)
		return rc;
	x = (struct printer){ &job, fd };
	rc = predict(&p, set ? set : job.eval, print_scores, &x, e);
	params_release(&p);
	dataset_free(set);
	job_release(&job);
	return rc;
}
