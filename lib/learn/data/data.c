/* SPDX-License-Identifier: ISC */
#include "data/data.h"

#include <sys/mman.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/data_build.h"
#include "data/data_head.h"
#include "data/data_names.h"
#include "data/data_object.h"
#include "data/data_option.h"
#include "data/data_pairs.h"
#include "data/data_parts.h"
#include "data/data_schema.h"
#include "data/data_unsupported.h"
#include "data/data_uri.h"
#include "data/data_words.h"

static const struct data_format formats[] = {
#define READER(name, title, help) { #name, title, help },
#include "data/reader.def"
#undef READER
	{ NULL, NULL, NULL },
};

const struct data_reader *const data_readers[DATA_READERS] = {
#define READER(name, title, help) &data_reader_##name,
#include "data/reader.def"
#undef READER
};

const struct data_format *data_formats(void)
{
	return formats;
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
	data_words_free(d->words);
	data_pairs_free(d->pairs);
	data_schema_free(d->schema);
	data_names_free(d->names);
	data_option_free(d->options);
	free(d->source);
	free(d->roles);
	if (d->map)
		munmap(d->map, d->map_len);
	else
		free_arrays(d);
	free(d);
}

/* Finds a format of this name among the readers. */
static bool find_format_named(const char *name, size_t *out)
{
	for (size_t i = 0; i < DATA_READERS; i++)
		if (strcmp(formats[i].name, name) == 0) {
			*out = i;
			return true;
		}
	return false;
}

/* Do the options say something about the columns of a table? */
static bool options_describe_table(const struct data_options *o)
{
	return o->label || o->columns || o->ignore || o->categories || o->id || o->missing ||
	    o->scale || o->text || o->text_weight || o->lists;
}

/* Refuses the format if its examples have no user and no item, but the model needs them. */
static enum err_code refuse_columns(const struct stream *s, size_t reader,
    const struct data_want *want, struct err *e)
{
	if (!want->tables || !data_readers[reader]->to_ratings)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "%s: is %s, but the model needs %s in each example: %s",
	    stream_name(s), formats[reader].title,
	    want->pairs ? "a user and an item" : "a user, an item and a rating",
	    data_readers[reader]->to_ratings);
}

/* Finds the reader whose decision the files after it follow: that of the files before, or else of the training
 * data. SIZE_MAX: none. */
static size_t find_known_reader(const struct data_reader *before, const struct dataset *like)
{
	size_t i = 0;

	if (before)
		return data_reader_number(before);
	while (i < DATA_READERS &&
	    (!like || !like->format || strcmp(formats[i].title, like->format) != 0))
		i++;
	return i < DATA_READERS ? i : SIZE_MAX;
}

/* Chooses the reader by the options, or by the content. before: that of the files before; table: a table is
 * expected. */
static enum err_code choose_reader(struct stream *s, const struct data_options *o,
    const struct data_want *want, const struct data_reader *before, const struct dataset *like,
    size_t *out, struct err *e)
{
	enum err_code rc = ERR_OK;
	bool table = like && like->schema;

	if (!o->format || !find_format_named(o->format, out)) {
		rc = data_guess_reader(s, o, find_known_reader(before, like), table, out, e);
		if (!rc && want->tables && !table && data_readers[*out] == &data_reader_csv &&
		    !options_describe_table(o))
			find_format_named(want->tables, out);
	}
	return rc ? rc : refuse_columns(s, *out, want, e);
}

