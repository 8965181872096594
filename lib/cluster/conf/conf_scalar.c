/* SPDX-License-Identifier: ISC */
/* The scalar types of keys: how each is read from text and written as JSON. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_value.h"
#include "conf/sizing.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/procstat.h"

/* Does what conf_must_json does, for a value that is given as text. */
static enum err_code conf_must(const struct conf_key *k, const char *what, const char *got,
    struct err *e)
{
	double number;
	const char *quote = num_double(got, &number) ? "" : "\"";

	return err_set(e, ERR_CONFIG, "%s: must be %s, got %s%.120s%s", k->path, what, quote, got,
	    quote);
}

enum err_code conf_must_json(const struct conf_key *k, const char *what, const json_t *got,
    struct err *e)
{
	char *text = json_text(got);

	err_set(e, ERR_CONFIG, "%s: must be %s, got %.120s", k->path, what, text);
	free(text);
	err_blame(e, conf_type_ops(k->type)->cause);
	return ERR_CONFIG;
}

bool conf_in_bounds(const struct conf_key *k, double x, const char *got, struct err *e)
{
	char num[32], what[48];
	bool low = x < k->min;
	double bound = low ? k->min : k->max;

	if (k->min == k->max || (!low && x <= k->max))
		return true;
	if (bound == DBL_TRUE_MIN)
		bound = 0;
	else if (bound < 1 && bound > 1 - DBL_EPSILON)
		bound = 1;
	num_format(bound, num);
	if (fabs(bound) >= 1e6 && bound < 1e16)
		snprintf(num, sizeof num, "%.0f", bound);
	snprintf(what, sizeof what, "%s%s %s%s", low ? ">" : "<",
	    bound == k->min || bound == k->max ? "=" : "", num,
	    k->type == CONF_DURATION ? "s" : "");
	conf_must(k, what, got, e);
	return false;
}

/* Is text the key's word for 0, as "none"? */
static bool is_word_for_zero(const struct conf_key *k, const char *text)
{
	return k->choices && strcmp(k->choices, text) == 0;
}

bool conf_among(const char *choices, const char *text)
{
	size_t n = strlen(text);

	for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
		if (strncmp(p, text, n) == 0 && (p[n] == '|' || p[n] == '\0') && n > 0)
			return true;
	return false;
}

/* All parsers have the same arguments and contract; see struct conf_type_ops. */
#define PARSER(name) \
	static bool name(const struct conf_key *k, const char *text, union conf_value *v, \
	    struct err *e)

PARSER(parse_str)
{
	if (*text == '\0') {
		conf_must(k, "some text", text, e);
		return false;
	}
	v->s = mem_strdup(text);
	return true;
}

PARSER(parse_choice)
{
	struct buf what = BUF_INIT;

	if (conf_among(k->choices, text))
		return parse_str(k, text, v, e);
	for (const char *p = k->choices; *p; p++) {
		if (*p != '|')
			buf_append(&what, p, 1);
		else
			buf_puts(&what, strchr(p + 1, '|') ? ", " : " or ");
	}
	conf_must(k, (char *)what.data, text, e);
	buf_release(&what);
	return false;
}

PARSER(parse_int)
{
	if (!num_int(text, INT64_MIN, INT64_MAX, &v->i)) {
		conf_must(k, "a whole number, in digits", text, e);
		return false;
	}
	return conf_in_bounds(k, (double)v->i, text, e);
}

/* The rule of thumb for "auto" on this host. */
static struct sizing size_this_host(void)
{
	return sizing_rule(procstat_processors());
}

PARSER(parse_count)
{
	if (strcmp(text, "auto") == 0) {
		v->i = size_this_host().servers;
		return true;
	}
	if (!num_int(text, INT64_MIN, INT64_MAX, &v->i)) {
		conf_must(k, "a whole number or auto", text, e);
		return false;
	}
	return conf_in_bounds(k, (double)v->i, text, e);
}

PARSER(parse_num)
{
	if (is_word_for_zero(k, text)) {
		v->d = 0;
		return true;
	}
	if (!num_double(text, &v->d)) {
		conf_must(k, "a finite number", text, e);
		return false;
	}
	return conf_in_bounds(k, v->d, text, e);
}

PARSER(parse_bool)
{
	v->b = conf_among("true|on|yes", text);
	if (v->b || conf_among("false|off|no", text))
		return true;
	conf_must(k, "true or false", text, e);
	return false;
}

