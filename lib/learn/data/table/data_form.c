/* SPDX-License-Identifier: ISC */
#include "data/table/data_form.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/num.h"
#include "data/reader/data_num.h"
#include "data/reader/data_row.h"

#define MINUS       "\xe2\x88\x92" /* of typesetters, U+2212 */
#define NUMBER_MAX  64u            /* bytes of a number, at most */
#define MISSING_MAX 4u             /* bytes of a mark for a missing number, at most */
/* Words among numbers are categories when each comes so often, on average, and there is one for this many
 * numbers at least. */
#define WORDS_REPEAT 3u
#define WORDS_AMONG  100u
/* With fewer cells that are numbers, it is too early to say. */
#define WORDS_NUMBERS 20u

/* In a column with a unit, at most one in this many cells may be a word. */
#define WORDS_IN_UNITS 10u

const char *const data_form_name[DATA_FORMS] = { "plain", "marked", "comma", "date", "month", "day",
	"time" };

bool data_form_is_time(enum data_form form)
{
	return form == DATA_DATE || form == DATA_MONTH || form == DATA_DAY || form == DATA_TIME;
}

static const char *const missing_mark[] = { "", "?", "NA", "N/A", "n.a.", "#N/A", "<NA>", "nan",
	"NaT", "null", "\\N", "none", "-", "--", "." };

const char *data_form_missing(size_t i)
{
	return i < sizeof missing_mark / sizeof *missing_mark ? missing_mark[i] : NULL;
}

bool data_form_is_missing(const char *cell)
{
	const char *mark;

	if (strnlen(cell, MISSING_MAX + 1) > MISSING_MAX)
		return false;
	for (size_t i = 0; (mark = data_form_missing(i)) != NULL; i++)
		if (strcasecmp(cell, mark) == 0)
			return true;
	return false;
}

/* ---- numbers with signs ---- */

/* The length of the sign or code of a currency, of the sign of percent, or of a blank at p; 0: there is
 * none. */
static size_t mark_length(const char *p)
{
	static const char *const mark[] = { " ", "$", "%", "\xc2\xa0", "\xe2\x82\xac", "\xc2\xa3",
		"\xc2\xa5", "\xe2\x80\xaf", "\xe2\x82\xb9", "USD", "EUR", "GBP", "JPY", "CHF",
		"CNY", "INR", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK", "PLN", "CZK", "BRL", "MXN",
		"ZAR" };

	/* Nearly all numbers are plain, so this is what most calls return. */
	if (*p == '\0' || data_is_digit(*p))
		return 0;
	for (size_t i = 0; i < sizeof mark / sizeof mark[0]; i++)
		if (*p == *mark[i] && strncmp(p, mark[i], strlen(mark[i])) == 0)
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
		if (*p == *blank[i] && strncmp(p, blank[i], strlen(blank[i])) == 0)
			return strlen(blank[i]);
	return 0;
}

static size_t digits_at(const char *p)
{
	size_t n = 0;

	while (data_is_digit(p[n]))
		n++;
	return n;
}

/* Copies the whole digits at *p without the signs that group them, of which each has three digits
 * after it. */
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
	bool negative;

	p = skip_marks(p);
	negative = *p == '(';
	p = skip_marks(p + negative);
	if (negative) {
		plain[n++] = '-';
	} else if (*p == '-' || *p == '+') {
		plain[n++] = *p++;
	} else if (*p == *MINUS && strncmp(p, MINUS, strlen(MINUS)) == 0) {
		plain[n++] = '-';
		p += strlen(MINUS);
	}
	p = skip_marks(p);
	if (!copy_whole(&p, decimal, plain, &n))
		return false;
	if (*p == decimal) {
		plain[n++] = '.';
		p++;
	}
	/* A fraction and an exponent. */
	rest = strspn(p, "0123456789eE+-");
	/* The code of a currency may begin with the letter of an exponent. */
	while (rest > 0 && !data_is_digit(p[rest - 1]))
		rest--;
	if (n + rest >= NUMBER_MAX)
		return false;
	memcpy(plain + n, p, rest);
	plain[n + rest] = '\0';
	p = skip_marks(p + rest);
	if (negative && *p++ != ')')
		return false;
	return *skip_marks(p) == '\0' && data_num_all(plain, out);
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
	int64_t y = month > 2 ? year : year - 1, m = (month + 9) % 12;
	int64_t days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;

	return (double)days;
}

/* Has the Gregorian calendar this day? */
static bool is_day(int year, int month, int day)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return month >= 1 && month <= 12 && day >= 1 &&
	    day <= days[month - 1] + (month == 2 && leap);
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

/* Parses 1 to `most` digits at *p. */
static bool parse_digits(const char **p, size_t most, int *out)
{
	size_t n = digits_at(*p);

	return n > 0 && n <= most && take_part(p, n, 0, INT32_MAX, out);
}

