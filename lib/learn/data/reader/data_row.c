/* SPDX-License-Identifier: ISC */
#include "data/reader/data_row.h"

#include <math.h>

#include "core/mem.h"
#include "core/rng.h"
#include "data/reader/data_num.h"

struct data_row *data_row_begin(struct data_parser *p, size_t size, data_row_fn parse)
{
	struct data_row *r = p->own;

	if (!r) {
		r = p->own = mem_alloc(sizeof *r);
		r->own = mem_alloc(size + 1);
	}
	r->parse = parse;
	r->b = p->build;
	r->s = p->stream;
	r->options = p->options;
	return r;
}

/* The row's arrays are reused from line to line. A line that failed may have left entries. */
enum err_code data_row_line(struct data_parser *p, char *line, size_t len, struct err *e)
{
	struct data_row *r = p->own;

	if (memchr(line, '\0', len))
		return stream_fail(r->s, e, "holds a NUL byte; is this a text file?");
	r->n = 0;
	r->full = false;
	return r->parse(r, line, e);
}

void data_row_release(struct data_parser *p)
{
	struct data_row *r = p->own;

	if (!r)
		return;
	free(r->own);
	free(r->id);
	free(r->val);
	free(r->field);
	free(r);
}

void data_row_add(struct data_row *r, uint64_t id, float val, uint16_t field)
{
	if (r->n == DATA_ROW_ENTRIES) {
		r->full = true;
		return;
	}
	if (r->n == r->room) {
		r->id = mem_grow(r->id, &r->room, r->n + 1, sizeof(*r->id));
		r->val = mem_regrow(r->val, r->room, sizeof(*r->val));
		r->field = mem_regrow(r->field, r->room, sizeof(*r->field));
	}
	r->id[r->n] = id;
	r->val[r->n] = val;
	r->field[r->n++] = field;
}

struct entry {
	uint64_t id;
	size_t place;
	uint16_t field;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->field != y->field)
		return x->field < y->field ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->place < y->place ? -1 : 1;
}

/* Are fields and ids in ascending order, so that none comes again? Most rows are. */
static bool is_row_ascending(const struct data_row *r)
{
	size_t i = 1;

	while (i < r->n &&
	    (r->field[i - 1] < r->field[i] ||
	        (r->field[i - 1] == r->field[i] && r->id[i - 1] < r->id[i])))
		i++;
	return i >= r->n;
}

/* Sorts the entries to find those that come again, adds each to the first of its kind, and closes the
 * gaps. */
void data_row_sum(struct data_row *r)
{
	struct entry *sorted;
	bool *gone;
	size_t left = 0, first = 0;

	if (is_row_ascending(r))
		return;
	sorted = mem_array(r->n, sizeof(*sorted));
	gone = mem_array(r->n, sizeof(*gone));
	for (size_t i = 0; i < r->n; i++)
		sorted[i] = (struct entry){ r->id[i], i, r->field[i] };
	qsort(sorted, r->n, sizeof(*sorted), compare_entries);
	for (size_t i = 1; i < r->n; i++) {
		if (sorted[i].id != sorted[first].id || sorted[i].field != sorted[first].field) {
			first = i;
			continue;
		}
		r->val[sorted[first].place] += r->val[sorted[i].place];
		gone[sorted[i].place] = true;
	}
	for (size_t i = 0; i < r->n; i++) {
		if (gone[i])
			continue;
		r->id[left] = r->id[i];
		r->val[left] = r->val[i];
		r->field[left++] = r->field[i];
	}
	r->n = left;
	free(sorted);
	free(gone);
}

enum err_code data_row_check(const struct stream *s, const float *val, size_t n, struct err *e)
{
	bool finite = true;

	for (size_t i = 0; i < n; i++)
		finite &= isfinite(val[i]) != 0;
	return finite
	    ? ERR_OK
	    : stream_fail(s, e,
	          "the value of a feature, or a sum or product of values, is not a finite "
	          "float32 number");
}

static enum err_code check_row(const struct data_row *r, struct err *e)
{
	if (r->full)
		return stream_fail(r->s, e, "has more than %zu features", DATA_ROW_ENTRIES);
	return data_row_check(r->s, r->val, r->n, e);
}

