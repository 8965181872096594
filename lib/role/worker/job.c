/* SPDX-License-Identifier: ISC */
#include "worker/job.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "conf/conf_data.h"
#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/num.h"
#include "data/table/data_alike.h"
#include "data/source/data_log.h"
#include "data/shape/data_shape.h"
#include "data/table/data_schema.h"
#include "data/table/data_spread.h"
#include "format/safetensors.h"
#include "layout/layout.h"
#include "metric/baseline.h"
#include "model/class_weight.h"
#include "worker/data_facts.h"
#include "worker/batches_state.h"
#include "worker/job_line.h"

/* Blocks of text that would fill job.data_memory, and the size of the largest one. Small blocks mix the
 * examples better; each costs opening a file. */
#define BLOCKS_IN_MEMORY 128u
#define BLOCK_MAX        (UINT64_C(4) << 20)
/* Ranges that a worker trains on in an epoch, at least, so that workers end together. */
#define RANGES_PER_WORKER 4u
/* New features that a refusal names. */
#define NEW_FEATURES_NAMED 5u

/* The caches of parsed data: of data in memory, and of blocks. */
struct caches {
	struct data_cache whole, blocks;
};

struct data_cache job_cache(const char *dir, struct log *log)
{
	bool kept = strcmp(dir, "none") != 0 && strcmp(dir, "run") != 0;

	return (struct data_cache){ kept ? dir : NULL, log };
}

/* Parsed data that serve this run only are stored if another worker may want them. Blocks are not: writing
 * them costs more than a run saves that reads them a few times. */
static struct caches choose_caches(const struct job *j, const struct job_source *from)
{
	const char *dir = from->cache ? from->cache : j->conf.job.cache;
	struct data_cache kept = job_cache(dir, from->log), shared = kept;

	if (strcmp(dir, "run") == 0 && j->conf.workers.max > 1)
		shared.dir = from->shared;
	return (struct caches){ .whole = shared, .blocks = kept };
}

/* The job takes d, and gives up what it had. */
static void set_train(struct job *j, struct dataset *d)
{
	dataset_free(j->own_train);
	j->train = j->own_train = d;
}

/* Makes the training data from their description. */
static enum err_code describe_train(struct job *j, const json_t *facts, struct err *e)
{
	struct dataset *d;
	enum err_code rc = data_of_facts(facts, &d, e);

	if (!rc)
		set_train(j, d);
	return rc;
}

static bool is_custom(const struct job *j)
{
	return model_info_find(j->conf.job.model)->task == MODEL_OUTSIDE;
}

/* For model custom only the number of examples matters. Takes it from the configuration, or counts
 * with our readers. */
static enum err_code number_data(struct job *j, const struct job_source *from,
    const struct data_cache *cache, struct err *e)
{
	const struct conf_strs *paths = &j->paths;
	struct data_want want = { .bad = j->bad };
	struct dataset *d;
	char text[DATA_DESCRIPTION];

	if (j->conf.job.examples || from->examples) {
		set_train(j,
		    dataset_numbered((size_t)(j->conf.job.examples ? (uint64_t)j->conf.job.examples
		                                                   : from->examples)));
	} else if (!paths->n) {
		return err_set(e, ERR_CONFIG, "job.examples: must be above 0 without job.data");
	} else {
		if (data_load_cached(cache, (const char *const *)paths->item, paths->n, NULL, &want,
		        NULL, &d, e))
			return err_prefix(e, "cannot count the examples");
		set_train(j, dataset_numbered(d->rows));
		dataset_free(d);
	}
	data_describe(j->train, text);
	log_info(cache->log, "data: %s", text);
	return ERR_OK;
}

/* Items that are drawn for each example, unless job.negatives says how many. */
#define ITEMS_DRAWN 20u

/* Items that are drawn for each example; 0: the model does not rank items. */
static size_t count_draws(const struct conf_job *job, enum model_task task)
{
	bool several = model_info_find(job->model)->takes & MODEL_DRAWS_ITEMS;

	if (task != MODEL_PAIRS)
		return 0;
	return !several ? 1 : job->negatives ? (size_t)job->negatives : ITEMS_DRAWN;
}

struct data_want job_want(const struct conf_job *job)
{
	enum model_task task;
	struct loss_spec loss = { 0 };

	model_info_loss(model_info_find(job->model), job->loss, &loss, &task, NULL);
	return (struct data_want){ .classes = task == MODEL_CLASSES,
		.two = task == MODEL_TWO,
		.words = task == MODEL_WORDS,
		.pairs = count_draws(job, task),
		.many = job->negatives > 0,
		.tables = model_info_find(job->model)->reads,
		.scale = job->scale,
		.shifts_targets = task == MODEL_REAL && loss.ops && loss.ops->degree > 0,
		.fields = model_info_find(job->model)->takes &
		    (MODEL_PAIRS_ENTRIES | MODEL_NEEDS_FIELDS),
		.scales_targets = model_info_find(job->model)->takes & MODEL_SCALES_REAL };
}

/* Jobs whose steps need the whole data in memory. */
static enum err_code check_blocks_fit(const struct job *j, struct err *e)
{
	const char *why = strcmp(j->conf.via, "allreduce") == 0          ? "via allreduce"
	    : j->conf.local_steps > 1 && sync_is_lockstep(&j->conf.sync) ? "local_steps with bsp"
	                                                                 : NULL;

	if (!why)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "job.data_memory: the data need more than %llu bytes, and %s cannot read them in "
	    "blocks; raise it",
	    (unsigned long long)j->conf.job.data_memory, why);
}

