/* SPDX-License-Identifier: ISC */
#include "data/data_form.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "core/num.h"
#include "data/data_num.h"
#include "data/data_row.h"

#define NUMBER_MAX 64u /* bytes of a number, at most */
/* Words among numbers are categories when each comes so often, on average, and there is one for so many
 * numbers at least. */
#define WORDS_REPEAT 3u
#define WORDS_AMONG  100u
/* With fewer cells that are numbers, it is too early to say. */
#define WORDS_NUMBERS 20u

const char *const data_form_name[DATA_FORMS] = { "plain", "marked", "comma", "date" };

bool data_form_is_missing(const char *cell)
{
	static const char *const mark[] = { "", "?", "NA", "N/A", "#N/A", "<NA>", "nan", "null",
		"none", "-", "." };

	for (size_t i = 0; i < sizeof mark / sizeof mark[0]; i++)
		if (strcasecmp(cell, mark[i]) == 0)
			return true;
	return false;
}

/* ---- numbers with signs ---- */

/* The length of the sign of a currency, of percent, or of a blank at p; 0: there is none. */
static size_t mark_length(const char *p)
{
	static const char *const mark[] = { " ", "$", "%", "\xc2\xa0", "\xe2\x82\xac", "\xc2\xa3",
		"\xc2\xa5", "\xe2\x80\xaf" };

	for (size_t i = 0; i < sizeof mark / sizeof mark[0]; i++)
		if (strncmp(p, mark[i], strlen(mark[i])) == 0)
			return strlen(mark[i]);
	return 0;
}

static const char *skip_marks(const char *p)
{
	for (size_t n; (n = mark_length(p)) > 0; p += n)
		;
	return p;
}

/* The length of a sign that groups digits at p; 0: there is none. */
static size_t group_length(const char *p, char decimal)
{
	static const char *const blank[] = { " ", "\xc2\xa0", "\xe2\x80\xaf", "'" };

	if (*p == (decimal == ',' ? '.' : ','))
		return 1;
	for (size_t i = 0; i < sizeof blank / sizeof blank[0]; i++)
		if (strncmp(p, blank[i], strlen(blank[i])) == 0)
			return strlen(blank[i]);
	return 0;
}

static size_t digits_at(const char *p)
{
	return strspn(p, "0123456789");
}

/* Copies the whole digits at *p without the signs that group them, of which each has three digits
 * behind it. */
static bool copy_whole(const char **p, char decimal, char out[static NUMBER_MAX], size_t *n)
{
	size_t run = digits_at(*p), group;
	bool grouped = run > 0 && run <= 3;

	for (;;) {
		if (*n + run + 2 >= NUMBER_MAX)
			return false;
		memcpy(out + *n, *p, run);
		*n += run;
		*p += run;
		group = grouped ? group_length(*p, decimal) : 0;
		if (!group || digits_at(*p + group) != 3)
			return true;
		*p += group;
		run = 3;
	}
}

/* Rewrites a number with signs as a plain one. */
static bool take_marked(const char *p, char decimal, double *out)
{
	char plain[NUMBER_MAX];
	size_t n = 0, rest;

	p = skip_marks(p);
	if (*p == '-' || *p == '+')
		plain[n++] = *p++;
	p = skip_marks(p);
	if (!copy_whole(&p, decimal, plain, &n))
		return false;
	if (*p == decimal) {
		plain[n++] = '.';
		p++;
	}
	/* A fraction and an exponent. */
	rest = strspn(p, "0123456789eE+-");
	if (n + rest >= NUMBER_MAX)
		return false;
	memcpy(plain + n, p, rest);
	plain[n + rest] = '\0';
	return *skip_marks(p + rest) == '\0' && data_num_all(plain, out);
}

/* ---- dates ---- */