PARSER(parse_size)
{
	if (is_word_for_zero(k, text)) {
		v->u = 0;
		return true;
	}
	if (!num_size(text, &v->u)) {
		conf_must(k, "bytes, as 4096, 64K, 4M or 2G", text, e);
		return false;
	}
	return conf_in_bounds(k, (double)v->u, text, e);
}

#define NSEC_PER_USEC INT64_C(1000)

/* Parse a time. Keys that are always below a second have whole microseconds, others whole
 * milliseconds, so that the text written by conf_to_json is exact. The tolerance admits 0.3s and
 * similar values, which no double represents exactly. */
static bool parse_time(const struct conf_key *k, const char *text, const char *got, int64_t *ns,
    struct err *e)
{
	bool fine = k->max > k->min && k->max < 1;
	int64_t unit = fine ? NSEC_PER_USEC : NSEC_PER_MSEC, t, n;

	if (num_duration(text, &t) && t >= 0) {
		n = t / unit + (t % unit >= unit / 2);
		*ns = n * unit;
		if (llabs(*ns - t) <= unit / 1000)
			return true;
		conf_must(k, fine ? "whole microseconds" : "whole milliseconds", got, e);
		return false;
	}
	conf_must(k,
	    k->type == CONF_LOSS        ? "shrink, wait:T (as wait:30s) or fail"
	        : k->type == CONF_EVERY ? "steps, a time as 30s, or none"
	                                : "a time, as 200ms or 30s",
	    got, e);
	return false;
}

PARSER(parse_duration)
{
	return parse_time(k, text, text, &v->i, e) &&
	    conf_in_bounds(k, (double)v->i / NSEC_PER_SEC, text, e);
}

PARSER(parse_range)
{
	const char *colon = strchr(text, ':');
	char *first = mem_printf("%.*s", (int)(colon ? colon - text : (ptrdiff_t)strlen(text)),
	    text);
	bool good = num_int(first, INT64_MIN, INT64_MAX, &v->range.min);

	free(first);
	if (strcmp(text, "auto") == 0) {
		v->range.min = v->range.max = size_this_host().workers;
		return true;
	}
	v->range.max = v->range.min;
	if (colon)
		good = good && num_int(colon + 1, INT64_MIN, INT64_MAX, &v->range.max);
	if (!good || v->range.min > v->range.max) {
		conf_must(k, "a whole number, MIN:MAX or auto", text, e);
		return false;
	}
	return conf_in_bounds(k, (double)v->range.min, text, e) &&
	    conf_in_bounds(k, (double)v->range.max, text, e);
}

PARSER(parse_sync)
{
	if (sync_parse(text, &v->sync, e) == ERR_OK)
		return true;
	if (e)
		err_prefix(e, "%s", k->path);
	return false;
}

PARSER(parse_loss)
{
	v->loss = (struct conf_loss){ CONF_SHRINK, 0 };
	if (strcmp(text, "shrink") == 0)
		return true;
	v->loss.policy = CONF_FAIL;
	if (strcmp(text, "fail") == 0)
		return true;
	v->loss.policy = CONF_WAIT;
	return parse_time(k, strncmp(text, "wait:", 5) == 0 ? text + 5 : "", text, &v->loss.wait,
	    e);
}

PARSER(parse_every)
{
	v->every = (struct conf_every){ 0, 0 };
	if (is_word_for_zero(k, text))
		return true;
	if (text[strspn(text, "-0123456789")] != '\0')
		return parse_time(k, text, text, &v->every.time, e);
	if (num_int(text, INT64_MIN, INT64_MAX, &v->every.steps))
		return conf_in_bounds(k, (double)v->every.steps, text, e);
	return parse_time(k, "", text, &v->every.time, e);
}

PARSER(parse_addr)
{
	const char *colon = strrchr(text, ':');
	size_t host = colon ? (size_t)(colon - text) : 0;
	int64_t port;
	bool good = host > 0 && host < 128 && num_int(colon + 1, 0, 65535, &port);

	if (good && text[0] == '[')
		good = host > 2 && text[host - 1] == ']';
	else if (good)
		good = memchr(text, ':', host) == NULL;
	if (good && strpbrk(text, " /\t\n") == NULL)
		return parse_str(k, text, v, e);
	conf_must(k, "ADDRESS:PORT, as 127.0.0.1:0 or [::1]:7000", text, e);
	return false;
}