/* The number of blocks that are leased at once. */
static uint64_t choose_range_size(const struct job *j)
{
	uint64_t n = data_blocks_count(j->blocks);
	/* Two chunks are in memory at a time, beside the text of a block and the batches. */
	uint64_t fit = (uint64_t)((double)j->conf.job.data_memory / 3 /
	    data_blocks_memory(j->blocks) * (double)n);
	uint64_t share = n / ((uint64_t)j->conf.workers.max * RANGES_PER_WORKER);
	uint64_t per_range = fit < share ? fit : share;

	return per_range ? per_range : 1;
}

/* Holds out job.validate of the examples in memory. */
static enum err_code split_examples(struct job *j, struct err *e)
{
	double share;
	enum err_code rc = data_split_parse(j->conf.job.validate, &share, e);

	if (!rc && share > 0)
		rc = data_shape_split(j->own_train, (uint64_t)j->conf.job.seed, share, &j->split,
		    &j->ranked, e);
	return rc ? err_prefix(e, "job.validate") : ERR_OK;
}

/* Holds out job.validate of the blocks. */
static enum err_code split_blocks(struct job *j, struct err *e)
{
	double share;
	enum err_code rc = data_split_parse(j->conf.job.validate, &share, e);

	if (!rc && share > 0)
		rc = data_split_make((uint64_t)j->conf.job.seed, share,
		    (uint32_t)data_blocks_count(j->blocks), &j->split, e);
	return rc ? err_prefix(e, "job.validate") : ERR_OK;
}

/* Reads all observations once, by which examples of the blocks are made, and holds out job.validate of
 * them. Only workers that train hold out a share. */
static enum err_code read_observations(struct job *j, bool trains, struct log *log, struct err *e)
{
	struct data_pairs_share share = { .seed = (uint64_t)j->conf.job.seed };
	size_t draws = job_want(&j->conf.job).pairs;
	const struct data_pair *held_out;
	size_t n;
	enum err_code rc = trains ? data_split_parse(j->conf.job.validate, &share.share, e)
	                          : ERR_OK;

	if (rc)
		return err_prefix(e, "job.validate");
	log_info(log, "data: reading all observations once, to know which items each user has");
	rc = data_observations_read(j->blocks, &share, draws, (uint64_t)j->conf.job.data_memory,
	    &j->observations, e);
	if (!rc)
		rc = data_pairs_join(data_blocks_own_head(j->blocks), j->observations, draws, e);
	if (rc)
		return rc;
	data_blocks_finish_by(j->blocks, data_observations_finish, j->observations);
	held_out = data_observations_held_out(j->observations, &n);
	return n ? data_pairs_rank(held_out, n, j->train, &j->ranked, e) : ERR_OK;
}

static const struct data_split *split_of(const struct job *j)
{
	return j->split.held_out ? &j->split : NULL;
}

/* Cuts training data that do not fit into job.data_memory into blocks. */
static enum err_code open_blocks(struct job *j, const struct job_source *from,
    const struct data_want *want, const struct data_cache *cache, struct err *e)
{
	const char *const *paths = (const char *const *)j->paths.item;
	size_t npaths = j->paths.n;
	struct log *log = cache->log;
	uint64_t memory = j->conf.job.data_memory, block = memory / BLOCKS_IN_MEMORY;
	enum err_code rc;

	if (block > BLOCK_MAX)
		block = BLOCK_MAX;
	rc = data_blocks_open(paths, npaths, NULL, want, memory, block, &j->blocks, e);
	if (rc || !j->blocks)
		return rc;
	rc = check_blocks_fit(j, e);
	if (!rc && !want->pairs)
		rc = split_blocks(j, e);
	if (rc)
		return rc;
	if (cache->dir)
		data_blocks_use_cache(j->blocks, cache, paths, npaths, NULL);
	j->train = data_blocks_head(j->blocks);
	if (want->pairs)
		rc = read_observations(j, from->trains, log, e);
	if (rc)
		return rc;
	memory -= data_observations_memory(j->observations);
	/* A chunk may be somewhat larger than a third of the memory, since the head only suggests how
	 * large a range is. */
	j->source = source_blocks_new(j->blocks, split_of(j), (uint64_t)j->conf.job.seed,
	    choose_range_size(j), (uint64_t)j->conf.workers.max, memory / 5 * 2);
	if (j->conf.deterministic)
		j->source->leases = &leases_of_assigned_ranges;
	log_info(log, "data: %llu bytes in %zu blocks, %llu at once%s%s",
	    (unsigned long long)data_blocks_bytes(j->blocks), data_blocks_count(j->blocks),
	    (unsigned long long)j->source->per_range, j->train->roles ? "; " : "",
	    j->train->roles ? j->train->roles : "");
	if (j->source->units < (uint64_t)j->conf.workers.max)
		log_warn(log,
		    "data: %llu block%s cannot keep %lld workers busy: gzip files and frames of zstd are not "
		    "cut; split the files, or compress them with pzstd",
		    (unsigned long long)j->source->units, NUM_S(j->source->units),
		    (long long)j->conf.workers.max);
	return ERR_OK;
}

/* How long the head of a stream is waited for once it has an event. */
#define HEAD_WAIT_MS 10000