/* Parses exactly n digits at *p, between least and most. */
static bool take_part(const char **p, size_t n, int least, int most, int *out)
{
	*out = 0;
	for (size_t i = 0; i < n; i++) {
		if (!data_is_digit((*p)[i]))
			return false;
		*out = *out * 10 + ((*p)[i] - '0');
	}
	*p += n;
	return *out >= least && *out <= most;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar: years are counted from March, so that the
 * day that some years have more is the last one. */
static double days_since_1970(int year, int month, int day)
{
	int y = month > 2 ? year : year - 1, m = (month + 9) % 12;

	return 365.0 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

/* "+02:00", "-0530" or "Z": the part of a day that local time is ahead. */
static bool take_zone(const char **p, double *out)
{
	int sign = **p == '-' ? -1 : 1, hours, minutes = 0;

	*out = 0;
	if (**p == 'Z') {
		++*p;
		return true;
	}
	if (**p != '+' && **p != '-')
		return true;
	++*p;
	if (!take_part(p, 2, 0, 23, &hours))
		return false;
	*p += **p == ':';
	if (**p && !take_part(p, 2, 0, 59, &minutes))
		return false;
	*out = sign * (hours / 24.0 + minutes / 1440.0);
	return true;
}

/* "T12:30", "12:30:05.25", with a zone. */
static bool take_time(const char *p, double *out)
{
	int hour, minute, second = 0;
	double part = 0, ahead;

	if (!take_part(&p, 2, 0, 24, &hour) || *p++ != ':' || !take_part(&p, 2, 0, 59, &minute))
		return false;
	if (*p == ':') {
		p++;
		if (!take_part(&p, 2, 0, 60, &second))
			return false;
		if (*p == '.') {
			double unit = 0.1;

			for (p++; data_is_digit(*p); p++, unit /= 10)
				part += (*p - '0') * unit;
		}
	}
	if (!take_zone(&p, &ahead) || *p)
		return false;
	*out = hour / 24.0 + minute / 1440.0 + (second + part) / 86400.0 - ahead;
	return true;
}

static bool take_date(const char *p, double *out)
{
	int year, month, day;
	double time = 0;
	char sign;

	if (!take_part(&p, 4, 0, 9999, &year))
		return false;
	sign = *p++;
	if ((sign != '-' && sign != '/') || !take_part(&p, 2, 1, 12, &month) || *p++ != sign ||
	    !take_part(&p, 2, 1, 31, &day))
		return false;
	if (*p == 'T' || *p == ' ') {
		if (!take_time(p + 1, &time))
			return false;
	} else if (*p) {
		return false;
	}
	*out = days_since_1970(year, month, day) + time;
	return true;
}

bool data_form_number(enum data_form form, const char *text, double *out)
{
	switch (form) {
	case DATA_MARKED:
		return data_num_all(text, out) || take_marked(text, '.', out);
	case DATA_COMMA:
		return take_marked(text, ',', out);
	case DATA_DATE:
		return take_date(text, out);
	default:
		return data_num_all(text, out);
	}
}

/* ---- the first cells ---- */

void data_look_add_number(struct data_look *l)
{
	l->cells++;
	for (int f = 0; f < DATA_FORMS; f++)
		l->numbers[f] += f != DATA_DATE;
}

void data_look_add_word(struct data_look *l, const char *word)
{
	uint64_t h = data_hash(0, word, strlen(word));
	size_t i = 0;

	l->cells++;
	l->words++;
	while (i < l->different && l->seen[i] != h)
		i++;
	if (i == l->different && l->different < sizeof l->seen / sizeof l->seen[0])
		l->seen[l->different++] = h;
}

void data_look_add(struct data_look *l, const char *cell)
{
	bool number = false;
	double v;

	if (data_form_is_missing(cell)) {
		l->cells++;
		l->missing++;
		return;
	}
	for (int f = 0; f < DATA_FORMS; f++)
		if (data_form_number((enum data_form)f, cell, &v)) {
			l->numbers[f]++;
			number = true;
		}
	if (number)
		l->cells++;
	else
		data_look_add_word(l, cell);
}

struct data_column_look data_look_decide(const struct data_look *l, bool comma)
{
	const enum data_form order[DATA_FORMS] = { DATA_PLAIN, comma ? DATA_COMMA : DATA_MARKED,
		comma ? DATA_MARKED : DATA_COMMA, DATA_DATE };
	struct data_column_look c = { .form = DATA_PLAIN };
	size_t n, others;

	for (int i = 0; i < DATA_FORMS; i++)
		if (l->numbers[order[i]] > l->numbers[c.form])
			c.form = order[i];
	n = l->numbers[c.form];
	others = l->cells - l->missing - n;
	c.text = others > n;
	c.words = !c.text && others > 0 && others == l->words && n >= WORDS_NUMBERS &&
	    l->words >= WORDS_REPEAT * l->different && l->words * WORDS_AMONG >= n;
	if (c.text)
		c.form = DATA_PLAIN;
	return c;
}
