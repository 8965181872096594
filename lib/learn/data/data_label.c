/* SPDX-License-Identifier: ISC */
#include "data/data_label.h"

#include <math.h>

#include "core/buf.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/reader/data_num.h"
#include "data/reader/data_row.h"
#include "data/table/data_spread.h"
#include "data/table/data_schema.h"

#define SHOWN 80 /* bytes of a label in a message, escaped */

struct class
{
	double value; /* NAN: the class is a name */
	char *name;
	uint32_t number; /* in order of appearance */
};

struct data_label {
	struct data_want want;
	bool frozen;  /* accepts only the classes of the training data */
	bool sampled; /* which are the labels of some of its examples */
	struct class *class;
	uint32_t n;
	size_t class_room;
	uint32_t *slot; /* hash table of class numbers + 1; 0 is free */
	uint32_t mask;
	float *y;      /* real targets, minus `origin` */
	double *exact; /* the same as they were read, if wanted; NULL: they are not known */
	struct data_spread *spread; /* by target, of the real targets of all rows */
	size_t spreads;
	double *origin; /* by target (data_column.origin); NULL: all 0 */
	bool wants_exact;
	int32_t *code;     /* class numbers */
	bool added;        /* the last label was the first one of its class */
	size_t rows, room; /* complete rows; targets that there is memory for */
	size_t targets;    /* of a row */
	size_t target;     /* the one that comes next */
	size_t given;      /* how many the row has that is not complete */
};

static uint64_t hash_class(double value, const char *name)
{
	return isnan(value) ? data_hash(1, name, strlen(name))
	                    : data_hash(0, (const char *)&value, sizeof(value));
}

/* The slot of the hash table that holds the class, or the free one where it belongs. */
static uint32_t *find_class_slot(const struct data_label *l, double value, const char *name)
{
	uint32_t i = (uint32_t)hash_class(value, name) & l->mask;
	const struct class *c;

	for (;; i = (i + 1) & l->mask) {
		if (l->slot[i] == 0)
			return &l->slot[i];
		c = &l->class[l->slot[i] - 1];
		if (isnan(value) ? isnan(c->value) && strcmp(c->name, name) == 0
		                 : c->value == value)
			return &l->slot[i];
	}
}

static void grow_class_table(struct data_label *l)
{
	uint32_t slots = l->mask ? 2 * (l->mask + 1) : 64;

	free(l->slot);
	l->slot = mem_array(slots, sizeof(*l->slot));
	l->mask = slots - 1;
	for (uint32_t i = 0; i < l->n; i++)
		*find_class_slot(l, l->class[i].value, l->class[i].name) = i + 1;
}

/* Adds a class and returns its number in order of appearance. Numbers get one spelling, so that
 * "+1" and "1.0" share the name "1". At most half of the hash table is used. */
static uint32_t append_class(struct data_label *l, double value, const char *name)
{
	char text[32];

	if (2 * (l->n + 1) > l->mask)
		grow_class_table(l);
	l->class = mem_grow(l->class, &l->class_room, l->n + 1, sizeof(*l->class));
	if (!isnan(value)) {
		num_format(value, text);
		name = text;
	}
	l->class[l->n] = (struct class){ value, mem_strdup(name), l->n };
	*find_class_slot(l, value, name) = l->n + 1;
	return l->n++;
}

/* The values that the targets are relative to, by their numbers; NULL: all to 0. */
static double *list_origins(const struct data_schema *s)
{
	size_t n = data_schema_targets(s);
	double *origin = mem_array(n + 1, sizeof *origin);
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		const struct data_column *c = data_schema_label(s, i);

		origin[i] = c ? c->origin : 0;
		any |= origin[i] != 0;
	}
	if (any)
		return origin;
	free(origin);
	return NULL;
}

struct data_label *data_label_new(const struct data_want *want, const struct dataset *like)
{
	struct data_label *l = mem_alloc(sizeof(*l));

	l->want = *want;
	l->targets = l->spreads = 1;
	l->spread = mem_array(1, sizeof *l->spread);
	grow_class_table(l);
	l->wants_exact = !like && want->shifts_targets;
	if (like && like->schema && !like->classes)
		l->origin = list_origins(like->schema);
	if ((want->classes || want->two) && like) {
		for (size_t i = 0; i < like->classes; i++)
			append_class(l, like->class_value[i], like->class_name[i]);
		l->frozen = true;
		l->sampled = like->reading.sampled;
	}
	return l;
}