/* " PM" or "am" at *p moves the hours of a clock that has 12. */
static bool take_half(const char **p, int *hour)
{
	const char *q = *p + (**p == ' ');
	bool late = (*q | 0x20) == 'p';

	if (((*q | 0x20) != 'a' && !late) || (q[1] | 0x20) != 'm')
		return true;
	*p = q + 2;
	if (*hour < 1 || *hour > 12)
		return false;
	*hour = *hour % 12 + (late ? 12 : 0);
	return true;
}

/* "12:30", "12:30:05.25", "1:30 PM": hours. */
static bool take_clock(const char **p, double *out)
{
	int hour, minute, second = 0;
	double part = 0;

	if (!parse_digits(p, 4, &hour) || *(*p)++ != ':' || !take_part(p, 2, 0, 59, &minute))
		return false;
	if (**p == ':') {
		++*p;
		if (!take_part(p, 2, 0, 60, &second))
			return false;
		if (**p == '.') {
			double unit = 0.1;

			for (++*p; data_is_digit(**p); ++*p, unit /= 10)
				part += (**p - '0') * unit;
		}
	}
	if (!take_half(p, &hour))
		return false;
	*out = hour + minute / 60.0 + (second + part) / 3600.0;
	return true;
}

/* Takes the rest of a cell after its date: nothing, or a time of the day with a zone. *out: that time in
 * days. */
static bool take_day_time(const char *p, double *out)
{
	double hours, ahead;

	*out = 0;
	if (!*p)
		return true;
	if ((*p != 'T' && *p != ' ') || !(p++, take_clock(&p, &hours)) || hours > 24 ||
	    !take_zone(&p, &ahead) || *p)
		return false;
	*out = hours / 24 - ahead;
	return true;
}

/* The number of the month whose English name, or its first three letters, is at *p. */
static bool take_month_name(const char **p, int *out)
{
	static const char *const name[] = { "january", "february", "march", "april", "may", "june",
		"july", "august", "september", "october", "november", "december" };

	for (int i = 0; i < 12; i++) {
		size_t n = strlen(name[i]);

		if (strncasecmp(*p, name[i], 3) != 0)
			continue;
		*p += strncasecmp(*p, name[i], n) == 0 ? n : 3;
		*out = i + 1;
		return true;
	}
	return false;
}

static bool take_date(const char *p, double *out)
{
	int year, month, day;
	double time;
	char sign;

	if (!take_part(&p, 4, 0, 9999, &year))
		return false;
	sign = *p++;
	if ((sign != '-' && sign != '/') || !take_part(&p, 2, 1, 12, &month) || *p++ != sign ||
	    !take_part(&p, 2, 1, 31, &day) || !take_day_time(p, &time) || !is_day(year, month, day))
		return false;
	*out = days_since_1970(year, month, day) + time;
	return true;
}

/* A date whose year is its last part. */
static bool take_written_date(enum data_form form, const char *p, double *out)
{
	int year, first, second, day, month;
	double time;
	char sign;
	bool named = false;

	if (!parse_digits(&p, 2, &first))
		return false;
	sign = *p;
	if (sign != '/' && sign != '-' && (form == DATA_MONTH || (sign != '.' && sign != ' ')))
		return false;
	p++;
	if (form == DATA_DAY && sign != '/' && sign != '.')
		named = take_month_name(&p, &second);
	if ((!named && (sign == ' ' || !parse_digits(&p, 2, &second))) || *p++ != sign ||
	    !take_part(&p, 4, 0, 9999, &year) || !take_day_time(p, &time))
		return false;
	day = form == DATA_DAY ? first : second;
	month = form == DATA_DAY ? second : first;
	if (!is_day(year, month, day))
		return false;
	*out = days_since_1970(year, month, day) + time;
	return true;
}

static bool take_form(enum data_form form, const char *text, double *out)
{
	switch (form) {
	case DATA_MARKED:
		return data_num_all(text, out) || take_marked(text, '.', out);
	case DATA_COMMA:
		return take_marked(text, ',', out);
	case DATA_DATE:
		return take_date(text, out);
	case DATA_MONTH:
	case DATA_DAY:
		return take_written_date(form, text, out);
	case DATA_TIME:
		return take_clock(&text, out) && !*text;
	default:
		return data_num_all(text, out);
	}
}

/* ---- units ---- */

/* Does this byte belong to letters, perhaps of other alphabets? */
static bool is_letter(char c)
{
	return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (unsigned char)c >= 0x80;
}

