/* SPDX-License-Identifier: ISC */
#include "data/data.h"

#include <sys/mman.h>

#include "core/mem.h"
#include "core/num.h"
#include "data/data_walk.h"
#include "data/table/data_names.h"
#include "data/source/data_option.h"
#include "data/table/data_schema.h"
#include "data/shape/data_shape.h"
#include "data/source/data_uri.h"

static const struct data_format formats[] = {
#define READER(name, title, help) { #name, title, help },
#include "data/reader/reader.def"
#undef READER
	{ NULL, NULL, NULL },
};

const struct data_reader *const data_readers[DATA_READERS] = {
#define READER(name, title, help) &data_reader_##name,
#include "data/reader/reader.def"
#undef READER
};

const struct data_format *data_formats(void)
{
	return formats;
}

struct data_words *dataset_words(const struct dataset *d)
{
	return d->shape == &data_shape_words ? d->own : NULL;
}

struct data_pairs *dataset_pairs(const struct dataset *d)
{
	return d->shape == &data_shape_pairs ? d->own : NULL;
}

struct target_scaling dataset_target_scaling(const struct dataset *d, size_t k)
{
	const struct data_column *label = d->schema ? data_schema_label(d->schema, k) : NULL;

	if (label && (label->shift != 0 || label->factor != 1))
		return (
		    struct target_scaling){ label->shift - label->origin, (double)label->factor };
	return (struct target_scaling){ d->target_shift, d->target_factor };
}

double dataset_target_origin(const struct dataset *d, size_t k)
{
	const struct data_column *label = d->schema ? data_schema_label(d->schema, k) : NULL;

	return label ? label->origin : 0;
}

static void free_arrays(struct dataset *d)
{
	for (size_t i = 0; d->name && i < d->rows; i++)
		free(d->name[i]);
	free(d->name);
	free(d->class_value);
	free(d->x);
	free(d->x8);
	free(d->start);
	free(d->col);
	free(d->val);
	free(d->field);
	free(d->id);
	free(d->weight);
	free(d->group);
	free(d->y);
	free(d->label);
}

struct dataset *dataset_numbered(size_t rows)
{
	struct dataset *d = mem_alloc(sizeof *d);

	d->rows = rows;
	d->numbered = true;
	return d;
}

void data_range(uint64_t epoch, uint64_t begin, uint64_t end, struct batch *b)
{
	b->rows = (size_t)(end - begin);
	b->first = begin;
	b->epoch = epoch;
}

void dataset_free(struct dataset *d)
{
	if (!d)
		return;
	for (size_t i = 0; d->class_name && i < d->classes; i++)
		free(d->class_name[i]);
	for (size_t i = 0; d->feature_name && i < d->cols; i++)
		free(d->feature_name[i]);
	free(d->class_name);
	free(d->feature_name);
	if (d->shape && d->shape->release)
		d->shape->release(d);
	data_schema_free(d->schema);
	data_names_free(d->names);
	data_option_free(d->options);
	free(d->source);
	free(d->roles);
	if (d->memory.map)
		munmap(d->memory.map, d->memory.map_len);
	else
		free_arrays(d);
	free(d);
}

size_t data_reader_number(const struct data_reader *r)
{
	size_t i = 0;

	while (data_readers[i] != r)
		i++;
	return i;
}

const char *data_reader_name(const struct data_reader *r)
{
	return formats[data_reader_number(r)].name;
}

/* ---- whole files ---- */

struct load {
	struct data_build *build;
	char **name;
	struct data_options *options;
	size_t n;
};

static enum err_code list_file(void *ctx, const char *name, const char *path,
    const struct data_options *o, struct err *e)
{
	struct load *l = ctx;

	(void)path, (void)e;
	l->name = mem_regrow(l->name, l->n + 1, sizeof *l->name);
	l->options = mem_regrow(l->options, l->n + 1, sizeof *l->options);
	l->name[l->n] = mem_strdup(name);
	l->options[l->n++] = data_uri_copy(o);
	return ERR_OK;
}

static void place_whole(void *ctx, size_t number, struct data_place *out)
{
	const struct load *l = ctx;

	*out = (struct data_place){ .name = l->name[number],
		.options = &l->options[number],
		.whole = true };
}