/* Jobs whose steps need data that have an end. */
static enum err_code check_stream_fits(const struct job *j, struct err *e)
{
	const char *why = j->conf.deterministic                          ? "deterministic"
	    : strcmp(j->conf.via, "allreduce") == 0                      ? "via allreduce"
	    : j->conf.local_steps > 1 && sync_is_lockstep(&j->conf.sync) ? "local_steps with bsp"
	    : class_weight_counts(j->conf.job.class_weight)              ? "class_weight balanced"
	    : job_want(&j->conf.job).words                               ? "model word2vec"
	    : job_want(&j->conf.job).pairs ? "a model that ranks items"
	                                   : NULL;

	if (!why)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "job.data: %s is a stream, which %s cannot use",
	    data_log_name(j->stream), why);
}

/* Makes `train` from the facts that all workers agree on. */
static enum err_code agree_on_head(struct job *j, const struct job_source *from, struct err *e)
{
	json_t *mine = data_facts(j->train), *facts = NULL;
	enum err_code rc = mine ? from->head->agree(from->head->ctx, mine, &facts, e) : ERR_OK;

	if (!rc && facts && !json_equal(facts, mine))
		rc = describe_train(j, facts, e);
	json_decref(mine);
	json_decref(facts);
	return rc;
}

/* Opens a stream, and finds out the form of its examples: from its head, or from other workers that
 * have read the head. */
static enum err_code open_stream(struct job *j, const struct job_source *from, const char *path,
    const struct data_want *want, struct log *log, struct err *e)
{
	const struct job_head_hooks *h = from->head;
	json_t *facts = NULL;
	struct dataset *head = NULL;
	char text[DATA_DESCRIPTION];
	enum err_code rc = data_log_open(path, NULL, &j->stream, e);

	if (!rc)
		rc = check_stream_fits(j, e);
	if (!rc)
		rc = h->agree(h->ctx, NULL, &facts, e);
	if (!rc && facts)
		rc = describe_train(j, facts, e);
	json_decref(facts);
	if (!rc && !j->train)
		log_info(log, "data: waiting for the first %zu events of %s",
		    data_log_head_events(j->stream), data_log_name(j->stream));
	if (!rc)
		rc = j->train ? data_log_know_head(j->stream, j->train, h->interrupted, h->ctx, e)
		              : data_log_head(j->stream, want, HEAD_WAIT_MS, h->interrupted, h->ctx,
		                    &head, e);
	if (!rc && head) {
		set_train(j, head);
		data_describe(j->train, text);
		log_info(log, "data: a stream with %zu partition%s; its first events: %s",
		    data_log_partitions(j->stream), data_log_partitions(j->stream) == 1 ? "" : "s",
		    text);
		rc = agree_on_head(j, from, e);
	}
	if (!rc)
		j->source = source_stream_new(j->stream);
	return rc;
}

/* The path among n that is a stream; NULL: none. ERR_CONFIG: it is not the only one. */
static enum err_code find_only_stream(const char *const *path, size_t n, const char **out,
    struct err *e)
{
	*out = NULL;
	for (size_t i = 0; i < n; i++)
		if (data_log_is(path[i]))
			*out = path[i];
	if (*out && n > 1)
		return err_set(e, ERR_CONFIG,
		    "job.data: %s is a stream, which must be the only training data", *out);
	return ERR_OK;
}

static enum err_code read_train_files(struct job *j, const struct job_source *from,
    const struct data_want *want, const struct caches *caches, struct err *e)
{
	const struct data_cache *cache = &caches->whole;
	const struct conf_strs *paths = &j->paths;
	struct dataset *d;
	const char *stream;
	char text[DATA_DESCRIPTION];
	enum err_code rc = find_only_stream((const char *const *)paths->item, paths->n, &stream, e);

	if (rc)
		return rc;
	if (stream && !(from->trains && from->head))
		return err_set(e, ERR_NOTREADY,
		    "%s is a stream, and no worker has read its first events yet", stream);
	if (stream)
		return open_stream(j, from, stream, want, cache->log, e);
	/* A ranked set needs the observations of all blocks, but not the blocks. */
	rc = from->trains || want->pairs ? open_blocks(j, from, want, &caches->blocks, e) : ERR_OK;
	if (rc || j->blocks)
		return rc;
	rc = data_load_cached(cache, (const char *const *)paths->item, paths->n, NULL, want, NULL,
	    &d, e);
	if (rc)
		return rc;
	set_train(j, d);
	data_describe(j->train, text);
	log_info(cache->log, "data: %s", text);
	return from->trains ? split_examples(j, e) : ERR_OK;
}

/* Reads the training data, or their head. */
static enum err_code read_train(struct job *j, const struct job_source *from,
    const struct data_want *want, const struct caches *caches, struct err *e)
{
	enum err_code rc = read_train_files(j, from, want, caches, e);

	if (rc)
		err_blame(e, rc == ERR_NOTFOUND ? CAUSE_DATA_MISSING : CAUSE_DATA);
	return rc;
}

/* Does the default of scaling hold for these data? Not where a table, dense rows or real targets were
 * trained on unscaled. */
static enum err_code default_scaling_holds(const json_t *facts, bool *out, struct err *e)
{
	struct dataset *d = NULL;
	enum err_code rc = data_of_facts(facts, &d, e);

	/* A table may have been read with scaling without a column that needs it, such as one of categories. */
	if (!rc && d->options && d->options->scale)
		*out = strcmp(d->options->scale, "none") != 0;
	else
		*out = !rc &&
		    (d->schema ? data_schema_is_scaled(d->schema)
		               : d->target_factor > 0 || (d->sparse && d->classes));
	dataset_free(d);
	return rc;
}

