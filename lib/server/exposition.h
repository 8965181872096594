#ifndef SERVER_EXPOSITION_H
#define SERVER_EXPOSITION_H

#include <jansson.h>

#include "base/buf.h"

/* Prometheus' text format: families, and their samples from JSON. */

/* One family: HELP and TYPE, then a sample for each row of a list, from its member `key`. */
struct family {
	const char *name, *type, *help, *key;
};

/* A number or a truth value; null is NaN, and what is absent 0. */
double put_number(const json_t *o, const char *key);
void put_head(struct buf *out, const struct family *f);
/* NAME{label="value"} number; of a value of NULL: NAME number. */
void put_sample(struct buf *out, const char *name, const char *label, const char *value, double number);
void put_label(struct buf *out, const char *name, const char *value);
/* " number" and the end of the line. */
void put_value(struct buf *out, double v);

/* One sample, of the object's member. */
void put_members(struct buf *out, const struct family *f, size_t n, const json_t *o);
/* Each row labelled by its member "id". */
void put_rows(struct buf *out, const struct family *f, size_t n, const json_t *rows, const char *label);
/* With a second label: of each row one sample for each of `values`, from its member of `keys`. */
struct split {
	const char *label;
	const char *const *values, *const *keys;
	size_t n;
};
void put_split(struct buf *out, const struct family *f, const json_t *rows, const char *label, const struct split *s);
/* Of {"le":[..],"counts":[..],"sum":x}: counts are cumulative, the last is all.  A row that has
 * none yet has counted nothing. */
void put_histograms(struct buf *out, const struct family *f, const json_t *rows, const char *label);

#endif
