/* SPDX-License-Identifier: ISC */
#include "model/model.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/suggest.h"
#include "model/entries.h"
#include "model/model_kind.h"

enum {
	NKINDS =
#define MODEL(name, task, loss, takes, reads, vectors, help, tables, defaults, enough, ...) 1 +
#include "model/model.def"
#undef MODEL
	    0
};

static size_t find_model_kind(const char *name)
{
	size_t i = 0;

	while (i < NKINDS && strcmp(model_info_at(i)->name, name) != 0)
		i++;
	return i;
}

static enum err_code fail_unknown_model(const char *name, struct err *e)
{
	const char *names[NKINDS], *near;

	for (size_t i = 0; i < NKINDS; i++)
		names[i] = model_info_at(i)->name;
	near = suggest(name, names, NKINDS);
	return err_set(e, ERR_CONFIG, "job.model: there is no model \"%s\"%s%s%s", name,
	    near != NULL ? "; did you mean " : "", near != NULL ? near : "",
	    near != NULL ? "?" : "");
}

/* CBLAS counts in int, and the bytes of a table must fit size_t. */
static enum err_code check_size(const char *what, size_t rows, size_t cols, struct err *e)
{
	size_t bytes;

	if (rows > INT_MAX || cols > INT_MAX || __builtin_mul_overflow(rows, cols, &bytes) ||
	    bytes > PTRDIFF_MAX / sizeof(float))
		return err_set(e, ERR_CONFIG,
		    "%s: a table of %zu times %zu is too large; the limit of each side is %d", what,
		    rows, cols, INT_MAX);
	return ERR_OK;
}

/* Checks that the data have the targets that the loss needs. */
static enum err_code check_classes(const struct loss_spec *loss, const char *name, size_t classes,
    struct err *e)
{
	if (loss->ops == NULL)
		return ERR_OK;
	switch (loss->ops->target) {
	case LOSS_REAL:
		return classes == 0
		    ? ERR_OK
		    : err_set(e, ERR_CONFIG,
		          "job.model %s needs real targets with the loss %s, but the data has "
		          "classes",
		          name, loss->ops->name);
	case LOSS_TWO:
		return classes == 2
		    ? ERR_OK
		    : err_set(e, ERR_CONFIG,
		          "job.model %s needs two classes, but the data has %zu; use %s", name,
		          classes, classes > 2 ? "softmax or mlp" : "linear, or other data");
	case LOSS_CLASSES:
		break;
	}
	return classes >= 2 ? ERR_OK
	                    : err_set(e, ERR_CONFIG,
	                          "job.model %s needs at least two classes, but the data has "
	                          "%zu; use linear, or other data",
	                          name, classes);
}

/* Checks that the model can have this many targets. */
static enum err_code check_targets(const char *name, size_t targets, struct err *e)
{
	if (targets <= 1 || (model_info_find(name)->takes & MODEL_TAKES_SEVERAL))
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "job.model %s has one target, but the data has %zu; use linear or mlp", name, targets);
}

/* Checks the shape against what the kind of model and the loss support. */
static enum err_code check_shape(const struct model_kind *k, const char *name,
    const struct loss_spec *loss, const struct model_shape *s, struct err *e)
{
	size_t fan_in = s->sparse ? 1 : s->features;
	enum err_code rc;

	if (k->outside)
		return k->fits(s, e);
	if (!s->sparse && s->features == 0)
		return err_set(e, ERR_CONFIG, "job.data: the data has a target, but no features");
	if (!k->hidden && s->nhidden > 0)
		return err_set(e, ERR_CONFIG,
		    "job.hidden: model %s has no hidden layers; use mlp, or leave out job.hidden",
		    name);
	if (!k->draws && s->negatives > 0)
		return err_set(e, ERR_CONFIG,
		    "job.negatives: model %s draws neither classes nor several items; use fasttext or warp, "
		    "or leave out job.negatives",
		    name);
	if (s->activation != NULL && strcmp(s->activation, "relu") != 0 &&
	    strcmp(s->activation, "tanh") != 0)
		return err_set(e, ERR_CONFIG, "job.activation: \"%s\" must be relu or tanh",
		    s->activation);
	if ((rc = k->fits(s, e)) != ERR_OK ||
	    (rc = check_classes(loss, name, s->classes, e)) != ERR_OK ||
	    (rc = check_targets(name, s->targets, e)) != ERR_OK)
		return rc;
	for (size_t i = 0; i < s->nhidden; i++) {
		if (s->hidden[i] == 0)
			return err_set(e, ERR_CONFIG,
			    "job.hidden[%zu]: a layer needs at least 1 unit", i);
		if ((rc = check_size("job.hidden", fan_in, s->hidden[i], e)) != ERR_OK)
			return rc;
		fan_in = s->hidden[i];
	}
	return check_size("job.data", fan_in, s->classes > s->targets ? s->classes : s->targets, e);
}