/* Releases the training data and what was made of them, so that they can be read again. */
static void drop_train(struct job *j)
{
	range_source_free(j->source);
	data_split_release(&j->split);
	dataset_free(j->ranked);
	data_blocks_free(j->blocks);
	dataset_free(j->own_train);
	data_observations_free(j->observations);
	j->source = NULL;
	j->split = (struct data_split){ 0 };
	j->ranked = j->own_train = NULL;
	j->train = NULL;
	j->blocks = NULL;
	j->observations = NULL;
}

/* Do the training data describe themselves as the data that the model was trained on so far? Streams are
 * read by that description, and numbered examples have none. */
static bool fits_before(const struct job *j, const json_t *before)
{
	json_t *mine = j->stream || j->train->numbered ? NULL : data_facts(j->train);
	bool fits = !mine || data_facts_are_equal(mine, before);

	json_decref(mine);
	return fits;
}

/* A dense table of the model keeps its shape, so dense data must not have further features. */
static enum err_code check_features_kept(const struct job *j, const struct dataset *before,
    struct err *e)
{
	size_t more = j->train->cols - before->cols;
	struct buf names = BUF_INIT;
	enum err_code rc;

	if (j->train->sparse || j->train->cols <= before->cols)
		return ERR_OK;
	for (size_t i = 0; i < more && i < NEW_FEATURES_NAMED; i++) {
		char *name = data_feature_name(j->train, before->cols + i);

		buf_printf(&names, "%s\"%s\"", i ? ", " : "", name ? name : "?");
		free(name);
	}
	rc = err_set(e, ERR_CONFIG,
	    "the data have %zu feature%s that the checkpoint does not have (%.*s%s), and its model "
	    "is dense and cannot grow; begin a new job with --init-from, which adds them",
	    more, NUM_S(more), (int)names.len, (const char *)names.data,
	    more > NEW_FEATURES_NAMED ? ", ..." : "");
	buf_release(&names);
	return rc;
}

/* Reads the training data by the description of those that the model was trained on so far: their
 * classes, columns, scaling and numbers of features hold, and new features are added to them. */
static enum err_code read_train_as_before(struct job *j, const struct job_source *from,
    const struct data_want *want, const struct caches *caches, struct err *e)
{
	struct data_want extending = *want;
	struct dataset *before = NULL;
	enum err_code rc = data_of_facts(from->before, &before, e);

	drop_train(j);
	log_info(from->log,
	    "data: they are described in another way than those that the checkpoint was trained on; "
	    "its description holds");
	extending.base = before;
	if (!rc)
		rc = read_train(j, from, &extending, caches, e);
	if (!rc)
		rc = check_features_kept(j, before, e);
	dataset_free(before);
	if (!rc)
		return ERR_OK;
	err_blame(e, CAUSE_DATA);
	return err_prefix(e, "job.data does not fit the data that the checkpoint was trained on");
}

/* Reads the training data of a job whose model was trained on data that are described. Most often the
 * data are the same, and describe themselves in the same way: then they are read as ever, so that
 * caches and bits are those of the first start. */
static enum err_code read_train_of_known(struct job *j, const struct job_source *from,
    const struct data_want *want, const struct caches *caches, struct err *e)
{
	struct data_want plain = *want;
	struct err first = { 0 };
	bool scales = true;
	enum err_code rc = default_scaling_holds(from->before, &scales, e);

	if (rc)
		return rc;
	if (!scales)
		plain.scale = NULL;
	rc = read_train(j, from, &plain, caches, &first);
	if (!rc && fits_before(j, from->before))
		return ERR_OK;
	if (rc && (rc != ERR_FORMAT || j->stream)) {
		*e = first;
		return rc;
	}
	return read_train_as_before(j, from, &plain, caches, e);
}

/* Loads the training data. When they are described (facts), no file is read. */
static enum err_code load_train(struct job *j, const struct job_source *from,
    const struct data_want *want, const struct caches *caches, struct err *e)
{
	struct data_want extending = *want;
	struct dataset *base = NULL;
	enum err_code rc = from->base ? data_of_facts(from->base, &base, e) : ERR_OK;

	extending.base = base;
	if (!rc && from->facts && !(want->pairs && from->ranks))
		rc = describe_train(j, from->facts, e);
	else if (!rc && from->facts && !j->conf.job.data.n)
		rc = err_set(e, ERR_CONFIG,
		    "model %s is evaluated without the items that a user has in the training data, and a model file "
		    "does not name them: give the run directory in its place",
		    j->conf.job.model);
	else if (!rc && from->before)
		rc = read_train_of_known(j, from, want, caches, e);
	else if (!rc)
		rc = read_train(j, from, &extending, caches, e);
	dataset_free(base);
	return rc;
}

/* Opens the evaluation data. */
static enum err_code open_eval(struct job *j, const struct job_source *from,
    const struct data_want *want, const struct data_cache *cache, struct err *e)
{
	const struct conf_strs *eval = &j->conf.job.eval;
	const struct data_sequence_spec spec = { .paths = (const char *const *)eval->item,
		.npaths = eval->n,
		.want = want,
		.like = j->train,
		.cache = cache,
		.memory = j->conf.job.data_memory };
	char text[DATA_DESCRIPTION];
	enum err_code rc = data_sequence_open(&spec, &j->eval, e);

	if (rc && from->ndata) {
		/* A worker that was started with its own data may run on a host without the job's
		 * evaluation files. */
		log_warn(cache->log, "this worker cannot evaluate: %s", e->msg);
		*e = (struct err){ 0 };
		return ERR_OK;
	}
	if (rc) {
		err_blame(e, CAUSE_EVAL_DATA);
		return err_prefix(e, "job.eval");
	}
	data_sequence_describe(j->eval, text);
	log_info(cache->log, "evaluation data: %s", text);
	data_unseen_log(j->unseen, "data: the evaluation data", cache->log);
	return ERR_OK;
}