static const struct data_walk_policy whole_policy = { .place = place_whole };

static enum err_code read_files(struct load *l, struct err *e)
{
	struct data_walk *w = data_walk_new(&whole_policy, l, l->n);
	enum err_code rc = data_walk_all(w, l->build, e);

	data_walk_free(w);
	return rc;
}

static void release_load(struct load *l)
{
	data_build_free(l->build);
	for (size_t i = 0; i < l->n; i++)
		data_uri_release(&l->options[i]);
	data_uri_free(l->name, l->n);
	free(l->options);
}

/* `source` of a dataset is the first file's name, and the number of the others. The builder is
 * freed in any case; after success it has handed the dataset over. */
enum err_code data_load(const char *const *paths, size_t npaths, const char *base_dir,
    const struct data_want *want, const struct dataset *like, struct dataset **out, struct err *e)
{
	struct load l = { .build = data_build_new(want, like, base_dir) };
	struct data_build *b = l.build;
	enum err_code rc;

	*out = NULL;
	if (npaths == 0)
		rc = err_set(e, ERR_CONFIG, "no data: name at least one path");
	else
		rc = data_walk_files(paths, npaths, base_dir, list_file, &l, e);
	if (!rc)
		rc = read_files(&l, e);
	if (!rc && l.n > 1) {
		free(b->d->source);
		b->d->source = mem_printf("%s and %zu more", b->first, l.n - 1);
	}
	if (!rc)
		rc = data_build_finish(b, out, e);
	release_load(&l);
	return rc;
}

enum err_code data_load_stream(struct stream *s, const struct data_options *o,
    const struct data_want *want, const struct dataset *like, struct dataset **out, struct err *e)
{
	struct data_build *b = data_build_new(want, like, NULL);
	enum err_code rc = data_build_read(b, s, o, e);

	*out = NULL;
	if (rc == ERR_OK)
		rc = data_build_finish(b, out, e);
	data_build_free(b);
	return rc;
}

char *data_feature_name(const struct dataset *d, uint64_t feature)
{
	if (d->schema)
		return feature < data_schema_features(d->schema)
		    ? data_schema_name(d->schema, (size_t)feature)
		    : NULL;
	if (d->feature_name)
		return feature < d->cols ? mem_strdup(d->feature_name[feature]) : NULL;
	if (data_shape_of(d)->feature_name)
		return data_shape_of(d)->feature_name(d, feature);
	return d->names ? data_names_find(d->names, feature) : NULL;
}

void data_describe(const struct dataset *d, char out[static DATA_DESCRIPTION])
{
	char targets[48] = "real targets", shape[100], left_out[64] = "";
	/* The numbers of users and items may be hashes, whose range tells nothing. */
	size_t features = d->grouped_by_first && d->id ? d->nids : d->cols;

	if (d->numbered) {
		snprintf(out, DATA_DESCRIPTION, "%zu example%s read by the program", d->rows,
		    d->rows == 1 ? "" : "s");
		return;
	}
	if (d->reading.unlabelled)
		snprintf(left_out, sizeof(left_out), " (%zu without a label left out)",
		    d->reading.unlabelled);
	if (d->classes)
		snprintf(targets, sizeof(targets), "%zu class%s", d->classes,
		    d->classes == 1 ? "" : "es");
	else if (d->targets > 1)
		snprintf(targets, sizeof(targets), "%zu real targets", d->targets);
	data_shape_of(d)->describe(d, shape, sizeof shape);
	if (data_shape_of(d)->own_targets) {
		snprintf(out, DATA_DESCRIPTION, "%s, %s (%.120s)", shape, d->format, d->source);
		return;
	}
	snprintf(out, DATA_DESCRIPTION,
	    "%zu example%s%s, %zu feature%s, %s, %s, %s%s%.240s (%.120s)", d->rows,
	    d->rows == 1 ? "" : "s", left_out, features, features == 1 ? "" : "s", targets, shape,
	    d->format, d->roles ? "; " : "", d->roles ? d->roles : "", d->source);
}
