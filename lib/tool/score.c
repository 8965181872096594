/* SPDX-License-Identifier: ISC */
#include "tool/score.h"

#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"

enum err_code score_open(const struct tool_model *m, bool reads_eval, bool measures, int fd,
    struct scoring *out, struct err *e)
{
	const json_t *facts = m->source->facts;
	struct job_source from = { .models = model_kinds_all,
		.facts = facts,
		.ranks = reads_eval || measures,
		.no_eval = !reads_eval,
		.log = m->log };
	enum err_code rc;

	*out = (struct scoring){ .fd = fd };
	rc = job_load(m->source->config, &from, &out->job, e);
	if (!rc && !facts && !out->job.train->numbered)
		log_warn(m->log,
		    "the model has no description of its data: it was worked out from job.data as it is now");
	if (!rc && model_info_find(out->job.conf.job.model)->task == MODEL_OUTSIDE)
		rc = err_set(e, ERR_UNSUPPORTED,
		    "model %s can only be scored by the program that trains it",
		    out->job.conf.job.model);
	if (!rc)
		rc = params_new(&out->job, NULL, m->source, &out->params, e);
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
static enum err_code data_for(const struct scoring *s, struct log *log, const char *const *data,
    size_t ndata, const struct data_want *want, struct data_sequence **own,
    struct data_sequence **out, struct err *e)
{
	struct data_cache cache = job_cache(s->job.conf.job.cache, log);
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

/* The confusion matrix as {"classes": [...], "count": [[...]]}, a row for each true class. */
static json_t *list_confusion(const struct metric_detail *d, const struct dataset *train)
{
	json_t *classes = json_array(), *count = json_array();

	for (size_t i = 0; i < d->classes; i++) {
		json_t *row = json_array();

		for (size_t k = 0; k < d->classes; k++)
			json_array_append_new(row, json_of_num(d->confusion[i * d->classes + k]));
		json_array_append_new(count, row);
		json_array_append_new(classes, json_of_text(train->class_name[i]));
	}
	return json_pack("{s:o, s:o}", "classes", classes, "count", count);
}

/* The bins that have examples, by the probability. */
static json_t *list_bins(const struct probability_sums *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < PROBABILITY_BINS; i++) {
		const struct probability_bin *b = &s->bin[i];

		if (b->n > 0)
			json_array_append_new(list,
			    json_pack("{s:o, s:o, s:o, s:o, s:o}", "from",
			        json_of_num((double)i / PROBABILITY_BINS), "to",
			        json_of_num((double)(i + 1) / PROBABILITY_BINS), "predicted",
			        json_of_num(b->predicted / b->n), "observed",
			        json_of_num(b->positive / b->n), "examples", json_of_num(b->n)));
	}
	return list;
}

/* Adds the tables to a result, or says why one is not there. */
static void add_detail(struct log *log, const struct metric_detail *d, const struct dataset *train,
    json_t *result)
{
	if (d->classes > METRIC_DETAIL_CLASSES)
		log_warn(log, "no confusion matrix: there are %zu classes, more than %u",
		    d->classes, METRIC_DETAIL_CLASSES);
	else if (d->confusion && train->class_name)
		json_object_set_new(result, "confusion", list_confusion(d, train));
	else
		log_warn(log,
		    "no confusion matrix and no calibration table: the model has no classes");
	if (d->has_calibration)
		json_object_set_new(result, "calibration_table", list_bins(&d->calibration));
	else if (d->classes)
		log_warn(log,
		    "no calibration table: the scores of this loss are not probabilities");
}

enum err_code tool_eval(const struct tool_model *m, const char *const *data, size_t ndata,
    int64_t top_k, bool detailed, json_t **result, struct err *e)
{
	struct metric_detail detail = { 0 };
	struct data_sequence *own = NULL, *set;
	struct eval_result r;
	struct data_want want;
	struct scoring s;
	enum err_code rc = score_open(m, ndata == 0, true, -1, &s, e);

	if (rc)
		return rc;
	if (top_k)
		s.job.conf.job.top_k = top_k;
	want = job_want(&s.job.conf.job);
	want.bad = s.job.bad;
	want.unseen = s.job.unseen;
	rc = data_for(&s, m->log, data, ndata, &want, &own, &set, e);
	if (!rc)
		rc = evaluate(&s.params, set, false, true, detailed ? &detail : NULL, &r, e);
	if (!rc && r.remark[0])
		log_warn(m->log, "%s", r.remark);
	data_unseen_log(s.job.unseen, "the data", m->log);
	if (!rc)
		*result = job_eval_json(&r);
	if (!rc && detailed)
		add_detail(m->log, &detail, s.job.train, *result);
	metric_detail_release(&detail);
	data_sequence_free(own);
	score_close(&s);
	return rc;
}

enum err_code score_print(void *ctx, const struct batch *b, const float *scores, struct err *e)
{
	struct scoring *x = ctx;
	struct buf text = BUF_INIT;
	enum err_code rc;

	x->predictions.job = &x->job;
	predictions_put(&x->predictions, b, scores, &text);
	rc = file_write_all(x->fd, text.data, text.len, e);
	buf_release(&text);
	return rc;
}

enum err_code score_end(struct scoring *s, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc;

	s->predictions.job = &s->job;
	predictions_end(&s->predictions, &text);
	rc = file_write_all(s->fd, text.data, text.len, e);
	buf_release(&text);
	return rc;
}

enum err_code tool_predict(const struct tool_model *m, const char *const *data, size_t ndata,
    enum prediction_form form, int fd, struct err *e)
{
	struct data_sequence *own = NULL, *set;
	struct data_want want;
	struct scoring s;
	enum err_code rc = score_open(m, ndata == 0, false, fd, &s, e);

	if (rc)
		return rc;
	s.predictions.form = form;
	want = (struct data_want){ .any = !dataset_words(s.job.train),
		.unseen = s.job.unseen,
		.names = form != PREDICTION_PLAIN,
		.words = dataset_words(s.job.train) != NULL,
		.tables = job_want(&s.job.conf.job).tables };
	rc = data_for(&s, m->log, data, ndata, &want, &own, &set, e);
	if (!rc)
		rc = evaluate_predict(&s.params, set, score_print, &s, e);
	if (!rc)
		rc = score_end(&s, e);
	data_unseen_log(s.job.unseen, "the data", m->log);
	data_sequence_free(own);
	score_close(&s);
	return rc;
}