/* Floats of `adjusted` that an example needs. */
static size_t adjusted_width(const struct model *m)
{
	return m->scaling != NULL ? m->outputs : m->class_weight != NULL;
}

/* Has the model a loss for scaled targets, and is one of its targets scaled? */
static bool wants_scaling(const struct model *m, const struct loss_spec *loss)
{
	bool scaled = false;

	if (m->task != MODEL_REAL || loss->ops->degree == 0 || m->shape.scaling == NULL)
		return false;
	for (size_t k = 0; k < m->outputs; k++)
		scaled |= m->shape.scaling[k].factor != 0;
	return scaled;
}

/* Sets the loss of each output, and how targets are scaled. */
static void set_losses(struct model *m, const struct loss_spec *loss)
{
	bool scaled = wants_scaling(m, loss);

	m->loss = mem_array(m->outputs, sizeof *m->loss);
	for (size_t k = 0; k < m->outputs; k++)
		m->loss[k] = *loss;
	if (scaled)
		m->scaling = mem_array(m->outputs, sizeof *m->scaling);
	for (size_t k = 0; scaled && k < m->outputs; k++) {
		struct target_scaling s = m->shape.scaling[k];

		m->scaling[k] = s.factor != 0 ? s : (struct target_scaling){ 0, 1 };
		m->loss[k] = loss_scaled(loss, fabs(m->scaling[k].factor));
	}
	m->shape.scaling = m->scaling;
}

/* The shape's texts and tables are not kept by reference: activation becomes a flag, and plan()
 * copies the tables. */
enum err_code model_new(const struct model_kind *const *kinds, const char *name,
    const struct model_shape *shape, struct model **out, struct err *e)
{
	size_t kind = find_model_kind(name);
	enum model_task task;
	struct loss_spec loss;
	struct model *m;
	enum err_code rc;

	if (kind == NKINDS)
		return fail_unknown_model(name, e);
	if (!kinds[kind])
		return err_set(e, ERR_UNSUPPORTED,
		    "job.model: this program cannot compute model %s", name);
	if ((rc = model_info_loss(model_info_at(kind), shape->loss, &loss, &task, e)) != ERR_OK ||
	    (rc = check_shape(kinds[kind], name, &loss, shape, e)) != ERR_OK)
		return rc;
	m = mem_alloc(sizeof *m);
	m->kind = kinds[kind];
	m->info = model_info_at(kind);
	m->task = task;
	m->shape = *shape;
	m->shape.targets = shape->targets > 0 ? shape->targets : 1;
	m->outputs = loss.ops != NULL ? loss_outputs(&loss, shape->classes, m->shape.targets) : 1;
	m->tanh = shape->activation != NULL && strcmp(shape->activation, "tanh") == 0;
	m->shape.activation = NULL;
	m->shape.loss = NULL;
	if (shape->class_weight != NULL && (task == MODEL_TWO || task == MODEL_CLASSES)) {
		m->class_weight = mem_array(shape->classes, sizeof *m->class_weight);
		memcpy(m->class_weight, shape->class_weight,
		    shape->classes * sizeof *m->class_weight);
	}
	m->shape.class_weight = NULL;
	set_losses(m, &loss);
	m->hidden = mem_array(shape->nhidden, sizeof *m->hidden);
	if (shape->nhidden > 0)
		memcpy(m->hidden, shape->hidden, shape->nhidden * sizeof *m->hidden);
	m->shape.hidden = m->hidden;
	m->bottom = mem_array(shape->nbottom, sizeof *m->bottom);
	if (shape->nbottom > 0)
		memcpy(m->bottom, shape->bottom, shape->nbottom * sizeof *m->bottom);
	m->shape.bottom = m->bottom;
	if (shape->place != NULL) {
		m->place = mem_array(shape->fields, sizeof *m->place);
		memcpy(m->place, shape->place, shape->fields * sizeof *m->place);
	}
	m->shape.place = m->place;
	m->kind->plan(m);
	*out = m;
	return ERR_OK;
}

void model_free(struct model *m)
{
	if (m == NULL)
		return;
	free(m->hidden);
	free(m->bottom);
	free(m->place);
	free(m->loss);
	free(m->scaling);
	free(m->tables);
	free(m->scratch);
	free(m->adjusted);
	free(m->class_weight);
	free(m);
}

void model_add_table(struct model *m, const char *name, bool sparse, size_t rows, size_t cols,
    size_t fan_in, bool decay)
{
	struct model_table t = { .sparse = sparse,
		.domain = sparse ? &row_domain_features : NULL,
		.rows = rows,
		.cols = cols,
		.decay = decay };

	snprintf(t.name, sizeof t.name, "%s", name);
	if (fan_in > 0) {
		t.init = INIT_GLOROT;
		t.init_scale = (float)sqrt(6 / ((double)fan_in + (double)cols));
	}
	m->tables = mem_regrow(m->tables, m->ntables + 1, sizeof *m->tables);
	m->tables[m->ntables++] = t;
}