/* Targets of any kind take four bytes a row. */
void data_label_reuse(struct data_label *l, struct dataset *old)
{
	void *p = old->y ? (void *)old->y : (void *)old->label;

	if (!p || (old->y && old->label) || l->y || l->code)
		return;
	if (l->want.classes || l->want.two)
		l->code = p;
	else
		l->y = p;
	l->wants_exact = false;
	l->room = old->memory.label_room;
	old->y = NULL;
	old->label = NULL;
}

void data_label_free(struct data_label *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < l->n; i++)
		free(l->class[i].name);
	free(l->class);
	free(l->slot);
	free(l->y);
	free(l->code);
	free(l->exact);
	free(l->spread);
	free(l->origin);
	free(l);
}

bool data_label_wants_words(const struct data_label *l)
{
	return l->want.words;
}

bool data_label_wants_pairs(const struct data_label *l)
{
	return l->want.pairs > 0;
}

bool data_label_is_ignored(const struct data_label *l)
{
	return l->want.any;
}

enum err_code data_label_set_targets(struct data_label *l, const struct stream *s, size_t n,
    struct err *e)
{
	if (n > 1 && (l->want.classes || l->want.two))
		return err_set(e, ERR_CONFIG,
		    "%s: label= names %zu columns, but a model of classes has one label; for several "
		    "real targets use job.model linear, or mlp with job.loss squared",
		    stream_name(s), n);
	l->targets = n;
	if (n > l->spreads) {
		l->spread = mem_regrow(l->spread, n, sizeof *l->spread);
		memset(l->spread + l->spreads, 0, (n - l->spreads) * sizeof *l->spread);
		l->spreads = n;
	}
	return ERR_OK;
}

void data_label_select(struct data_label *l, size_t k)
{
	l->target = k;
}

size_t data_label_count(const struct data_label *l)
{
	return l->rows;
}

static void escape_label(double value, const char *name, char out[static SHOWN])
{
	char text[32];

	if (isnan(value)) {
		log_escape(out, SHOWN, name, strlen(name));
	} else {
		num_format(value, text);
		snprintf(out, SHOWN, "%s", text);
	}
}

/* The model is of the wrong kind for these labels, which is a fault of the configuration. */
static enum err_code fail_kind(struct err *e)
{
	if (e)
		e->code = ERR_CONFIG;
	return ERR_CONFIG;
}

/* A new label: checks whether one more class is possible. */
static enum err_code check_new(const struct data_label *l, const struct stream *s, double value,
    const char *name, struct err *e)
{
	const unsigned most = l->want.many ? DATA_LABEL_CLASSES_MANY : DATA_LABEL_CLASSES_MAX;
	struct buf list = BUF_INIT;
	char text[SHOWN];
	enum err_code rc;

	escape_label(value, name, text);
	if (l->frozen) {
		for (uint32_t i = 0; i < l->n && i < 8; i++)
			buf_printf(&list, "%s%.20s", i ? ", " : "", l->class[i].name);
		rc = l->sampled
		    ? stream_fail(s, e,
		          "label \"%s\" does not occur in the sample of the data that defines "
		          "the classes, which has %s%s; shuffle the examples, or raise "
		          "job.data_memory so that all data are in memory",
		          text, (const char *)list.data, l->n > 8 ? " ..." : "")
		    : stream_fail(s, e,
		          "label \"%s\" does not occur in the training data, whose %u class%s %s%s",
		          text, l->n, l->n == 1 ? " is" : "es are", (const char *)list.data,
		          l->n > 8 ? " ..." : "");
		buf_release(&list);
		return rc;
	}
	if (!isnan(value) && value != floor(value)) {
		(void)stream_fail(s, e,
		    "labels look like real numbers (%s), not classes; use job.model linear", text);
		return fail_kind(e);
	}
	if (l->want.two && l->n == 2)
		return stream_fail(s, e,
		    "label \"%s\" is a third class after \"%.20s\" and \"%.20s\", but the model "
		    "needs two; use job.model softmax",
		    text, l->class[0].name, l->class[1].name);
	if (l->n == most) {
		(void)stream_fail(s, e,
		    "labels look like real numbers (more than %u different ones), not "
		    "classes; use job.model linear",
		    most);
		return fail_kind(e);
	}
	return ERR_OK;
}