/* Returns the examples that are held out, to be evaluated. */
static struct data_sequence *open_held_out(struct job *j, struct log *log)
{
	struct data_sequence *out;
	char text[DATA_DESCRIPTION];

	if (j->ranked)
		out = data_sequence_of_dataset(j->ranked);
	else if (j->blocks)
		out = data_sequence_of_blocks(j->blocks, j->split.held_out, j->split.nheld_out,
		    j->conf.job.data_memory / 5);
	else
		out = data_sequence_of_rows(j->train, j->split.held_out, j->split.nheld_out);
	j->ranked = NULL;
	data_sequence_describe(out, text);
	log_info(log, "%s data: %s", j->conf.job.eval.n ? "validation" : "evaluation", text);
	return out;
}

/* Loads training and evaluation data. */
static enum err_code load_data(struct job *j, const struct job_source *from,
    const struct caches *caches, struct err *e)
{
	struct data_want want = job_want(&j->conf.job);
	enum err_code rc;

	want.bad = j->bad;
	rc = load_train(j, from, &want, caches, e);
	if (rc || from->no_eval)
		return rc;
	if (j->split.held_out || j->ranked)
		j->held_out = open_held_out(j, from->log);
	want.unseen = j->unseen;
	if (j->conf.job.eval.n)
		return open_eval(j, from, &want, &caches->whole, e);
	j->eval = j->held_out;
	j->held_out = NULL;
	return ERR_OK;
}

/* The rows of j->train that the model is trained on: *n of them; NULL: the first *n. Of blocks, which are
 * held out as a whole, these are all of the head. */
static const uint32_t *rows_trained_on(const struct job *j, size_t *n)
{
	bool some = j->split.held_out && !j->blocks;

	*n = some ? j->split.ntrain : j->train->rows;
	return some ? j->split.train : NULL;
}

/* The weights of classes that job.class_weight asks for, in a new array. *out: NULL, where all are
 * 1 or only a description of the data is known, by which no model is trained. */
static enum err_code make_class_weights(const struct job *j, float **out, struct err *e)
{
	const struct dataset *d = j->train;
	uint64_t *count = mem_array(d->classes + 1, sizeof *count);
	size_t n;
	const uint32_t *row = rows_trained_on(j, &n);
	enum err_code rc;

	*out = NULL;
	for (size_t i = 0; d->classes && i < n && (d->label || d->y); i++) {
		size_t r = row ? row[i] : i;

		count[d->label ? (size_t)d->label[r] : d->y[r] > 0.5f]++;
	}
	if (conf_is_named(j->conf.job.class_weight) && d->classes)
		*out = mem_array(d->classes, sizeof **out);
	rc = *out
	    ? class_weight_set(j->conf.job.class_weight, d->class_name, count, d->classes, *out, e)
	    : ERR_OK;
	free(count);
	return rc;
}

/* Sets which features are numbers and which fields have categories. *place is a new array, or NULL. */
static void describe_fields(const struct dataset *d, struct model_shape *shape, uint16_t **place)
{
	*place = NULL;
	shape->places = shape->fields;
	if (!d->schema || !d->sparse)
		return;
	*place = mem_array(shape->fields + 1, sizeof **place);
	shape->numbers = d->schema->numbers;
	shape->places = 0;
	for (size_t k = 0; k < shape->fields; k++)
		(*place)[k] = k < d->schema->ncolumns &&
		        data_schema_gives_categories(d->schema, &d->schema->column[k])
		    ? (uint16_t)shape->places++
		    : MODEL_NO_PLACE;
	shape->place = *place;
}

/* The integers of a list, in a new array. */
static size_t *copy_widths(const struct conf_ints *list)
{
	size_t *out = mem_array(list->n + 1, sizeof *out);

	for (size_t i = 0; i < list->n; i++)
		out[i] = (size_t)list->item[i];
	return out;
}

enum err_code job_model_new(const struct job *j, struct model **out, struct err *e)
{
	const struct conf_job *c = &j->conf.job;
	size_t *hidden = copy_widths(&c->hidden), *bottom = copy_widths(&c->bottom);
	struct target_scaling *scaling = mem_array(j->train->targets + 1, sizeof *scaling);
	struct model_shape shape = { .features = j->train->cols,
		.classes = j->train->classes,
		.targets = j->train->targets,
		.sparse = j->train->sparse,
		.fields = j->train->sparse ? j->train->fields : j->train->cols,
		.hidden = hidden,
		.nhidden = c->hidden.n,
		.bottom = bottom,
		.nbottom = c->bottom.n,
		.factors = (size_t)c->factors,
		.cross = (size_t)c->cross,
		.negatives = (size_t)c->negatives,
		.items = dataset_pairs(j->train) ? data_pairs_items(dataset_pairs(j->train)) : 0,
		.activation = c->activation,
		.loss = c->loss,
		.outside = j->outside };
	struct model_table *table = NULL;
	float *class_weight;
	uint16_t *place;
	enum err_code rc = make_class_weights(j, &class_weight, e);

