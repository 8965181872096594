#ifndef DATA_DATA_H
#define DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/batch.h"
#include "base/err.h"
#include "format/stream.h"

/* What a model wants for targets.  Neither: real numbers.  classes: labels are
 * sorted (numbers by value, names bytewise) and numbered 0 .. C-1.  two: as
 * classes, of which there must be two, given as 0 and 1. */
struct data_want {
	bool classes;
	bool two;
	bool any;               /* labels are there, and not looked at */
	bool words;             /* plain text, whose words are their own targets */
};

/* What a data path says after its "?": DATA_OPTIONS_INIT is nothing. */
struct data_options {
	char *format;           /* a name of reader.def; NULL: by content */
	char *label;            /* column: its name, its number from 1, or "last" */
	char *labels;           /* file that holds the labels (idx, npy) */
	int index_base;         /* of libsvm: 0, 1; -1: by content */
	int bits;               /* features that are named are hashed to this many (criteo, vw); 0: the format's own number */
	char *norm;             /* "l2": each example is divided by its length */
	char *pairs;            /* namespaces whose features are crossed (vw): "ab,ac" */
	int window;             /* of text: words on each side that a word is trained with */
	int negatives;          /* words drawn for each of them */
	int min_count;          /* rarer words are left out */
	bool no_heading;        /* of csv: the first line is an example, whatever it looks like; not from a path */
	double sample;          /* words more frequent than this are thinned; 0: none */
};
#define DATA_OPTIONS_INIT { .index_base = -1, .window = 5, .negatives = 5, .min_count = 5, .sample = 1e-3 }

/* Examples in memory; read-only once loaded, so any thread may gather.
 * Dense: x, or for bytes x8 whose values count `scale` each, is (rows, cols).
 * Sparse: as in struct batch; row r has entries start[r] .. start[r+1]-1, and
 * id lists the distinct features ascending; field, where there are fields, is that of
 * each entry, below `fields` (at least that of `like`).  cols is 1 + the largest possible
 * feature (at least that of `like`); ids of evaluation data may lie beyond the
 * training's cols.
 * Words: rows words of a text, from which batches are made (data_words.h): sparse, but without
 * start, col and val.
 * Numbered: rows examples that are not here, but where a program reads them. */
struct dataset {
	size_t rows, cols;
	bool sparse, numbered;
	float *x;
	uint8_t *x8;
	float scale;
	uint64_t *start;
	uint32_t *col;
	float *val;
	uint16_t *field;
	size_t fields;
	uint64_t *id;
	size_t nids;
	struct data_words *words;
	float *y;               /* real targets, or 0 and 1 (want.two) */
	int32_t *label;         /* want.classes */
	size_t classes;         /* 0 for real targets */
	char **class_name;
	double *class_value;    /* NAN for a class that is a name */
	char **feature_name;    /* cols of them from a CSV's header, else NULL */
	int index_base;         /* that was taken off sparse ids; -1: none yet */
	const char *format;     /* title of the reader */
	char *source;           /* for people: "a.csv", "a.csv and 3 more" */
	void *map;              /* the file that holds the arrays (data_cache.h), else NULL */
	size_t map_len;
};

/* Load files, globs, or "-" for standard input, each perhaps with options
 * ("a.csv?label=price"); several are concatenated and must agree.  Relative
 * paths are relative to base_dir (NULL: the current directory).
 * like: for evaluation data the training set, whose classes, index base, width
 * and column names hold; else NULL.
 * ERR_IO: cannot be opened or read.  ERR_CONFIG: the path's options.
 * ERR_FORMAT: the contents, with file and line.  ERR_NOMEM. */
enum err_code data_load(const char *const *paths, size_t npaths, const char *base_dir,
                        const struct data_want *want, const struct dataset *like,
                        struct dataset **out, struct err *e);
/* As data_load, of one open stream, which stays the caller's. */
enum err_code data_load_stream(struct stream *s, const struct data_options *o,
                               const struct data_want *want, const struct dataset *like,
                               struct dataset **out, struct err *e);
/* Numbered examples. */
struct dataset *dataset_numbered(size_t rows);
void dataset_free(struct dataset *d);

/* Fill b with n rows in the order of index (values below d->rows), growing its
 * arrays.  b->epoch: the pass over the data, by which words draw others.  ERR_NOMEM.  Different batches may be filled by several threads. */
enum err_code data_gather(const struct dataset *d, const uint32_t *index, size_t n, struct batch *b,
                          struct err *e);

/* Of a numbered set: examples begin .. end-1, in this pass. */
void data_range(uint64_t epoch, uint64_t begin, uint64_t end, struct batch *b);

/* "60000 examples, 784 features, 10 classes, dense, IDX (FILE)" */
void data_describe(const struct dataset *d, char out[static 256]);

/* The formats of reader.def, for help; name NULL ends them. */
struct data_format {
	const char *name, *title, *help;
};
const struct data_format *data_formats(void);

#endif
