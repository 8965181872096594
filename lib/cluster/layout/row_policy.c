/* SPDX-License-Identifier: ISC */
#include "layout/row_policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/num.h"

/* Counters of the sketch are bytes. */
#define ADMIT_MAX 255
/* Ages of rows have 32 bits. */
#define STEPS_MAX (INT64_C(1) << 31)

/* Reads a number of steps from 1 on; *out stays as it was after ERR_CONFIG. */
static enum err_code parse_policy_steps(const char *name, const char *v, uint64_t *out,
    struct err *e)
{
	int64_t n;

	if (!num_int(v, 1, STEPS_MAX, &n))
		return err_set(e, ERR_CONFIG, "%s: must be steps, 1 to %lld, got \"%.40s\"", name,
		    (long long)STEPS_MAX, v);
	*out = (uint64_t)n;
	return ERR_OK;
}

static enum err_code parse_policy_bytes(const char *name, const char *v, uint64_t *out,
    struct err *e)
{
	if (!num_size(v, out) || *out < 4096)
		return err_set(e, ERR_CONFIG,
		    "%s: must be bytes, 4K at least, as in 64M, got \"%.40s\"", name, v);
	return ERR_OK;
}

/* The sketch is allocated at the first push, unlike rows, so its size has a bound. */
static enum err_code parse_policy_sketch(const char *v, struct row_policy *p, struct err *e)
{
	enum err_code rc = parse_policy_bytes("sketch", v, &p->sketch, e);

	if (!rc && p->sketch > POLICY_SKETCH_MAX)
		rc = err_set(e, ERR_CONFIG, "sketch: must be at most %lluG, got \"%.40s\"",
		    (unsigned long long)(POLICY_SKETCH_MAX >> 30), v);
	return rc;
}

/* The memory has to hold the rows of a few records, beside what the store on the disk needs. */
static enum err_code parse_policy_ram(const char *v, struct row_policy *p, struct err *e)
{
	enum err_code rc = parse_policy_bytes("ram", v, &p->ram, e);

	if (!rc && p->ram < POLICY_RAM_MIN)
		rc = err_set(e, ERR_CONFIG, "ram: must be at least %lluM, got \"%.40s\"",
		    (unsigned long long)(POLICY_RAM_MIN >> 20), v);
	return rc;
}

/* Reads a count or a chance. An integer is always a count, and a count of 1 is stored as 0,
 * because it admits every row. */
static enum err_code parse_policy_admit(const char *v, struct row_policy *p, struct err *e)
{
	int64_t n;
	double chance;

	if (num_int(v, 1, ADMIT_MAX, &n))
		p->admit = n > 1 ? (uint32_t)n : 0;
	else if (num_double(v, &chance) && chance > 0 && chance < 1)
		p->chance = chance;
	else
		return err_set(e, ERR_CONFIG,
		    "admit: must be a number of times, 1 to %d, or a chance between 0 and 1, got \"%.40s\"",
		    ADMIT_MAX, v);
	return ERR_OK;
}

/* Reads the name of a type. */
static enum err_code parse_policy_values(const char *v, struct row_policy *p, struct err *e)
{
	return element_find(v, &p->values)
	    ? ERR_OK
	    : err_set(e, ERR_CONFIG, "values: must be f32, bf16 or f16, got \"%.40s\"", v);
}

/* The members of a policy, with an example of a value. */
static const struct {
	const char *name, *example;
} members[] = { { "values", "bf16" }, { "admit", "3" }, { "decay", "1000" }, { "expire", "1000" },
	{ "memory", "64M" }, { "sketch", "16M" }, { "changes", NULL }, { "ram", "2G" },
	{ "disk", "200G" } };

/* Sets member i of the policy. v is the text after "=", or NULL. Any name not compared here is taken for
 * "memory". */
static enum err_code parse_policy_value(int i, const char *v, struct row_policy *p, struct err *e)
{
	const char *name = members[i].name;

	if (strcmp(name, "changes") == 0) {
		p->changes = true;
		return v ? err_set(e, ERR_CONFIG, "changes: must have no value, got \"%.40s\"", v)
		         : ERR_OK;
	}
	if (!v)
		return err_set(e, ERR_CONFIG, "%s: must have a value, as in %s=%s", name, name,
		    members[i].example);
	if (strcmp(name, "values") == 0)
		return parse_policy_values(v, p, e);
	if (strcmp(name, "admit") == 0)
		return parse_policy_admit(v, p, e);
	if (strcmp(name, "decay") == 0)
		return parse_policy_steps(name, v, &p->decay, e);
	if (strcmp(name, "expire") == 0)
		return parse_policy_steps(name, v, &p->expire, e);
	if (strcmp(name, "ram") == 0)
		return parse_policy_ram(v, p, e);
	if (strcmp(name, "disk") == 0)
		return parse_policy_bytes(name, v, &p->disk, e);
	return strcmp(name, "sketch") == 0 ? parse_policy_sketch(v, p, e)
	                                   : parse_policy_bytes(name, v, &p->memory, e);
}

