/* SPDX-License-Identifier: ISC */
#include "optim/schedule.h"

#include <stdbool.h>
#include <string.h>

#include "core/num.h"
#include "core/suggest.h"
#include "optim/power.h"

static const struct {
	const char *name, *form, *help;
} kinds[] = {
#define SCHEDULE(name, form, help) { #name, form, help },
#include "optim/schedule.def"
#undef SCHEDULE
};

enum { NKINDS = sizeof kinds / sizeof kinds[0], MAX_FIELDS = 4, MAX_TEXT = 120 };

/* Limit of steps: their sums and conversion to double stay exact. */
static const uint64_t MAX_STEPS = UINT64_C(1000000000000000);

const char *schedule_name(int i)
{
	return i >= 0 && i < NKINDS ? kinds[i].name : NULL;
}

const char *schedule_form(int i)
{
	return i >= 0 && i < NKINDS ? kinds[i].form : NULL;
}

const char *schedule_help(int i)
{
	return i >= 0 && i < NKINDS ? kinds[i].help : NULL;
}

/* The state of parsing, with the texts for an error message. */
struct parse {
	const char *text;              /* all that the user wrote */
	char part[MAX_TEXT];           /* one schedule of it, with NUL in place of ':' */
	const char *field[MAX_FIELDS]; /* field[0] is the name */
	int nfields;
	int kind;
	struct err *e;
};

static enum err_code wrong_form(const struct parse *p)
{
	return err_set(p->e, ERR_CONFIG, "job.schedule \"%s\": write %s", p->text,
	    kinds[p->kind].form);
}

static enum err_code want_steps(const struct parse *p, int i, uint64_t min, uint64_t *out)
{
	uint64_t n;

	if (!num_uint(p->field[i], MAX_STEPS, &n) || n < min)
		return err_set(p->e, ERR_CONFIG,
		    "job.schedule \"%s\": \"%s\" must be a number of steps, from %d to "
		    "%llu, in %s",
		    p->text, p->field[i], (int)min, (unsigned long long)MAX_STEPS,
		    kinds[p->kind].form);
	*out = n;
	return ERR_OK;
}

static enum err_code want_share(const struct parse *p, int i, bool zero, double *out)
{
	double v;

	if (!num_double(p->field[i], &v) || v < 0 || v > 1 || (v == 0 && !zero))
		return err_set(p->e, ERR_CONFIG,
		    "job.schedule \"%s\": \"%s\" must be %s 0 and at most 1, in %s", p->text,
		    p->field[i], zero ? "at least" : "above", kinds[p->kind].form);
	*out = v;
	return ERR_OK;
}

/* Splits p->part into fields and finds its kind. */
static enum err_code split_fields(struct parse *p)
{
	const char *names[NKINDS], *near;

	p->nfields = 0;
	for (char *s = p->part; s != NULL;) {
		char *colon = strchr(s, ':');

		if (p->nfields == MAX_FIELDS)
			return err_set(p->e, ERR_CONFIG, "job.schedule \"%s\": too many colons",
			    p->text);
		if (colon != NULL)
			*colon++ = '\0';
		p->field[p->nfields++] = s;
		s = colon;
	}
	for (p->kind = 0; p->kind < NKINDS; p->kind++) {
		if (strcmp(kinds[p->kind].name, p->field[0]) == 0)
			return ERR_OK;
		names[p->kind] = kinds[p->kind].name;
	}
	near = suggest(p->field[0], names, NKINDS);
	return err_set(p->e, ERR_CONFIG, "job.schedule \"%s\": no schedule is named \"%s\"%s%s%s",
	    p->text, p->field[0], near != NULL ? "; did you mean " : "", near != NULL ? near : "",
	    near != NULL ? "?" : "");
}

static enum err_code parse_wsd(const struct parse *p, struct schedule *s)
{
	enum err_code rc;

	if (s->warmup > 0)
		return err_set(p->e, ERR_CONFIG,
		    "job.schedule \"%s\": wsd has its own warm-up; leave out the first one",
		    p->text);
	if (p->nfields != 4)
		return wrong_form(p);
	if ((rc = want_steps(p, 1, 0, &s->warmup)) != ERR_OK ||
	    (rc = want_steps(p, 2, 0, &s->length)) != ERR_OK)
		return rc;
	return want_steps(p, 3, 1, &s->decay);
}