/* Makes room for the targets of one more row by doubling. The number of rows comes from the file,
 * so a lack of memory is an error and does not abort. */
static enum err_code reserve_label(struct data_label *l, struct err *e)
{
	bool classes = l->want.classes || l->want.two;
	size_t needed = (l->rows + 1) * l->targets, room = l->room ? 2 * l->room : 1024;
	void *p;

	if (needed <= l->room)
		return ERR_OK;
	room = room > needed ? room : needed;
	p = realloc(classes ? (void *)l->code : (void *)l->y,
	    room * (classes ? sizeof(*l->code) : sizeof(*l->y)));
	if (!p)
		return err_set(e, ERR_NOMEM, "no memory for the labels of %zu examples",
		    room / l->targets);
	if (classes)
		l->code = p;
	else
		l->y = p;
	l->room = room;
	if (!classes && l->wants_exact && !(l->exact = realloc(l->exact, room * sizeof *l->exact)))
		return err_set(e, ERR_NOMEM, "no memory for the labels of %zu examples",
		    room / l->targets);
	return ERR_OK;
}

/* The class of a label of evaluation data that ends with a dot, where the training data have it
 * without one, as in adult.test; 0: none. */
static uint32_t find_without_dot(const struct data_label *l, const char *name)
{
	size_t n = strlen(name);
	char *copy;
	uint32_t number;

	if (!l->frozen || n < 2 || name[n - 1] != '.')
		return 0;
	copy = mem_printf("%.*s", (int)n - 1, name);
	number = *find_class_slot(l, (double)NAN, copy);
	free(copy);
	return number;
}

/* Notes that the row has had one more of its targets. */
static void end_target(struct data_label *l)
{
	if (++l->given == l->targets) {
		l->given = 0;
		l->rows++;
	}
}

/* Appends a real target, or the number of its class. find_class_slot returns the place in the hash
 * table where the class is or would stand; 0 there means that the class is new, which check_new
 * refuses for evaluation data. */
static enum err_code append_label(struct data_label *l, const struct stream *s, double value,
    const char *name, struct err *e)
{
	enum err_code rc = reserve_label(l, e);
	uint32_t number;

	if (rc != ERR_OK)
		return rc;
	if (!l->want.classes && !l->want.two) {
		size_t at = l->rows * l->targets + l->target;

		if (l->exact)
			l->exact[at] = value;
		data_spread_add(&l->spread[l->target], value);
		l->y[at] = (float)(value - (l->origin ? l->origin[l->target] : 0));
		end_target(l);
		return ERR_OK;
	}
	number = *find_class_slot(l, value, name);
	if (number == 0 && isnan(value))
		number = find_without_dot(l, name);
	l->added = number == 0;
	if (number == 0) {
		rc = check_new(l, s, value, name, e);
		if (rc != ERR_OK)
			return rc;
		number = append_class(l, value, name) + 1;
	}
	l->code[l->rows] = (int32_t)number - 1;
	end_target(l);
	return ERR_OK;
}

/* Classes have the numbers of the training data, in these labels as in d. */
enum err_code data_label_append(struct data_label *l, const struct dataset *d, struct err *e)
{
	size_t width = l->targets = d->targets;
	enum err_code rc = ERR_OK;

	free(l->exact);
	l->exact = NULL;
	l->wants_exact = false;
	for (size_t r = 0; !rc && r < d->rows; r++) {
		rc = reserve_label(l, e);
		if (rc)
			break;
		if (l->want.classes)
			l->code[l->rows] = d->label[r];
		else if (l->want.two)
			l->code[l->rows] = (int32_t)d->y[r];
		else
			memcpy(l->y + l->rows * width, d->y + r * width, width * sizeof *l->y);
		l->rows++;
	}
	return rc;
}

/* The class that was added last is in no other's way in the hash table, so its slot becomes free. */
void data_label_drop(struct data_label *l, size_t n)
{
	struct class *c;

	l->given = 0;
	if (l->rows <= n)
		return;
	l->rows = n;
	if (!l->added)
		return;
	c = &l->class[l->n - 1];
	*find_class_slot(l, c->value, c->name) = 0;
	free(c->name);
	l->n--;
	l->added = false;
}