/* The first id above 32 bits makes the ids of the whole dataset wide; the row is then begun again,
 * because the pointers of the first attempt are of the narrow array. */
enum err_code data_row_end(struct data_row *r, bool with_fields, struct err *e)
{
	uint64_t *wide, most = 0;
	uint16_t *field;
	uint32_t *id;
	float *val;
	size_t room = r->n ? r->n : 1; /* at least one, for an empty row */
	enum err_code rc = check_row(r, e);

	if (!rc)
		rc = data_build_sparse(r->b, r->s, room, &id, &wide, &val, e);
	for (size_t i = 0; !rc && i < r->n; i++)
		most = r->id[i] > most ? r->id[i] : most;
	if (!rc && !wide && most > UINT32_MAX) {
		rc = data_build_widen(r->b, r->s, e);
		if (!rc)
			rc = data_build_sparse(r->b, r->s, room, &id, &wide, &val, e);
	}
	if (!rc && with_fields)
		rc = data_build_fields(r->b, r->s, &field, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < r->n; i++) {
		if (wide)
			wide[i] = r->id[i];
		else
			id[i] = (uint32_t)r->id[i];
		val[i] = r->val[i];
		if (with_fields)
			field[i] = r->field[i];
	}
	data_build_row(r->b, r->n);
	r->n = 0;
	return ERR_OK;
}

/* FNV-1a (Fowler, Noll and Vo), then mixed, because its upper bits alone would be poor. */
uint64_t data_hash(uint64_t salt, const char *p, size_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ rng_mix(salt);

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)p[i]) * UINT64_C(0x100000001b3);
	return rng_mix(h);
}

void data_token(char out[static DATA_SHOWN], const char *p)
{
	size_t n = 0;

	while (p[n] && !data_is_blank(p[n]))
		n++;
	data_shown(out, p, n);
}

bool data_take_index(const char **p, uint64_t *out)
{
	const char *first = *p, *q = first;
	uint64_t w = data_num_load(q), i = 0;
	unsigned n = data_num_run(w);

	if (n < 8) {
		*out = data_num_digits(w, n);
		*p += n;
		return n > 0;
	}

	for (; data_is_digit(*q) && q - first <= 18; q++)
		i = i * 10 + (uint64_t)(*q - '0');
	if (q == first || q - first > 18)
		return false;
	*out = i;
	*p = q;
	return true;
}

bool data_take_value(const char **p, float *out)
{
	float v;
	const char *q = data_num_float(*p, &v);

	if (!q || (*q && !data_is_blank(*q)) || !isfinite(v))
		return false;
	*out = v;
	*p = q;
	return true;
}

bool data_take_number(const char **p, double *out)
{
	double v;
	const char *q = data_num_padded(*p, &v);

	if (!q || (*q && !data_is_blank(*q)) || !isfinite((float)v))
		return false;
	*out = v;
	*p = q;
	return true;
}

bool data_take_feature(struct data_row *r, const char **p, uint64_t id, float *out)
{
	const char *text = *p;
	double v;

	if (!data_take_value(p, out))
		return false;
	if (data_build_watches(r->b, *out) && data_num(text, &v))
		data_build_spread(r->b, id, v);
	return true;
}

enum err_code data_has_label_weights(const struct data_options *o, const struct stream *s,
    bool *out, struct err *e)
{
	*out = o->weight && strcmp(o->weight, "label") == 0;
	return !o->weight || *out
	    ? ERR_OK
	    : err_set(e, ERR_CONFIG,
	          "%s: weight=%.60s: must be label; this format has weights after the labels, "
	          "such as 1:2.5",
	          stream_name(s), o->weight);
}

enum err_code data_take_label_weight(struct data_build *b, const struct stream *s, const char **p,
    struct err *e)
{
	const char *q = *p + 1;
	char text[DATA_SHOWN];
	float weight;

	if (data_take_value(&q, &weight) && weight >= 0) {
		*p = q;
		return data_build_weight(b, s, (double)weight, e);
	}
	data_token(text, *p + 1);
	return stream_fail(s, e, "expected a weight of at least 0 after the label, got \"%s\"",
	    text);
}
