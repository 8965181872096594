/* SPDX-License-Identifier: ISC */
#include "tool/score.h"

#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"

enum err_code score_open(struct tool *t, bool reads_eval, bool measures, int fd,
    struct scoring *out, struct err *e)
{
	json_t *facts = tool_facts(t);
	struct job_source from = { .models = model_kinds_all,
		.facts = facts,
		.ranks = reads_eval || measures,
		.no_eval = !reads_eval,
		.log = t->log };
	enum err_code rc;

	*out = (struct scoring){ .fd = fd };
	rc = job_load(t->view->config, &from, &out->job, e);
	json_decref(facts);
	if (!rc && model_info_find(out->job.conf.job.model)->task == MODEL_OUTSIDE)
		rc = err_set(e, ERR_UNSUPPORTED,
		    "model %s can only be scored by the program that trains it",
		    out->job.conf.job.model);
	if (!rc)
		rc = params_new(&out->job, t->client, &out->params, e);
	if (rc)
		score_close(out);
	return rc;
}

void score_close(struct scoring *s)
{
	params_release(&s->params);
	job_release(&s->job);
	*s = (struct scoring){ 0 };
}

/* Opens the named data, or takes the job's evaluation data; *own is to be freed. */
static enum err_code data_for(const struct scoring *s, struct tool *t, const char *const *data,
    size_t ndata, const struct data_want *want, struct data_sequence **own,
    struct data_sequence **out, struct err *e)
{
	struct data_cache cache = job_cache(s->job.conf.job.cache, t->log);
	enum err_code rc = ERR_OK;

	*own = NULL;
	if (ndata)
		rc = data_sequence_open(&(struct data_sequence_spec){ .paths = data,
		                            .npaths = ndata,
		                            .want = want,
		                            .like = s->job.train,
		                            .cache = &cache,
		                            .memory = s->job.conf.job.data_memory,
		                            .once = true },
		    own, e);
	else if (!s->job.eval)
		rc = err_set(e, ERR_USAGE,
		    "the job has no evaluation data (job.eval): give the path of data");
	*out = *own ? *own : s->job.eval;
	return rc;
}

enum err_code tool_eval(struct tool *t, const char *const *data, size_t ndata, int64_t top_k,
    json_t **result, struct err *e)
{
	struct data_sequence *own = NULL, *set;
	struct eval_result r;
	struct data_want want;
	struct scoring s;
	enum err_code rc = score_open(t, ndata == 0, true, -1, &s, e);

	if (rc)
		return rc;
	if (top_k)
		s.job.conf.job.top_k = top_k;
	want = job_want(&s.job.conf.job);
	want.bad = s.job.bad;
	rc = data_for(&s, t, data, ndata, &want, &own, &set, e);
	if (!rc)
		rc = evaluate(&s.params, set, false, &r, e);
	if (!rc && r.remark[0])
		log_warn(t->log, "%s", r.remark);
	if (!rc)
		*result = job_eval_json(&r);
	data_sequence_free(own);
	score_close(&s);
	return rc;
}

enum err_code score_print(void *ctx, const struct batch *b, const float *scores, struct err *e)
{
	const struct scoring *x = ctx;
	size_t outputs = model_outputs(x->job.model);
	struct buf text = BUF_INIT;
	enum err_code rc;

	for (size_t i = 0; i < b->rows; i++) {
		const float *s = scores + i * outputs;
		size_t best = 0;

		for (size_t k = 1; k < outputs; k++)
			if (s[k] > s[best])
				best = k;
		if (model_task(x->job.model) == MODEL_CLASSES)
			buf_printf(&text, "%s\t%.6g\n", x->job.train->class_name[best],
			    (double)s[best]);
		else
			for (size_t k = 0; k < outputs; k++)
				buf_printf(&text, "%.9g%s", (double)s[k],
				    k + 1 < outputs ? "\t" : "\n");
	}
	rc = file_write_all(x->fd, text.data, text.len, e);
	buf_release(&text);
	return rc;
}

enum err_code tool_predict(struct tool *t, const char *const *data, size_t ndata, int fd,
    struct err *e)
{
	struct data_sequence *own = NULL, *set;
	struct data_want want;
	struct scoring s;
	enum err_code rc = score_open(t, ndata == 0, false, fd, &s, e);

	if (rc)
		return rc;
	want = (struct data_want){ .any = !s.job.train->words,
		.words = s.job.train->words != NULL,
		.tables = job_want(&s.job.conf.job).tables };
	rc = data_for(&s, t, data, ndata, &want, &own, &set, e);
	if (!rc)
		rc = evaluate_predict(&s.params, set, score_print, &s, e);
	data_sequence_free(own);
	score_close(&s);
	return rc;
}