/* Counts a label that is ignored. False: labels are wanted. */
static bool ignore_label(struct data_label *l)
{
	l->rows += l->want.any;
	return l->want.any;
}

enum err_code data_label_number(struct data_label *l, const struct stream *s, double v,
    struct err *e)
{
	char text[32];

	if (ignore_label(l))
		return ERR_OK;
	if (!isfinite((float)v)) {
		snprintf(text, sizeof(text), "%g", v);
		return stream_fail(s, e, "label %s is not a finite float32 number", text);
	}
	/* -0 and 0 are one class. */
	return append_label(l, s, v + 0.0, NULL, e);
}

bool data_label_is_code(const struct data_label *l, const char *p)
{
	if ((!l->want.classes && !l->want.two) || p[0] != '0' || p[1] < '0' || p[1] > '9')
		return false;
	p += strspn(p, "0123456789");
	return *p != '.' && *p != 'e' && *p != 'E';
}

enum err_code data_label_text(struct data_label *l, const struct stream *s, const char *text,
    struct err *e)
{
	char out[SHOWN];
	double v;

	if (ignore_label(l))
		return ERR_OK;
	/* Models of before this rule have the number. */
	if (data_label_is_code(l, text) && (!l->frozen || *find_class_slot(l, (double)NAN, text)))
		return append_label(l, s, NAN, text, e);
	if (data_num_all(text, &v))
		return data_label_number(l, s, v, e);
	if (!*text)
		return stream_fail(s, e, "the label is empty");
	if (l->want.classes || l->want.two)
		return append_label(l, s, NAN, text, e);
	escape_label(NAN, text, out);
	return stream_fail(s, e,
	    "expected a number as label, got \"%s\"; for classes use job.model softmax", out);
}

static int compare_class_values(const void *a, const void *b)
{
	const struct class *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

static int compare_class_names(const void *a, const void *b)
{
	const struct class *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Changes the rows' class numbers from order of appearance to sorted order. */
static void sort_classes(struct data_label *l)
{
	uint32_t *rank = mem_array(l->n, sizeof(*rank));
	bool names = false;

	for (uint32_t i = 0; i < l->n; i++)
		names |= isnan(l->class[i].value);
	qsort(l->class, l->n, sizeof(*l->class),
	    names ? compare_class_names : compare_class_values);
	for (uint32_t i = 0; i < l->n; i++)
		rank[l->class[i].number] = i;
	for (size_t i = 0; i < l->rows; i++)
		l->code[i] = (int32_t)rank[l->code[i]];
	free(rank);
}

/* Makes floats of n numbers, in the same memory. */
static float *numbers_of_codes(int32_t *code, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float v = (float)code[i];

		memcpy(&code[i], &v, sizeof v);
	}
	return (float *)(void *)code;
}

const struct data_spread *data_label_spread(const struct data_label *l, size_t k)
{
	return k < l->spreads ? &l->spread[k] : NULL;
}

const double *data_label_exact(const struct data_label *l)
{
	return l->exact;
}

/* Names of classes move to the dataset, which frees them. Classes of evaluation data (frozen) keep
 * the numbers of the training data and are not sorted again. */
enum err_code data_label_finish(struct data_label *l, struct dataset *d, struct err *e)
{
	d->memory.label_room = l->room;
	d->targets = l->targets;
	if (!l->want.classes && !l->want.two) {
		d->y = l->y;
		l->y = NULL;
		return ERR_OK;
	}
	if (!l->frozen)
		sort_classes(l);
	if (l->n < 2)
		return err_set(e, ERR_FORMAT,
		    "%s: all labels are \"%.40s\"; a model of classes needs at least two classes",
		    d->source, l->class[0].name);
	d->class_name = mem_array(l->n, sizeof(*d->class_name));
	d->class_value = mem_array(l->n, sizeof(*d->class_value));
	d->classes = l->n;
	for (uint32_t i = 0; i < l->n; i++) {
		d->class_value[i] = l->class[i].value;
		d->class_name[i] = l->class[i].name;
		l->class[i].name = NULL;
	}
	if (l->want.two)
		d->y = numbers_of_codes(l->code, l->rows);
	else
		d->label = l->code;
	l->code = NULL;
	return ERR_OK;
}