/* The unit after the last digit of a text, and in number the text before it. NULL: there is none. */
static const char *split_unit(const char *text, char number[static NUMBER_MAX])
{
	size_t n = strlen(text), digits = n, at;

	while (digits > 0 && !data_is_digit(text[digits - 1]))
		digits--;
	if (digits == 0 || digits >= NUMBER_MAX)
		return NULL;
	at = digits + (text[digits] == ' ');
	if (!is_letter(text[at]) || n - at >= DATA_UNIT)
		return NULL;
	memcpy(number, text, digits);
	number[digits] = '\0';
	return text + at;
}

bool data_form_number(enum data_form form, const char *unit, const char *text, double *out)
{
	char number[NUMBER_MAX];
	const char *has;

	if (take_form(form, text, out))
		return true;
	has = unit && *unit ? split_unit(text, number) : NULL;
	return has && strcmp(has, unit) == 0 && take_form(form, number, out);
}

/* ---- the first cells ---- */

/* Signs between the parts of a list. */
static const char list_signs[] = "|;,";

void data_column_stats_add_number(struct data_column_stats *l)
{
	l->cells++;
	for (int f = 0; f < DATA_FORMS; f++)
		l->numbers[f] += !data_form_is_time((enum data_form)f);
}

void data_column_stats_add_word(struct data_column_stats *l, const char *word)
{
	uint64_t h = data_hash(0, word, strlen(word));
	size_t i = 0;

	l->cells++;
	l->words++;
	for (int k = 0; k < 3; k++)
		l->parted[k] += strchr(word, list_signs[k]) != NULL;
	while (i < l->different && l->seen[i] != h)
		i++;
	if (i == l->different && l->different < sizeof l->seen / sizeof l->seen[0])
		l->seen[l->different++] = h;
}

/* Counts a cell that is a number in some form; false: it is none. counts: by form. */
static bool count_number(const char *cell, size_t counts[static DATA_FORMS], bool times)
{
	bool number = false;
	double v;

	for (int f = 0; f < DATA_FORMS; f++)
		if ((times || !data_form_is_time((enum data_form)f)) &&
		    take_form((enum data_form)f, cell, &v)) {
			counts[f]++;
			number = true;
		}
	return number;
}

/* Counts a number with the unit of the column; false: it is none. */
static bool count_measure(struct data_column_stats *l, const char *cell)
{
	char number[NUMBER_MAX];
	size_t counts[DATA_FORMS] = { 0 };
	const char *unit = l->units ? NULL : split_unit(cell, number);

	if (!unit || !count_number(number, counts, false))
		return false;
	if (*l->unit && strcmp(l->unit, unit) != 0) {
		/* Several units are not one unit. */
		l->units = true;
		l->words += l->measured;
		return false;
	}
	snprintf(l->unit, sizeof l->unit, "%s", unit);
	for (int f = 0; f < DATA_FORMS; f++)
		l->measures[f] += counts[f];
	l->measured++;
	l->cells++;
	return true;
}

void data_column_stats_add(struct data_column_stats *l, const char *cell)
{
	if (data_form_is_missing(cell)) {
		l->cells++;
		l->missing++;
	} else if (count_number(cell, l->numbers, true)) {
		l->cells++;
	} else if (!count_measure(l, cell)) {
		data_column_stats_add_word(l, cell);
	}
}

struct data_column_decision data_column_stats_decide(const struct data_column_stats *l, bool comma)
{
	const enum data_form order[DATA_FORMS] = { DATA_PLAIN, comma ? DATA_COMMA : DATA_MARKED,
		comma ? DATA_MARKED : DATA_COMMA, DATA_DATE, DATA_MONTH, DATA_DAY, DATA_TIME };
	struct data_column_decision c = { .form = DATA_PLAIN };
	size_t numbers[DATA_FORMS], n, others, words = l->words, bare = 0;
	bool measured;

	for (int f = 0; f < DATA_FORMS; f++)
		bare = l->numbers[f] > bare ? l->numbers[f] : bare;
	measured = !l->units && l->measured > bare;
	if (!l->units && !measured)
		words += l->measured;
	for (int f = 0; f < DATA_FORMS; f++)
		numbers[f] = l->numbers[f] + (measured ? l->measures[f] : 0);
	for (int i = 0; i < DATA_FORMS; i++)
		if (numbers[order[i]] > numbers[c.form])
			c.form = order[i];
	n = numbers[c.form];
	others = l->cells - l->missing - n;
	for (int k = 0, most = 0; k < 3; k++)
		if ((int)l->parted[k] > most) {
			most = (int)l->parted[k];
			c.list = list_signs[k];
		}
	c.text = others > (measured ? n / WORDS_IN_UNITS : n);
	c.words = !c.text && others > 0 && others == words && n >= WORDS_NUMBERS &&
	    words >= WORDS_REPEAT * l->different && words * WORDS_AMONG >= n;
	if (c.text)
		c.form = DATA_PLAIN;
	else if (measured)
		snprintf(c.unit, sizeof c.unit, "%s", l->unit);
	return c;
}