const struct data_reader *data_build_reader(struct stream *s, const struct data_options *o,
    const struct data_want *want, const struct dataset *like, struct err *e)
{
	size_t i = 0;

	return stream_skip_mark(s, e) || choose_reader(s, o, want, NULL, like, &i, e)
	    ? NULL
	    : data_readers[i];
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

/* Checks the options of the stream, which is in this format, and completes them by those of the data that
 * it is read like. Notes those of the first stream. */
static enum err_code settle_options(struct data_build *b, size_t format, const char *name,
    struct err *e)
{
	struct data_options *o = &b->options;
	const char *scale = b->like && b->like->options ? b->like->options->scale : b->scale;
	enum err_code rc = data_option_check(o, format, name, e);

	if (!rc)
		rc = data_option_take(o, b->like, format, !data_label_is_ignored(b->label), name,
		    e);
	if (rc)
		return rc;
	if (!o->bits)
		o->bits = data_readers[format]->bits;
	if (b->d->options)
		return data_option_agree(o, b->d->options, format, name, e);
	b->d->options = data_option_note(o, format, scale);
	return ERR_OK;
}

/* Chooses the reader of the stream, and begins the stream. */
static enum err_code begin_stream(struct data_build *b, struct stream *s,
    const struct data_options *o, const struct data_reader **reader, struct err *e)
{
	size_t i = 0;
	bool words = data_label_wants_words(b->label);
	struct data_want want = { .tables = b->tables, .pairs = data_label_wants_pairs(b->label) };
	enum err_code rc = stream_skip_mark(s, e);

	data_uri_release(&b->options);
	b->options = data_uri_copy(o);
	data_option_take_format(&b->options, b->like);
	if (!rc && (!words || b->options.format || !find_format_named("text", &i)))
		rc = choose_reader(s, &b->options, &want, b->reader, b->like, &i, e);
	if (!rc && data_readers[i]->parts == &data_parts_lines)
		rc = data_head_begin(s, e);
	if (rc != ERR_OK)
		return rc;
	if (words && data_readers[i] != &data_reader_text)
		return err_set(e, ERR_CONFIG, "%s: is %s, but the model needs plain text",
		    stream_name(s), formats[i].title);
	if (!b->first) {
		b->first = mem_strdup(stream_name(s));
		b->d->source = mem_strdup(b->first);
		b->d->format = formats[i].title;
		b->reader = data_readers[i];
	} else if (b->reader != data_readers[i]) {
		return err_set(e, ERR_FORMAT,
		    "%s is %s but %s is %s; all files must have the same format", stream_name(s),
		    formats[i].title, b->first, b->d->format);
	}
	rc = settle_options(b, i, stream_name(s), e);
	if (rc)
		return rc;
	b->values_before = b->d->sparse ? b->nnz : b->d->rows * b->d->cols;
	b->rows_before = b->d->rows;
	b->d->heading = 0;
	b->d->separator = 0;
	*reader = data_readers[i];
	return ERR_OK;
}

enum err_code data_build_begin(struct data_build *b, struct stream *s, const struct data_options *o,
    struct err *e)
{
	const struct data_reader *reader;

	return begin_stream(b, s, o, &reader, e);
}

enum err_code data_build_read(struct data_build *b, struct stream *s, const struct data_options *o,
    struct err *e)
{
	const struct data_reader *reader = NULL;
	struct data_head_count before;
	enum err_code rc = begin_stream(b, s, o, &reader, e);

	before = data_head_count(b, s);
	if (rc == ERR_OK)
		rc = reader->read(b, s, &b->options, e);
	if (rc == ERR_OK && reader->parts == &data_parts_lines)
		rc = data_head_check_count(b, s, before, e);
	return rc || !b->options.norm ? rc : data_build_norm(b, s, e);
}

/* Reads all files that a path stands for. */
static enum err_code read_path(struct data_build *b, const char *path, size_t *files, struct err *e)
{
	struct data_options o;
	struct stream *s;
	char *file, **names = NULL;
	size_t n = 0;
	enum err_code rc;

	rc = data_uri_parse(path, &file, &o, e);
	if (rc != ERR_OK)
		return rc;
	rc = data_option_check_file(&o, path, e);
	if (!rc)
		rc = data_uri_expand(file, b->base_dir, &names, &n, e);
	for (size_t i = 0; rc == ERR_OK && i < n; i++) {
		rc = data_open(names[i], &s, e);
		if (rc != ERR_OK)
			break;
		rc = data_build_read(b, s, &o, e);
		stream_close(s);
		++*files;
	}
	data_uri_free(names, n);
	data_uri_release(&o);
	free(file);
	return rc;
}

/* `source` of a dataset is the first file's name, and the number of the others. The builder is
 * freed in any case; after success it has handed the dataset over. */
enum err_code data_load(const char *const *paths, size_t npaths, const char *base_dir,
    const struct data_want *want, const struct dataset *like, struct dataset **out, struct err *e)
{
	struct data_build *b = data_build_new(want, like, base_dir);
	enum err_code rc = ERR_OK;
	size_t files = 0;

	*out = NULL;
	if (npaths == 0)
		rc = err_set(e, ERR_CONFIG, "no data: name at least one path");
	for (size_t i = 0; rc == ERR_OK && i < npaths; i++)
		rc = read_path(b, paths[i], &files, e);
	if (rc == ERR_OK && files > 1) {
		free(b->d->source);
		b->d->source = mem_printf("%s and %zu more", b->first, files - 1);
	}
	if (rc == ERR_OK)
		rc = data_build_finish(b, out, e);
	data_build_free(b);
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

/* The cases are in order of how little is known: numbered data have only a count, words have no
 * features, and only sparse data have an average length of a row. */
char *data_feature_name(const struct dataset *d, uint64_t feature)
{
	if (d->schema)
		return feature < data_schema_features(d->schema)
		    ? data_schema_name(d->schema, (size_t)feature)
		    : NULL;
	if (d->feature_name)
		return feature < d->cols ? mem_strdup(d->feature_name[feature]) : NULL;
	if (d->words)
		return feature / 2 < d->words->n ? mem_printf("%s%s", d->words->name[feature / 2],
		                                       feature % 2 ? " (predicted)" : "")
		                                 : NULL;
	return d->names ? data_names_find(d->names, feature) : NULL;
}

void data_describe(const struct dataset *d, char out[static DATA_DESCRIPTION])
{
	char targets[48] = "real targets", shape[48] = "dense", left_out[64] = "";

	if (d->numbered) {
		snprintf(out, DATA_DESCRIPTION, "%zu example%s read by the program", d->rows,
		    d->rows == 1 ? "" : "s");
		return;
	}
	if (d->unlabelled)
		snprintf(left_out, sizeof(left_out), " (%zu without a label left out)",
		    d->unlabelled);
	if (d->classes)
		snprintf(targets, sizeof(targets), "%zu class%s", d->classes,
		    d->classes == 1 ? "" : "es");
	else if (d->targets > 1)
		snprintf(targets, sizeof(targets), "%zu real targets", d->targets);
	if (d->words) {
		snprintf(out, DATA_DESCRIPTION, "%zu word%s, %zu different one%s, %s (%.120s)",
		    d->rows, NUM_S(d->rows), d->words->n, NUM_S(d->words->n), d->format, d->source);
		return;
	}
	if (d->fields)
		snprintf(shape, sizeof(shape), "sparse (%.1f a row, %zu field%s)",
		    (double)d->start[d->rows] / (double)d->rows, d->fields, NUM_S(d->fields));
	else if (d->sparse)
		snprintf(shape, sizeof(shape), "sparse (%.1f a row)",
		    (double)d->start[d->rows] / (double)d->rows);
	snprintf(out, DATA_DESCRIPTION,
	    "%zu example%s%s, %zu feature%s, %s, %s, %s%s%.200s (%.120s)", d->rows,
	    d->rows == 1 ? "" : "s", left_out, d->cols, d->cols == 1 ? "" : "s", targets, shape,
	    d->format, d->roles ? "; " : "", d->roles ? d->roles : "", d->source);
}