static json_t *string_to_json(const union conf_value *v)
{
	return v->s ? json_string(v->s) : NULL;
}
static json_t *int_to_json(const union conf_value *v)
{
	return json_integer(v->i);
}
static json_t *real_to_json(const union conf_value *v)
{
	return json_real(v->d);
}
static json_t *bool_to_json(const union conf_value *v)
{
	return json_boolean(v->b);
}
static json_t *size_to_json(const union conf_value *v)
{
	return json_integer((json_int_t)v->u);
}

static json_t *json_time(const char *prefix, int64_t ns)
{
	int64_t us = ns / NSEC_PER_USEC;

	if (us % 1000)
		return json_sprintf("%s%lldus", prefix, (long long)us);
	return us % 1000000 ? json_sprintf("%s%lldms", prefix, (long long)(us / 1000))
	                    : json_sprintf("%s%llds", prefix, (long long)(us / 1000000));
}

static json_t *json_duration(const union conf_value *v)
{
	return json_time("", v->i);
}

static json_t *json_range(const union conf_value *v)
{
	return v->range.min == v->range.max
	    ? json_integer(v->range.min)
	    : json_sprintf("%lld:%lld", (long long)v->range.min, (long long)v->range.max);
}

static json_t *json_sync(const union conf_value *v)
{
	char text[32];

	sync_format(&v->sync, text);
	return json_string(text);
}

static json_t *json_loss(const union conf_value *v)
{
	if (v->loss.policy == CONF_WAIT)
		return json_time("wait:", v->loss.wait);
	return json_string(v->loss.policy == CONF_FAIL ? "fail" : "shrink");
}

static json_t *json_every(const union conf_value *v)
{
	return v->every.time ? json_time("", v->every.time) : json_integer(v->every.steps);
}

#define STRING          CONF_JSON_STRING
#define INTEGER         CONF_JSON_INTEGER
#define REAL            CONF_JSON_REAL
#define BOOLEAN         CONF_JSON_BOOLEAN
#define ARRAY           CONF_JSON_ARRAY
#define SIZE_OF(member) sizeof((union conf_value *)0)->member

static const struct conf_type_ops ops[] = {
	[CONF_STR] = { STRING, SIZE_OF(s), "a string", parse_str, string_to_json },
	[CONF_CHOICE] = { STRING, SIZE_OF(s), "a string", parse_choice, string_to_json },
	[CONF_INT] = { INTEGER, SIZE_OF(i), "a whole number", parse_int, int_to_json },
	[CONF_COUNT] = { INTEGER | STRING, SIZE_OF(i), "a whole number or auto", parse_count,
	    int_to_json },
	[CONF_NUM] = { INTEGER | REAL, SIZE_OF(d), "a number", parse_num, real_to_json },
	[CONF_BOOL] = { BOOLEAN, SIZE_OF(b), "true or false", parse_bool, bool_to_json },
	[CONF_SIZE] = { INTEGER | STRING, SIZE_OF(u), "bytes, as 4096 or \"4M\"", parse_size,
	    size_to_json },
	[CONF_DURATION] = { STRING | INTEGER | REAL, SIZE_OF(i), "a time, as \"30s\"",
	    parse_duration, json_duration },
	[CONF_RANGE] = { INTEGER | STRING, SIZE_OF(range), "a whole number, MIN:MAX or auto",
	    parse_range, json_range },
	[CONF_SYNC] = { STRING, SIZE_OF(sync), "a string", parse_sync, json_sync },
	[CONF_LOSS] = { STRING, SIZE_OF(loss), "a string", parse_loss, json_loss },
	[CONF_EVERY] = { INTEGER | STRING, SIZE_OF(every), "steps, or a time as \"30s\"",
	    parse_every, json_every },
	[CONF_ADDR] = { STRING, SIZE_OF(s), "a string", parse_addr, string_to_json },
	[CONF_FILE] = { STRING, SIZE_OF(s), "a string", parse_str, string_to_json },
	[CONF_PATHS] = { STRING | ARRAY, SIZE_OF(strs), "a path or a list of paths", NULL,
	    conf_strs_json, CAUSE_DATA },
	[CONF_HOSTS] = { STRING | ARRAY, SIZE_OF(strs), "a host or a list of hosts", NULL,
	    conf_strs_json },
	[CONF_INTS] = { INTEGER | ARRAY, SIZE_OF(ints), "a list of whole numbers", NULL,
	    conf_ints_json },
};

const struct conf_type_ops *conf_type_ops(enum conf_type type)
{
	return &ops[type];
}