size_t model_tables(const struct model *m, const struct model_table **out)
{
	*out = m->tables;
	return m->ntables;
}

enum model_task model_task(const struct model *m)
{
	return m->task;
}

double model_quantile(const struct model *m)
{
	return loss_quantile_of(m->loss);
}

bool model_gives_probabilities(const struct model *m)
{
	return loss_gives_probabilities(m->loss);
}

bool model_uses_fields(const struct model *m)
{
	return m->kind->fields;
}

size_t model_outputs(const struct model *m)
{
	return m->outputs;
}

static size_t shared_scratch_of(const struct model *m)
{
	return m->kind->shared_scratch != NULL ? m->kind->shared_scratch(m) : 0;
}

enum err_code model_reserve(struct model *m, size_t rows, struct err *e)
{
	size_t each = m->kind->scratch(m), width = adjusted_width(m), n;
	float *p, *adjusted = NULL;

	if (rows <= m->reserved)
		return ERR_OK;
	p = __builtin_mul_overflow(rows, each, &n) ||
	        __builtin_add_overflow(n, shared_scratch_of(m), &n)
	    ? NULL
	    : mem_try_array(n, sizeof *p);
	if (p != NULL && width > 0) {
		adjusted = mem_try_array(rows, width * sizeof *adjusted);
		if (adjusted == NULL) {
			free(p);
			p = NULL;
		}
	}
	if (p == NULL)
		return err_set(e, ERR_NOMEM,
		    "no memory for a batch of %zu examples with %zu numbers each;"
		    " make job.batch smaller",
		    rows, each);
	free(m->scratch);
	free(m->adjusted);
	m->scratch = p;
	m->adjusted = adjusted;
	m->reserved = rows;
	return ERR_OK;
}

static void grow_scratch(struct model *m, size_t rows)
{
	if (rows <= m->reserved)
		return;
	free(m->scratch);
	free(m->adjusted);
	m->scratch = mem_array(rows * m->kind->scratch(m) + shared_scratch_of(m),
	    sizeof *m->scratch);
	m->adjusted = adjusted_width(m) > 0
	    ? mem_array(rows, adjusted_width(m) * sizeof *m->adjusted)
	    : NULL;
	m->reserved = rows;
}

/* The batch with scaled targets, which are in m->adjusted. */
static struct batch scale_targets(struct model *m, const struct batch *b)
{
	struct batch scaled = *b;

	for (size_t k = 0; b->y != NULL && k < m->outputs; k++) {
		struct target_scaling s = m->scaling[k];

		for (size_t i = k; i < b->rows * m->outputs; i += m->outputs)
			m->adjusted[i] = (float)(((double)b->y[i] - s.shift) * s.factor);
	}
	scaled.y = b->y != NULL ? m->adjusted : NULL;
	return scaled;
}

/* The batch with the weights of its examples' classes, in m->adjusted. */
static struct batch weigh_classes(struct model *m, const struct batch *b)
{
	struct batch weighted = *b;

	for (size_t r = 0; r < b->rows; r++) {
		size_t class = m->task == MODEL_TWO ? b->y[r] > 0.5f : (size_t)b->label[r];

		m->adjusted[r] = batch_weight(b, r) * m->class_weight[class];
	}
	weighted.weight = m->adjusted;
	return weighted;
}

/* Replaces scores of scaled targets by scores of the targets. */
static void unscale_scores(const struct model *m, size_t rows, float *scores)
{
	for (size_t k = 0; k < m->outputs; k++) {
		struct target_scaling s = m->scaling[k];

		for (size_t i = k; i < rows * m->outputs; i += m->outputs)
			scores[i] = (float)((double)scores[i] / s.factor + s.shift);
	}
}

static enum err_code check_labels(const struct model *m, const struct batch *b, struct err *e)
{
	if (b->label == NULL)
		return err_set(e, ERR_FORMAT,
		    "model %s needs a class for every example, but the data has none",
		    m->info->name);
	for (size_t r = 0; r < b->rows; r++)
		if (b->label[r] < 0 || (size_t)b->label[r] >= m->shape.classes)
			return err_set(e, ERR_FORMAT,
			    "an example has class %d, but the model was made for classes 0 to %zu",
			    b->label[r], m->shape.classes - 1);
	return ERR_OK;
}

static enum err_code check_values(const struct model *m, const struct batch *b, struct err *e)
{
	bool two = m->task == MODEL_TWO;
	const struct loss_ops *loss = m->loss->ops;