/* Parses one schedule without a warm-up before it, in p->part. */
static enum err_code parse_part(struct parse *p, struct schedule *s)
{
	enum err_code rc = split_fields(p);

	if (rc != ERR_OK)
		return rc;
	s->kind = (enum schedule_kind)p->kind;
	switch (s->kind) {
	case SCHEDULE_constant:
		return p->nfields == 1 ? ERR_OK : wrong_form(p);
	case SCHEDULE_step:
		if (p->nfields != 3)
			return wrong_form(p);
		if ((rc = want_steps(p, 1, 1, &s->length)) != ERR_OK)
			return rc;
		return want_share(p, 2, false, &s->value);
	case SCHEDULE_cosine:
		if (p->nfields != 2 && p->nfields != 3)
			return wrong_form(p);
		if ((rc = want_steps(p, 1, 1, &s->length)) != ERR_OK || p->nfields == 2)
			return rc;
		return want_share(p, 2, true, &s->value);
	case SCHEDULE_warmup:
		if (p->nfields != 2 || s->warmup > 0)
			return wrong_form(p);
		s->kind = SCHEDULE_constant;
		return want_steps(p, 1, 1, &s->warmup);
	case SCHEDULE_wsd:
		break;
	}
	return parse_wsd(p, s);
}

static enum err_code load_part(struct parse *p, const char *from, size_t n)
{
	if (n >= sizeof p->part)
		return err_set(p->e, ERR_CONFIG, "job.schedule is longer than %d characters",
		    MAX_TEXT - 1);
	memcpy(p->part, from, n);
	p->part[n] = '\0';
	return ERR_OK;
}

/* Both parts are parsed into one struct: a warm-up sets `warmup`, and the second part sets the kind
 * and its numbers. *s changes only at the end. */
enum err_code schedule_parse(const char *text, struct schedule *s, struct err *e)
{
	struct parse p = { .text = text, .e = e };
	struct schedule out = { .kind = SCHEDULE_constant };
	const char *plus = strchr(text, '+');
	enum err_code rc;

	if (plus != NULL) {
		if ((rc = load_part(&p, text, (size_t)(plus - text))) != ERR_OK ||
		    (rc = parse_part(&p, &out)) != ERR_OK)
			return rc;
		if (p.kind != SCHEDULE_warmup)
			return err_set(e, ERR_CONFIG,
			    "job.schedule \"%s\": only warmup:STEPS can be before +", text);
		text = plus + 1;
	}
	if ((rc = load_part(&p, text, strlen(text))) != ERR_OK ||
	    (rc = parse_part(&p, &out)) != ERR_OK)
		return rc;
	*s = out;
	return ERR_OK;
}

/* (1 + cos(pi x)) / 2 for x in 0..1, as 1/2 - sin(pi (x - 1/2)) / 2 by Taylor's
 * series; the first term left out is below 1e-17. power.h says why not libm. */
static double half_cosine(double x)
{
	double u = (x - 0.5) * 3.14159265358979323846, sum = 1;

	for (int k = 21; k >= 3; k -= 2)
		sum = 1 - u * u / (k * (k - 1)) * sum;
	return 0.5 - 0.5 * u * sum;
}

/* A cosine stays at its minimum, and wsd at 0, once they have ended. */
double schedule_factor(const struct schedule *s, uint64_t step)
{
	uint64_t gone;

	if (step < s->warmup)
		return (double)(step + 1) / (double)s->warmup;
	step -= s->warmup;
	switch (s->kind) {
	case SCHEDULE_constant:
	case SCHEDULE_warmup:
		return 1;
	case SCHEDULE_step:
		return power_by_squaring(s->value, step / s->length);
	case SCHEDULE_cosine:
		if (step >= s->length)
			return s->value;
		return s->value + (1 - s->value) * half_cosine((double)step / (double)s->length);
	case SCHEDULE_wsd:
		if (step < s->length)
			return 1;
		gone = step - s->length;
		return gone >= s->decay ? 0 : (double)(s->decay - gone) / (double)s->decay;
	}
	return 1;
}