	describe_fields(j->train, &shape, &place);
	shape.class_weight = class_weight;
	for (size_t k = 0; k < j->train->targets; k++)
		scaling[k] = dataset_target_scaling(j->train, k);
	shape.scaling = scaling;
	if (!rc && is_custom(j) && !conf_is_named(j->tables))
		rc = err_set(e, ERR_CONFIG,
		    "job.tables: model custom has those that are named here, as w:784x10,b:10");
	else if (!rc && is_custom(j))
		rc = model_spec_parse(j->tables, &table, &shape.ntables, e);
	shape.table = table;
	if (!rc)
		rc = model_new(j->models, c->model, &shape, out, e);
	if (!rc)
		rc = model_reserve(*out, (size_t)c->batch, e);
	free(hidden);
	free(bottom);
	free(place);
	free(scaling);
	free(table);
	free(class_weight);
	return rc;
}

struct row_sampler *job_sampler_new(const struct job *j)
{
	size_t n;
	const uint32_t *row = rows_trained_on(j, &n);

	for (size_t i = 0; i < j->ntables; i++)
		if (j->table[i].sparse && j->table[i].domain->sampler_new)
			return j->table[i].domain->sampler_new(j->train, row, n,
			    (size_t)j->conf.job.negatives, (uint64_t)j->conf.job.seed);
	return NULL;
}

/* Pairs of entries of an example that take milliseconds. */
#define PAIRS_MANY 20000u

/* Warns of examples whose pairs of entries make an epoch take minutes. */
static void warn_of_pairs(const struct job *j, struct log *log)
{
	const struct dataset *d = j->train;
	bool counted = d->sparse && d->start && d->rows;
	double entries = counted ? (double)d->start[d->rows] / (double)d->rows : (double)d->cols;
	double pairs = entries * (entries - 1) / 2;

	/* A description of sparse data does not say how many entries an example has. */
	if (!(model_info_find(j->conf.job.model)->takes & MODEL_PAIRS_ENTRIES) ||
	    pairs < PAIRS_MANY || (d->sparse && !counted))
		return;
	log_warn(log,
	    "data: %.0f features in an example make %.0f pairs, each of which takes model %s %lld "
	    "multiplications, so that it is slow; model fm takes as many for each feature, and ignore= leaves "
	    "columns out",
	    entries, pairs, j->conf.job.model, (long long)j->conf.job.factors);
}

/* Warns of features that nothing has checked, because there are more than are watched. */
static void warn_of_unwatched(const struct job *j, struct log *log)
{
	if (j->train->reading.unwatched)
		log_warn(log,
		    "data: %" PRIu64
		    " large numbers of sparse features after the first %u that have such "
		    "numbers were not checked: features whose numbers float32 does not tell apart are "
		    "learned as one value; subtract the mean first",
		    j->train->reading.unwatched, DATA_SPREADS);
}

/* Warns of users and items that have no line in the tables of their features. */
static void warn_of_unlisted(const struct job *j, struct log *log)
{
	if (j->train->reading.unlisted)
		log_warn(log,
		    "data: in %zu places a line has a user or an item that the table of features lacks; it is "
		    "learned without features: add its line to the table (user_features=, "
		    "item_features=)",
		    j->train->reading.unlisted);
}

/* Warns of classes, or of categories of a column, that differ only by blanks at their ends. */
static void warn_of_alike_names(const struct job *j, struct log *log)
{
	struct data_alike x;
	char name[4 * 40 + 1];

	if (!data_alike_find(j->train, &x))
		return;
	log_escape(name, sizeof name, x.a, strlen(x.a) < 40 ? strlen(x.a) : 40);
	log_warn(log,
	    "data: two %s%s look like \"%s\" and differ only by blanks at their ends, such as no-break "
	    "spaces (U+00A0); they are learned as different ones: remove the blanks",
	    x.column ? "categories of column " : "classes", x.column ? x.column : "", name);
}

/* Warns of keys that concern sparse tables alone, when the model has none with these data. */
static void warn_of_row_keys(const struct job *j, struct log *log)
{
	const struct conf *c = &j->conf;
	const char *key = conf_is_named(c->sparse) ? "sparse"
	    : conf_is_named(c->filter)             ? "filter"
	    : strcmp(c->row_ids, "raw") != 0       ? "row_ids"
	                                           : NULL;

	for (size_t i = 0; i < j->ntables; i++)
		if (j->table[i].sparse)
			return;
	if (key && !is_custom(j))
		log_warn(log,
		    "data: %s is set, but changes nothing: it concerns sparse tables, and with these data model %s "
		    "has none",
		    key, c->job.model);
}

/* Warns of job.bottom, if it is set and the data have no numbers for those layers. */
static void warn_of_bottom(const struct job *j, struct log *log)
{
	const struct conf_ints *set = &j->conf.job.bottom;
	struct conf usual;
	bool same;

	conf_init(&usual);
	same = set->n == usual.job.bottom.n &&
	    memcmp(set->item, usual.job.bottom.item, set->n * sizeof *set->item) == 0;
	conf_release(&usual);
	if (same || !strstr(model_info_find(j->conf.job.model)->tables, "bottom"))
		return;
	for (size_t i = 0; i < j->ntables; i++)
		if (strncmp(j->table[i].name, "bottom", 6) == 0)
			return;
	log_warn(log,
	    "data: job.bottom is set, but changes nothing: it concerns columns of numbers, and these data "
	    "have none");
}

/* Makes the model; job.tables may come from the caller instead of the configuration. */
static enum err_code make_job_model(struct job *j, const struct job_source *from, struct err *e)
{
	const char *named = j->conf.job.tables;
	enum err_code rc;

