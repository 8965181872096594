/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_EXPOSITION_H
#define COORDINATOR_EXPOSITION_H

#include "core/buf.h"
#include "core/json.h"

/* Writes Prometheus' text format from JSON objects and lists of rows. No state, no locks: every
 * function appends to `out`. */

/* A metric family: HELP and TYPE, then a sample for each row of a list, taken from the row's
 * member `key`. */
struct family {
	const char *name, *type, *help, *key;
};

/* The number in a member; true is 1, null is NaN, and a missing member is 0. */
double exposition_put_number(const json_t *o, const char *key);
/* The HELP and TYPE lines of a family. */
void exposition_put_head(struct buf *out, const struct family *f);
/* NAME{label="value"} NUMBER, or NAME NUMBER when value is NULL. */
void exposition_put_sample(struct buf *out, const char *name, const char *label, const char *value,
    double number);
/* LABEL="value", with the value escaped and made valid UTF-8. */
void exposition_put_label(struct buf *out, const char *name, const char *value);

/* n families with one sample each, from the members of the object o. */
void exposition_put_members(struct buf *out, const struct family *f, size_t n, const json_t *o);
/* n families with a sample for each row, labelled by the row's member "id". */
void exposition_put_rows(struct buf *out, const struct family *f, size_t n, const json_t *rows,
    const char *label);
/* A second label: each row has a sample for each of `values`, from its member of the same place
 * in `keys`. */
struct split {
	const char *label;
	const char *const *values, *const *keys;
	size_t n;
};
void exposition_put_split(struct buf *out, const struct family *f, const json_t *rows,
    const char *label, const struct split *s);
/* Histograms from objects {"le":[..],"counts":[..],"sum":x} in each row's member f->key. Counts
 * are cumulative, the last one is the total. A row without the member has counted nothing. */
void exposition_put_histograms(struct buf *out, const struct family *f, const json_t *rows,
    const char *label);

#endif