	if (b->y == NULL)
		return err_set(e, ERR_FORMAT,
		    "model %s needs a target for every example, but the data has none",
		    m->info->name);
	if (b->targets != m->shape.targets)
		return err_set(e, ERR_FORMAT,
		    "the data has %zu target%s, but the model was made for %zu", b->targets,
		    NUM_S(b->targets), m->shape.targets);
	for (size_t i = 0, n = b->rows * b->targets; i < n; i++) {
		float y = b->y[i];

		if (!isfinite(y) || (two && y != 0 && y != 1))
			return err_set(e, ERR_FORMAT,
			    "an example has target %g, but model %s needs %s", (double)y,
			    m->info->name, two ? "0 or 1" : "a finite number");
		if (loss != NULL && loss->takes != NULL && !loss->takes((double)y))
			return err_set(e, ERR_FORMAT,
			    "an example has target %g, but the loss %s needs %s", (double)y,
			    loss->name, loss->wants);
	}
	return ERR_OK;
}

enum err_code model_check_inputs(const struct model *m, const struct batch *b, struct err *e)
{
	if (b->sparse != m->shape.sparse)
		return err_set(e, ERR_FORMAT, "the data is %s, but the model was made for %s data",
		    b->sparse ? "sparse" : "dense", m->shape.sparse ? "sparse" : "dense");
	if (!b->sparse && b->cols != m->shape.features)
		return err_set(e, ERR_FORMAT,
		    "the data has %zu feature%s, but the model was made for %zu", b->cols,
		    NUM_S(b->cols), m->shape.features);
	if (b->rows > INT_MAX)
		return err_set(e, ERR_LIMIT, "a batch of %zu examples is too large", b->rows);
	if (m->kind->fields && b->fields > m->shape.fields && b->sparse)
		return err_set(e, ERR_FORMAT,
		    "the data has %zu field%s, but the model was made for %zu", b->fields,
		    NUM_S(b->fields), m->shape.fields);
	return ERR_OK;
}

enum err_code model_check(const struct model *m, const struct batch *b, struct err *e)
{
	enum err_code rc = model_check_inputs(m, b, e);

	if (rc || m->task == MODEL_WORDS)
		return rc;
	return m->task == MODEL_CLASSES ? check_labels(m, b, e) : check_values(m, b, e);
}

/* The batch with the targets and weights that tables fit; what differs from b is in m->adjusted. */
static struct batch adjust_batch(struct model *m, const struct batch *b)
{
	return m->scaling != NULL     ? scale_targets(m, b)
	    : m->class_weight != NULL ? weigh_classes(m, b)
	                              : *b;
}

bool model_learns(const struct model *m)
{
	return m->kind->learn != NULL && m->shape.sparse;
}

double model_learn(struct model *m, const struct batch *b, float *const params[],
    const struct model_update *update)
{
	struct batch adjusted;

	assert(model_learns(m) && b->sparse);
	grow_scratch(m, b->rows);
	adjusted = adjust_batch(m, b);
	return m->kind->learn(m, &adjusted, params, update);
}

double model_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[])
{
	struct batch adjusted;

	assert(b->sparse == m->shape.sparse && (b->sparse || b->cols == m->shape.features));
	if (b->rows == 0) {
		for (size_t i = 0; i < m->ntables; i++) {
			const struct model_table *t = &m->tables[i];
			const uint64_t *id;
			size_t rows = t->sparse ? t->domain->of_batch(b, &id) : t->rows;

			if (rows > 0)
				memset(grads[i], 0, rows * t->cols * sizeof(float));
		}
		return 0;
	}
	grow_scratch(m, b->rows);
	adjusted = adjust_batch(m, b);
	return m->kind->grad(m, &adjusted, params, grads);
}

double model_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores)
{
	assert(b->sparse == m->shape.sparse && (b->sparse || b->cols == m->shape.features));
	if (b->rows == 0)
		return 0;
	grow_scratch(m, b->rows);
	if (m->scaling != NULL) {
		struct batch scaled = scale_targets(m, b);
		double loss = m->kind->forward(m, &scaled, params, scores);

		unscale_scores(m, b->rows, scores);
		return loss;
	}
	return m->kind->forward(m, b, params, scores);
}

bool model_has_parts(const struct model *m)
{
	return m->kind->parts != NULL;
}

void model_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base)
{
	size_t n = entries_of(b, r).n * m->outputs;

	assert(model_has_parts(m) && r < b->rows);
	grow_scratch(m, b->rows);
	m->kind->parts(m, b, r, params, part, base);
	for (size_t i = 0; m->scaling != NULL && i < n; i++)
		part[i] /= m->scaling[i % m->outputs].factor;
	for (size_t k = 0; m->scaling != NULL && k < m->outputs; k++)
		base[k] = base[k] / m->scaling[k].factor + m->scaling[k].shift;
}