	j->outside = from->outside;
	j->models = from->models;
	j->tables = from->tables && !conf_is_named(named) ? from->tables : named;
	warn_of_pairs(j, from->log);
	warn_of_unwatched(j, from->log);
	warn_of_unlisted(j, from->log);
	warn_of_alike_names(j, from->log);
	rc = job_model_new(j, &j->model, e);
	if (!rc)
		j->ntables = model_tables(j->model, &j->table);
	if (!rc) {
		warn_of_row_keys(j, from->log);
		warn_of_bottom(j, from->log);
	}
	if (!rc)
		j->sampler = job_sampler_new(j);
	return rc;
}

/* Checks that the file has model table t in its shape; sparse tables are not in the file. */
static enum err_code check_init_table(const struct safetensors *file, const struct model_table *t,
    struct err *e)
{
	const struct safetensors_tensor *x = safetensors_find(file, t->name);

	if (t->sparse)
		return ERR_OK;
	if (!x)
		return err_set(e, ERR_CONFIG, "it has no table \"%s\"", t->name);
	if (safetensors_is_parameters(x) && x->count == t->rows * t->cols)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "its table \"%s\" has %llu values, and that of this job's model has %zu x %zu", t->name,
	    (unsigned long long)x->count, t->rows, t->cols);
}

/* The servers read job.init. A worker that can see the file checks it first, for an earlier and
 * clearer error. */
static enum err_code check_init_file(const struct job *j, struct err *e)
{
	const char *path = j->conf.job.init;
	struct safetensors *file;
	enum err_code rc;

	if (!strchr(path, '/') || access(path, R_OK))
		return ERR_OK;
	rc = safetensors_open(path, &file, e);
	if (!rc) {
		for (size_t i = 0; !rc && i < j->ntables; i++)
			rc = check_init_table(file, &j->table[i], e);
		safetensors_close(file);
	}
	if (rc && e)
		e->code = ERR_CONFIG;
	return rc ? err_prefix(e, "job.init: \"%s\"", path) : ERR_OK;
}

enum err_code job_mark_tables(struct job *j, struct err *e)
{
	struct conf_rule rule;
	enum err_code rc = conf_job_rule(&j->conf, &rule, e);

	if (rc)
		return rc;
	if (!j->frozen) {
		j->frozen = mem_array(j->ntables + 1, sizeof *j->frozen);
		j->counts_touching = mem_array(j->ntables + 1, sizeof *j->counts_touching);
	}
	for (size_t i = 0; i < j->ntables; i++) {
		struct table_rules_choice use = conf_rule_of_table(&rule, j->table[i].name);

		j->frozen[i] = names_has(j->conf.job.frozen, j->table[i].name);
		j->counts_touching[i] = use.rule->counts_touching && use.hyper->l2 > 0 &&
		    j->table[i].sparse && j->table[i].domain->count_touching;
	}
	return ERR_OK;
}

/* Checks that job.frozen names tables of the model. */
static enum err_code check_frozen_names(const struct job *j, struct err *e)
{
	for (const char *at = names_first(j->conf.job.frozen); at; at = names_next(at)) {
		size_t i = 0;

		while (i < j->ntables && !names_is(at, j->table[i].name))
			i++;
		if (i == j->ntables)
			return err_set(e, ERR_CONFIG, "job.frozen: the model has no table \"%.*s\"",
			    (int)strcspn(at, ","), at);
	}
	return ERR_OK;
}

/* Checks that each pattern of job.rules matches a table of the model. */
static enum err_code check_rule_patterns(const struct job *j, struct err *e)
{
	struct conf_rule rule;
	enum err_code rc = conf_job_rule(&j->conf, &rule, e);

	for (unsigned k = 0; !rc && k < rule.tables.n; k++) {
		const char *pattern = rule.tables.of[k].pattern;
		size_t i = 0;

		while (i < j->ntables && !table_rules_match(pattern, j->table[i].name))
			i++;
		if (i == j->ntables)
			rc = err_set(e, ERR_CONFIG, "job.rules: the model has no table \"%s\"",
			    pattern);
	}
	return rc;
}

/* Makes the count of bad lines, where some may be skipped. */
static enum err_code allow_bad_lines(struct job *j, struct log *log, struct err *e)
{
	uint64_t allowed;
	enum err_code rc = data_bad_lines_parse(j->conf.job.bad_lines, &allowed, e);

	if (rc)
		return err_prefix(e, "job.bad_lines");
	if (allowed)
		j->bad = data_bad_lines_new(allowed, log);
	return ERR_OK;
}

/* Logs what the model predicts, from which data, and which key, option or default says so. */
static void report_job(const struct job *j, struct log *log)
{
	char *line = job_line(j);

	log_info(log, "job: %s", line);
	free(line);
}

enum err_code job_load(const json_t *config, const struct job_source *from, struct job *out,
    struct err *e)
{
	struct caches caches;
	enum err_code rc;