static int find_policy_name(const char *word, size_t n)
{
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		if (strlen(members[i].name) == n && memcmp(members[i].name, word, n) == 0)
			return (int)i;
	return -1;
}

/* Parse one item of n bytes. *seen has a bit for each name that came before. */
static enum err_code parse_policy_item(const char *at, size_t n, unsigned *seen,
    struct row_policy *p, struct err *e)
{
	const char *equals = memchr(at, '=', n);
	size_t nname = equals ? (size_t)(equals - at) : n;
	int i = find_policy_name(at, nname);
	char value[48];

	if (i < 0)
		return err_set(e, ERR_CONFIG,
		    "must be none, or some of admit=N|P, decay=STEPS, expire=STEPS, memory=SIZE, "
		    "sketch=SIZE, values=TYPE, ram=SIZE, disk=SIZE and changes, separated by commas, got \"%.*s\"",
		    (int)(n < 80 ? n : 80), at);
	if (*seen & 1u << i)
		return err_set(e, ERR_CONFIG, "%s: occurs twice", members[i].name);
	*seen |= 1u << i;
	if (n - nname > sizeof value)
		return err_set(e, ERR_CONFIG, "%s: its value is too long", members[i].name);
	if (equals)
		snprintf(value, sizeof value, "%.*s", (int)(n - nname - 1), equals + 1);
	return parse_policy_value(i, equals ? value : NULL, p, e);
}

enum err_code row_policy_parse(const char *text, struct row_policy *out, struct err *e)
{
	struct row_policy p = { 0 };
	enum err_code rc = ERR_OK;
	const char *at = text;
	unsigned seen = 0;
	bool more = strcmp(text, "none") != 0;

	while (more && !rc) {
		size_t n = strcspn(at, ",");

		rc = parse_policy_item(at, n, &seen, &p, e);
		more = at[n] == ',';
		at += n + more;
	}
	if (!rc && (p.decay || p.sketch) && !p.admit)
		rc = err_set(e, ERR_CONFIG, "%s: requires admit=N", p.decay ? "decay" : "sketch");
	if (!rc && p.disk && !p.ram)
		rc = err_set(e, ERR_CONFIG, "disk: requires ram=SIZE");
	if (!rc && p.ram && p.values != ELEMENT_f32)
		rc = err_set(e, ERR_CONFIG, "ram: rows on a disk have values of f32, not of %s",
		    element_name(p.values));
	if (!rc)
		*out = p;
	return rc;
}

bool row_policy_is_none(const struct row_policy *p)
{
	return p->values == ELEMENT_f32 && !p->ram && row_policy_keeps_all(p);
}

bool row_policy_keeps_all(const struct row_policy *p)
{
	return !p->admit && p->chance <= 0 && !row_policy_dates(p);
}

void row_policy_text(const struct row_policy *p, char out[static POLICY_TEXT])
{
	const struct {
		const char *name;
		uint64_t n;
	} number[] = {
		{ "admit", p->admit },
		{ "decay", p->decay },
		{ "expire", p->expire },
		{ "memory", p->memory },
		{ "sketch", p->sketch },
		{ "ram", p->ram },
		{ "disk", p->disk },
	};
	char chance[32];
	size_t at = 0;

	out[0] = 0;
	num_format(p->chance, chance);
	if (p->values != ELEMENT_f32)
		at += (size_t)snprintf(out, POLICY_TEXT, "values=%s", element_name(p->values));
	if (p->chance > 0)
		at += (size_t)snprintf(out + at, POLICY_TEXT - at, "%sadmit=%s", at ? "," : "",
		    chance);
	for (size_t i = 0; i < sizeof number / sizeof *number; i++)
		if (number[i].n)
			at += (size_t)snprintf(out + at, POLICY_TEXT - at, "%s%s=%" PRIu64,
			    at ? "," : "", number[i].name, number[i].n);
	if (p->changes)
		at += (size_t)snprintf(out + at, POLICY_TEXT - at, "%schanges", at ? "," : "");
	if (!at)
		snprintf(out, POLICY_TEXT, "none");
}