	*out = (struct job){ 0 };
	rc = conf_from_json(config, &out->conf, e);
	if (rc)
		return rc;
	if (from->settings && conf_apply_unset(&out->conf, from->settings, NULL, e))
		rc = e ? e->code : ERR_CONFIG;
	else if (!out->conf.has_job)
		rc = err_set(e, ERR_CONFIG, "this cluster has no job: its file has no \"job\"");
	else if (!model_info_find(out->conf.job.model))
		rc = err_set(e, ERR_CONFIG, "job.model: this version has no model \"%s\"",
		    out->conf.job.model);
	if (!rc)
		rc = conf_data_paths(&out->conf.job,
		    from->ndata ? from->data : (const char *const *)out->conf.job.data.item,
		    from->ndata ? from->ndata : out->conf.job.data.n, &out->paths, e);
	if (!rc)
		rc = allow_bad_lines(out, from->log, e);
	caches = choose_caches(out, from);
	out->unseen = data_unseen_new();
	if (!rc)
		rc = is_custom(out) ? number_data(out, from, &caches.whole, e)
		                    : load_data(out, from, &caches, e);
	if (!rc && !out->source)
		out->source = source_memory_new(out->train, split_of(out),
		    (uint64_t)out->conf.job.seed);
	if (!rc)
		rc = make_job_model(out, from, e);
	if (!rc && from->trains)
		report_job(out, from->log);
	if (!rc)
		rc = check_init_file(out, e);
	if (!rc)
		rc = check_frozen_names(out, e);
	if (!rc)
		rc = check_rule_patterns(out, e);
	if (!rc)
		rc = job_mark_tables(out, e);
	if (!rc)
		out->conf.job.epochs = (int64_t)conf_epochs(&out->conf,
		    out->source->per_range ? 0 : out->source->units, job_most_rows(out));
	if (rc)
		job_release(out);
	return rc;
}

void job_release(struct job *j)
{
	model_free(j->model);
	row_sampler_free(j->sampler);
	range_source_free(j->source);
	data_sequence_free(j->eval);
	data_sequence_free(j->held_out);
	data_split_release(&j->split);
	dataset_free(j->ranked);
	data_blocks_free(j->blocks);
	dataset_free(j->own_train);
	data_observations_free(j->observations);
	data_log_close(j->stream);
	data_bad_lines_free(j->bad);
	data_unseen_free(j->unseen);
	free(j->frozen);
	free(j->counts_touching);
	conf_data_release(&j->paths);
	conf_release(&j->conf);
	*j = (struct job){ 0 };
}

/* How the servers initialize table t. */
static enum table_init table_init_of(const struct job *j, const struct model_table *t)
{
	const char *init = j->conf.job.init;

	if (strcmp(init, "zeros") == 0)
		return TABLE_ZEROS;
	/* The file has dense tables only. Rows of sparse tables that begin as zeros where the model wants chance,
	 * such as vectors of factors, would never learn. */
	if (strchr(init, '/') && !t->sparse)
		return TABLE_FILE;
	return strcmp(init, "glorot") == 0 ? (t->init_scale > 0 ? TABLE_UNIFORM : TABLE_ZEROS)
	    : t->init == INIT_GLOROT       ? TABLE_UNIFORM
	    : t->init == INIT_MEAN         ? TABLE_CONSTANT
	                                   : TABLE_ZEROS;
}

/* The mean of the first target of the examples that the model is trained on, as the tables fit
 * them; 0 where there are none. */
static double mean_target(const struct job *j)
{
	const struct dataset *d = j->train;
	struct target_scaling s = dataset_target_scaling(d, 0);
	double sum = 0, mean;
	size_t n;
	const uint32_t *row = rows_trained_on(j, &n);

	for (size_t i = 0; d->y && i < n; i++)
		sum += (double)d->y[(row ? row[i] : i) * d->targets];
	if (!d->y || n == 0)
		return 0;
	mean = sum / (double)n;
	return s.factor != 0 ? (mean - s.shift) * s.factor : mean;
}

/* The number that says how the servers initialize table t (struct table). */
static float table_init_limit_of(const struct job *j, const struct model_table *t)
{
	return table_init_of(j, t) == TABLE_CONSTANT ? (float)mean_target(j) : t->init_scale;
}

/* The rows of a table. Those of a sparse one are a hint, which hashed ids may exceed. */
static uint64_t proposed_rows(const struct job *j, const struct model_table *t)
{
	uint64_t most = TABLE_ELEMENTS_MAX / (uint64_t)t->cols, rows;

	if (!t->sparse)
		return t->rows;
	rows = t->domain->rows(j->train);
	return rows < most ? rows : most;
}

uint64_t job_most_rows(const struct job *j)
{
	uint64_t most = 0;

	for (size_t i = 0; i < j->ntables; i++)
		if (proposed_rows(j, &j->table[i]) > most)
			most = proposed_rows(j, &j->table[i]);
	return most;
}

json_t *job_tables(const struct job *j)
{
	json_t *list = json_array();

	for (size_t i = 0; i < j->ntables; i++) {
		const struct model_table *m = &j->table[i];
		struct table t = { .sparse = m->sparse,
			.decay = m->decay,
			.reduced = !m->sparse && strcmp(j->conf.via, "allreduce") == 0,
			.cols = (uint32_t)m->cols,
			.rows = proposed_rows(j, m),
			.init = table_init_of(j, m),
			.init_limit = table_init_limit_of(j, m),
			.seed = (uint64_t)j->conf.job.seed };

		snprintf(t.name, sizeof t.name, "%s", m->name);
		json_array_append_new(list, table_to_json(&t));
	}
	return list;
}

json_t *job_eval_json(const struct eval_result *r)
{
	json_t *o = json_object();

	for (int k = 0; k < METRICS; k++)
		if (r->has[k])
			json_object_set_new(o, metric_name[k], json_of_num(r->value[k]));
	json_object_set_new(o, "examples", json_integer((json_int_t)r->examples));
	baseline_add(o, &r->constant);
	return o;
}
